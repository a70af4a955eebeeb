// SPDX-License-Identifier: Apache-2.0
// Which kernels could compute the results of others along with their own. A part of merge-kernels.
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "ir/module.h"

namespace tg::fuse {

/// Of each of some kernels, in their order, the place of its host, or -1. The host is the first of the kernels soon
/// behind it that has its loops and reads in them, element by element or along the same rows, a tensor that it reads:
/// it may be a map, rows, or a product with what follows it. -1 where the host depends on the kernel, or the kernel has
/// many ops or costly ones. Kernels for which `mayJoin` does not hold neither have a host nor are one.
std::vector<int> hostsOf(const std::vector<const Op*>& kernels,
                         const std::function<bool(size_t at)>& mayJoin);

}  // namespace tg::fuse
