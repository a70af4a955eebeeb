#include "ir/trace/nn.h"

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
