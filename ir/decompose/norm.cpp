// layer_norm and its gradient, over the last axis.
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

}  // namespace tg::decomposition
