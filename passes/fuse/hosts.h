// SPDX-License-Identifier: Apache-2.0
// Finds kernels whose results another kernel could compute along with its own. A part of merge-kernels.
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "ir/module.h"

namespace tg::fuse {

/// For each kernel, in order, the index of its host, or -1. The host is the first of the next kHostReach kernels that has
/// the same loops and reads one of the kernel's operands in them, element by element or along the same rows. It may be a
/// map, a kernel over rows, or a product with an epilogue. If both are maps, they may read any elements of the operand, or
/// results of one kernel. A host that has a host itself passes the kernel on to that, if it suits. -1 also where the host
/// depends on the kernel, or the kernel has many ops or costly ones. A kernel for which `mayJoin` is false has no host and
/// is none.
std::vector<int> hostsOf(const std::vector<const Op*>& kernels,
                         const std::function<bool(size_t at)>& mayJoin);

}  // namespace tg::fuse
