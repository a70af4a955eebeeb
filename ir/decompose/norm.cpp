// SPDX-License-Identifier: Apache-2.0
// layer_norm, rms_norm and their gradients, over the last axis.
#include "ir/decompose/decompose.h"

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
Results layerNorm(const Composite& composite) {
  TensorExpr x = composite[0], gain = composite[1], bias = composite[2];
  RowStatistics row = rowStatistics(x, composite.op.realAttr("eps"));
  return {row.centred * row.rstd * gain + bias};
}

// With n = (x - mean)·rstd and h = dy·gain: dx = rstd·(h - mean(h) - n·mean(h·n))
Results layerNormGrad(const Composite& composite) {
  TensorExpr x = composite[0], gain = composite[1], dy = composite[2];
  int64_t axis = x.rank() - 1;
  RowStatistics row = rowStatistics(x, composite.op.realAttr("eps"));
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
Results rmsNorm(const Composite& composite) {
  TensorExpr x = composite[0], gain = composite[1];
  return {x * inverseRms(x, composite.op.realAttr("eps")) * gain};
}

// With n = x·s and h = dy·gain: dx = s·(h - n·mean(h·n))
Results rmsNormGrad(const Composite& composite) {
  TensorExpr x = composite[0], gain = composite[1], dy = composite[2];
  TensorExpr s = inverseRms(x, composite.op.realAttr("eps"));
  TensorExpr n = x * s;
  TensorExpr h = dy * gain;
  TensorExpr tilt = (h * n).mean({x.rank() - 1}, true);
  return {s * (h - n * tilt), s};
}

}  // namespace tg::decomposition
