// SPDX-License-Identifier: Apache-2.0
// Losses and normalizations that are composed of other operations.

#include <cmath>
#include <numeric>

#include "ir/trace/ops.h"
#include "ir/trace/recorder.h"

namespace tg::nn {

Tensor mseLoss(const Arg& x, const Arg& y, Reduction reduction) {
  CallSite here(x.site());
  return reduced(square(x - y), reduction);
}

Tensor huberLoss(const Arg& x, const Arg& y, double delta, Reduction reduction) {
  CallSite here(x.site());
  if (!(delta > 0 && std::isfinite(delta)))
    return Recorder::fail(x.site(), "huberLoss: delta is positive and finite, not {}", delta);
  Tensor d = abs(x - y);
  return reduced(where(d <= delta, square(d) * 0.5, (d - 0.5 * delta) * delta), reduction);
}

Tensor bceLoss(const Arg& p, const Arg& t, Reduction reduction) {
  CallSite here(p.site());
  return reduced(-(t * max(log(p), -100) + (1 - t) * max(log(1 - p), -100)), reduction);
}

Tensor bceWithLogits(const Arg& x, const Arg& t, Reduction reduction) {
  CallSite here(x.site());
  return reduced(softplus(x) - x * t, reduction);
}

Tensor klDiv(const Arg& logProbs, const Arg& t, Reduction reduction) {
  CallSite here(logProbs.site());
  Tensor some = t > 0;
  // Where t is not positive, the logarithm is taken of 1 instead and discarded, so that its gradient is not 0·inf.
  return reduced(where(some, t * (log(where(some, t, 1)) - logProbs), 0), reduction);
}

std::optional<Tensor> refusedEps(std::string_view user, const Arg& x, double eps) {
  if (eps >= 0 && std::isfinite(eps)) return {};
  return Recorder::fail(x.site(), "{}: eps is 0 or more and finite, not {}", user, eps);
}

Tensor groupNorm(const Arg& x, int64_t groups, const Arg& gain, const Arg& bias, double eps) {
  CallSite here(x.site());
  if (!x.tensor().valid()) return x.tensor();
  const int rank = x.rank();
  if (rank < 2 || groups < 1 || x.shape()[1] % groups)
    return Recorder::fail(x.site(), "groupNorm: {} does not split into {} groups along axis 1",
                          Type::tensor(x.tensor().dtype(), x.shape()).str(), groups);
  if (auto refused = refusedEps("groupNorm", x, eps)) return *refused;
  std::vector<int64_t> apart = {-1, groups, x.shape()[1] / groups}, whole = {-1}, channels = {x.shape()[1]};
  for (int axis = 1; axis < rank; ++axis) {
    whole.push_back(x.shape()[axis]);
    if (axis == 1) continue;
    apart.push_back(x.shape()[axis]);
    channels.push_back(1);
  }
  std::vector<int64_t> inside(apart.size() - 2);
  std::iota(inside.begin(), inside.end(), 2);
  Tensor parts = reshape(x, apart);
  Tensor centred = parts - mean(parts, inside, true);
  Tensor normal = centred * rsqrt(mean(square(centred), inside, true) + eps);
  return reshape(normal, whole) * reshape(gain, channels) + reshape(bias, channels);
}

std::pair<Tensor, Tensor> channelMoments(const Arg& x) {
  CallSite here(x.site());
  if (!x.tensor().valid()) return {x.tensor(), x.tensor()};
  if (x.rank() < 2) {
    const Tensor refused = Recorder::fail(x.site(), "channelMoments: the operand needs rank 2 or more");
    return {refused, refused};
  }
  std::vector<int64_t> rest;
  for (int axis = 0; axis < x.rank(); ++axis)
    if (axis != 1) rest.push_back(axis);
  Tensor middle = mean(x, rest, true);
  return {reshape(middle, {-1}), mean(square(x - middle), rest)};
}

}  // namespace tg::nn
