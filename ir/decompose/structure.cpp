// SPDX-License-Identifier: Apache-2.0
// Rearrangements of elements: composites of views, of which only index arithmetic remains in kernels, and the causal
// selection.
#include "ir/decompose/decompose.h"
#include "ir/infer.h"
#include "ir/op_view.h"

namespace tg::decomposition {

Results expand(at::swap_axes, const Composite& composite) {
  TensorExpr x = composite[0];
  std::vector<int64_t> perm = allAxes(x.rank());
  std::swap(perm[static_cast<size_t>(normalAxis(as::swap_axes(composite.op).axis0(), x.rank()))],
            perm[static_cast<size_t>(normalAxis(as::swap_axes(composite.op).axis1(), x.rank()))]);
  return {x.transpose(perm)};
}

// Each operand gets an axis of extent 1, along which they are concatenated
Results expand(at::stack, const Composite& composite) {
  const Shape& shape = composite[0].shape();
  int at = normalAxis(as::stack(composite.op).axis(), shape.rank() + 1);
  Shape one;
  for (int axis = 0; axis <= shape.rank(); ++axis)
    one.push(axis == at ? 1 : shape[axis < at ? axis : axis - 1]);
  std::vector<Value*> parts;
  for (Value* operand : composite.operands) parts.push_back(composite.builder.reshape(operand, one));
  return {{&composite.builder, composite.builder.op(Opcode::concat, parts, {{"axis", Attr::of(at)}})}};
}

Results expand(at::split, const Composite& composite) {
  TensorExpr x = composite[0];
  int axis = normalAxis(as::split(composite.op).axis(), x.rank());
  int64_t sections = as::split(composite.op).sections();
  std::vector<int64_t> sizes = as::split(composite.op).sizes();
  if (sections) sizes.assign(static_cast<size_t>(sections), x.shape()[axis] / sections);
  Results out;
  int64_t start = 0;
  for (int64_t size : sizes) {
    out.push_back(x.part(axis, start, start + size));
    start += size;
  }
  return out;
}

// Each repeated axis of extent n becomes 1xn, is broadcast to (times)xn, and the two are joined.
Results expand(at::tile, const Composite& composite) {
  TensorExpr x = composite[0];
  std::vector<int64_t> repeats = as::tile(composite.op).repeats();
  int rank = static_cast<int>(repeats.size()), added = rank - x.rank();
  Shape apart, repeated, joined;
  for (int axis = 0; axis < rank; ++axis) {
    int64_t extent = axis < added ? 1 : x.shape()[axis - added], times = repeats[static_cast<size_t>(axis)];
    if (times > 1) apart.push(1), repeated.push(times);
    if (extent > 1 || times == 1) apart.push(extent), repeated.push(extent);
    joined.push(extent * times);
  }
  return {x.reshape(apart).broadcastTo(repeated).reshape(joined)};
}

Results expand(at::where_causal, const Composite& composite) {
  TensorExpr x = composite[0];
  return {select(causalMask(x), x, as::where_causal(composite.op).fill())};
}

}  // namespace tg::decomposition
