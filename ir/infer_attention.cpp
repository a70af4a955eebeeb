// SPDX-License-Identifier: Apache-2.0
// Types of attention and its gradients.
#include <algorithm>
#include <cmath>

#include "ir/attention_parts.h"
#include "ir/infer.h"
#include "ir/infer_context.h"
#include "ir/op_view.h"
#include "ir/text.h"

namespace tg::inference {

namespace {

/// Checks the constraints that all four ops share: q [..., T, D], k [..., S, D], v [..., S, Dv].
Result<void> checkOperands(const Context& c) {
  for (int i = 1; i < std::min(c.op.numOperands(), placeOfMore(c.op)); ++i)
    if (c.in(i).dtype != c.in(0).dtype)
      return c.errorAt(i, 1, "element types differ: {} and {}", c.in(0).str(), c.in(i).str());
  int rank = c.in(0).rank();
  for (int i = 0; i < 3; ++i) {
    bool equal = rank >= 2 && c.in(i).rank() == rank;
    for (int axis = 0; equal && axis < rank - 2; ++axis) equal = c.shape(i)[axis] == c.shape(0)[axis];
    if (!equal)
      return c.errorAt(i, 2, "q {}, k {} and v {} are not of rank 2 or more with equal leading axes",
                       c.in(at::attention::q).str(), c.in(at::attention::k).str(),
                       c.in(at::attention::v).str());
  }
  const Shape &q = c.shape(at::attention::q), &k = c.shape(at::attention::k), &v = c.shape(at::attention::v);
  if (q.back() != k.back())
    return c.errorAt(1, 3, "the last extents of q and k differ: {} and {}", q.back(), k.back());
  if (k[rank - 2] != v[rank - 2])
    return c.errorAt(2, 4, "k has {}, v has {}", countText(k[rank - 2], "row"), v[rank - 2]);
  if (double scale = as::attention(c.op).scale(); !std::isfinite(scale))
    return c.error(5, "the scale {} is not finite", scale);
  return {};
}

/// Checks that operand `index` has the type `wanted`.
Result<void> expectType(const Context& c, int constraint, int index, const Type& wanted) {
  if (c.in(index) == wanted) return {};
  return c.errorAt(index, constraint, "{} is {}, not {}", c.op.info().slots[index].name, c.in(index).str(),
                   wanted.str());
}

/// Checks the operands from `first` on: with f32x3 `count` scales (the constraint numbered `scales`), else a bias and a keep
/// (scales + 1); and p (scales + 2).
Result<void> checkMore(const Context& c, int scales, int first, int count) {
  const int given = c.op.numOperands() - first;
  const double p = as::attention(c.op).p();
  if (!(p >= 0 && p < 1) || (p != 0 && (isSplit(c.op) || given < 2)))
    return c.error(scales + 2, "p = {} is not in [0, 1), or has no keep", p);
  if (!isSplit(c.op)) {
    if (given > 2) return c.error(scales + 1, "{} operands follow, not a bias and a keep", given);
    for (int i = first; i < c.op.numOperands(); ++i)
      if (c.in(i).dtype != DType::f32) return c.errorAt(i, scales + 1, "{} is not of f32", c.in(i).str());
    Shape shape = c.shape(at::attention::q);
    const Shape& k = c.shape(at::attention::k);
    int64_t& keys = shape[shape.rank() - 1];
    keys = k[k.rank() - 2];
    auto misfit = [&](int index, std::string_view way) {
      return c.errorAt(index, scales + 1, "{} {} {}", c.in(index).str(), way,
                       Type::tensor(DType::f32, shape).str());
    };
    if (given > 0 && broadcast(c.shape(first), shape) != shape)
      return misfit(first, "does not broadcast to the scores");
    if (given > 1 && keys % kKeysOfNumber != 0)
      return c.errorAt(first + 1, scales + 1, "{} keys are no multiple of {}", keys, kKeysOfNumber);
    keys /= kKeysOfNumber;
    if (given > 1 && c.shape(first + 1) != shape) return misfit(first + 1, "is not a keep, which is");
    return {};
  }
  if (given != count)
    return c.error(scales, "precision = {} has {} scales, not {}", as::attention(c.op).precision(), count,
                   given);
  for (int i = first; i < c.op.numOperands(); ++i)
    if (c.in(i) != Type::tensor(DType::f32, {}))
      return c.errorAt(i, scales, "a scale is {}, not tensor<f32>", c.in(i).str());
  return {};
}

/// The type of one number for each row of q, such as the row statistics.
Type perRow(const Context& c) {
  Shape rows = c.shape(at::attention::q);
  rows.resize(rows.rank() - 1);
  return Type::tensor(c.in(at::attention::q).dtype, rows);
}

/// The type of attention's result: the rows of q with the last extent of v.
Type output(const Context& c) {
  Type type = perRow(c);
  type.shape.push(c.shape(at::attention::v).back());
  return type;
}

/// Checks the operands of the ops for parts of the gradient, which take lse and delta.
Result<void> checkPart(const Context& c) {
  TG_CHECK(checkOperands(c));
  TG_CHECK(expectType(c, 6, at::attention_grad_q::dout, output(c)));
  TG_CHECK(expectType(c, 7, at::attention_grad_q::lse, perRow(c)));
  TG_CHECK(expectType(c, 7, at::attention_grad_q::delta, perRow(c)));
  return checkMore(c, 8, at::attention_grad_q::more, 4);
}

}  // namespace

// Without lse if the text leaves it out; a builder that declares no results gets both.
Result<Types> types(at::attention, const Context& c) {
  TG_CHECK(checkOperands(c));
  TG_CHECK(checkMore(c, 6, at::attention::more, 3));
  return c.op.results.size() == 1 ? Types{output(c)} : Types{output(c), perRow(c)};
}

Result<Types> types(at::attention_grad, const Context& c) {
  using Row = at::attention_grad;
  TG_CHECK(checkOperands(c));
  TG_CHECK(expectType(c, 6, Row::o, output(c)));
  TG_CHECK(expectType(c, 6, Row::dout, output(c)));
  TG_CHECK(expectType(c, 7, Row::lse, perRow(c)));
  if (as::attention_grad(c.op).dlse()) TG_CHECK(expectType(c, 7, Row::dlse, perRow(c)));
  return Types{c.in(Row::q), c.in(Row::k), c.in(Row::v)};
}

Result<Types> types(at::attention_grad_q, const Context& c) {
  TG_CHECK(checkPart(c));
  return Types{c.in(at::attention_grad_q::q)};
}

Result<Types> types(at::attention_grad_kv, const Context& c) {
  TG_CHECK(checkPart(c));
  return Types{c.in(at::attention_grad_kv::k), c.in(at::attention_grad_kv::v)};
}

}  // namespace tg::inference
