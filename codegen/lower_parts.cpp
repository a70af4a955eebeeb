// SPDX-License-Identifier: Apache-2.0
// Several schedules in one kernel: each computes some of the results in workgroups of its own.
#include <fmt/format.h>

#include <algorithm>

#include "codegen/lower_schedules.h"

namespace tg {

static Result<void> lowerPart(LowerContext& part) {
  if (part.schedule.text == "map") return lowerMap(part);
  if (part.schedule.text == "row") return lowerRow(part);
  if (part.schedule.text == "column") return lowerColumn(part);
  return failAt(
      part.fused.loc,
      fmt::format("schedule {} is no part of a kernel; parts are map, row and column", part.schedule.str()));
}

Result<void> lowerParts(LowerContext& c) {
  const Attr *of = c.schedule.find("of"), *results = c.schedule.find("results");
  const std::vector<int64_t> counts = results ? results->asInts() : std::vector<int64_t>{};
  int64_t sum = 0, least = 1;
  for (int64_t count : counts) sum += count, least = std::min(least, count);
  if (!of || counts.empty() || of->list.size() != counts.size() || least < 1 ||
      sum != static_cast<int64_t>(c.yields.size()))
    return failAt(c.fused.loc, fmt::format("schedule {} needs parts in `of`, and in `results` how many of "
                                           "the {} results each computes",
                                           c.schedule.str(), c.yields.size()));
  int slot = 0;
  int64_t groups = 0, workgroup = 0;
  for (size_t i = 0; i < counts.size(); ++i) {
    const auto count = static_cast<size_t>(counts[i]);
    LowerContext part{c.fused,
                      c.target,
                      c.region,
                      c.mayTexel,
                      c.triangles,
                      of->list[i],
                      c.kernel,
                      c.space,
                      c.emitter,
                      c.out,
                      c.yields.subspan(static_cast<size_t>(slot), count),
                      slot,
                      true,
                      i + 1 == counts.size(),
                      groups};
    c.emitter.startPart();
    TG_CHECK(lowerPart(part));
    groups = c.out.grid[0];
    const int64_t own = c.out.kernel->workgroup[0];
    if (i > 0 && own != workgroup)
      return failAt(c.fused.loc, fmt::format("schedule {} has parts with workgroups of {} and {} invocations",
                                             c.schedule.str(), workgroup, own));
    workgroup = own;
    slot += static_cast<int>(count);
  }
  return {};
}

}  // namespace tg
