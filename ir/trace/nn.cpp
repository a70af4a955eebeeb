#include "ir/trace/nn.h"

#include <algorithm>

#include "ir/trace/recorder.h"

namespace tg::nn {

Linear::Linear(int64_t in, int64_t out, const LinearOptions& options, Site site)
    : w(param(Key("w", site), {in, out}, {.init = options.init})), bias_(options.bias) {
  if (bias_) b = param(Key("b", site), {out}, {.init = Init::zeros()});
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

Embedding::Embedding(int64_t count, int64_t width, const Init& init, Site site)
    : w(param(Key("w", site), {count, width}, {.init = init})) {}
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

}  // namespace tg::nn
