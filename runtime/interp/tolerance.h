// SPDX-License-Identifier: Apache-2.0
// How far an executor's results for a whole function may be from those of the interpreter in f64.
#pragma once

#include <span>
#include <string>

#include "runtime/interp/nd_array.h"

namespace tg {

/// The spacing of reals at 1: 2^-23 for f32, 2^-10 for f16, 2^-7 for bf16, 0 for other types.
double epsilonOf(DType dtype);

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
