// SPDX-License-Identifier: Apache-2.0
// Convolution and pooling over NxCxHxW. Windows are views made by unfold: a product or a maximum reads them in the
// image, and the unfolded elements are never stored.
#include <algorithm>
#include <array>
#include <limits>

#include "ir/decompose/decompose.h"
#include "ir/op_view.h"
#include "ir/window.h"

namespace tg::decomposition {

static constexpr int kH = 2, kW = 3;
static constexpr double kNever = -std::numeric_limits<double>::infinity();  // padding of a maximum

/// Pads H and W with this many elements before and behind; a negative number crops.
static TensorExpr extended(const TensorExpr& x, std::array<int64_t, 2> before, std::array<int64_t, 2> behind,
                           double value = 0) {
  std::vector<int64_t> low(4, 0), high(4, 0), starts(4, 0), limits(x.shape().begin(), x.shape().end());
  for (size_t i = 0; i < 2; ++i) {
    size_t axis = i + kH;
    starts[axis] = std::max<int64_t>(0, -before[i]);
    limits[axis] += std::min<int64_t>(0, behind[i]);
    low[axis] = std::max<int64_t>(0, before[i]);
    high[axis] = std::max<int64_t>(0, behind[i]);
  }
  return {x.builder, x.builder->pad(x.builder->slice(x.value, starts, limits), low, high, value)};
}

static TensorExpr padded(const TensorExpr& x, const Window& window, double value = 0) {
  std::array<int64_t, 2> both{window[0].padding, window[1].padding};
  return extended(x, both, both, value);
}

/// x without the padding, cropped to the given H and W.
static TensorExpr cropped(const TensorExpr& x, const Window& window, std::array<int64_t, 2> size) {
  std::array<int64_t, 2> before, behind;
  for (size_t i = 0; i < 2; ++i) {
    before[i] = -window[i].padding;
    behind[i] = size[i] + window[i].padding - x.shape()[static_cast<int>(i) + kH];
  }
  return extended(x, before, behind);
}

/// The index of the first maximum along an axis, which is kept.
static TensorExpr argmax(const TensorExpr& x, int64_t axis) {
  return x.unary(Opcode::argmax, {{"axis", Attr::of(axis)}, {"keepdims", Attr::boolean(true)}});
}

static TensorExpr unfold(const TensorExpr& x, int axis, int64_t size, int64_t step, int64_t dilation) {
  if (size == 1 && step == 1) {
    Shape shape = x.shape();
    shape.push(1);
    return x.reshape(shape);
  }
  return x.unary(Opcode::unfold, {{"axis", Attr::of(axis)},
                                  {"size", Attr::of(size)},
                                  {"step", Attr::of(step)},
                                  {"dilation", Attr::of(dilation)}});
}

/// The windows of NxCxHxW as NxCxOHxOWxkhxkw.
static TensorExpr unfolded(const TensorExpr& x, const Window& window) {
  TensorExpr rows = unfold(x, kH, window[0].size, window[0].step, window[0].dilation);
  return unfold(rows, kW, window[1].size, window[1].step, window[1].dilation);
}

/// The adjoint of padding and unfolding: sums NxCxOHxOWxkhxkw to NxCxHxW.
static TensorExpr folded(const TensorExpr& p, const Window& window, std::array<int64_t, 2> size) {
  TensorExpr out = p;
  for (int i = 1; i >= 0; --i) {
    const WindowAxis& axis = window[static_cast<size_t>(i)];
    if (axis.size == 1 && axis.step == 1) {
      Shape shape = out.shape();
      shape.resize(shape.rank() - 1);
      out = out.reshape(shape);
      continue;
    }
    out = out.unary(Opcode::fold, {{"axis", Attr::of(kH + i)},
                                   {"extent", Attr::of(size[static_cast<size_t>(i)] + 2 * axis.padding)},
                                   {"step", Attr::of(axis.step)},
                                   {"dilation", Attr::of(axis.dilation)}});
  }
  return cropped(out, window, size);
}

/// NxCxOHxOWxkhxkw as NxGx(C/G·kh·kw)x(OH·OW): the right operand of a convolution's product.
static TensorExpr columns(const TensorExpr& windows, int64_t groups) {
  const Shape shape = windows.shape();
  return windows.transpose({0, 1, 4, 5, 2, 3})
      .reshape({shape[0], groups, shape[1] / groups * shape[4] * shape[5], shape[2] * shape[3]});
}

static std::array<int64_t, 2> imageOf(const TensorExpr& x) { return {x.shape()[kH], x.shape()[kW]}; }

static Window windowOver(const Op& op, const TensorExpr& w) { return windowOf(op, imageOf(w)); }

// y[n, g] = w[g]·columns[n, g]
Results expand(at::conv2d, const Composite& composite) {
  TensorExpr x = composite[at::conv2d::x], w = composite[at::conv2d::w];
  int64_t groups = as::conv2d(composite.op).groups(), outputs = w.shape()[0];
  Window window = windowOver(composite.op, w);
  TensorExpr windows = unfolded(padded(x, window), window);
  TensorExpr kernels = w.reshape({groups, outputs / groups, w.value->type.elements() / outputs});
  TensorExpr y = product(kernels, columns(windows, groups), false, false);
  return {y.reshape({x.shape()[0], outputs, windows.shape()[kH], windows.shape()[kW]})};
}

// dw[g] = Σ_n dy[n, g]·columns[n, g]ᵀ, as one product over n and all positions
Results expand(at::conv2d_grad_weight, const Composite& composite) {
  TensorExpr x = composite[at::conv2d_grad_weight::x], dy = composite[at::conv2d_grad_weight::dy];
  int64_t groups = as::conv2d_grad_weight(composite.op).groups();
  Window window = windowOf(composite.op);
  TensorExpr windows = unfolded(padded(x, window), window);
  int64_t images = x.shape()[0], channels = x.shape()[1], outputs = dy.shape()[1];
  int64_t positions = dy.shape()[kH] * dy.shape()[kW], size = window[0].size * window[1].size;
  TensorExpr left = dy.reshape({images, groups, outputs / groups, positions})
                        .transpose({1, 2, 0, 3})
                        .reshape({groups, outputs / groups, images * positions});
  TensorExpr right =
      windows.transpose({1, 4, 5, 0, 2, 3}).reshape({groups, channels / groups * size, images * positions});
  TensorExpr dw = product(left, right, false, true);
  return {dw.reshape({outputs, channels / groups, window[0].size, window[1].size})};
}

/// At stride 1: a convolution of the padded dy with the flipped kernels, input and output channels exchanged.
static TensorExpr gradByGather(const TensorExpr& w, const TensorExpr& dy, const Window& window,
                               int64_t groups, std::array<int64_t, 2> size) {
  std::array<int64_t, 2> before, behind;
  for (size_t i = 0; i < 2; ++i) {
    before[i] = window[i].span() - 1 - window[i].padding;
    behind[i] = size[i] + window[i].padding - dy.shape()[static_cast<int>(i) + kH];
  }
  TensorExpr rows = unfold(extended(dy, before, behind), kH, window[0].size, 1, -window[0].dilation);
  TensorExpr windows = unfold(rows, kW, window[1].size, 1, -window[1].dilation);
  int64_t outputs = w.shape()[0] / groups, inputs = w.shape()[1], each = window[0].size * window[1].size;
  TensorExpr kernels = w.reshape({groups, outputs, inputs, each})
                           .transpose({0, 2, 1, 3})
                           .reshape({groups, inputs, outputs * each});
  return product(kernels, columns(windows, groups), false, false)
      .reshape({dy.shape()[0], groups * inputs, size[0], size[1]});
}

/// At larger strides, where a gather would read mostly zeros: the gradients of the windows, wᵀ·dy, then their sum.
/// The gradients of the windows are stored.
static TensorExpr gradByScatter(const TensorExpr& w, const TensorExpr& dy, const Window& window,
                                int64_t groups, std::array<int64_t, 2> size) {
  const Shape& shape = dy.shape();
  int64_t outputs = w.shape()[0], inputs = w.shape()[1];
  TensorExpr kernels = w.reshape({groups, outputs / groups, inputs * window[0].size * window[1].size});
  TensorExpr right = dy.reshape({shape[0], groups, outputs / groups, shape[kH] * shape[kW]});
  TensorExpr p =
      product(kernels, right, true, false)
          .reshape({shape[0], groups * inputs, window[0].size, window[1].size, shape[kH], shape[kW]});
  return folded(p.transpose({0, 1, 4, 5, 2, 3}), window, size);
}

static TensorExpr gradInput(const TensorExpr& w, const TensorExpr& dy, const Op& op,
                            std::array<int64_t, 2> size) {
  Window window = windowOver(op, w);
  bool dense = window[0].step == 1 && window[1].step == 1;
  return (dense ? gradByGather : gradByScatter)(w, dy, window, as::conv2d_grad_input(op).groups(), size);
}

// dx(i) = Σ w(k)·dy(o) over o·stride + k·dilation - padding = i
Results expand(at::conv2d_grad_input, const Composite& composite) {
  std::vector<int64_t> size = as::conv2d_grad_input(composite.op).input_size();
  return {gradInput(composite[at::conv2d_grad_input::w], composite[at::conv2d_grad_input::dy], composite.op,
                    {size[0], size[1]})};
}

// conv2d_grad_input with x as dy
Results expand(at::conv_transpose2d, const Composite& composite) {
  const Shape& shape = composite.op.result()->type.shape;
  return {gradInput(composite[at::conv_transpose2d::w], composite[at::conv_transpose2d::x], composite.op,
                    {shape[kH], shape[kW]})};
}

static TensorExpr maxima(const TensorExpr& x, const Window& window) {
  return unfolded(padded(x, window, kNever), window).maxOver({4, 5});
}

/// The adjoint of padding and unfolding, of select(k = argmax of the window, dy, 0).
static TensorExpr toMaxima(const TensorExpr& x, const TensorExpr& dy, const Window& window) {
  TensorExpr windows = unfolded(padded(x, window, kNever), window);
  const Shape apart = windows.shape();
  Shape flat = apart, single = apart;
  flat.resize(5), single.resize(5);
  flat[4] = apart[4] * apart[5], single[4] = 1;
  TensorExpr element = iota(*dy.builder, {flat[4]}, 0);
  TensorExpr hit = eq(element, argmax(windows.reshape(flat), 4));
  TensorExpr p = select(hit, dy.reshape(single), 0.0);
  return folded(p.reshape(apart), window, imageOf(x));
}

/// The windows along W alone, and along H alone.
static std::array<Window, 2> alongEach(const Window& window) {
  return {Window{WindowAxis{}, window[1]}, Window{window[0], WindowAxis{}}};
}

// the maximum of each window, with padding of -∞
Results expand(at::max_pool2d, const Composite& composite) {
  const Window window = windowOf(composite.op);
  if (!areSeparated(window)) return {maxima(composite[0], window)};
  const auto [across, down] = alongEach(window);
  return {maxima(maxima(composite[0], across), down)};
}

// Ties: the first maximum in row-major order is the first one of its row, in the first row with that maximum. Separated
// windows find the same element.
Results expand(at::max_pool2d_grad, const Composite& composite) {
  TensorExpr x = composite[at::max_pool2d_grad::x], dy = composite[at::max_pool2d_grad::dy];
  const Window window = windowOf(composite.op);
  if (!areSeparated(window)) return {toMaxima(x, dy, window)};
  const auto [across, down] = alongEach(window);
  return {toMaxima(x, toMaxima(maxima(x, across), dy, down), across)};
}

/// How many elements of a window along an axis lie inside x, for each window, as f32.
static TensorExpr insideAlong(Builder& builder, const WindowAxis& axis, int64_t count, int64_t extent) {
  TensorExpr first =
      iota(builder, {count}, 0) * static_cast<double>(axis.step) - static_cast<double>(axis.padding);
  TensorExpr behind = min(first + static_cast<double>(axis.size), static_cast<double>(extent));
  return (behind - max(first, 0.0)).cast(DType::f32);
}

/// The windows' sums divided by their element counts, with or without padding.
static TensorExpr averaged(const TensorExpr& sums, const Op& op, const Window& window,
                           std::array<int64_t, 2> image) {
  bool uniform = as::avg_pool2d(op).count_include_pad() || (window[0].padding == 0 && window[1].padding == 0);
  if (uniform) return sums / static_cast<double>(window[0].size * window[1].size);
  int64_t rows = window[0].count(image[0]), columns = window[1].count(image[1]);
  TensorExpr down = insideAlong(*sums.builder, window[0], rows, image[0]).reshape({rows, 1});
  return sums / (down * insideAlong(*sums.builder, window[1], columns, image[1])).cast(sums.dtype());
}

// the sum of each window, divided by its element count
Results expand(at::avg_pool2d, const Composite& composite) {
  TensorExpr x = composite[0];
  Window window = windowOf(composite.op);
  TensorExpr sums = unfolded(padded(x, window), window).sum({4, 5});
  return {averaged(sums, composite.op, window, imageOf(x))};
}

// The adjoint: adds dy, divided by the count, to each element of its window
Results expand(at::avg_pool2d_grad, const Composite& composite) {
  TensorExpr dy = composite[0];
  Window window = windowOf(composite.op);
  std::vector<int64_t> size = as::avg_pool2d_grad(composite.op).input_size();
  std::array<int64_t, 2> image{size[0], size[1]};
  Shape apart = dy.shape(), single = apart;
  single.push(1), single.push(1);
  apart.push(window[0].size), apart.push(window[1].size);
  TensorExpr each = averaged(dy, composite.op, window, image);
  return {folded(each.reshape(single).broadcastTo(apart), window, image)};
}

// Each element is repeated along H and along W
Results expand(at::upsample_nearest2d, const Composite& composite) {
  TensorExpr x = composite[0];
  const Shape& shape = x.shape();
  std::vector<int64_t> scale = as::upsample_nearest2d(composite.op).scale();
  return {x.reshape({shape[0], shape[1], shape[kH], 1, shape[kW], 1})
              .broadcastTo({shape[0], shape[1], shape[kH], scale[0], shape[kW], scale[1]})
              .reshape({shape[0], shape[1], shape[kH] * scale[0], shape[kW] * scale[1]})};
}

}  // namespace tg::decomposition
