// SPDX-License-Identifier: Apache-2.0
#include "ir/trace/tensor.h"

#include "ir/infer.h"

namespace tg::nn {

static Shape shapeOfNothing() {
  Shape shape;
  shape.resize(kMaxRank);
  return shape;
}

const Shape& Tensor::shape() const {
  static const Shape nothing = shapeOfNothing();
  return valid() ? type_.shape : nothing;
}

std::vector<int64_t> Axes::of(int rank) const {
  std::vector<int64_t> axes = axes_;
  if (all_)
    for (int axis = 0; axis < rank; ++axis) axes.push_back(axis);
  for (int64_t& axis : axes)
    if (int normal = normalAxis(axis, rank); normal >= 0) axis = normal;
  return axes;
}

}  // namespace tg::nn
