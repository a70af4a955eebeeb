// SPDX-License-Identifier: Apache-2.0
// map: one invocation for one element of each result, or for four. Smaller results are stored by the first
// invocations only.

#include <algorithm>
#include <functional>
#include <map>
#include <vector>

#include "codegen/lower_schedules.h"
#include "codegen/schedule_parts.h"

namespace tg {

/// Whether `vec` divides the elements of every result.
static bool everyYieldIsWhole(const Op& fused, int64_t vec) {
  const auto& operands = fused.regions[0]->terminator()->operands;
  return std::ranges::all_of(
      operands, [&](const Operand& operand) { return operand.value->type.elements() % vec == 0; });
}

template <>
std::optional<MapSchedule> choose(const Op& fused, const Target& target) {
  const int64_t vec = everyYieldIsWhole(fused, 4) ? 4 : 1;
  int64_t largest = 0;
  for (const Operand& operand : fused.regions[0]->terminator()->operands)
    largest = std::max(largest, operand.value->type.elements() / vec);
  constexpr int64_t kMany = 16;
  return MapSchedule{.vec = vec, .workgroup = lightWorkgroup(target, largest, kMany)};
}

std::vector<Schedule> neighbours(const Op& fused, const Target& target, const MapSchedule& chosen) {
  std::vector<Schedule> out;
  addOtherVec(out, chosen, everyYieldIsWhole(fused, 4));
  addWorkgroups(out, chosen, target, 8);
  return out;
}

Result<void> lowerKernel(LowerContext& c, const MapSchedule& schedule) {
  const int64_t vec = schedule.vec;
  for (const Value* value : c.yields)
    if (value->type.elements() % vec != 0)
      return failAt(c.fused.loc, "schedule {} has vec {}, which does not divide the {} elements of a result",
                    c.schedule.str(), vec, value->type.elements());
  int64_t largest = 0;
  for (const Value* value : c.yields) largest = std::max(largest, value->type.elements() / vec);
  std::map<int64_t, std::vector<size_t>, std::greater<>> bySize;
  for (size_t slot = 0; slot < c.yields.size(); ++slot)
    bySize[c.yields[slot]->type.elements() / vec].push_back(slot);
  c.launch(largest, schedule.workgroup, [&](const Index& i) {
    for (const auto& [count, slots] : bySize)
      c.bounded(i, count, [&, &slots = slots](const Index& at) {
        Index offset = c.space.scale(at, vec);
        if (vec == kLanes) offset = c.space.add(offset, IndexSpace::lane());
        c.storeAll(slots, offset);
      });
  });
  return {};
}

}  // namespace tg
