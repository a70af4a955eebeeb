// SPDX-License-Identifier: Apache-2.0
#include "runtime/check/kernel_steps.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include <fmt/format.h>

#include "ir/builder.h"
#include "ir/byte_range.h"
#include "ir/kernel/exact_sum.h"
#include "runtime/check/verify_device.h"
#include "runtime/interp/kernel_interp.h"
#include "runtime/interp/tolerance.h"
#include "runtime/interp_runner.h"

namespace tg {

namespace {

constexpr const char* kBegin = "begin";

std::string keyOf(size_t command) { return fmt::format("step{}", command); }

bool isCommand(const Op& op) {
  return op.code == Opcode::dispatch || op.code == Opcode::fill || op.code == Opcode::copy;
}

/// A function with the same arguments in the same places, and an empty body.
std::unique_ptr<Item> beginOf(const Item& func) {
  auto out = std::make_unique<Item>();
  out->kind = ItemKind::func;
  out->name = kBegin;
  for (const auto& arg : func.body.args) {
    Value* copy = out->body.addArg(arg->type, arg->name);
    copy->place = arg->place;
  }
  Builder(out->body).create(Opcode::barrier, {});
  return out;
}

/// A function with one command, and captures of the bytes that the command is given, named by parameter number.
std::unique_ptr<Item> stepOf(const Op& command, const Item* kernel, std::string name) {
  auto out = std::make_unique<Item>();
  out->kind = ItemKind::func;
  out->name = std::move(name);
  std::unordered_map<const Value*, Value*> none;
  out->body.ops.push_back(cloneOp(command, none));
  if (!kernel) return out;
  const OperandList& args = command.keyword("args")->items;
  for (size_t i = 0; i < args.size(); ++i) {
    const ByteRange range = byteRangeOf(args[i]);
    DType dtype = kernel->body.args[i]->type.dtype;
    auto value = std::make_unique<Value>();
    value->name = fmt::format("{}", i);
    value->type = Type::tensor(dtype, {range.bytes / byteSize(dtype)});
    value->place = Place{range.buffer, range.offset, nullptr};
    Builder(out->body.ops).op(Opcode::capture, {value.get()}, {{"name", Attr::string(value->name)}});
    // The command owns the captured values; an executor ignores the results of commands.
    out->body.ops.front()->results.push_back(std::move(value));
  }
  return out;
}

/// The bytes of a parameter in the layout that runKernel takes.
std::vector<std::byte> memoryOf(const HostArray& array, bool wide) {
  if (!wide || !isFloat(array.dtype)) return array.bytes;
  std::vector<std::byte> out(static_cast<size_t>(array.elements()) * sizeof(double));
  for (int64_t i = 0; i < array.elements(); ++i) {
    double value = array.at(i);
    std::memcpy(&out[static_cast<size_t>(i) * sizeof(double)], &value, sizeof value);
  }
  return out;
}

NdArray arrayOf(const std::vector<std::byte>& bytes, const HostArray& like, bool wide) {
  if (wide && isFloat(like.dtype)) {
    NdArray out = NdArray::zeros(like.type());
    std::memcpy(out.data.data(), bytes.data(), out.data.size() * sizeof(double));
    return out;
  }
  HostArray array{like.dtype, like.shape, bytes};
  return toNdArray(array);
}

/// The parameters after the interpreter has run the kernel on them. Adds the kernel's errors to `findings`, unless that
/// is null.
Result<std::vector<NdArray>> interpreted(const Module& module, const KernelStep& step, uint32_t subgroup,
                                         bool wide, std::vector<std::string>* findings) {
  std::vector<std::vector<std::byte>> memory;
  std::vector<KernelBuffer> buffers;
  for (const StepBuffer& buffer : step.buffers) memory.push_back(memoryOf(buffer.before, wide));
  for (auto& bytes : memory) buffers.push_back({bytes.data(), static_cast<int64_t>(bytes.size())});
  KernelRunOptions options;
  options.checks = findings != nullptr;
  options.subgroupSize = subgroup;
  options.wide = wide;
  options.module = &module;
  TG_TRY(KernelCounters counted, runKernel(*step.kernel, buffers, gridOf(*step.op), options));
  if (findings) *findings = std::move(counted.findings);
  std::vector<NdArray> out;
  for (size_t i = 0; i < memory.size(); ++i) out.push_back(arrayOf(memory[i], step.buffers[i].before, wide));
  return out;
}

/// Removes elements that were not written. They carry no information, and the bytes there (often NaN) must not affect
/// the scale of the tolerance.
void dropUntouched(const NdArray& before, NdArray& device, NdArray& exact, NdArray& wide) {
  auto same = [](double a, double b) { return a == b || (std::isnan(a) && std::isnan(b)); };
  for (size_t i = 0; i < before.data.size(); ++i) {
    double was = before.data[i];
    if (same(device.data[i], was) && same(exact.data[i], was) && same(wide.data[i], was))
      device.data[i] = exact.data[i] = wide.data[i] = 0;
  }
}

/// Whether a kernel's parameter holds exact sums: an op of these accesses it.
bool holdsExactSums(const Value& parameter) {
  return std::ranges::any_of(parameter.uses, [](const Use& use) {
    const Opcode code = use.user()->code;
    return code == Opcode::k_exact_add || code == Opcode::k_exact_load || code == Opcode::k_exact_store;
  });
}

/// The values of exact sums, which are given as words.
NdArray valuesOf(const NdArray& words) {
  constexpr int64_t kWords = exact_sum::kWords;
  NdArray out = NdArray::zeros(Type::tensor(DType::f32, {words.type.elements() / kWords}));
  for (size_t i = 0; i < out.data.size(); ++i) {
    uint32_t sum[kWords];
    for (size_t at = 0; at < kWords; ++at)
      sum[at] = static_cast<uint32_t>(static_cast<int64_t>(words.data[i * kWords + at]));
    out.data[i] = exact_sum::load(sum);
  }
  return out;
}

/// Compares the buffers that the kernel writes. An operand whose bytes a result takes over changes with it, and is
/// compared as that result. Exact sums are compared by value: a term that a device rounds otherwise changes many words.
void compare(KernelStep& step, std::vector<NdArray> exact, std::vector<NdArray> wide) {
  for (size_t i = 0; i < step.buffers.size(); ++i) {
    StepBuffer& buffer = step.buffers[i];
    if (!buffer.written) continue;
    NdArray device = toNdArray(buffer.device);
    dropUntouched(toNdArray(buffer.before), device, exact[i], wide[i]);
    if (holdsExactSums(*step.kernel->body.args[i]))
      for (NdArray* array : {&device, &exact[i], &wide[i]}) *array = valuesOf(*array);
    buffer.close = wholeFunctionClose(device, wide[i], exact[i], kWholeFunctionFloor, &buffer.why);
  }
}

}  // namespace

const StepBuffer* KernelStep::wrong() const {
  for (const StepBuffer& buffer : buffers)
    if (!buffer.close) return &buffer;
  return nullptr;
}

Result<KernelSteps> KernelSteps::create(const Module& module, const std::string& function,
                                        std::shared_ptr<vulkan::Device> device) {
  const Item* func = module.func(function);
  if (!func) return fail("the module has no function @{}", function);
  KernelSteps out;
  out.source_ = &module;
  TG_TRY(out.subgroup_, subgroupWidth(module, device->info()));
  std::unique_ptr<Module> stepped = clone(module);
  keepFunctions(*stepped, [](const Item&) { return false; });
  stepped->items.push_back(beginOf(*func));
  for (Op* op : func->body.ops) {
    if (!isCommand(*op)) continue;
    const Item* kernel = nullptr;
    if (op->code == Opcode::dispatch) {
      kernel = module.find(ItemKind::kernel, op->operands[0].text);
      if (!kernel)
        return failAt(op->loc,
                      "the module holds no source of kernel @{} to interpret; strip-kernels removes it, "
                      "spirv-emit keeps it",
                      op->operands[0].text);
      ++out.dispatches_;
    }
    stepped->items.push_back(stepOf(*op, kernel, keyOf(out.commands_.size())));
    out.commands_.push_back(op);
  }
  out.stepped_ = std::move(stepped);
  TG_TRY(out.executor_, Executor::create(*out.stepped_, std::move(device)));
  return out;
}

Result<void> KernelSteps::begin(const NamedArrays& params, const Inputs& inputs) {
  at_ = 0, done_ = 0;
  for (const auto& [name, value] : params) TG_CHECK(executor_->setStorage(name, value));
  TG_CHECK(executor_->run(kBegin, inputs, false));
  return {};
}

Result<bool> KernelSteps::next(KernelStep& out) {
  for (; at_ < commands_.size(); ++at_) {
    const std::string key = keyOf(at_);
    if (commands_[at_]->code == Opcode::dispatch) break;
    TG_CHECK(executor_->run(key, {}, false));
  }
  if (at_ == commands_.size()) return false;
  const std::string key = keyOf(at_);
  out = {};
  out.number = ++done_;
  out.op = commands_[at_++];
  out.kernel = source_->find(ItemKind::kernel, out.op->operands[0].text);
  TG_TRY(NamedArrays before, executor_->captured(key));
  for (size_t i = 0; i < before.size(); ++i) {
    const Value& param = *out.kernel->body.args[i];
    StepBuffer& buffer = out.buffers.emplace_back();
    buffer.name = param.name;
    buffer.written = param.type.mode != BufMode::in;
    buffer.before = std::move(before[i].second);
  }
  TG_TRY(std::vector<NdArray> exact, interpreted(*source_, out, subgroup_, false, &out.findings));
  for (size_t i = 0; i < exact.size(); ++i) out.buffers[i].exact = toHostArray(exact[i]);
  if (!out.findings.empty()) {  // running it could crash the driver
    at_ = commands_.size();
    return true;
  }
  TG_TRY(std::vector<NdArray> wide, interpreted(*source_, out, subgroup_, true, nullptr));
  TG_TRY(RunOutputs after, executor_->run(key, {}, true));
  for (size_t i = 0; i < exact.size(); ++i) out.buffers[i].device = std::move(after.captures[i].second);
  compare(out, std::move(exact), std::move(wide));
  return true;
}

}  // namespace tg
