// SPDX-License-Identifier: Apache-2.0
// Reverse-mode differentiation of straight-line code: the walk, without any op's formula.
#pragma once

#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "ir/builder.h"

namespace tg {

/// Differentiates what stands in a function's body so far, appending to it. Use one engine for one
/// gradient.
class GradEngine {
 public:
  /// `builder` appends to the body of `func`. `checkpoint` is for the loops of kernels: see KernelVjpRequest.
  /// `onRemark` hears of ops that a value passes on its way to the loss, but its gradient does not.
  GradEngine(Builder& builder, Item& func, int64_t checkpoint = 0, DiagnosticHandler onRemark = {})
      : builder_(builder), func_(func), checkpoint_(checkpoint), onRemark_(std::move(onRemark)) {}

  /// The gradient of `loss` (rank 0, float) with respect to each of `wrt`, of that value's type; zeros
  /// where the loss does not depend on it. Only ops on a path from `wrt` to `loss` are differentiated,
  /// and only what the results need is left in the body. An error names an op on such a path that has
  /// no gradient; nothing of it stays in the body.
  Result<std::vector<Value*>> gradients(Value* loss, const std::vector<Value*>& wrt);
  /// The same, for the gradients that train: the constant 1 they start from is marked as the function's seed.
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
  std::vector<Op*> forward_;  ///< the ops that were there already
  bool inDecomposition_ = false;
  bool marksSeed_ = false;
  std::unordered_set<const Value*> active_;  ///< depend on `wrt`
  std::unordered_map<const Value*, Value*> gradients_;
  std::unordered_set<const Value*> unnamed_;  ///< appended, not called d_… yet
};

}  // namespace tg
