// SPDX-License-Identifier: Apache-2.0
// parts: several schedules in one kernel, each of which computes some of the results in workgroups of its own. All
// parts have one workgroup size; their workgroups follow one another along x.

#include "codegen/lower_schedules.h"
#include "codegen/schedule_parts.h"

namespace tg {

Result<void> lowerKernel(LowerContext& c, const PartsSchedule& schedule) {
  int slot = 0;
  int64_t groups = 0, workgroup = 0;
  for (size_t i = 0; i < schedule.of.size(); ++i) {
    const auto count = static_cast<size_t>(schedule.results[i]);
    const Attr written = scheduleAttr(wholeSchedule(schedule.of[i]));
    LowerContext part{c.fused,
                      c.target,
                      c.region,
                      c.mayTexel,
                      written,
                      c.kernel,
                      c.space,
                      c.emitter,
                      c.out,
                      c.yields.subspan(static_cast<size_t>(slot), count),
                      slot,
                      true,
                      i + 1 == schedule.of.size(),
                      groups};
    c.emitter.startPart();
    TG_CHECK(std::visit([&](const auto& kind) { return lowerKernel(part, kind); }, schedule.of[i]));
    groups = c.out.grid[0];
    const int64_t own = c.out.kernel->workgroup[0];
    if (i > 0 && own != workgroup)
      return failAt(c.fused.loc,
                    "schedule {} has parts with workgroups of {} and {} invocations; they must be equal",
                    c.schedule.str(), workgroup, own);
    workgroup = own;
    slot += static_cast<int>(count);
  }
  return {};
}

// A set of parts comes from merging kernels, so there is nothing else to try.
Schedules neighbours(const Op&, const Target&, const PartsSchedule&) { return {}; }

}  // namespace tg
