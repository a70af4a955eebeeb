// SPDX-License-Identifier: Apache-2.0
// A device against the interpreter: whole functions from the same params and inputs.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "runtime/executor.h"

namespace tg {

struct ResultCheck {
  std::string kind;  ///< "result", "capture", "gradient", "param", "state"
  std::string name;
  Type type;
  bool close = true;
  std::string why;  ///< the worst element, when not close
};

/// Calls a function once on the device and in the interpreter, exact on the same module of stage spirv and in
/// f64 on `source`, the same function at stage tensor or fused. Results, captures, gradients the module
/// keeps, and params and states that the function changes are compared by the rule |device - wide| <= 4
/// |exact - wide| + floor of tolerance.h. One exact run tells the rounding error of a result of few elements by chance
/// only: in a module of f16 or bf16, where it is large, such a result is also allowed what it changes by when the
/// parameters are rounded otherwise. Errors with a place are of the modules, as of a custom kernel that
/// races or leaves its buffers; others are the device's.
Result<std::vector<ResultCheck>> compareFunction(const Module& source, const Module& spirv,
                                                 const std::string& function, const NamedArrays& params,
                                                 const Inputs& inputs,
                                                 std::shared_ptr<vulkan::Device> device);

}  // namespace tg
