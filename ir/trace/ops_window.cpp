// SPDX-License-Identifier: Apache-2.0
// Windows, convolution, pooling, random numbers.
#include "ir/trace/ops.h"
#include "ir/trace/recorder.h"

namespace tg::nn {

static Attr intsOf(const Dims& dims) { return Attr::ints(dims.values()); }

static AttrList windowAttrs(int axis, int rank, const char* name, int64_t value,
                            const WindowOptions& options) {
  return {{"axis", Attr::of(fromFront(axis, rank))},
          {name, Attr::of(value)},
          {"step", Attr::of(options.step)},
          {"dilation", Attr::of(options.dilation)}};
}

Tensor unfold(const Arg& x, int axis, int64_t size, const WindowOptions& options) {
  return make(Opcode::unfold, {x}, windowAttrs(axis, x.rank(), "size", size, options));
}

Tensor fold(const Arg& x, int axis, int64_t extent, const WindowOptions& options) {
  return make(Opcode::fold, {x}, windowAttrs(axis, x.rank() - 1, "extent", extent, options));
}

Tensor conv2d(const Arg& x, const Arg& w, const ConvOptions& options) {
  return make(Opcode::conv2d, {x, w},
              {{"stride", intsOf(options.stride)},
               {"padding", intsOf(options.padding)},
               {"dilation", intsOf(options.dilation)},
               {"groups", Attr::of(options.groups)}});
}

Tensor convTranspose2d(const Arg& x, const Arg& w, const ConvTransposeOptions& options) {
  return make(Opcode::conv_transpose2d, {x, w},
              {{"stride", intsOf(options.stride)},
               {"padding", intsOf(options.padding)},
               {"output_padding", intsOf(options.outputPadding)},
               {"dilation", intsOf(options.dilation)},
               {"groups", Attr::of(options.groups)}});
}

Tensor maxPool2d(const Arg& x, const Dims& kernel, const MaxPoolOptions& options) {
  return make(Opcode::max_pool2d, {x},
              {{"kernel", intsOf(kernel)},
               {"stride", intsOf(options.stride)},
               {"padding", intsOf(options.padding)},
               {"dilation", intsOf(options.dilation)}});
}

Tensor avgPool2d(const Arg& x, const Dims& kernel, const AvgPoolOptions& options) {
  return make(Opcode::avg_pool2d, {x},
              {{"kernel", intsOf(kernel)},
               {"stride", intsOf(options.stride)},
               {"padding", intsOf(options.padding)},
               {"count_include_pad", Attr::boolean(options.countIncludePad)}});
}

Tensor upsampleNearest2d(const Arg& x, const Dims& scale) {
  return make(Opcode::upsample_nearest2d, {x}, {{"scale", intsOf(scale)}});
}

/// The salt of the function's next random operation. Without a trace the operation itself reports the error.
static Attr nextSalt() {
  Recorder* recorder = Recorder::active();
  return Attr::of(recorder ? recorder->nextSalt() : int64_t{0});
}

Tensor randomUniform(const Dims& shape, double low, double high, Site site) {
  return makeTyped(Opcode::random_uniform, {Arg(randomKey(site), site)}, shape, DType::f32,
                   {{"salt", nextSalt()}, {"low", Attr::of(low)}, {"high", Attr::of(high)}}, site);
}

Tensor randomNormal(const Dims& shape, double mean, double std, Site site) {
  return makeTyped(Opcode::random_normal, {Arg(randomKey(site), site)}, shape, DType::f32,
                   {{"salt", nextSalt()}, {"mean", Attr::of(mean)}, {"std", Attr::of(std)}}, site);
}

Tensor dropout(const Arg& x, double p) {
  return make(Opcode::dropout, {x, Arg(randomKey(x.site()), x.site())},
              {{"p", Attr::of(p)}, {"salt", nextSalt()}});
}

Tensor categorical(const Arg& logits, int axis) {
  return make(Opcode::categorical, {logits, Arg(randomKey(logits.site()), logits.site())},
              {{"axis", Attr::of(fromFront(axis, logits.rank()))}, {"salt", nextSalt()}});
}

}  // namespace tg::nn
