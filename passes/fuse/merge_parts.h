// SPDX-License-Identifier: Apache-2.0
// The parts of merge-kernels: which kernels may run in one, and how their bodies are joined, with their schedules side
// by side.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
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

/// For each kernel, in order, the index of its host, or -1. The host is the first of the next kHostReach kernels that has
/// the same loops and reads one of the kernel's operands in them, element by element or along the same rows. It may be a
/// map, a kernel over rows, or a product with an epilogue. If both are maps, they may read any elements of the operand, or
/// results of one kernel. A host that has a host itself passes the kernel on to that, if it suits. -1 also where the host
/// depends on the kernel, or the kernel has many ops or costly ones. A kernel for which `mayJoin` is false has no host and
/// is none.
std::vector<int> hostsOf(const std::vector<const Op*>& kernels,
                         const std::function<bool(size_t at)>& mayJoin);

/// Bytes of a kernel's results that plan can place in operands which die there; each operand is used once.
/// `dies(value)`: whether the value is not read behind the kernel. 0 for kernels that write groups.
int64_t bytesTakenOver(const Op& fused, const Module& module, const std::function<bool(const Value&)>& dies);

/// Lists of kernel results that lie one behind the other, because kernels write or read them as groups. Groups that share
/// a member are one list. In text order.
std::vector<std::vector<const Value*>> runsOfGroups(const Item& func);

}  // namespace tg::fuse
