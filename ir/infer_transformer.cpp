// SPDX-License-Identifier: Apache-2.0
// Types of cross_entropy, rms_norm and rope, and of their gradients.
#include <cmath>

#include "ir/infer_context.h"
#include "ir/op_view.h"

namespace tg::inference {

/// Checks the shapes and attributes that cross_entropy and its gradient share; the attributes' constraints are
/// numbered from `first`.
static Result<void> checkTargets(const Context& c, int first) {
  Shape rows = c.shape(0);
  if (rows.rank() == 0) return c.errorAt(0, 1, "logits have rank 0");
  rows.resize(rows.rank() - 1);
  if (!(c.shape(at::cross_entropy::targets) == rows))
    return c.errorAt(1, 1, "targets {} do not match logits {}", c.in(at::cross_entropy::targets).str(),
                     c.in(at::cross_entropy::logits).str());
  const Attr ignored = c.op.attr("ignore_index");
  const bool none = ignored.kind == Attr::Kind::word && ignored.text == "none";
  const DType ids = c.in(at::cross_entropy::targets).dtype;
  const bool fits = ignored.kind == Attr::Kind::integer && represents(Operand::literal(ignored.integer), ids);
  if (!none && !fits)
    return c.error(first, "ignore_index = {} is not a value of type {}", ignored.str(), name(ids));
  const double smoothing = as::cross_entropy(c.op).label_smoothing();
  if (!(smoothing >= 0 && smoothing < 1))
    return c.error(first + 1, "label_smoothing = {} is not in [0, 1)", formatReal(smoothing));
  return {};
}

Result<Types> types(at::cross_entropy, const Context& c) {
  TG_CHECK(checkTargets(c, 2));
  bool none = as::cross_entropy(c.op).reduction() == "none";
  return Types{Type::tensor(c.in(at::cross_entropy::logits).dtype,
                            none ? c.shape(at::cross_entropy::targets) : Shape{})};
}

Result<Types> types(at::cross_entropy_grad, const Context& c) {
  TG_CHECK(checkTargets(c, 3));
  if (c.in(at::cross_entropy_grad::dy).rank() != 0 &&
      !(c.shape(at::cross_entropy_grad::dy) == c.shape(at::cross_entropy_grad::targets)))
    return c.errorAt(2, 2, "dy is {}, neither rank 0 nor of the targets' shape",
                     c.in(at::cross_entropy_grad::dy).str());
  return Types{c.in(0)};
}

static Result<void> checkGain(const Context& c) {
  const Type& x = c.in(0);
  if (x.rank() >= 1 && c.shape(at::layer_norm::gain) == Shape{x.shape.back()}) return {};
  return c.errorAt(1, 1, "gain is {}, not a vector of the last extent of {}",
                   c.in(at::layer_norm::gain).str(), x.str());
}

Result<Types> types(at::rms_norm, const Context& c) {
  TG_CHECK(checkGain(c));
  TG_CHECK(c.mayBeEps(as::rms_norm(c.op).eps(), 2));
  return Types{c.in(0)};
}

Result<Types> types(at::rms_norm_grad, const Context& c) {
  TG_CHECK(checkGain(c));
  const Type& x = c.in(0);
  TG_CHECK(c.isLikeFirst(at::rms_norm_grad::dy, 2));
  TG_CHECK(c.mayBeEps(as::rms_norm_grad(c.op).eps(), 3));
  Shape rows = x.shape;
  rows[x.rank() - 1] = 1;
  return Types{x, Type::tensor(x.dtype, rows)};
}

Result<Types> types(at::rope, const Context& c) {
  const Type &q = c.in(at::rope::q), &k = c.in(at::rope::k);
  for (int i = 0; i < 2; ++i)
    if (c.in(i).rank() < 2 || c.shape(i).back() % 2 != 0)
      return c.errorAt(i, 1, "{} is {}, not of rank 2 or more with an even last extent",
                       c.op.info().slots[i].name, c.in(i).str());
  if (q.dtype != k.dtype || q.shape.back() != k.shape.back() ||
      q.shape[q.rank() - 2] != k.shape[k.rank() - 2])
    return c.errorAt(1, 2, "element types or last two extents differ: {} and {}", q.str(), k.str());
  const double base = as::rope(c.op).base();
  if (!(base > 0) || !std::isfinite(base))
    return c.error(3, "base = {} is not positive and finite", formatReal(base));
  // Such positions are exact in f32.
  if (const int64_t offset = as::rope(c.op).offset(); offset < 0 || offset > 1 << 24)
    return c.error(4, "offset = {} is not in 0 … {}", offset, 1 << 24);
  return Types{q, k};
}

Result<Types> types(at::causal_mask, const Context& c) {
  TG_TRY(Type type, c.declared());
  if (type.dtype != DType::i1 || type.rank() < 2)
    return c.error(1, "a mask is i1 of rank 2 or more, not {}", type.str());
  return Types{type};
}

}  // namespace tg::inference
