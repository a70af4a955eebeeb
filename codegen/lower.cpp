// SPDX-License-Identifier: Apache-2.0
// What the lowerings of all schedules share: launching invocations over a grid, parts of a kernel, and the checks
// of limits. The kernel of each kind of schedule is made in lower_<kind>.cpp.
#include "codegen/lower.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "codegen/lower_schedules.h"
#include "ir/divide.h"
#include "ir/needs.h"
#include "ir/unread.h"

namespace tg {

/// The number of the workgroup, in one or two dimensions of the grid. May exceed `groups` in the last row.
Index LowerContext::groupIndex(int64_t groups) {
  // Workgroups beyond the device's limit along x continue along y.
  int64_t x = std::min(groups, target.maxGrid);
  int64_t y = divideCeil(groups, x);
  out.grid = {x, y, 1};
  Index group = space.variable(kernel.id(Opcode::k_workgroup_id, 0), x);
  if (y > 1)
    group = space.add(group, space.scale(space.variable(kernel.id(Opcode::k_workgroup_id, 1), y), x));
  return group;
}

Result<void> LowerContext::checkStraight(int64_t operations) const {
  constexpr int64_t kMost = 1 << 14;  // chosen schedules need 2^12 at most
  if (operations <= kMost) return {};
  return failAt(fused.loc, "schedule {} unrolls to {} operations; at most {} are allowed", schedule.str(),
                operations, kMost);
}

bool LowerContext::isInPlace() const {
  return std::ranges::any_of(fused.results,
                             [](const auto& each) { return each->place && each->place->inplace; });
}

void LowerContext::storeAll(const std::vector<size_t>& slots, const Index& offset) {
  if (slots.size() > 1 && isInPlace())
    for (size_t slot : slots) emitter.emitLinear(yields[slot], offset);
  for (size_t slot : slots) store(slot, offset);
}

void LowerContext::bounded(const Index& index, int64_t count, const std::function<void(const Index&)>& body) {
  if (space.max(index) < count) return body(index);
  KV value = space.materialize(index);
  KV inside = kernel.op(Opcode::k_lt, {value, KernelBuilder::u32(count)}, DType::i1);
  const int64_t align = space.align(index);
  kernel.guard(inside, [&] { body(space.variable(value, count, align)); });
}

/// Emits the body under the predicate that the workgroup is one of this part's, with its number within the part.
void LowerContext::inPart(int64_t groups, const std::function<void(const Index&)>& body) {
  out.grid = {groupsBefore + groups, 1, 1};
  KV group = kernel.id(Opcode::k_workgroup_id, 0), before = KernelBuilder::u32(groupsBefore);
  KV behind = kernel.op(Opcode::k_ge, {group, before}, DType::i1),
     ahead = kernel.op(Opcode::k_lt, {group, KernelBuilder::u32(groupsBefore + groups)}, DType::i1);
  KV here = isLast              ? behind
            : groupsBefore == 0 ? ahead
                                : kernel.op(Opcode::k_and, {behind, ahead}, DType::i1);
  KV own = groupsBefore == 0 ? group : kernel.op(Opcode::k_sub, {group, before}, DType::u32);
  kernel.guard(here, [&] { body(space.variable(own, groups)); });
}

void LowerContext::launch(int64_t count, int64_t workgroup, const std::function<void(const Index&)>& body) {
  int64_t groups = divideCeil(count, workgroup);
  out.kernel->workgroup = {workgroup, 1, 1};
  if (groups <= target.maxGrid && !isPart) {
    out.grid = {groups, 1, 1};
    return bounded(space.variable(kernel.id(Opcode::k_global_id, 0), groups * workgroup), count, body);
  }
  Index lane = space.variable(kernel.id(Opcode::k_local_id, 0), workgroup);
  auto inGroup = [&](const Index& group) {
    bounded(space.add(space.scale(group, workgroup), lane), count, body);
  };
  if (isPart) return inPart(groups, inGroup);
  inGroup(groupIndex(groups));
}

void LowerContext::launchGroups(int64_t groups, int64_t workgroup,
                                const std::function<void(const Index&)>& body) {
  out.kernel->workgroup = {workgroup, 1, 1};
  if (isPart) return inPart(groups, body);
  bounded(groupIndex(groups), groups, body);
}

/// Refuses tensors of more elements than a u32 counts, which is the type of an invocation's indices.
static Result<void> checkCounts(const PlainRegion& region, const Op& fused) {
  for (Op* op : region.body.ops)
    for (const auto& result : op->results)
      if (result->type.elements() > UINT32_MAX)
        return failAt(fused.loc, "the kernel of %{} computes {}, which has more than {} elements",
                      fused.result()->name, result->type.str(), UINT32_MAX);
  return {};
}

Result<void> checkAmounts(const LoweredKernel& lowered, const Loc& loc, std::string_view who,
                          const Target& target) {
  KernelNeeds needs = needsOf(*lowered.kernel);
  addGrid(needs, lowered.grid);
  for (const Unmet& each : unmet(needs, limitsOf(target)))
    if (each.kind == Unmet::amount) return overLimit(loc, who, each, target);
  return {};
}

Result<void> lowerKernel(LowerContext& c, const CustomSchedule&) {
  return failAt(c.fused.loc, "schedule {} is only for a region with tg.custom", c.schedule.str());
}

Result<LoweredKernel> lowerBy(const Op& fused, const Attr& written, const Target& target,
                              const std::vector<bool>& mayTexel) {
  std::unique_ptr<PlainRegion> region = plainRegion(fused);
  TG_CHECK(checkCounts(*region, fused));
  TG_TRY(const Schedule schedule, parseSchedule(written));
  LoweredKernel lowered;
  lowered.kernel = std::make_unique<Item>();
  lowered.kernel->kind = ItemKind::kernel;
  lowered.kernel->loc = fused.loc;
  KernelBuilder kernel(lowered.kernel.get());
  IndexSpace space(kernel);
  RegionEmitter emitter(kernel, space, fused, *region, mayTexel);
  if (readsScalars(schedule)) emitter.readByElement();
  LowerContext context{fused,  target, *region, mayTexel, written,
                       kernel, space,  emitter, lowered,  region->yields};
  TG_CHECK(std::visit([&](const auto& kind) { return lowerKernel(context, kind); }, schedule));
  if (!emitter.problem().empty()) return emitter.problem();
  splitMatrices(*lowered.kernel, target);
  eraseUnread(lowered.kernel->body.ops);  // index parts and vectors that pulling emitted and nothing uses
  lowered.params = emitter.params();
  for (int64_t extent : lowered.grid) lowered.kernel->grid.push_back(Operand::literal(extent));
  return lowered;
}

Result<LoweredKernel> lowerRegion(const Op& fused, const Target& target, const std::vector<bool>& mayTexel) {
  TG_TRY(LoweredKernel lowered, lowerBy(fused, fused.attr("schedule"), target, mayTexel));
  TG_CHECK(checkAmounts(
      lowered, fused.loc,
      fmt::format("the kernel of %{}, by schedule {},", fused.result()->name, fused.attr("schedule").str()),
      target));
  return lowered;
}

}  // namespace tg
