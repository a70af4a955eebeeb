// SPDX-License-Identifier: Apache-2.0
// Products of matrices as products of the shapes that a device multiplies. Internal to this folder.
#pragma once

#include "ir/module.h"
#include "ir/target.h"

namespace tg {

/// Where the target lacks the shape of a kernel's tgk.coopmat_mma, splits each of the kernel's matrices into matrices
/// of the largest shape that it has and that divides the kernel's: 16x16x16 is 8 products of 8x8x8. Sums along k keep
/// their order. A kernel that no shape divides stays, and is refused for its needs.
void splitMatrices(Item& kernel, const Target& target);

}  // namespace tg
