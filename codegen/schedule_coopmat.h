// SPDX-License-Identifier: Apache-2.0
// What the choice of a coopmat schedule and its lowering both know. Private to codegen/.
#pragma once

#include "codegen/product.h"

namespace tg {

constexpr int64_t kSide = 16;     ///< of a matrix
constexpr int64_t kPatchPad = 4;  ///< floats behind a row of sums

/// What a product by matrix units rounds its operands to.
DType factorType(const Op& product);
/// Whether vectors of an operand lie along k.
bool alongK(const Product& p, const CoopmatSchedule& schedule, int which);
/// Whether the sums go to the result matrix by matrix, as they are: nothing is computed behind the product, and
/// its matrices lie inside of the result or outside.
bool storesMatrices(const PlainRegion& region, const Product& p);

}  // namespace tg
