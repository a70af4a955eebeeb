// SPDX-License-Identifier: Apache-2.0
// The gradient room: for every op of both dialects, how its gradient arises or why there is none.
#pragma once

#include <string_view>
#include <vector>

#include "ir/builder.h"
#include "ir/tensor_expr.h"

namespace tg {

/// What a rule sees: a forward op, its results' gradients, and where to build.
struct GradContext {
  const Op& op;
  Builder& builder;
  /// The gradient of each result; null where none flows. At least one is not null.
  const std::vector<Value*>& resultGrads;
  /// Which operands lie on a path to what is differentiated.
  const std::vector<bool>& wanted;

  bool wants(int operand) const { return wanted[operand]; }
  TensorExpr in(int operand) const { return {&builder, op.in(operand)}; }
  TensorExpr result(int index = 0) const { return {&builder, op.result(index)}; }
  /// The gradient of the result; empty where none flows.
  TensorExpr g(int index = 0) const { return {&builder, resultGrads[index]}; }
};

/// One gradient for each operand; empty where none flows or none is wanted. It may still have the
/// broadcast shape of the result: the engine sums it down to the operand's.
using Grads = std::vector<TensorExpr>;
using GradFunction = Grads (*)(const GradContext&);

enum class GradKind : uint8_t {
  rule,               ///< a function of its own
  byScalar,           ///< the gradient column of the scalar table
  decomposes,         ///< the gradient of the decomposition
  notDifferentiable,  ///< nothing flows, for the stated reason
  notInStage,         ///< does not occur where gradients are taken
};
/// "rule", "by scalar", "decomposes", "not differentiable", "not in this stage".
std::string_view name(GradKind kind);

struct GradEntry {
  GradKind kind = GradKind::notInStage;
  /// The formula (rule, by scalar) or the reason (not differentiable, not in this stage), g being
  /// the gradient of the result and dx that of operand x.
  std::string_view text;
  GradFunction apply = nullptr;  ///< rule and by scalar
};

/// The entry of an op. Every op has one.
const GradEntry& gradEntry(Opcode code);

}  // namespace tg
