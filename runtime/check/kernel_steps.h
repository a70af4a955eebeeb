// SPDX-License-Identifier: Apache-2.0
// Runs a function's commands one by one on a device. Each kernel also runs in the interpreter, on the bytes that the
// device had before it. So errors do not propagate: a kernel that differs is itself wrong.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "runtime/executor.h"

namespace tg {

/// A buffer parameter of one dispatch: its elements before the dispatch, and after it on the device and in the
/// interpreter. If the kernel has findings, `device` is missing and `exact` may be incomplete.
struct StepBuffer {
  std::string name;
  bool written = false;
  HostArray before, device, exact;
  bool close = true;
  std::string why;  ///< the worst element, if not close
};

struct KernelStep {
  int64_t number = 0;      ///< number of the dispatch in its function, from 1
  const Op* op = nullptr;  ///< the dispatch
  const Item* kernel = nullptr;
  std::vector<StepBuffer> buffers;
  /// What the interpreter found: accesses outside of buffers, races, elements written twice or read before they are
  /// written. A kernel with findings is not run on the device, and the walk ends there.
  std::vector<std::string> findings;
  /// The first buffer on which device and interpreter differ, or null.
  const StepBuffer* wrong() const;
};

class KernelSteps {
 public:
  /// `module` is a verified module of stage spirv with its kernels. It must outlive the steps. Errors: no such
  /// function, no kernels, errors of Executor::create.
  static Result<KernelSteps> create(const Module& module, const std::string& function,
                                    std::shared_ptr<vulkan::Device> device);

  /// Writes params and inputs to where the function reads them. All other memory is zero.
  Result<void> begin(const NamedArrays& params, const Inputs& inputs);
  /// Runs all commands up to and including the next dispatch; false after the last one. Results agree if |device -
  /// wide| <= 4 |exact - wide| + floor, the rule of tolerance.h, where wide is the kernel computed in f64. Elements
  /// that neither the device nor either run of the interpreter has changed are not compared.
  Result<bool> next(KernelStep& out);
  int64_t dispatches() const { return dispatches_; }

 private:
  KernelSteps() = default;

  const Module* source_ = nullptr;
  std::shared_ptr<const Module> stepped_;  ///< has one function for each command
  std::unique_ptr<Executor> executor_;
  std::vector<const Op*> commands_;
  size_t at_ = 0;
  int64_t dispatches_ = 0, done_ = 0;
  uint32_t subgroup_ = 0;
};

}  // namespace tg
