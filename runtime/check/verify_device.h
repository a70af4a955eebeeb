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

/// How many invocations a subgroup has when kernels of a compiled module run on a device: what the module's target
/// states, else the device's own.
Result<uint32_t> subgroupWidth(const Module& compiled, const vulkan::DeviceInfo& device);

/// Calls a function once on the device and in the interpreter: exact on the same module of stage spirv, and in f64 on
/// `source`, the same function at stage tensor or fused. Both interpreters have subgroups as wide as the device's. Results,
/// captures, gradients the module keeps, and params and states that the function changes are compared by the rule
/// |device - wide| <= 4 |exact - wide| + floor of tolerance.h. For a result of few elements one exact run is a poor
/// estimate of the rounding error: where one of a module of f16 or bf16, whose error is large, differs, three runs with
/// parameters that are rounded otherwise are taken too. Errors with a place are of the modules, as of a custom kernel that
/// races or leaves its buffers; others are the device's.
Result<std::vector<ResultCheck>> compareFunction(const Module& source, const Module& spirv,
                                                 const std::string& function, const NamedArrays& params,
                                                 const Inputs& inputs,
                                                 std::shared_ptr<vulkan::Device> device);

}  // namespace tg
