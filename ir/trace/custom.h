// SPDX-License-Identifier: Apache-2.0
// Kernels of the user's own in a C++ model: text in the kernel language (docs/kernel-language.md), called like an
// operation.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "ir/module.h"
#include "ir/result.h"
#include "ir/trace/tensor.h"

namespace tg::nn {

/// A kernel that models can call. The constructor only checks that the text can be parsed; `custom` reports all other
/// errors.
class Kernel {
 public:
  /// The text of `kernel @name(…) … { … }`, followed by the items that it needs: the kernel of its vjp, and functions
  /// that it calls. The first item is the kernel that is called.
  Kernel(std::string text, Site site = Site::current());
  Kernel(const char* text, Site site = Site::current()) : Kernel(std::string(text), site) {}
  /// A kernel made by a KernelBuilder, with its name; it is copied.
  explicit Kernel(const Item& item);

  /// The kernel's name in the module; empty after an error.
  std::string name() const { return items_.empty() ? std::string() : items_[0]->name; }
  const std::vector<std::shared_ptr<const Item>>& items() const { return items_; }
  /// Why the text is invalid; null if it is valid.
  const Error* error() const { return failure_.get(); }

 private:
  std::vector<std::shared_ptr<const Item>> items_;
  std::shared_ptr<const Error> failure_;
};

/// The type of one result of a kernel, and its batch axis, or -1.
struct KernelResult {
  Dims shape;
  DType dtype = DType::f32;
  int batch = -1;
};

/// Runs a kernel. The inputs bind to its in and inout parameters in order, the results to its out, inout, accum and
/// tape parameters. The kernel is added to the traced module once. Errors: a different kernel with the same name, and
/// whatever tg.custom rejects; then all results are invalid.
std::vector<Tensor> custom(const Kernel& kernel, const Args& inputs,
                           const std::vector<KernelResult>& results);
/// The same for a kernel with one result.
Tensor custom(const Kernel& kernel, const Args& inputs, const KernelResult& result);

}  // namespace tg::nn
