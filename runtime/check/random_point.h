// SPDX-License-Identifier: Apache-2.0
// Random parameters and inputs of sensible size, at which a function is checked if the user gives no others.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ir/module.h"
#include "runtime/interp/nd_array.h"
#include "runtime/runner.h"

namespace tg {

/// Normally distributed elements in f64, as a function of (seed, salt, index).
NdArray randomNormal(const Type& type, uint64_t seed, uint32_t salt);

/// Random values for every param. Zeros and ones, with which biases and gains start, would hide a wrong gradient.
/// Matrices have the size of trained ones, so that activations neither vanish nor saturate. States have their initial
/// values, so that counters and scales are valid for a step.
Result<NamedArrays> randomStorage(const Module& module, uint64_t seed);

/// A value for every argument. `given` holds texts of the form NAME=SPEC (runtime/data/spec.h). Other ids are below the
/// size of the smallest table that they index, if the stage shows it, and host scalars are those of a first step (a
/// learning rate of 1e-3). Errors: no such input, a wrong shape or dtype.
Result<Inputs> randomInputs(const Item& func, const std::vector<std::string>& given, uint64_t seed);

}  // namespace tg
