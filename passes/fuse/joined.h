// SPDX-License-Identifier: Apache-2.0
// Joins several kernels into one: their bodies in one region, their schedules side by side.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "ir/module.h"
#include "ir/schedule.h"
#include "ir/target.h"

namespace tg::fuse {

/// One region with the bodies of several, which yields all their values. It has no results yet; `ops` stay as they are.
std::unique_ptr<Op> joined(const std::vector<Op*>& ops, const Target& target);

/// The schedule of a kernel as a part beside others; nothing for kinds of schedules that cannot be a part.
std::optional<PartSchedule> partOf(const Op& fused);
/// The number of invocations in a workgroup that a kernel's schedule requires; 0 where it takes any number.
int64_t neededWorkgroup(const Op& fused);
/// How many results of a part one invocation, or invocations side by side, compute at a time.
int64_t resultsAtOnce(const PartSchedule& part);
/// Gives parts workgroups of `workgroup` invocations. 0 means the smallest workgroup among the parts: small workgroups
/// spread few invocations over the device.
void setWorkgroups(std::vector<PartSchedule>& parts, int64_t workgroup);

}  // namespace tg::fuse
