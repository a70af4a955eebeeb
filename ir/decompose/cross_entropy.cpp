// SPDX-License-Identifier: Apache-2.0
// cross_entropy and its gradient.
#include "ir/cross_entropy.h"

#include "ir/decompose/decompose.h"
#include "ir/op_view.h"

namespace tg {

std::optional<int64_t> ignoredTarget(const Op& crossEntropy) {
  const Attr attr = crossEntropy.attr("ignore_index");
  if (attr.kind != Attr::Kind::integer) return std::nullopt;
  return attr.integer;
}

TensorExpr countedRows(const Op& crossEntropy, const std::vector<TensorExpr>& targets, DType dtype) {
  const double ignored = static_cast<double>(*ignoredTarget(crossEntropy));
  std::optional<TensorExpr> skipped;
  int64_t rows = 0;
  for (const TensorExpr& each : targets) {
    const TensorExpr own = eq(each, ignored).cast(dtype).sum(allAxes(each.rank()));
    skipped = skipped ? *skipped + own : own;
    rows += each.value->type.elements();
  }
  return max(static_cast<double>(rows) - *skipped, 1.0);
}

namespace decomposition {

/// The targets with a last axis of 1, to broadcast along the classes; ignored targets become the first id beyond the
/// classes.
static TensorExpr asColumn(const Composite& composite) {
  TensorExpr targets = composite[at::cross_entropy::targets];
  const int64_t classes = composite[at::cross_entropy::logits].shape().back();
  if (std::optional<int64_t> ignored = ignoredTarget(composite.op))
    targets = select(eq(targets, static_cast<double>(*ignored)), static_cast<double>(classes), targets);
  Shape shape = targets.shape();
  shape.push(1);
  return targets.reshape(shape);
}

/// True at each row's target class, and nowhere in a row whose target is no class.
static TensorExpr isTarget(const TensorExpr& logits, const TensorExpr& column) {
  return eq(iota(*logits.builder, {logits.shape().back()}, 0).cast(column.dtype()), column);
}

/// x in rows whose target is a class, else 0.
static TensorExpr whereInside(const TensorExpr& column, int64_t classes, const TensorExpr& x) {
  const double outside = static_cast<double>(classes);
  return select(lt(select(ge(column, 0.0), column, outside), outside), x, 0.0);
}

/// The expected distribution q of a row: `hit` for the target class, `other` for the rest.
struct Expectation {
  double hit = 1, other = 0;
  explicit Expectation(const Composite& composite) {
    const double smoothing = as::cross_entropy(composite.op).label_smoothing();
    other = smoothing / static_cast<double>(composite[0].shape().back());
    hit = 1 - smoothing + other;
  }
};

// Σ over classes of q·(log Σ e^z - z), then the reduction over the rows that are not ignored
Results expand(at::cross_entropy, const Composite& composite) {
  TensorExpr logits = composite[0], column = asColumn(composite);
  int64_t axis = logits.rank() - 1;
  TensorExpr z = shifted(logits, axis);
  TensorExpr surprise = log(exp(z).sum({axis}, true)) - z;
  TensorExpr hit = isTarget(logits, column);
  const Expectation q(composite);
  TensorExpr terms = q.other == 0 ? select(hit, surprise, 0.0)
                                  : whereInside(column, logits.shape().back(),
                                                select(hit, q.hit * surprise, q.other * surprise));
  TensorExpr rows = terms.sum({axis});
  std::string reduction = as::cross_entropy(composite.op).reduction();
  if (reduction == "none" || rows.rank() == 0) return {rows};
  const std::vector<int64_t> all = allAxes(rows.rank());
  if (reduction == "sum") return {rows.sum(all)};
  if (!ignoredTarget(composite.op)) return {rows.mean(all)};
  return {rows.sum(all) / countedRows(composite.op, {composite[at::cross_entropy::targets]}, rows.dtype())};
}

// (softmax(logits) - q)·dy, and 0 in rows whose target is no class, whatever their logits are. Each row divides once,
// by its sum.
Results expand(at::cross_entropy_grad, const Composite& composite) {
  TensorExpr logits = composite[at::cross_entropy_grad::logits], dy = composite[at::cross_entropy_grad::dy],
             column = asColumn(composite);
  int64_t axis = logits.rank() - 1;
  TensorExpr e = exp(shifted(logits, axis));
  TensorExpr hit = isTarget(logits, column);
  TensorExpr weight = dy.rank() > 0 ? dy.reshape(column.shape()) : dy;
  const Expectation q(composite);
  TensorExpr p = e * (weight / e.sum({axis}, true));
  TensorExpr gradient = select(hit, p - q.hit * weight, q.other == 0 ? p : p - q.other * weight);
  return {whereInside(column, logits.shape().back(), gradient)};
}

}  // namespace decomposition
}  // namespace tg
