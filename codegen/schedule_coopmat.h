// SPDX-License-Identifier: Apache-2.0
// What the choice of a coopmat schedule and its lowering share. Private to codegen/.
#pragma once

#include <array>
#include <optional>
#include <span>

#include "codegen/product.h"
#include "ir/attention_parts.h"

namespace tg {

constexpr int64_t kSide = 16;     ///< rows and columns of a matrix
constexpr int64_t kPatchPad = 4;  ///< floats of padding behind a row of sums
/// Vectors of eight in a patch row of 16-bit results, with one of padding, so that rows start in other banks.
constexpr int64_t narrowPatchColumns(int64_t columns) { return columns / kEight + 1; }

/// The number of values that have 16 bits.
int64_t narrowCount(std::span<Value* const> values);
/// The type to which matrix units round the factors of a product or an attention.
DType factorType(const Op& op);
/// Whether vectors of an operand are loaded along k.
bool alongK(const Product& p, const CoopmatSchedule& schedule, int which);
/// Rows of an operand's tile in shared memory, and vectors of eight elements in each, without the one of padding.
std::array<int64_t, 2> stageExtents(const Product& p, const CoopmatSchedule& schedule, int which);
/// The operand whose tile has room for the patches of 16-bit results, which are stored once the tiles are no longer read;
/// nothing if patches need memory of their own.
std::optional<int> stageForPatches(const Product& p, const CoopmatSchedule& schedule);

}  // namespace tg
