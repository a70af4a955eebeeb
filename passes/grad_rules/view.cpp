// SPDX-License-Identifier: Apache-2.0
// Gradients of views, of concat and of ops derived from them: each is the inverse view.
#include "passes/grad_rules/entries.h"

#include "ir/infer.h"
#include "ir/op_view.h"

namespace tg::grad_rules {

using Ints = std::vector<int64_t>;

static Grads reshape(const GradContext& context) { return {context.g().reshape(context.in(0).shape())}; }

static Grads transpose(const GradContext& context) {
  Ints perm = as::transpose(context.op).perm();
  Ints inverse(perm.size());
  for (size_t axis = 0; axis < perm.size(); ++axis)
    inverse[normalAxis(perm[axis], static_cast<int>(perm.size()))] = static_cast<int64_t>(axis);
  return {context.g().transpose(inverse)};
}

static Grads slice(const GradContext& context) {
  const Shape& whole = context.in(0).shape();
  Ints low = as::slice(context.op).starts(), interior = as::slice(context.op).strides(), high;
  TensorExpr g = context.g();
  for (int64_t& stride : interior) --stride;
  for (int axis = 0; axis < whole.rank(); ++axis) {
    int64_t stride = interior.empty() ? 1 : interior[axis] + 1;
    high.push_back(whole[axis] - low[axis] - (g.shape()[axis] - 1) * stride - 1);
  }
  return {{&context.builder, context.builder.pad(g.value, low, high, 0, interior)}};
}

static Grads pad(const GradContext& context) {
  const Shape& inner = context.in(0).shape();
  Ints starts = as::pad(context.op).low(), limits = starts, strides = as::pad(context.op).interior();
  for (int64_t& stride : strides) ++stride;
  for (int axis = 0; axis < inner.rank(); ++axis)
    limits[axis] += (inner[axis] - 1) * (strides.empty() ? 1 : strides[axis]) + 1;
  return {{&context.builder, context.builder.slice(context.g().value, starts, limits, strides)}};
}

static Grads concat(const GradContext& context) {
  TensorExpr g = context.g();
  int axis = normalAxis(as::concat(context.op).axis(), g.rank());
  Grads grads;
  int64_t start = 0;
  for (int i = 0; i < context.op.numOperands(); ++i) {
    const int64_t end = start + context.in(i).shape()[axis];
    grads.push_back(context.wants(i) ? g.part(axis, start, end) : TensorExpr{});
    start = end;
  }
  return grads;
}

static Grads flip(const GradContext& context) { return {context.sibling(Opcode::flip, {context.g()})}; }

static Grads swapAxes(const GradContext& context) {
  return {context.sibling(Opcode::swap_axes, {context.g()})};
}

static Grads split(const GradContext& context) {
  Builder& builder = context.builder;
  std::vector<TensorExpr> parts;
  for (size_t i = 0; i < context.op.results.size(); ++i) {
    const Type& type = context.op.results[i]->type;
    Value* g = context.resultGrads[i];
    // If no gradient reaches this part, it is zeros.
    if (!g) g = builder.broadcastTo(builder.constant(0, Type::tensor(type.dtype, {})), type.shape);
    parts.push_back({&builder, g});
  }
  return {context.sibling(Opcode::concat, parts)};
}

static Grads whereCausal(const GradContext& context) {
  return {context.sibling(Opcode::where_causal, {context.g()}, {{"fill", Attr::of(0.0)}})};
}

static Grads broadcastTo(const GradContext& context) { return {context.g().sumTo(context.in(0).shape())}; }

GradEntry gradient(at::reshape) { return rule("dx = g in x's shape", reshape); }
GradEntry gradient(at::transpose) { return rule("dx = g transposed by the inverse of perm", transpose); }
GradEntry gradient(at::slice) {
  return rule("dx = g padded with zeros, stride-1 of them between its elements", slice);
}
GradEntry gradient(at::pad) {
  return rule("dx = the slice of g that x fills, with stride interior + 1", pad);
}
GradEntry gradient(at::concat) { return rule("dx_i = the slice of g that x_i fills", concat); }
GradEntry gradient(at::broadcast_to) { return rule("dx = the sum of g over the repeated axes", broadcastTo); }
GradEntry gradient(at::flip) { return rule("dx = g flipped along the same axes", flip); }
GradEntry gradient(at::swap_axes) { return rule("dx = g with the same axes exchanged", swapAxes); }
GradEntry gradient(at::split) { return rule("dx = concat(g_1, g_2, …) along the axis", split); }
GradEntry gradient(at::where_causal) { return rule("dx = where_causal(g) with fill 0", whereCausal); }
GradEntry gradient(at::stack) { return decomposes(); }
GradEntry gradient(at::tile) { return decomposes(); }

}  // namespace tg::grad_rules
