// SPDX-License-Identifier: Apache-2.0
// The tolerances of all tests: how far an executor's results may be from those of the interpreter in f64. Tests use
// these and define none of their own.
#pragma once

#include <cstdint>
#include <span>
#include <string>

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

/// The spacing of reals at 1: 2^-23 for f32, 2^-10 for f16, 2^-7 for bf16, 0 for other types.
double epsilonOf(DType dtype);

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

/// The default of wholeFunctionClose: 16 ulps of f32.
constexpr double kWholeFunctionFloor = 0x1p-19;

/// Compares results of whole functions, one tensor at a time: |device - wide| <= 4·E + floor·M for every element, where
/// E is the largest |exact - wide| and M the largest |wide| of the tensor (the error of one element alone may be zero
/// by luck). Where the interpreter's value is not finite, the device's must agree with it. Integers and i1 must be
/// equal wherever wide and exact agree; elsewhere they are at a rounding boundary and are not compared. The types must
/// be equal. `why`, if given, receives a line about the worst element. `others` are further arrays of the same type
/// that differ from wide by rounding; E also covers their |other - wide|.
bool wholeFunctionClose(const NdArray& device, const NdArray& wide, const NdArray& exact,
                        double floor = kWholeFunctionFloor, std::string* why = nullptr,
                        std::span<const NdArray* const> others = {});

}  // namespace tg
