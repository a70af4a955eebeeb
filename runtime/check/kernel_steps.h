// SPDX-License-Identifier: Apache-2.0
// Walks a function's commands one by one on a device. Each kernel also runs in the interpreter, on the bytes
// the device had before it: whoever differs is wrong by itself, not by what it was given.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "runtime/executor.h"

namespace tg {

/// A buffer parameter of one dispatch: its elements before it, and after it by both. Without `device`, and with an
/// `exact` that may not be whole, where the kernel has findings.
struct StepBuffer {
  std::string name;
  Loc loc;
  bool written = false;
  HostArray before, device, exact;
  bool close = true;
  std::string why;  ///< the worst element, when not close
};

struct KernelStep {
  int64_t number = 0;      ///< of the dispatch in its function, from 1
  const Op* op = nullptr;  ///< the dispatch
  const Item* kernel = nullptr;
  std::vector<StepBuffer> buffers;
  /// What the interpreter found: accesses outside of buffers, races, elements written twice or read too early. The
  /// device does not run a kernel with findings, and the walk ends there.
  std::vector<std::string> findings;
  /// The first buffer on which both differ, or null.
  const StepBuffer* wrong() const;
};

class KernelSteps {
 public:
  /// A verified module of stage spirv with its kernels, which outlives the steps. Errors: no such function,
  /// no kernels, what Executor::create says.
  static Result<KernelSteps> create(const Module& module, const std::string& function,
                                    std::shared_ptr<vulkan::Device> device);

  /// Puts params and inputs where the function reads them. Other storage is zero.
  Result<void> begin(const NamedArrays& params, const Inputs& inputs);
  /// Runs up to and with the next dispatch; false behind the last one. Two results agree by the rule
  /// |device - wide| <= 4 |exact - wide| + floor of tolerance.h, where wide is the kernel in f64; elements
  /// that none of the three has changed are left out.
  Result<bool> next(KernelStep& out);
  int64_t dispatches() const { return dispatches_; }

 private:
  KernelSteps() = default;

  const Module* source_ = nullptr;
  std::shared_ptr<const Module> stepped_;  ///< a function for each command
  std::unique_ptr<Executor> executor_;
  std::vector<const Op*> commands_;
  size_t at_ = 0;
  int64_t dispatches_ = 0, done_ = 0;
  uint32_t subgroup_ = 0;
};

}  // namespace tg
