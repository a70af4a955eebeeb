// SPDX-License-Identifier: Apache-2.0
// Reverse-mode differentiation of straight-line code: the backward walk. The formulas are in grad_rules/.
#pragma once

#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "ir/builder.h"

namespace tg {

/// Differentiates the ops that a function's body holds at that time, and appends the gradient to it. Use one engine for
/// one gradient.
class GradEngine {
 public:
  /// `builder` appends to the body of `func`. `checkpoint` is for the loops of kernels: see KernelVjpRequest. `onRemark` is
  /// told of ops through which the loss depends on a value of `wrt`, but which pass no gradient.
  GradEngine(Builder& builder, Item& func, int64_t checkpoint = 0, DiagnosticHandler onRemark = {})
      : builder_(builder), func_(func), checkpoint_(checkpoint), onRemark_(std::move(onRemark)) {}

  /// The gradient of `loss` (rank 0, float) with respect to each value of `wrt`, of that value's type; zeros if the loss
  /// does not depend on it. Only ops on a path from `wrt` to `loss` are differentiated, and only ops that the gradients need
  /// are left in the body. The error names an op on such a path that has no gradient; then nothing is left of the gradient.
  Result<std::vector<Value*>> gradients(Value* loss, const std::vector<Value*>& wrt);
  /// The same for training: the constant 1 at which the gradients start is marked as the function's seed.
  Result<std::vector<Value*>> trainingGradients(Value* loss, const std::vector<Value*>& wrt);

 private:
  void markActive(const std::vector<Op*>& ops);
  Result<void> backward(const std::vector<Op*>& ops);
  Result<void> differentiate(Op& op);
  Result<void> byDecomposition(Op& op, const std::vector<Value*>& resultGrads);
  void accumulate(Value* value, Value* gradient);
  void nameAfter(Value* gradient, const Value* value);
  void remarkCuts(const Value* loss, const std::vector<Value*>& wrt) const;

  Builder& builder_;
  Item& func_;
  int64_t checkpoint_;
  DiagnosticHandler onRemark_;
  std::vector<Op*> forward_;  ///< the ops of the body before the gradient
  bool inDecomposition_ = false;
  bool marksSeed_ = false;
  std::unordered_set<const Value*> active_;  ///< values that depend on `wrt`
  std::unordered_map<const Value*, Value*> gradients_;
  std::unordered_set<const Value*> unnamed_;  ///< appended gradients that have no name d_… yet
};

}  // namespace tg
