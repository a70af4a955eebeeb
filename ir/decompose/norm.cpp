// SPDX-License-Identifier: Apache-2.0
// layer_norm, rms_norm and their gradients, over the last axis.
#include "ir/decompose/decompose.h"

#include "ir/op_view.h"

namespace tg::decomposition {

namespace {
struct RowStatistics {
  TensorExpr mean, centred, rstd;  ///< rstd = 1/√(var + eps)
};
}  // namespace

static RowStatistics rowStatistics(const TensorExpr& x, double eps) {
  int64_t axis = x.rank() - 1;
  TensorExpr mean = x.mean({axis}, true);
  TensorExpr centred = x - mean;
  TensorExpr variance = square(centred).mean({axis}, true);
  return {mean, centred, rsqrt(variance + eps)};
}

// (x - mean)·rstd·gain + bias
Results expand(at::layer_norm, const Composite& composite) {
  TensorExpr x = composite[at::layer_norm::x], gain = composite[at::layer_norm::gain],
             bias = composite[at::layer_norm::bias];
  RowStatistics row = rowStatistics(x, as::layer_norm(composite.op).eps());
  return {row.centred * row.rstd * gain + bias};
}

// With n = (x - mean)·rstd and h = dy·gain: dx = rstd·(h - mean(h) - n·mean(h·n))
Results expand(at::layer_norm_grad, const Composite& composite) {
  TensorExpr x = composite[at::layer_norm_grad::x], gain = composite[at::layer_norm_grad::gain],
             dy = composite[at::layer_norm_grad::dy];
  int64_t axis = x.rank() - 1;
  RowStatistics row = rowStatistics(x, as::layer_norm_grad(composite.op).eps());
  TensorExpr n = row.centred * row.rstd;
  TensorExpr h = dy * gain;
  TensorExpr level = h.mean({axis}, true);
  TensorExpr tilt = (h * n).mean({axis}, true);
  TensorExpr dx = row.rstd * (h - level - n * tilt);
  return {dx, row.mean, row.rstd};
}

/// 1/√(mean(x²) + eps) of each row
static TensorExpr inverseRms(const TensorExpr& x, double eps) {
  return rsqrt(square(x).mean({x.rank() - 1}, true) + eps);
}

// x·s·gain with s = 1/√(mean(x²) + eps)
Results expand(at::rms_norm, const Composite& composite) {
  TensorExpr x = composite[at::rms_norm::x], gain = composite[at::rms_norm::gain];
  return {x * inverseRms(x, as::rms_norm(composite.op).eps()) * gain};
}

// With n = x·s and h = dy·gain: dx = s·(h - n·mean(h·n))
Results expand(at::rms_norm_grad, const Composite& composite) {
  TensorExpr x = composite[at::rms_norm_grad::x], gain = composite[at::rms_norm_grad::gain],
             dy = composite[at::rms_norm_grad::dy];
  TensorExpr s = inverseRms(x, as::rms_norm_grad(composite.op).eps());
  TensorExpr n = x * s;
  TensorExpr h = dy * gain;
  TensorExpr tilt = (h * n).mean({x.rank() - 1}, true);
  return {s * (h - n * tilt), s};
}

}  // namespace tg::decomposition
