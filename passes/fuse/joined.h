// SPDX-License-Identifier: Apache-2.0
// Several kernels as one: their bodies in one region, their schedules side by side.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "ir/module.h"
#include "ir/schedule.h"
#include "ir/target.h"

namespace tg::fuse {

/// One region of the bodies of several, with copies of their results. The ops stay as they are.
std::unique_ptr<Op> joined(const std::vector<Op*>& ops, const Target& target);

/// The schedule of a kernel that may stand beside others; nothing for other kinds.
std::optional<PartSchedule> partOf(const Op& fused);
/// Invocations of a workgroup that a kernel's schedule cannot do without; 0 where it takes any number.
int64_t neededWorkgroup(const Op& fused);
/// Results that an invocation, or invocations side by side, of a part compute at once.
int64_t resultsAtOnce(const PartSchedule& part);
/// Gives parts workgroups of so many invocations; where that is 0, of the fewest that one of them has, since small
/// workgroups spread few invocations over the device.
void setWorkgroups(std::vector<PartSchedule>& parts, int64_t workgroup);

}  // namespace tg::fuse
