// SPDX-License-Identifier: Apache-2.0
#include "runtime/check/fit.h"

#include <algorithm>

#include <fmt/format.h>

#include "ir/byte_range.h"
#include "ir/kernel/rewrites.h"

namespace tg {

namespace {

/// Collects the largest need of each limit, in the order in which limits are first met.
class Worst {
 public:
  explicit Worst(std::vector<Need>& out) : out_(out) {}
  void add(Need need) {
    auto same = std::ranges::find_if(out_, [&](const Need& n) { return n.limit == need.limit; });
    if (same == out_.end()) {
      out_.push_back(std::move(need));
    } else if ((same->fits() && !need.fits()) || (same->fits() == need.fits() && worse(need, *same))) {
      *same = std::move(need);
    }
  }

 private:
  static bool worse(const Need& a, const Need& b) {
    return a.atMost ? a.needed > b.needed : a.needed < b.needed;
  }
  std::vector<Need>& out_;
};

class Judge {
 public:
  Judge(const Module& module, const Target& made, const Limits& limits)
      : module_(module), made_(made), limits_(limits) {}

  Result<FunctionFit> judge(const Item& func) {
    FunctionFit fit;
    fit.function = func.name;
    Worst needs(fit.needs);
    for (Op* op : func.body.ops) {
      if (op->code != Opcode::dispatch) continue;
      ++fit.dispatches;
      TG_CHECK(dispatch(*op, needs));
    }
    return fit;
  }

 private:
  Result<void> dispatch(const Op& op, Worst& worst) {
    const std::string& name = op.operands[0].text;
    const Item* binary = module_.find(ItemKind::binary, name);
    const Item* kernel = module_.find(ItemKind::kernel, name);
    if (!binary || !kernel)
      return failAt(op.loc, "the module holds no {} @{}, so what it needs is not known",
                    binary ? "kernel" : "binary", name);
    std::string label = op.word("label");
    Need base;
    base.where = label.empty() ? "kernel @" + name : fmt::format("kernel @{} ({})", name, label);
    base.loc = op.loc;
    auto need = [&](const char* limit, int64_t needed, int64_t available, bool atMost = true) {
      Need made = base;
      made.limit = limit;
      made.needed = needed, made.available = available, made.atMost = atMost;
      worst.add(std::move(made));
    };
    const KernelNeeds needs = needsOf(op, *kernel, *binary);
    for (size_t i = 0; i < kLimitCount; ++i) {
      const int64_t amount = needs.amounts[i];
      const auto id = static_cast<LimitId>(i);
      const bool bound = id != LimitId::texelAlignment || needs[LimitId::texelViews];
      if (amount && bound && limits_[id] != INT64_MAX)
        need(kLimits[i].name, amount, limits_[id], !kLimits[i].multiple);
    }
    for (uint32_t capability : needs.capabilities)
      if (const CapabilityRow* row = capabilityRow(capability))
        need(kFeatures[static_cast<size_t>(row->feature)].name, 1, limits_.gives(row->feature));
    for (const MatrixProduct& each : needs.products) need("coopmat", 1, contains(limits_.products, each));
    return {};
  }

  KernelNeeds needsOf(const Op& op, const Item& kernel, const Item& binary) const {
    KernelNeeds needs = tg::needsOf(kernel);
    addGrid(needs, gridOf(op));
    const OperandList& args = op.keyword("args")->items;
    bool watched = false;  // its loops set a status word in @loops if the device ends them early
    for (size_t i = 0; i < args.size() && i < kernel.body.args.size(); ++i) {
      const Type& type = kernel.body.args[i]->type;
      const ByteRange range = byteRangeOf(args[i]);
      watched |= range.buffer == kLoopsBuffer;
      addRange(needs, range.offset, range.bytes,
               type.texel ? byteSize(type.dtype) * std::max<int64_t>(1, type.lanes) : 0);
    }
    if (!watched && !limits_.gives(LimitId::loopIterations, Target().loopIterations)) addLoops(needs, kernel);
    addCode(needs, binary.code, made_);
    return needs;
  }

  const Module& module_;
  const Target& made_;
  const Limits& limits_;
};

}  // namespace

bool Need::fits() const { return !checked || (atMost ? needed <= available : needed % available == 0); }
bool FunctionFit::fits() const {
  return std::ranges::all_of(needs, [](const Need& need) { return need.fits(); });
}
bool Fit::fits() const {
  return compiledFor.empty() &&
         std::ranges::all_of(functions, [](const FunctionFit& f) { return f.fits(); }) &&
         std::ranges::all_of(memory, [](const Need& need) { return need.fits(); });
}

Result<Fit> fitOf(const Module& module, const Target& target, const DeviceMemory& memory,
                  const std::optional<Limits>& device) {
  if (module.stage != Stage::spirv)
    return fail("a module of stage {} has no commands to check", name(module.stage));
  TG_TRY(Target made, targetOf(module.attrs));
  const Limits limits = device ? *device : limitsOf(target);
  Fit fit;
  Judge judge(module, made, limits);
  for (const Item* func : module.all(ItemKind::func)) {
    TG_TRY(FunctionFit made, judge.judge(*func));
    fit.functions.push_back(std::move(made));
  }
  int64_t total = 0, largest = 0;
  std::string largestName;
  for (const Item* buffer : module.all(ItemKind::buffer)) {
    total += buffer->bytes;
    if (buffer->bytes > largest) largest = buffer->bytes, largestName = "@" + buffer->name;
  }
  fit.memory = {{"heap_bytes", total, memory.heap, "", {}, memory.heap > 0},
                {"max_allocation_bytes", largest, memory.allocation, largestName, {}, memory.allocation > 0}};
  if (auto taken = checkLimits(made, target, target.name); !taken)
    fit.compiledFor = taken.error().diagnostics().front().message;
  for (const Item* binary : module.all(ItemKind::binary)) {
    KernelNeeds width, needs;
    addCode(needs, binary->code, made);
    width.subgroup = needs.subgroup;
    for (const Unmet& each : unmet(width, limits))
      if (fit.compiledFor.empty())
        fit.compiledFor = fmt::format("the kernel @{} relies on subgroups of {}, {} has {}", binary->name,
                                      each.needed, target.name, each.available);
  }
  return fit;
}

}  // namespace tg
