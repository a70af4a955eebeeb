// SPDX-License-Identifier: Apache-2.0
#include "ir/needs.h"

#include <fmt/format.h>

#include <algorithm>

#include "ir/divide.h"
#include "ir/json_text.h"
#include "ir/kernel/rewrites.h"
#include "ir/kernel/shared_memory.h"
#include "ir/verify.h"

namespace tg {
namespace {

/// The member of Target for each limit, in the order of LimitId; null if targets do not have the limit. A target's
/// alignment is sufficient for storage buffers and for views.
constexpr int64_t Target::*kMembers[] = {
    &Target::maxInvocations,
    &Target::maxWorkgroupX,
    &Target::maxGrid,
    &Target::sharedBytes,
    &Target::storageRange,
    &Target::texelElements,
    &Target::bindings,
    nullptr,
    nullptr,
    &Target::alignment,
    &Target::alignment,
    &Target::loopIterations,
};
static_assert(sizeof kMembers / sizeof kMembers[0] == kLimitCount);

/// The largest value that the kernel language allows on any device.
int64_t mostOfLanguage(LimitId id) {
  if (id == LimitId::invocations || id == LimitId::workgroupX) return kMaxInvocations;
  return id == LimitId::sharedBytes ? kMaxSharedBytes : INT64_MAX;
}

constexpr uint32_t kCapabilityOfSubgroups = 61;  // GroupNonUniform; the other subgroup capabilities imply it

void raise(KernelNeeds& needs, LimitId id, int64_t amount) { needs[id] = std::max(needs[id], amount); }

/// Lowers the alignment to the largest power of two that also divides the offset.
void alignTo(KernelNeeds& needs, LimitId id, int64_t offset) {
  if (offset) needs[id] = std::min(needs[id], offset & -offset);
}

}  // namespace

int64_t limitOf(const Target& target, LimitId id) {
  const auto member = kMembers[static_cast<size_t>(id)];
  return std::min(member ? target.*member : INT64_MAX, mostOfLanguage(id));
}

MatrixProduct productOf(const CoopShape& shape) {
  return {shape.m, shape.n, shape.k, std::string(name(shape.operand)), std::string(name(shape.result))};
}

CoopShape shapeOf(const Op& product) {
  const Type &a = product.in(0)->type, &sum = product.result()->type;
  return {a.shape[0], sum.shape[1], a.shape[1], a.dtype, sum.dtype};
}

Limits limitsOf(const Target& target) {
  Limits out;
  for (size_t i = 0; i < kLimitCount; ++i)
    if (kMembers[i]) out.amounts[i] = limitOf(target, static_cast<LimitId>(i));
  if (target.subgroup > 1) out.subgroupLeast = out.subgroupMost = target.subgroup;
  auto lack = [&](FeatureId id, bool given) { out.lacks[static_cast<size_t>(id)] = !given; };
  lack(FeatureId::subgroups, target.subgroups);
  lack(FeatureId::halfStorage, target.halfStorage);
  lack(FeatureId::floatAtomics, target.floatAtomics);
  lack(FeatureId::matricesNv, !target.coopmat.empty() && target.matrices == "nv");
  lack(FeatureId::matricesKhr, !target.coopmat.empty() && target.matrices == "khr");
  lack(FeatureId::quads, target.knowsFragments());
  lack(FeatureId::matricesBf16,
       std::ranges::any_of(target.coopmat, [](const auto& each) { return each.operand == DType::bf16; }));
  if (target.subgroups)
    for (const CoopShape& shape : target.coopmat) out.products.push_back(productOf(shape));
  return out;
}

void setLimits(Target& target, const Limits& limits) {
  constexpr int64_t kLeastAlignment = 16;  // of a texel of four words
  target.alignment = kLeastAlignment;
  for (size_t i = 0; i < kLimitCount; ++i) {
    if (!kMembers[i] || limits.amounts[i] == INT64_MAX) continue;
    int64_t& member = target.*kMembers[i];
    member = kLimits[i].multiple ? std::max(member, limits.amounts[i])
                                 : std::min(limits.amounts[i], mostOfLanguage(static_cast<LimitId>(i)));
  }
  target.subgroups = limits.gives(FeatureId::subgroups);
  target.floatAtomics = limits.gives(FeatureId::floatAtomics);
  target.halfStorage = limits.gives(FeatureId::halfStorage);
  const bool older = limits.gives(FeatureId::matricesNv) && !limits.gives(FeatureId::matricesKhr);
  target.matrices = older ? "nv" : "khr";
  target.fragments = limits.gives(FeatureId::quads) ? "quads" : "opaque";
  target.coopmat.clear();
  for (const MatrixProduct& each : limits.products)
    target.coopmat.push_back({each.m, each.n, each.k, *dtypeNamed(each.operand), *dtypeNamed(each.result)});
}

void addOp(KernelNeeds& needs, const Op& op) {
  if (op.info().name.starts_with("tgk.subgroup_")) addOnce(needs.capabilities, kCapabilityOfSubgroups);
  const bool quads = op.code == Opcode::k_coopmat_index || op.code == Opcode::k_coopmat_repeat ||
                     op.code == Opcode::k_coopmat_row_reduce || op.code == Opcode::k_coopmat_convert;
  if (quads) addOnce(needs.capabilities, kQuadFragments);
  if (op.code != Opcode::k_coopmat_mma) return;
  addOnce(needs.products, productOf(shapeOf(op)));
}

KernelNeeds needsOf(const Item& kernel) {
  KernelNeeds needs;
  const auto& group = kernel.workgroup;
  needs[LimitId::invocations] = group[0] * group[1] * group[2];
  needs[LimitId::workgroupX] = std::max(group[0], group[1]);
  needs[LimitId::sharedBytes] = sharedBytes(kernel);
  for (const auto& arg : kernel.body.args) ++needs[arg->type.texel ? LimitId::texelViews : LimitId::bindings];
  needs[LimitId::resources] = static_cast<int64_t>(kernel.body.args.size());
  walk(kernel.body, [&](const Op& op) { addOp(needs, op); });
  return needs;
}

void addLoops(KernelNeeds& needs, const Item& kernel) {
  raise(needs, LimitId::loopIterations, loopIterations(kernel).value_or(Target().loopIterations));
}

void addGrid(KernelNeeds& needs, std::span<const int64_t> extents) {
  for (int64_t extent : extents) raise(needs, LimitId::grid, extent);
}

void addRange(KernelNeeds& needs, int64_t offset, int64_t bytes, int64_t texelBytes) {
  alignTo(needs, texelBytes ? LimitId::texelAlignment : LimitId::alignment, offset);
  if (texelBytes)
    raise(needs, LimitId::texelElements, divideCeil(bytes, texelBytes));
  else
    raise(needs, LimitId::storageRange, bytes);
}

void addCode(KernelNeeds& needs, std::span<const uint32_t> code, const Target& made) {
  constexpr size_t headerWords = 5;
  constexpr uint32_t opCapability = 17;  // capabilities come before everything else
  for (size_t at = headerWords; at + 1 < code.size() && (code[at] & 0xffff) == opCapability; at += 2) {
    if (everyDeviceHas(code[at + 1])) continue;
    addOnce(needs.capabilities, code[at + 1]);
    const CapabilityRow* row = capabilityRow(code[at + 1]);
    if (row && row->feature == FeatureId::subgroups && made.subgroup > 1)
      needs.subgroup = std::max(needs.subgroup, made.subgroup);
    // SPIR-V does not show whether a kernel relies on `fragments`; assume that it does.
    const bool matrices =
        row && (row->feature == FeatureId::matricesKhr || row->feature == FeatureId::matricesNv);
    if (matrices && made.fragments == "quads") addOnce(needs.capabilities, kQuadFragments);
  }
}

void join(KernelNeeds& into, const KernelNeeds& other) {
  for (size_t i = 0; i < kLimitCount; ++i)
    into.amounts[i] = kLimits[i].multiple ? std::min(into.amounts[i], other.amounts[i])
                                          : std::max(into.amounts[i], other.amounts[i]);
  into.subgroup = std::max(into.subgroup, other.subgroup);
  for (uint32_t each : other.capabilities) addOnce(into.capabilities, each);
  for (const MatrixProduct& each : other.products) addOnce(into.products, each);
}

Json needsToJson(const KernelNeeds& needs) {
  Json out = Json::object();
  for (size_t i = 0; i < kLimitCount; ++i) out[kLimits[i].name] = needs.amounts[i];
  out["subgroup"] = needs.subgroup;
  out["capabilities"] = needs.capabilities;
  out["coopmat"] = Json::array();
  for (const MatrixProduct& each : needs.products)
    out["coopmat"].push_back({each.m, each.n, each.k, each.operand, each.result});
  return out;
}

std::string sentence(const Unmet& need) {
  switch (need.kind) {
  case Unmet::amount:
    return fmt::format("it has {} {} and the limit is {}", need.needed, need.what, need.available);
  case Unmet::subgroup:
    return fmt::format("it relies on subgroups of {} and the device has {}", need.needed, need.available);
  case Unmet::feature: return fmt::format("it needs {}, which the device lacks", need.what);
  case Unmet::capability: return fmt::format("it needs {}, which no kernel of this runtime uses", need.what);
  case Unmet::product: return fmt::format("it makes {}, which the device does not", need.what);
  }
  return "";
}

Error overLimit(const Loc& loc, std::string_view who, const Unmet& need, const Target& target) {
  return failAt(loc, "{} has {} {}, more than the {} of target '{}'", who, need.needed, need.what,
                need.available, target.name);
}

Error overBinding(const Loc& loc, std::string_view what, int64_t bytes, int64_t most, const Target& target,
                  int64_t others) {
  Error error =
      failAt(loc, "{} takes {} bytes, more than the {} one binding may span on target '{}'", what, bytes,
             most, target.name)
          .note(loc, "a smaller batch, context or vocabulary makes it fit; so does a target with a larger "
                     "storage_range, "
                     "such as --target=auto on a device that has one");
  if (others > 0)
    error.addNote(nullptr,
                  fmt::format("it is the largest; {} more {} too large", others, others == 1 ? "is" : "are"));
  return error;
}

int64_t mostBytes(const Target& target) {
  return std::min(limitOf(target, LimitId::storageRange), target.allocation);
}

Result<void> checkLimits(const Target& made, const Target& device, std::string_view deviceName) {
  // The needs of a kernel that uses all that the target allows. Loops are compared by each kernel.
  KernelNeeds most;
  for (size_t i = 0; i < kLimitCount; ++i)
    if (kMembers[i]) most.amounts[i] = made.*kMembers[i];
  most[LimitId::loopIterations] = 0;
  most[LimitId::texelAlignment] = kAnyAlignment;  // covered by `alignment`
  const std::string over = listed(unmet(most, limitsOf(device)));
  if (over.empty()) return {};
  return fail("the module is made for target '{}', whose limits {} lacks: {}", made.name, deviceName, over);
}

}  // namespace tg
