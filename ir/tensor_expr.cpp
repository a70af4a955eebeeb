// SPDX-License-Identifier: Apache-2.0
#include "ir/tensor_expr.h"

#include <numeric>

namespace tg {

double TensorExpr::lowest() const { return -info(dtype()).largest; }

std::vector<int64_t> allAxes(int rank) {
  std::vector<int64_t> axes(rank);
  std::iota(axes.begin(), axes.end(), int64_t{0});
  return axes;
}

TensorExpr iota(Builder& builder, const Shape& shape, int axis) {
  return {&builder,
          builder.op(Opcode::iota, {}, {{"axis", Attr::of(axis)}}, {Type::tensor(DType::i32, shape)})};
}

}  // namespace tg
