// SPDX-License-Identifier: Apache-2.0
#include "runtime/executor.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <map>

#include <fmt/format.h>

#include "ir/divide.h"
#include "ir/kernel/cost.h"
#include "ir/kernel/rewrites.h"
#include "ir/needs.h"
#include "ir/op_view.h"
#include "ir/text.h"
#include "runtime/executor_calls.h"
#include "runtime/executor_program.h"
#include "runtime/train/plan_report.h"

namespace tg {

using vulkan::Buffer;

namespace {

/// The names of the kernels that the functions dispatch.
std::set<std::string> kernelsOf(const std::vector<const Item*>& funcs) {
  std::set<std::string> names;
  for (const Item* func : funcs)
    for (Op* op : func->body.ops)
      if (op->code == Opcode::dispatch) names.insert(op->operands[0].text);
  return names;
}

/// `error`, which an allocation gave, with notes: the sizes of the module's buffers, the largest values that are live
/// at the peak, and options that make the module fit in `freeBytes`.
Error withMemory(Error error, const Module& module, int64_t freeBytes) {
  const MemoryReport memory = planReport(module).memory;
  error.addNote(nullptr,
                "the module takes {}: {} of parameters and states, {} of inputs and results, {} "
                "of values of one call; {} were free",
                sizeText(memory.totalBytes()), sizeText(memory.persistentBytes), sizeText(memory.ioBytes),
                sizeText(memory.arenaBytes), sizeText(freeBytes));
  std::vector<MemoryValue> values = memory.values;
  std::ranges::stable_sort(values, std::greater(), &MemoryValue::bytes);
  // Repeated blocks of a network share kernels, and so produce equal names; count them.
  std::map<std::string, int> count;
  std::vector<const MemoryValue*> named;
  for (const MemoryValue& value : values)
    if (count[value.name + value.type]++ == 0 && named.size() < 3) named.push_back(&value);
  for (const MemoryValue* value : named)
    error.addNote(nullptr, "among the largest of @{}: {} : {}, {} each, {} of them", memory.function,
                  value->name, value->type, sizeText(value->bytes), count[value->name + value->type]);
  error.addNote(nullptr,
                "--memory=BYTES (SessionOptions::memory) plans for less, and auto for what is free: kernels "
                "run again where values would take more");
  return error;
}

}  // namespace

Result<std::unique_ptr<Executor>> Executor::create(const Module& module,
                                                   std::shared_ptr<vulkan::Device> device,
                                                   const BorrowedBuffers& borrowed,
                                                   const DiagnosticHandler& onDiagnostic,
                                                   std::shared_ptr<collective::Engine> ranks) {
  std::unique_ptr<Executor> executor(new Executor);
  executor->device_ = std::move(device);
  executor->onDiagnostic_ = onDiagnostic;
  executor->reserve_ = borrowed.reserve;
  executor->ranks_ = std::move(ranks);
  for (const auto& window : borrowed.windows) executor->persistent_.push_back({window.base, window.buffer});
  TG_CHECK(executor->addModule(module, "", ""));
  return executor;
}

Result<void> Executor::addFunction(std::shared_ptr<const Module> sibling, const std::string& function,
                                   const std::string& key) {
  if (!sibling->func(function)) return failAt(sibling->loc, "the sibling has no function @{}", function);
  return addModule(*sibling, function, key);
}

// `only` names one function, to be called by `key`. "" means all functions, by their names.
Result<void> Executor::addModule(const Module& module, const std::string& only, const std::string& key) {
  if (module.stage != Stage::spirv)
    return fail("a device runs modules of stage spirv; this one is of stage {}", name(module.stage));
  const Attr* target = tg::find(module.attrs, "target");
  if (!target) return failAt(module.loc, "the module has no target");
  TG_TRY(Target made, targetFromAttr(*target));
  TG_CHECK(checkLimits(made, device_->info().target, device_->info().name));
  Program program;
  std::vector<const Item*> funcs;
  for (const Item* func : module.all(ItemKind::func))
    if (only.empty() || func->name == only) funcs.push_back(func);
  TG_CHECK(makePipelines(module, program, kernelsOf(funcs)));
  if (auto has = makeBuffers(module, made, program); !has)
    return withMemory(has.takeError(), module, device_->info().freeBytes);
  TG_CHECK(shareStorage(module, program));
  program.findHomes(module);
  std::map<std::string, std::unique_ptr<Function>> functions;
  for (const Item* func : funcs) {
    TG_TRY(Function function, makeFunction(*func, program));
    function.buffers = program.allBuffers();
    functions.emplace(only.empty() ? func->name : key, std::make_unique<Function>(std::move(function)));
  }
  for (auto& [name, function] : functions) functions_.insert_or_assign(name, std::move(function));
  return {};
}

// NCCL can read only device memory.
bool Executor::mapsIo(int64_t bytes) const { return bytes <= kMappedIoBytes && !device_->shared(); }

/// Makes Vulkan buffers for the bytes of `item` from `from` on.
Result<Executor::Segments> Executor::makeSegments(const Item& item, int64_t from,
                                                  const Target& target) const {
  // A module without transient values still names its buffers, but Vulkan does not allow empty ones.
  const int64_t end = std::max<int64_t>(alignTo(item.bytes, 16), from + 16);
  const bool mapped = item.name == "io" && mapsIo(end);
  Segments segments;
  for (int64_t base = from; base < end; base = segments.back().end()) {
    const int64_t bytes = std::min(end, (base / target.allocation + 1) * target.allocation) - base;
    TG_TRY(std::shared_ptr<Buffer> buffer,
           Buffer::create(
               *device_, {item.name, bytes, mapped ? vulkan::MemoryKind::host : vulkan::MemoryKind::device}));
    segments.push_back({base, std::move(buffer)});
  }
  return segments;
}

Result<void> Executor::makeBuffers(const Module& module, const Target& target, Program& program) {
  int64_t together = -reserve_;
  for (const Item* item : module.all(ItemKind::buffer)) together += item->bytes;
  if (const vulkan::DeviceInfo& info = device_->info(); together > info.heapBytes)
    return fail("the module's buffers take {} bytes, more than the {} bytes of memory that {} has", together,
                info.heapBytes, info.name);
  for (const Item* item : module.all(ItemKind::buffer)) {
    if (item->name == "persistent") {
      TG_CHECK(makePersistent(*item, target));
      program.buffers[item->name] = persistent_;
      continue;
    }
    // A single buffer serves every range. Several serve only the allocation size they were made for.
    const bool suits = arena_.size() == 1 || (!arena_.empty() && arena_[0].end() == target.allocation);
    if (item->name != "arena" || !suits || arena_.back().end() < item->bytes) {
      TG_TRY(program.buffers[item->name], makeSegments(*item, 0, target));
      if (item->name == "arena") arena_ = program.buffers[item->name];
    } else {
      program.buffers[item->name] = arena_;
    }
  }
  const Segments& io = program.buffers["io"];
  if (io.size() == 1 && mapsIo(io[0].buffer->bytes())) {
    program.laneSet = std::make_shared<LaneSet>();
    program.laneSet->io = program.laneSet->lanes[0].buffer = io[0].buffer;
    program.laneSet->bytes = io[0].buffer->bytes();
  }
  return {};
}

// Made for the first module. Siblings use it, and have no params and states of their own.
Result<void> Executor::makePersistent(const Item& item, const Target& target) {
  if (!functions_.empty() || !storage_.empty()) {
    if (item.bytes <= persistentBytes()) return {};
    return fail("the sibling's parameters take {} bytes, this module's {}", item.bytes, persistentBytes());
  }
  if (item.bytes <= reserve_ && !persistent_.empty()) return {};
  TG_TRY(Segments own, makeSegments(item, reserve_, target));
  persistent_.insert(persistent_.end(), own.begin(), own.end());
  return {};
}

// The first module sets the homes. Those of siblings must be equal.
Result<void> Executor::shareStorage(const Module& module, const Program& program) {
  bool first = functions_.empty() && storage_.empty();
  for (const auto& item : module.items) {
    if (!isStorage(item->kind)) continue;
    if (!item->place) return failAt(item->loc, "@{} has no home", item->name);
    const Place& home = *item->place;
    auto bytes = program.range(home.buffer, home.offset, item->type.bytes());
    if (!bytes) return failAt(item->loc, bytes.error().message());
    Slot slot{item->name, item->type, bytes->buffer, bytes->offset};
    if (first) {
      storage_[item->name] = slot;
      continue;
    }
    auto own = storage_.find(item->name);
    if (own == storage_.end() || own->second.type != slot.type || own->second.buffer != slot.buffer ||
        own->second.offset != slot.offset)
      return failAt(item->loc, "@{} has another home in the functions to add", item->name);
  }
  return {};
}

namespace {

/// The operand of a dispatch that holds the kernel's loop status word, or null if the kernel watches no loops.
const Operand* watchedWord(const Op& op) {
  if (op.code != Opcode::dispatch) return nullptr;
  for (const Operand& arg : op.keyword("args")->items)
    if (arg.items[0].text == kLoopsBuffer) return &arg.items[0];
  return nullptr;
}

/// An error if the kernel's loops may need more iterations than the device gives them.
Result<void> checkIterations(const Module& module, const Item& binary, const vulkan::DeviceInfo& device) {
  if (device.limits.gives(LimitId::loopIterations, Target().loopIterations)) return {};
  const Item* kernel = module.find(ItemKind::kernel, binary.name);
  KernelNeeds needs;
  if (kernel)
    addLoops(needs, *kernel);
  else if (const Attr* stripped = tg::find(binary.attrs, "loop_iterations"))
    needs[LimitId::loopIterations] = stripped->integer;
  const int64_t most = needs[LimitId::loopIterations];
  if (device.limits.gives(LimitId::loopIterations, most)) return {};
  return failAt(kernel ? kernel->loc : binary.loc,
                "the loops of kernel @{} make {} iterations in an invocation, and {} ends them after {}: "
                "compile for its target, whose loop_iterations says so",
                binary.name, most < Target().loopIterations ? std::to_string(most) : "as many as data say",
                device.name, device.limits[LimitId::loopIterations]);
}

}  // namespace

Result<void> Executor::makePipelines(const Module& module, Program& program,
                                     const std::set<std::string>& wanted) {
  std::set<std::string> watching;
  for (const Item* func : module.all(ItemKind::func))
    for (Op* op : func->body.ops)
      if (watchedWord(*op)) watching.insert(op->operands[0].text);
  TG_TRY(Target target, targetOf(module.attrs));
  std::vector<vulkan::KernelCode> codes;
  for (const Item* binary : module.all(ItemKind::binary)) {
    if (!wanted.contains(binary->name)) continue;
    if (!watching.contains(binary->name)) TG_CHECK(checkIterations(module, *binary, device_->info()));
    TG_TRY(auto bindings, bindingsOf(module, *binary));
    KernelNeeds needs;
    addCode(needs, binary->code, target);
    const Item* kernel = module.find(ItemKind::kernel, binary->name);
    codes.push_back({binary->name, binary->code, std::move(bindings), static_cast<uint32_t>(needs.subgroup),
                     kernel ? needsOf(*kernel)[LimitId::sharedBytes] : 0});
  }
  constexpr double kLong = 2;  // seconds
  auto took = [&](const std::string& name, double seconds) {
    const Item* kernel = module.find(ItemKind::kernel, name);
    if (seconds <= kLong || !onDiagnostic_) return;
    onDiagnostic_({Severity::note,
                   kernel ? kernel->loc : nullptr,
                   fmt::format("{} took {:.1f} s to compile kernel @{}{}", device_->info().name, seconds,
                               name, kernel ? fmt::format(" of {} operations", codeSize(*kernel)) : ""),
                   {}});
  };
  TG_TRY(auto pipelines, vulkan::createPipelines(*device_, codes, took));
  for (size_t i = 0; i < codes.size(); ++i) program.pipelines[codes[i].name] = pipelines[i];
  return {};
}

Result<Executor::Function> Executor::makeFunction(const Item& func, const Program& program) {
  Function function;
  function.name = func.name;
  auto slot = [&](std::string name, const Value& value) -> Result<Slot> {
    if (!value.place) return failAt(value.loc, "%{} has no place", value.name);
    const Place& place = *value.place;
    TG_TRY(vulkan::Binding bytes, program.range(place.buffer, place.offset, value.type.bytes()));
    return Slot{std::move(name), value.type, bytes.buffer, bytes.offset};
  };
  auto add = [&](std::vector<Slot>& to, std::string name, const Value& value) -> Result<void> {
    TG_TRY(Slot made, slot(std::move(name), value));
    to.push_back(std::move(made));
    return {};
  };
  Values& values = function.values;
  for (const auto& arg : func.body.args) TG_CHECK(add(values.inputs, arg->name, *arg));
  for (Op* op : func.body.ops) {
    if (op->code == Opcode::capture)
      TG_CHECK(add(values.captures, as::capture(*op).name(), *as::capture(*op).value()));
    if (op->code == Opcode::param_grad)
      TG_CHECK(add(values.grads, as::param_grad(*op).name(), *as::param_grad(*op).value()));
    if (op->code != Opcode::return_) continue;
    for (int i = 0; i < op->numOperands(); ++i)
      TG_CHECK(add(values.results, func.results[static_cast<size_t>(i)].name, *op->in(i)));
  }
  TG_CHECK(watch(func, program, function));
  TG_TRY(function.commands, program.commandsOf(func, ranks_.get(), function.collectivePoints));
  function.laneSet = program.laneSet;
  if (!function.laneSet) {
    function.laneSet = std::make_shared<LaneSet>();
    function.laneSet->bytes = laneBytes(values);
  }
  // Record now, so that errors come before the first call. With collectives this waits until the first call, before
  // which the ranks have compared their modules.
  if (function.collectivePoints.empty()) TG_CHECK(recordLane(function, 0));
  return function;
}

/// Appends the status words of watched loops to the function's results.
Result<void> Executor::watch(const Item& func, const Program& program, Function& function) const {
  auto watched = std::make_shared<Watched>();
  watched->device = device_->info().name;
  watched->iterations = device_->info().target.loopIterations;
  const int64_t wordBytes = byteSize(DType::u32);
  int64_t first = -1, words = 0;
  for (Op* op : func.body.ops) {
    const Operand* word = watchedWord(*op);
    if (!word) continue;
    const int64_t offset = word->items[0].integer;
    if (first < 0) first = offset;
    words = (offset - first) / wordBytes + 1;  // lower-kernels places them in text order
    watched->kernels.push_back({op->operands[0].text, op->loc, words - 1});
  }
  if (first < 0) return {};
  TG_TRY(vulkan::Binding bytes, program.range(std::string(kLoopsBuffer), first, words * wordBytes));
  Slot slot{"", Type::tensor(DType::i32, {words}), bytes.buffer, bytes.offset};
  function.values.results.push_back(std::move(slot));
  function.watched = std::move(watched);
  return {};
}

/// Removes the words of watched loops from the results. The error names the first kernel whose word is set.
Result<void> Executor::checkLoops(const Watched* watched, NamedArrays& results) {
  if (!watched) return {};
  const HostArray words = std::move(results.back().second);
  results.pop_back();
  for (const Watched::Kernel& kernel : watched->kernels) {
    int32_t word = 0;
    std::memcpy(&word, &words.bytes[static_cast<size_t>(kernel.word) * sizeof word], sizeof word);
    if (word != 0)
      return failAt(
          kernel.loc,
          "the loops of kernel @{} make more than {} iterations in an invocation, and {} ends them there: "
          "the results are not whole. Give an invocation less to do, or run on another device",
          kernel.name, watched->iterations, watched->device);
  }
  return {};
}

Result<Executor::Function*> Executor::find(const std::string& function) const {
  if (auto found = functions_.find(function); found != functions_.end()) return found->second.get();
  return noFunction(function, functions_);
}

Result<const Executor::Slot*> Executor::storageSlot(const std::string& name) const {
  if (auto found = storage_.find(name); found != storage_.end()) return &found->second;
  return fail("the module has no param or state @{}", name);
}

Result<void> Executor::setStorages(const NamedArrays& values) {
  std::vector<Slot> slots;
  std::vector<const std::byte*> arrays;
  for (const auto& [name, value] : values) {
    TG_TRY(const Slot* slot, storageSlot(name));
    if (value.type() != slot->type)
      return fail("@{} is {}, not {}", name, slot->type.str(), value.type().str());
    slots.push_back(*slot);
    arrays.push_back(value.bytes.data());
  }
  return write(*device_, slots, arrays, nullptr);
}

Result<NamedArrays> Executor::storages(const std::vector<std::string>& names) {
  std::vector<Slot> slots;
  for (const std::string& name : names) {
    TG_TRY(const Slot* slot, storageSlot(name));
    slots.push_back(*slot);
  }
  return read(*device_, slots);
}

/// The place of the rows of a param or state that begin at element `first` and take this many bytes.
Result<Executor::Slot> Executor::rowsOf(const Slot& slot, int64_t first, size_t bytes) {
  TG_CHECK(checkRows(slot.name, slot.type, first, bytes));
  Slot rows = slot;
  const int64_t element = byteSize(slot.type.dtype);
  rows.type = Type::tensor(slot.type.dtype, {static_cast<int64_t>(bytes) / element});
  rows.offset += first * element;
  return rows;
}

Result<void> Executor::writeRows(const std::string& name, int64_t first, std::span<const std::byte> rows) {
  TG_TRY(const Slot* whole, storageSlot(name));
  TG_TRY(const Slot slot, rowsOf(*whole, first, rows.size()));
  const std::byte* data = rows.data();
  return write(*device_, {&slot, 1}, {&data, 1}, nullptr);
}

Result<void> Executor::readRows(const std::string& name, int64_t first, std::span<std::byte> rows) {
  TG_TRY(const Slot* whole, storageSlot(name));
  TG_TRY(const Slot slot, rowsOf(*whole, first, rows.size()));
  std::byte* data = rows.data();
  return readInto(*device_, {&slot, 1}, {&data, 1}, nullptr);
}

/// A copy of @persistent in buffers of its own. The device makes the copy between the calls before and after it.
class Executor::Copied : public StorageCopy {
 public:
  static Result<std::shared_ptr<StorageCopy>> make(const Executor& from) {
    auto made = std::make_shared<Copied>();
    made->device_ = from.device_;
    std::vector<vulkan::Command> copies;
    std::map<const Buffer*, Buffer*> copyOf;
    for (const Segment& segment : from.persistent_) {
      TG_TRY(
          std::shared_ptr<Buffer> own,
          Buffer::create(*from.device_, {"checkpoint", segment.buffer->bytes(), vulkan::MemoryKind::device}));
      copyOf[segment.buffer.get()] = own.get();
      copies.emplace_back(vulkan::Copy{segment.buffer.get(), 0, own.get(), 0, segment.buffer->bytes()});
      made->buffers_.push_back(std::move(own));
    }
    for (const auto& [name, slot] : from.storage_) {
      Slot own = slot;
      own.buffer = copyOf.at(slot.buffer);
      made->slots_.emplace(name, std::move(own));
    }
    TG_TRY(made->recording_,
           vulkan::Recording::create(*from.device_, std::move(copies), {.name = "checkpoint"}));
    TG_CHECK(made->recording_->submit());
    return std::shared_ptr<StorageCopy>(std::move(made));
  }

  Result<void> readRows(const std::string& name, int64_t first, std::span<std::byte> rows) override {
    auto found = slots_.find(name);
    if (found == slots_.end()) return fail("the copy has no param or state @{}", name);
    TG_TRY(const Slot slot, rowsOf(found->second, first, rows.size()));
    std::byte* data = rows.data();
    // The contents of mapped memory are complete when the copies are done, even if the device runs later calls.
    if (slot.buffer->mapped()) TG_CHECK(device_->waitFor(recording_->lastSubmission()));
    return readInto(*device_, {&slot, 1}, {&data, 1}, slot.buffer->mapped() ? slot.buffer : nullptr);
  }

 private:
  std::shared_ptr<vulkan::Device> device_;
  std::vector<std::shared_ptr<Buffer>> buffers_;
  std::unordered_map<std::string, Slot> slots_;
  std::unique_ptr<vulkan::Recording> recording_;
};

Result<std::shared_ptr<StorageCopy>> Executor::copyStorages() {
  int64_t bytes = 0;
  for (const Segment& segment : persistent_) bytes += segment.buffer->bytes();
  const int64_t free = device_->freeBytes();
  // Keep a part free for drivers and transfers.
  if (bytes > free - free / 16)
    return fail("a copy of parameters and states takes {}, and {} are free on {}", sizeText(bytes),
                sizeText(free), device_->info().name);
  return Copied::make(*this);
}

Result<ParamBuffer> Executor::share(const std::string& name) {
  TG_TRY(const Slot* slot, storageSlot(name));
  ParamBuffer out{slot->type, device_->info().name, nullptr, slot->offset, nullptr, nullptr};
  for (const Segment& segment : persistent_)
    if (segment.buffer.get() == slot->buffer) out.buffer = segment.buffer;
  if (out.buffer) return out;
  return fail("@{} has a home that no other session can use: it is not in @persistent", name);
}

Result<std::vector<std::string>> Executor::labels(const std::string& function) const {
  TG_TRY(const Function* found, find(function));
  std::vector<std::string> out;
  for (const vulkan::Command& command : found->commands)
    if (const auto* dispatch = std::get_if<vulkan::Dispatch>(&command)) out.push_back(dispatch->label);
  return out;
}

Result<vulkan::CommandCounts> Executor::counts(const std::string& function) const {
  TG_TRY(const Function* found, find(function));
  return vulkan::countOf(found->commands);
}

}  // namespace tg
