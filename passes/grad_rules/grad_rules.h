// SPDX-License-Identifier: Apache-2.0
// The table of gradient rules: for every op of both dialects, how its gradient is computed, or why it has none.
#pragma once

#include <string_view>
#include <vector>

#include "ir/builder.h"
#include "ir/tensor_expr.h"

namespace tg {

/// The input of a rule: a forward op, the gradients of its results, and where to build.
struct GradContext {
  const Op& op;
  Builder& builder;
  /// The gradient of each result; null where none flows. At least one is not null.
  const std::vector<Value*>& resultGrads;
  /// For each operand, whether a value whose gradient is wanted leads to it.
  const std::vector<bool>& wanted;

  bool wants(int operand) const { return wanted[operand]; }
  TensorExpr in(int operand) const { return wide(op.in(operand)); }
  TensorExpr result(int index = 0) const { return wide(op.result(index)); }
  /// The gradient of a result; empty where none flows.
  TensorExpr g(int index = 0) const { return wide(resultGrads[index]); }
  /// The first result of an op on these operands. It has the attributes given, and the others of the forward op that
  /// its row has too.
  TensorExpr sibling(Opcode code, const std::vector<TensorExpr>& operands, AttrList attrs = {}) const;

 private:
  /// A 16-bit value in f32, so that a rule rounds once, at its end; as it is if the op only moves elements.
  TensorExpr wide(Value* value) const {
    const bool moves = op.info().fusion == table::Fusion::view;
    return {&builder, value && !moves ? builder.cast(value, computeType(value->type.dtype)) : value};
  }
};

/// One gradient for each operand; empty where none flows or none is wanted. It may still have the broadcast shape of the
/// result, and be f32 for a 16-bit operand: the engine sums it down to the operand's shape and rounds it to its type.
using Grads = std::vector<TensorExpr>;
using GradFunction = Grads (*)(const GradContext&);

enum class GradKind : uint8_t {
  rule,               ///< a function of its own
  byScalar,           ///< the gradient column of the scalar table
  decomposes,         ///< the gradient of the decomposition
  notDifferentiable,  ///< nothing flows, for the stated reason
  notInStage,         ///< the op does not occur in the stage where gradients are taken
};
/// "rule", "by scalar", "decomposes", "not differentiable", "not in this stage".
std::string_view name(GradKind kind);

struct GradEntry {
  GradKind kind = GradKind::notInStage;
  /// The formula (rule, by scalar) or the reason (not differentiable, not in this stage). In formulas g is the gradient
  /// of the result, r the result, and dx the gradient of operand x.
  std::string_view text;
  GradFunction apply = nullptr;  ///< only for rule and by scalar
};

/// The entry of an op. Every op has one.
const GradEntry& gradEntry(Opcode code);

}  // namespace tg
