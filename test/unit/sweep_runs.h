// SPDX-License-Identifier: Apache-2.0
// A module taken through every stage and run on every executor.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "ir/module.h"
#include "ir/target.h"
#include "runtime/interp/interp.h"
#include "runtime/vulkan/device.h"

namespace tg::test {

using Arrays = std::map<std::string, NdArray>;

/// One of the targets that ship.
Target shippedTarget(const std::string& name);

/// A module at each stage; null where a pass failed, which has been reported.
struct Stages {
  std::unique_ptr<Module> fused, planned, spirv;
};
Stages stagesOf(const Module& tensor, const Target& target);

/// What one executor gave for a function: results, then captures by their names.
using Results = std::map<std::string, NdArray>;

/// The interpreter. Findings of kernels are failures.
Results interpret(const Module& module, const std::string& function, const Arrays& inputs,
                  const Arrays& storage = {}, const InterpOptions& options = {});

/// One open device under the validation layer for a test's life; afterwards nothing may have been reported or
/// be left alive.
class Gpu {
 public:
  Gpu();
  ~Gpu();
  const std::shared_ptr<vulkan::Device>& device() const { return device_; }
  /// Runs functions of a module of stage spirv, one after the other.
  std::vector<Results> run(const Module& module, const std::vector<std::string>& functions,
                           const std::vector<Arrays>& inputs, const Arrays& storage = {});

 private:
  std::shared_ptr<vulkan::Device> device_;
  std::shared_ptr<vulkan::ValidationLog> log_;
};

/// Expects what a final module's kernels compute, on the device and in the interpreter, to be close to what the tensors
/// of the module mean. There are inputs for each of the functions.
void expectMeaning(const Module& tensor, const Module& final, const std::vector<std::string>& functions,
                   const std::vector<Arrays>& inputs);

/// An order in which kernels' lanes take turns.
KernelRunOptions laneOrder(int number);

}  // namespace tg::test
