#include "passes/grad_rules/view.h"

#include "ir/infer.h"

namespace tg::grad_rules {

using Ints = std::vector<int64_t>;

static TensorExpr sliced(const TensorExpr& x, const Ints& starts, const Ints& limits) {
  bool whole = true;
  for (int axis = 0; axis < x.rank(); ++axis)
    whole = whole && starts[axis] == 0 && limits[axis] == x.shape()[axis];
  if (whole) return x;
  return {x.builder, x.builder->op(Opcode::slice, {x.value},
                                   {{"starts", Attr::ints(starts)}, {"limits", Attr::ints(limits)}})};
}

static TensorExpr padded(const TensorExpr& x, const Ints& low, const Ints& high) {
  bool none = true;
  for (int axis = 0; axis < x.rank(); ++axis) none = none && low[axis] == 0 && high[axis] == 0;
  if (none) return x;
  return {x.builder,
          x.builder->op(Opcode::pad, {x.value}, {{"low", Attr::ints(low)}, {"high", Attr::ints(high)}})};
}

/// Puts stride-1 zeros between the elements along an axis: n elements become (n-1)·stride + 1. Each
/// element is padded to a group of `stride`, and the zeros after the last one are cut off.
static TensorExpr dilated(const TensorExpr& x, int axis, int64_t stride) {
  Shape shape = x.shape();
  int64_t count = shape[axis], before = 1, after = 1;
  if (stride == 1 || count == 1) return x;
  for (int i = 0; i < axis; ++i) before *= shape[i];
  for (int i = axis + 1; i < shape.rank(); ++i) after *= shape[i];
  TensorExpr groups = padded(x.reshape({before, count, 1, after}), {0, 0, 0, 0}, {0, 0, stride - 1, 0});
  TensorExpr flat = groups.reshape({before, count * stride, after});
  shape[axis] = (count - 1) * stride + 1;
  return sliced(flat, {0, 0, 0}, {before, shape[axis], after}).reshape(shape);
}

Grads reshape(const GradContext& context) { return {context.g().reshape(context.in(0).shape())}; }

Grads transpose(const GradContext& context) {
  Ints perm = context.op.ints("perm");
  Ints inverse(perm.size());
  for (size_t axis = 0; axis < perm.size(); ++axis)
    inverse[normalAxis(perm[axis], static_cast<int>(perm.size()))] = static_cast<int64_t>(axis);
  return {{&context.builder, context.builder.transpose(context.g().value, inverse)}};
}

Grads slice(const GradContext& context) {
  const Shape& whole = context.in(0).shape();
  Ints low = context.op.ints("starts"), strides = context.op.ints("strides"), high;
  TensorExpr g = context.g();
  for (int axis = 0; axis < whole.rank(); ++axis) {
    if (!strides.empty()) g = dilated(g, axis, strides[axis]);
    high.push_back(whole[axis] - low[axis] - g.shape()[axis]);
  }
  return {padded(g, low, high)};
}

Grads pad(const GradContext& context) {
  const Shape& inner = context.in(0).shape();
  Ints starts = context.op.ints("low"), limits = starts;
  for (int axis = 0; axis < inner.rank(); ++axis) limits[axis] += inner[axis];
  return {sliced(context.g(), starts, limits)};
}

Grads concat(const GradContext& context) {
  TensorExpr g = context.g();
  int axis = normalAxis(context.op.intAttr("axis"), g.rank());
  Ints starts(g.rank(), 0), limits(g.shape().begin(), g.shape().end());
  Grads grads;
  for (int i = 0; i < context.op.numOperands(); ++i) {
    limits[axis] = starts[axis] + context.in(i).shape()[axis];
    grads.push_back(context.wants(i) ? sliced(g, starts, limits) : TensorExpr{});
    starts[axis] = limits[axis];
  }
  return grads;
}

Grads broadcastTo(const GradContext& context) { return {context.g().sumTo(context.in(0).shape())}; }

}  // namespace tg::grad_rules
