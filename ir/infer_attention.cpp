// SPDX-License-Identifier: Apache-2.0
// Types of attention and its gradients.
#include <cmath>

#include "ir/infer_context.h"
#include "ir/op_view.h"

namespace tg::inference {

namespace {

/// q [..., T, D], k [..., S, D], v [..., S, Dv]: the constraints all four rows share.
Result<void> checkOperands(const Context& c) {
  for (int i = 1; i < c.op.numOperands(); ++i)
    if (c.in(i).dtype != c.in(0).dtype)
      return c.error(1, fmt::format("element types differ: {} and {}", c.in(0).str(), c.in(i).str()), i);
  int rank = c.in(0).rank();
  for (int i = 0; i < 3; ++i) {
    bool equal = rank >= 2 && c.in(i).rank() == rank;
    for (int axis = 0; equal && axis < rank - 2; ++axis) equal = c.shape(i)[axis] == c.shape(0)[axis];
    if (!equal)
      return c.error(2,
                     fmt::format("q {}, k {} and v {} are not of rank 2 or more with equal leading axes",
                                 c.in(at::attention::q).str(), c.in(at::attention::k).str(),
                                 c.in(at::attention::v).str()),
                     i);
  }
  const Shape &q = c.shape(at::attention::q), &k = c.shape(at::attention::k), &v = c.shape(at::attention::v);
  if (q.back() != k.back())
    return c.error(3, fmt::format("the last extents of q and k differ: {} and {}", q.back(), k.back()), 1);
  if (k[rank - 2] != v[rank - 2])
    return c.error(4, fmt::format("k has {} rows, v has {}", k[rank - 2], v[rank - 2]), 2);
  if (double scale = as::attention(c.op).scale(); !std::isfinite(scale))
    return c.error(5, fmt::format("the scale {} is not finite", scale));
  return {};
}

/// Checks that operand `index` has a type.
Result<void> expectType(const Context& c, int constraint, int index, const Type& wanted) {
  if (c.in(index) == wanted) return {};
  return c.error(
      constraint,
      fmt::format("{} is {}, not {}", c.op.info().slots[index].name, c.in(index).str(), wanted.str()), index);
}

}  // namespace

Result<Types> attention(const Context& c) {
  TG_CHECK(checkOperands(c));
  const Type &q = c.in(at::attention::q), &k = c.in(at::attention::k), &v = c.in(at::attention::v);
  Shape rows = q.shape;
  rows.resize(q.rank() - 1);
  Shape mixed = rows;
  mixed.push(v.shape.back());
  const Type perRow = Type::tensor(q.dtype, rows), output = Type::tensor(q.dtype, mixed);
  const bool whole = c.op.code == Opcode::attention_grad;
  // The text may leave lse out; a builder that names no results gets both.
  if (c.op.code == Opcode::attention) return c.op.results.size() == 1 ? Types{output} : Types{output, perRow};
  if (whole) TG_CHECK(expectType(c, 6, 3, output));
  TG_CHECK(expectType(c, 6, 5, output));
  TG_CHECK(expectType(c, 7, whole ? 4 : 3, perRow));
  if (!whole) TG_CHECK(expectType(c, 7, 4, perRow));
  if (c.op.numOperands() > 6) TG_CHECK(expectType(c, 7, 6, perRow));
  if (whole) return Types{q, k, v};
  return c.op.code == Opcode::attention_grad_q ? Types{q} : Types{k, v};
}

}  // namespace tg::inference
