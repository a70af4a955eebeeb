// SPDX-License-Identifier: Apache-2.0
#include "runtime/check/fit.h"

#include <algorithm>

#include <fmt/format.h>

#include "runtime/executor_program.h"

namespace tg {

namespace {

constexpr size_t kHeaderWords = 5;
constexpr uint32_t kOpCapability = 17;

/// The largest need of each limit, in the order in which they are first met.
class Needs {
 public:
  explicit Needs(std::vector<Need>& out) : out_(out) {}
  void add(Need need) {
    auto same = std::find_if(out_.begin(), out_.end(), [&](const Need& n) { return n.limit == need.limit; });
    if (same == out_.end()) {
      out_.push_back(std::move(need));
    } else if ((same->fits() && !need.fits()) || (same->fits() == need.fits() && worse(need, *same))) {
      *same = std::move(need);
    }
  }

 private:
  static bool worse(const Need& a, const Need& b) {
    return a.limit == "alignment" ? a.needed < b.needed : a.needed > b.needed;
  }
  std::vector<Need>& out_;
};

/// Largest power of two that divides an offset; a binding at 0 suits every device.
int64_t alignmentOf(int64_t offset) { return offset ? offset & -offset : int64_t(1) << 62; }

int64_t sharedBytes(const Item& kernel) {
  int64_t bytes = 0;
  walk(kernel.body, [&](Op& op) {
    for (const auto& result : op.results)
      if (result->type.mode == BufMode::shared) bytes += result->type.bytes();
  });
  return bytes;
}

/// Names of the target's features that a binary declares. Numbers are those of the SPIR-V specification.
std::vector<std::string> featuresOf(const Item& binary) {
  std::vector<std::string> out;
  if (usesSubgroups(binary.code)) out.emplace_back("subgroups");
  if (usesMatrices(binary.code)) out.emplace_back("coopmat");
  auto add = [&](const char* name) {
    if (std::find(out.begin(), out.end(), name) == out.end()) out.emplace_back(name);
  };
  for (size_t at = kHeaderWords; at + 1 < binary.code.size() && (binary.code[at] & 0xffff) == kOpCapability;
       at += 2) {
    uint32_t capability = binary.code[at + 1];
    if (capability == 4433) add("half_storage");   // StorageBuffer16BitAccess
    if (capability == 6033) add("float_atomics");  // AtomicFloat32AddEXT
  }
  return out;
}

bool has(const Target& target, const std::string& feature) {
  return feature == "subgroups"      ? target.subgroups
         : feature == "half_storage" ? target.halfStorage
         : feature == "coopmat"      ? !target.coopmat.empty()
                                     : target.floatAtomics;
}

class Judge {
 public:
  Judge(const Module& module, const Target& target) : module_(module), target_(target) {}

  Result<FunctionFit> judge(const Item& func) {
    FunctionFit fit;
    fit.function = func.name;
    Needs needs(fit.needs);
    for (Op* op : func.body.ops) {
      if (op->code != Opcode::dispatch) continue;
      ++fit.dispatches;
      TG_CHECK(dispatch(*op, needs));
    }
    return fit;
  }

 private:
  Result<void> dispatch(const Op& op, Needs& needs) {
    const std::string& name = op.operands[0].text;
    const Item* binary = module_.find(ItemKind::binary, name);
    const Item* kernel = module_.find(ItemKind::kernel, name);
    if (!binary || !kernel)
      return failAt(op.loc, fmt::format("the module holds no {} @{}, so what it needs is not known",
                                        binary ? "kernel" : "binary", name));
    std::string label = op.word("label");
    Need base;
    base.where = label.empty() ? "kernel @" + name : fmt::format("kernel @{} ({})", name, label);
    base.loc = op.loc;
    auto need = [&](const char* limit, int64_t needed, int64_t available, bool atMost = true) {
      Need made = base;
      made.limit = limit;
      made.needed = needed, made.available = available, made.atMost = atMost;
      needs.add(std::move(made));
    };
    const auto& group = kernel->workgroup;
    need("max_invocations", group[0] * group[1] * group[2], target_.maxInvocations);
    need("max_workgroup_x", group[0], target_.maxWorkgroupX);
    for (const Operand& extent : op.keyword("grid")->items) need("max_grid", extent.integer, target_.maxGrid);
    need("shared_bytes", sharedBytes(*kernel), target_.sharedBytes);
    const OperandList& args = op.keyword("args")->items;
    int64_t storage = 0;
    for (size_t i = 0; i < args.size() && i < kernel->body.args.size(); ++i) {
      const Type& type = kernel->body.args[i]->type;
      const Operand& range = args[i].items.front();
      int64_t offset = range.items[0].integer, bytes = range.items[1].integer;
      need("alignment", alignmentOf(offset), target_.alignment, false);
      if (type.texel)
        need("texel_elements", bytes / (byteSize(type.dtype) * std::max<int64_t>(1, type.lanes)),
             target_.texelElements);
      else
        need("storage_range", bytes, target_.storageRange), ++storage;
    }
    need("bindings", storage, target_.bindings);
    for (const std::string& feature : featuresOf(*binary)) need(feature.c_str(), 1, has(target_, feature));
    return {};
  }

  const Module& module_;
  const Target& target_;
};

}  // namespace

bool Need::fits() const { return !checked || (atMost ? needed <= available : needed % available == 0); }
bool FunctionFit::fits() const {
  return std::all_of(needs.begin(), needs.end(), [](const Need& need) { return need.fits(); });
}
bool Fit::fits() const {
  return compiledFor.empty() &&
         std::all_of(functions.begin(), functions.end(), [](const FunctionFit& f) { return f.fits(); }) &&
         std::all_of(memory.begin(), memory.end(), [](const Need& need) { return need.fits(); });
}

Result<Fit> fitOf(const Module& module, const Target& target, const DeviceMemory& memory) {
  if (module.stage != Stage::spirv)
    return fail(fmt::format("a module of stage {} has no commands to judge", name(module.stage)));
  Fit fit;
  Judge judge(module, target);
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
  TG_TRY(Target made, targetOf(module.attrs));
  if (auto taken = checkLimits(made, target, target.name); !taken)
    fit.compiledFor = taken.error().diagnostics().front().message;
  for (const Item* binary : module.all(ItemKind::binary))
    if (fit.compiledFor.empty() && made.subgroup != target.subgroup && reliesOnSubgroup(made, binary->code))
      fit.compiledFor = fmt::format(
          "the kernel @{} relies on subgroups of {}, {} has {}", binary->name, made.subgroup, target.name,
          target.subgroup > 1 ? fmt::format("{}", target.subgroup) : "none of a fixed width");
  return fit;
}

}  // namespace tg
