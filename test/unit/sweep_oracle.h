// SPDX-License-Identifier: Apache-2.0
// What the sweeps expect of a module of stage tensor: every result in f64, and how far from it an
// executor may be.
#pragma once

#include <map>
#include <string>

#include "ir/module.h"
#include "runtime/interp/nd_array.h"
#include "test/unit/op_tolerance.h"

namespace tg::test {

/// One result of a function whose ops are views around ops that the tolerance table bounds.
struct Expected {
  NdArray value;      ///< f64
  NdArray tolerance;  ///< for each element
  ToleranceClass kind = ToleranceClass::exact;
};

/// The results of @f in order of name. A failure is reported when an op other than a view reads a value that
/// is not exact, because nothing bounds its error then.
std::map<std::string, Expected> expectedOf(const Module& module,
                                           const std::map<std::string, NdArray>& inputs);

}  // namespace tg::test
