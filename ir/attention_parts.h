// SPDX-License-Identifier: Apache-2.0
// Which ops compute f32 products from products of f16 halves, and the optional operands of tg.attention and of the parts
// of its gradient: the scales of f32x3, or a bias and a keep.
#pragma once

#include "ir/access.h"
#include "ir/op_view.h"

namespace tg {

/// Whether an op is a product, or an attention, of precision f32x3. A target without matrix units for it multiplies
/// in f32 instead.
inline bool isSplit(const Op& op) {
  const bool multiplies = op.code == Opcode::matmul || op.info().fusion == table::Fusion::attention;
  return multiplies && as::matmul(op).precision() == "f32x3";
}

/// The keys whose bits one number of a keep has.
constexpr int64_t kKeysOfNumber = 16;

/// A row with a smaller log-sum-exp sees no score: biases hide all. Its gradients are 0.
constexpr double kLeastLse = -1e8;

/// The place of the first optional operand.
inline int placeOfMore(const Op& op) {
  if (op.code == Opcode::attention) return at::attention::more;
  return op.code == Opcode::attention_grad ? op.numOperands() : int{at::attention_grad_q::more};
}

/// Scale `index` of an attention in f32x3.
inline Value* scaleOperand(const Op& op, int index) { return op.in(placeOfMore(op) + index); }

/// What is added to the scores; null if nothing is, or a constant 0.
inline Value* biasOf(const Op& op) {
  const int place = placeOfMore(op);
  if (isSplit(op) || place >= op.numOperands()) return nullptr;
  Value* bias = op.in(place);
  return isNumber(*bias, 0) ? nullptr : bias;
}

/// Which weights stay, as bits; null if all do.
inline Value* keepOf(const Op& op) {
  const int place = placeOfMore(op) + 1;
  return isSplit(op) || place >= op.numOperands() ? nullptr : op.in(place);
}

}  // namespace tg
