// SPDX-License-Identifier: Apache-2.0
// First values of parameters.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "ir/result.h"
#include "runtime/data/array.h"

namespace tg {

/// The array a parameter starts from, a pure function of the arguments: it does not depend on
/// other parameters or on the order of calls. Kinds, with their arguments:
///   zeros, ones, constant(value), uniform(lo, hi),
///   randn(std = 0.02), kaiming(gain = sqrt 2), xavier(gain = 1).
/// The last three are normal: std, gain / sqrt(fan_in), gain * sqrt(2 / (fan_in + fan_out)). For
/// [in, out] fan_in is the product of all extents but the last and fan_out the last; for a
/// convolution's [O, I/g, kh, kw] they are I/g*kh*kw and O*kh*kw. kaiming and xavier need rank 2
/// and more. Random kinds need a float type. Errors name the parameter.
/// Element i takes philox({lo i, hi i, hi h, hi seed}, {lo seed, lo h}) with h = XXH3-64 of the name,
/// where lo and hi are the 32-bit halves: a uniform of the first word, a normal of the first two.
Result<HostArray> initialValue(std::string_view name, const Type& type, std::string_view kind,
                               std::span<const double> args, uint64_t seed);

}  // namespace tg
