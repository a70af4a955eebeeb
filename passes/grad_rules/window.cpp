// SPDX-License-Identifier: Apache-2.0
// Gradients of windows. The three convolution ops are closed under differentiation: each is linear in both operands, and
// its gradients are the other two.
#include "passes/grad_rules/entries.h"

#include "ir/op_view.h"

namespace tg::grad_rules {

/// H and W of an NxCxHxW value, as an attribute of this name.
static AttrList imageSize(const char* name, const TensorExpr& x) {
  return {{name, Attr::ints({x.shape()[2], x.shape()[3]})}};
}

/// conv2d_grad_input(w, dy) for an x like `image`; conv2d_grad_weight(x, dy) for a w like `kernels`.
static TensorExpr toInput(const GradContext& c, const TensorExpr& w, const TensorExpr& dy,
                          const TensorExpr& image) {
  return c.sibling(Opcode::conv2d_grad_input, {w, dy}, imageSize("input_size", image));
}
static TensorExpr toWeight(const GradContext& c, const TensorExpr& x, const TensorExpr& dy,
                           const TensorExpr& kernels) {
  return c.sibling(Opcode::conv2d_grad_weight, {x, dy}, imageSize("kernel_size", kernels));
}

static Grads unfold(const GradContext& c) {
  int64_t axis = as::unfold(c.op).axis();
  const Shape& x = c.in(0).shape();
  int64_t extent = x[static_cast<int>(axis < 0 ? axis + x.rank() : axis)];
  return {c.sibling(Opcode::fold, {c.g()}, {{"extent", Attr::of(extent)}})};
}

static Grads fold(const GradContext& c) {
  return {c.sibling(Opcode::unfold, {c.g()}, {{"size", Attr::of(c.in(0).shape().back())}})};
}

static Grads conv2d(const GradContext& c) {
  Grads grads(2);
  if (c.wants(at::conv2d::x)) grads[0] = toInput(c, c.in(at::conv2d::w), c.g(), c.in(at::conv2d::x));
  if (c.wants(at::conv2d::w)) grads[1] = toWeight(c, c.in(at::conv2d::x), c.g(), c.in(at::conv2d::w));
  return grads;
}

static Grads conv2dGradInput(const GradContext& c) {
  Grads grads(2);
  if (c.wants(at::conv2d_grad_input::w))
    grads[0] = toWeight(c, c.g(), c.in(at::conv2d_grad_input::dy), c.in(at::conv2d_grad_input::w));
  if (c.wants(at::conv2d_grad_input::dy)) grads[1] = c.sibling(Opcode::conv2d, {c.g(), c.in(0)});
  return grads;
}

static Grads conv2dGradWeight(const GradContext& c) {
  Grads grads(2);
  if (c.wants(at::conv2d_grad_weight::x))
    grads[0] = toInput(c, c.g(), c.in(at::conv2d_grad_weight::dy), c.in(at::conv2d_grad_weight::x));
  if (c.wants(at::conv2d_grad_weight::dy)) grads[1] = c.sibling(Opcode::conv2d, {c.in(0), c.g()});
  return grads;
}

static Grads convTranspose2d(const GradContext& c) {
  Grads grads(2);
  if (c.wants(at::conv_transpose2d::x))
    grads[0] = c.sibling(Opcode::conv2d, {c.g(), c.in(at::conv_transpose2d::w)});
  if (c.wants(at::conv_transpose2d::w))
    grads[1] = toWeight(c, c.g(), c.in(at::conv_transpose2d::x), c.in(at::conv_transpose2d::w));
  return grads;
}

static Grads maxPool2d(const GradContext& c) {
  return {c.sibling(Opcode::max_pool2d_grad, {c.in(0), c.g()})};
}

static Grads avgPool2d(const GradContext& c) {
  return {c.sibling(Opcode::avg_pool2d_grad, {c.g()}, imageSize("input_size", c.in(0)))};
}

static Grads avgPool2dGrad(const GradContext& c) { return {c.sibling(Opcode::avg_pool2d, {c.g()})}; }

GradEntry gradient(at::unfold) { return rule("dx = fold(g)", unfold); }
GradEntry gradient(at::fold) { return rule("dp = unfold(g)", fold); }
GradEntry gradient(at::conv2d) {
  return rule("dx = conv2d_grad_input(w, g), dw = conv2d_grad_weight(x, g)", conv2d);
}
GradEntry gradient(at::conv2d_grad_input) {
  return rule("dw = conv2d_grad_weight(g, dy), ddy = conv2d(g, w)", conv2dGradInput);
}
GradEntry gradient(at::conv2d_grad_weight) {
  return rule("dx = conv2d_grad_input(g, dy), ddy = conv2d(x, g)", conv2dGradWeight);
}
GradEntry gradient(at::conv_transpose2d) {
  return rule("dx = conv2d(g, w), dw = conv2d_grad_weight(g, x)", convTranspose2d);
}
GradEntry gradient(at::max_pool2d) { return rule("dx = max_pool2d_grad(x, g)", maxPool2d); }
GradEntry gradient(at::max_pool2d_grad) { return decomposes(); }
GradEntry gradient(at::avg_pool2d) { return rule("dx = avg_pool2d_grad(g)", avgPool2d); }
GradEntry gradient(at::avg_pool2d_grad) { return rule("ddy = avg_pool2d(g)", avgPool2dGrad); }
GradEntry gradient(at::upsample_nearest2d) { return decomposes(); }

}  // namespace tg::grad_rules
