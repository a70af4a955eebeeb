// SPDX-License-Identifier: Apache-2.0
// Compares a device with the interpreter: whole functions on the same params and inputs.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "runtime/check/oracle.h"
#include "runtime/executor.h"

namespace tg {

/// The subgroup width of a compiled module's kernels on a device: the width that the module's target states, or else
/// the device's own.
Result<uint32_t> subgroupWidth(const Module& compiled, const vulkan::DeviceInfo& device);

/// Calls a function once on the device and twice in the interpreter: exact, on the same module of stage spirv, and in
/// f64, on `source`, the same function at stage tensor or fused. Both interpreters use subgroups as wide as the
/// device's. Compares results, captures, the gradients that the module keeps, and the params and states that the
/// function changes. The Oracle judges. Errors with a source location are the modules', such as a custom kernel that
/// races or accesses memory outside its buffers; other errors are the device's.
Result<std::vector<ResultCheck>> compareFunction(const Module& source, const Module& spirv,
                                                 const std::string& function, const NamedArrays& params,
                                                 const Inputs& inputs,
                                                 std::shared_ptr<vulkan::Device> device);

}  // namespace tg
