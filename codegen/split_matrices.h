// SPDX-License-Identifier: Apache-2.0
// Splits matrices to the shapes that a device multiplies. Internal to this folder.
#pragma once

#include "ir/module.h"
#include "ir/target.h"

namespace tg {

/// If the target lacks the shape of a kernel's tgk.coopmat_mma, splits each of the kernel's matrices into matrices
/// of the largest shape that the target has and that divides the kernel's: 16x16x16 becomes 8 products of 8x8x8.
/// Sums along k keep their order. A kernel that no shape divides is left as it is; the check of the target's
/// features refuses it.
void splitMatrices(Item& kernel, const Target& target);

}  // namespace tg
