// SPDX-License-Identifier: Apache-2.0
// What the choice of a coopmat schedule and its lowering both know. Private to codegen/.
#pragma once

#include <span>

#include "codegen/product.h"
#include "ir/split_product.h"

namespace tg {

constexpr int64_t kSide = 16;     ///< of a matrix
constexpr int64_t kPatchPad = 4;  ///< floats behind a row of sums
/// Words of eight in a row of results of 16 bits; one more, so that rows start in other banks.
constexpr int64_t narrowPatchColumns(int64_t columns) { return columns / kEight + 1; }

/// Values of 16 bits among these.
int64_t narrowCount(std::span<Value* const> values);
/// The element type that matrix units read the factors of a product, or of an attention, in.
DType factorType(const Op& op);
/// Whether vectors of an operand lie along k.
bool alongK(const Product& p, const CoopmatSchedule& schedule, int which);

}  // namespace tg
