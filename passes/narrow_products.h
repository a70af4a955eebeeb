// SPDX-License-Identifier: Apache-2.0
// Rewrites f32 products to products of 16-bit values; a part of mixed-precision.
#pragma once

#include <string>
#include <unordered_set>

#include "ir/module.h"
#include "passes/pass.h"

namespace tg {

/// What mixed-precision{report=true} tells: for each value, what becomes of it and why.
class PrecisionReport {
 public:
  /// `context`, unless null, is told.
  explicit PrecisionReport(const PassContext* context) : context_(context) {}
  template <class... Args>
  void tell(const Value& value, fmt::format_string<Args...> text, Args&&... args) {
    if (!context_) return;
    told_.insert(&value);
    context_->remark(value.loc, "%{} {}", value.name, fmt::format(text, std::forward<Args>(args)...));
  }
  bool hasTold(const Value& value) const { return told_.contains(&value); }
  explicit operator bool() const { return context_; }

 private:
  const PassContext* context_;
  std::unordered_set<const Value*> told_;
};

/// The name of the type in which a product, a convolution or an attention multiplies: that of its operands if it is 16-bit,
/// also if they were cast back to f32; otherwise its precision. "" for other ops.
std::string multipliedAs(const Op& op);

/// Makes every f32 tg.matmul, convolution and tg.attention of a function one of `dtype`, f16 or bf16. Operands are cast to
/// it, once for all products that read a value. The result is cast too, behind the bias if there is one; other ops read it
/// cast back to f32. Memory then holds 16 bits. A result that only gradients of parameters depend on, or that the function
/// returns, stays f32, as a sum of exact products: the product then has f32 operands cast back from 16 bits, and a
/// tg.matmul has `precision = dtype`.
void narrowProducts(Module& module, Item& func, DType dtype, PrecisionReport report);

/// Gives the f32 products of a function, and attention with narrow heads, the precision f32x3, and each operand a scale:
/// a power of two that brings its largest element near the end of f16's range.
void halveProducts(Module& module, Item& func, PrecisionReport report);

}  // namespace tg
