// SPDX-License-Identifier: Apache-2.0
// Kernels of the user's own in a model: the kernel language (docs/kernel-language.md) called from C++.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "ir/module.h"
#include "ir/result.h"
#include "ir/trace/tensor.h"

namespace tg::nn {

/// A kernel that models call. Making one checks nothing but its text's form; `custom` reports what is
/// wrong.
class Kernel {
 public:
  /// The text of `kernel @name(…) … { … }`, behind which may stand what it needs: the kernel of its vjp, and
  /// functions that it calls. The first item is the kernel that is called.
  Kernel(std::string text, Site site = Site::current());
  Kernel(const char* text, Site site = Site::current()) : Kernel(std::string(text), site) {}
  /// A kernel that a KernelBuilder made, with its name; it is copied.
  explicit Kernel(const Item& item);

  /// The name that the module knows it by; empty after an error.
  std::string name() const { return items_.empty() ? std::string() : items_[0]->name; }
  const std::vector<std::shared_ptr<const Item>>& items() const { return items_; }
  /// Why the text is none; null when it is.
  const Error* error() const { return failure_.get(); }

 private:
  std::vector<std::shared_ptr<const Item>> items_;
  std::shared_ptr<const Error> failure_;
};

/// The type of one result of a kernel, and the axis that holds the batch, or -1.
struct KernelResult {
  Dims shape;
  DType dtype = DType::f32;
  int batch = -1;
};

/// Runs a kernel: the inputs are its in and inout parameters in order, the results its out, inout, accum and
/// tape parameters. The kernel is added to the traced module once; another of its name that is not the
/// same is an error, as is whatever tg.custom refuses. After an error all results are invalid.
std::vector<Tensor> custom(const Kernel& kernel, const Args& inputs,
                           const std::vector<KernelResult>& results);
/// The same for a kernel of one result.
Tensor custom(const Kernel& kernel, const Args& inputs, const KernelResult& result);

}  // namespace tg::nn
