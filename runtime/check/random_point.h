// SPDX-License-Identifier: Apache-2.0
// Where a function is looked at when nobody says where: random parameters and inputs of sensible size.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ir/module.h"
#include "runtime/interp/nd_array.h"
#include "runtime/runner.h"

namespace tg {

/// Normal elements that are a function of (seed, salt, index), in f64.
NdArray randomNormal(const Type& type, uint64_t seed, uint32_t salt);

/// Random values for every param: zeros and ones, as biases and gains start, would hide a wrong gradient.
/// Matrices are of the size trained ones have, so that activations neither vanish nor saturate. States are what they
/// start from, so that counters and scales are such as a step may find.
Result<NamedArrays> randomStorage(const Module& module, uint64_t seed);

/// A value for every argument. `given` holds NAME=SPEC texts (runtime/data/spec.h); of the others ids are
/// below the smallest table they index, where the stage tells, and host scalars are those of a first step
/// (a learning rate of 1e-3). Errors: no such input, a wrong shape or dtype.
Result<Inputs> randomInputs(const Item& func, const std::vector<std::string>& given, uint64_t seed);

}  // namespace tg
