// SPDX-License-Identifier: Apache-2.0
#include "ir/trace/nn.h"

#include <algorithm>
#include <tuple>
#include <vector>

#include "ir/text.h"
#include "ir/trace/recorder.h"

namespace tg::nn {

Linear::Linear(int64_t in, int64_t out, const LinearOptions& options, Site site)
    : w(param(Key("w", site), {in, out}, {.init = options.init, .dims = options.dims})), bias_(options.bias) {
  std::vector<std::string> last;
  if (!options.dims.empty()) last = {options.dims.back()};
  if (bias_) b = param(Key("b", site), {out}, {.init = Init::zeros(), .dims = last});
}
Tensor Linear::operator()(const Arg& x) const {
  CallSite here(x.site());
  Tensor y = matmul(x, w);
  return Recorder::hinted(*this, bias_ ? y + b : y);
}

Conv2d::Conv2d(int64_t in, int64_t out, int64_t size, const Conv2dOptions& options, Site site)
    : w(param(Key("w", site), {out, in / std::max<int64_t>(1, options.groups), size, size},
              {.init = options.init})),
      options_(options) {
  if (options.bias) b = param(Key("b", site), {out, 1, 1}, {.init = Init::zeros()});
}
Tensor Conv2d::operator()(const Arg& x) const {
  CallSite here(x.site());
  Tensor y = conv2d(x, w,
                    {.stride = options_.stride,
                     .padding = options_.padding,
                     .dilation = options_.dilation,
                     .groups = options_.groups});
  return Recorder::hinted(*this, options_.bias ? y + b : y);
}

Embedding::Embedding(int64_t count, int64_t width, const EmbeddingOptions& options, Site site)
    : w(param(Key("w", site), {count, width}, {.init = options.init, .dims = options.dims})) {}
Tensor Embedding::operator()(const Arg& ids) const {
  CallSite here(ids.site());
  return Recorder::hinted(*this, embedding(w, ids));
}

LayerNorm::LayerNorm(int64_t width, double eps, Site site)
    : gain(param(Key("gain", site), {width}, {.init = Init::ones()})),
      bias(param(Key("bias", site), {width}, {.init = Init::zeros()})), eps_(eps) {}
Tensor LayerNorm::operator()(const Arg& x) const {
  CallSite here(x.site());
  return Recorder::hinted(*this, layerNorm(x, gain, bias, eps_));
}

RMSNorm::RMSNorm(int64_t width, double eps, Site site)
    : gain(param(Key("gain", site), {width}, {.init = Init::ones()})), eps_(eps) {}
Tensor RMSNorm::operator()(const Arg& x) const {
  CallSite here(x.site());
  return Recorder::hinted(*this, rmsNorm(x, gain, eps_));
}

GroupNorm::GroupNorm(int64_t groups, int64_t channels, double eps, Site site)
    : gain(param(Key("gain", site), {channels}, {.init = Init::ones()})),
      bias(param(Key("bias", site), {channels}, {.init = Init::zeros()})), groups_(groups), eps_(eps) {}
Tensor GroupNorm::operator()(const Arg& x) const {
  CallSite here(x.site());
  return Recorder::hinted(*this, groupNorm(x, groups_, gain, bias, eps_));
}

BatchNorm::BatchNorm(int64_t channels, const BatchNormOptions& options, Site site)
    : gain(param(Key("gain", site), {channels}, {.init = Init::ones()})),
      bias(param(Key("bias", site), {channels}, {.init = Init::zeros()})),
      mean(param(Key("mean", site), {channels}, {.init = Init::zeros(), .trained = false})),
      variance(param(Key("variance", site), {channels}, {.init = Init::ones(), .trained = false})),
      options_(options) {}
Tensor BatchNorm::operator()(const Arg& x, bool trains) const {
  CallSite here(x.site());
  if (!x.tensor().valid()) return x.tensor();
  if (x.rank() < 2) return Recorder::fail(x.site(), "BatchNorm: the operand needs rank 2 or more");
  if (x.shape()[1] != gain.shape()[0])
    return Recorder::fail(x.site(), "BatchNorm: {} has {} along axis 1, not {}",
                          Type::tensor(x.tensor().dtype(), x.shape()).str(),
                          countText(x.shape()[1], "channel"), gain.shape()[0]);
  if (!(options_.momentum >= 0 && options_.momentum <= 1))
    return Recorder::fail(x.site(), "BatchNorm: momentum is from 0 to 1, not {}", options_.momentum);
  if (auto refused = refusedEps("BatchNorm", x, options_.eps)) return *refused;
  std::vector<int64_t> channels(static_cast<size_t>(x.rank()) - 1, 1);
  channels.front() = gain.shape()[0];
  Tensor middle = Arg(mean).tensor(), spread = Arg(variance).tensor();
  if (trains) {
    std::tie(middle, spread) = channelMoments(x);
    const double count = static_cast<double>(x.shape().elements() / x.shape()[1]);
    const double share = options_.momentum, unbiased = count > 1 ? count / (count - 1) : 1;
    update(mean, mean * (1 - share) + stopGradient(middle) * share);
    update(variance, variance * (1 - share) + stopGradient(spread) * (share * unbiased));
  }
  Tensor scale = gain * rsqrt(spread + options_.eps);
  return Recorder::hinted(*this, (x - reshape(middle, channels)) * reshape(scale, channels) +
                                     reshape(bias, channels));
}

}  // namespace tg::nn
