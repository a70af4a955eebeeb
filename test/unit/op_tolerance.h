// SPDX-License-Identifier: Apache-2.0
// How far an executor's result for a single op may be from that of the interpreter in f64. Tests use these tolerances and
// those of runtime/interp/tolerance.h, and define none of their own.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "ir/module.h"
#include "ir/op_info.h"
#include "runtime/interp/nd_array.h"

namespace tg {

/// What bounds the error of a single op with exact operands.
enum class ToleranceClass : uint8_t {
  exact,        ///< moves, selections, counts: all bits agree
  elementwise,  ///< ulps of the result, from the scalar table
  reduction,    ///< a sum of terms, in any order
  map,          ///< a composite without reductions: a chain of elementwise functions
  row,          ///< a composite with reductions along a row
};
ToleranceClass toleranceClass(const OpInfo& op);

/// The error |got - reference| allowed for one element of an op's result; `dtype` is the result's.
/// `magnitude` is the scale the error grows with:
///   exact        is not read;
///   elementwise  |reference|;
///   reduction    the sum of |terms| (evalMagnitude);
///   map, row     the largest of |reference| and |operand| over the element's row.
/// `reductionLength` is the number of terms of one sum: K of a matmul, the updates of one row of a
/// scatter_add, the row of a composite; 1 where nothing is summed. The constant grows with the square root of
/// up to 256 terms, as independent roundings do, and with the logarithm of more: an executor that sums a long
/// row naively in one chain may exceed it, which is meant.
double opTolerance(const OpInfo& op, int64_t reductionLength, double magnitude, DType dtype = DType::f32);

/// For each element of the first result, the sum of |terms| that were added to it. Only for ops of the tolerance class
/// `reduction` and for random_normal; nothing for other ops. It scales the op's tolerance.
std::optional<NdArray> evalMagnitude(const Op& op, std::span<const NdArray* const> operands);

}  // namespace tg
