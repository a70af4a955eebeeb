// SPDX-License-Identifier: Apache-2.0
// A convolution as a product of two matrices whose inner axis ends in the channels:
//
//   y = conv2d x, w                                  %xs = tg.fused (x) { pad (transpose x) } : NxHxWxC
//                                                    %ws = tg.fused (w) { transpose w } : KxkhxkwxC
//   y[n, k, p] = Σ ws[k, uvc]·windows(xs)[n, p, uvc]      a product of k and p over (u, v, c), c innermost
//
// So are gradients; those of the image at a larger stride by phases (byPhases), without storing windows.
//
// p is a position (h, w) of the result, (u, v) a position in the window, c a channel of x, k one of y.
#include "ir/divide.h"
#include "passes/fuse/split_parts.h"

#include <algorithm>
#include <vector>

#include "ir/decompose/decompose.h"
#include "ir/op_view.h"
#include "ir/window.h"
#include "passes/fuse/cost.h"
#include "passes/fuse/inline_ops.h"

namespace tg::fuse {
namespace {

using decomposition::product;

const std::vector<int64_t> kChannelsLast{0, 2, 3, 1};

/// The windows of an NxHxWxC image as Nx(OH·OW)x(kh·kw·C). `backwards`: each window is read from its last element, step 1.
TensorExpr rows(const TensorExpr& image, const Window& window, bool backwards) {
  TensorExpr x = image;
  for (int i = 0; i < 2; ++i) {
    const WindowAxis& axis = window[static_cast<size_t>(i)];
    x = x.unary(Opcode::unfold, {{"axis", Attr::of(1 + i)},
                                 {"size", Attr::of(axis.size)},
                                 {"step", Attr::of(backwards ? 1 : axis.step)},
                                 {"dilation", Attr::of(backwards ? -axis.dilation : axis.dilation)}});
  }
  const TensorExpr windows = x.transpose({0, 1, 2, 4, 5, 3});
  const Shape& shape = windows.shape();
  return windows.reshape({shape[0], shape[1] * shape[2], shape[3] * shape[4] * shape[5]});
}

/// Whether matrix units can compute a product of these extents whose innermost axis is `channels`.
bool fits(int64_t rows, int64_t columns, int64_t inner, int64_t channels) {
  return std::min({rows, columns, inner}) >= kMatrixSide && channels % kVector == 0;
}

bool isSingle(const Window& window) {
  return std::ranges::all_of(window, [](const WindowAxis& axis) { return axis.size == 1; });
}

/// Whether vectors of an image NxCxHxW are read where they lie: windows are single elements at stride 1, and vectors do
/// not cross from one image to the next.
bool isPlain(const Window& window, int64_t positions) {
  return isSingle(window) && window[0].step == 1 && window[1].step == 1 && positions % kVector == 0;
}

/// An order of axes, and how many zeros go before and behind axes 1 and 2.
struct Layout {
  std::vector<int64_t> perm, before{0, 0}, behind{0, 0};
};

class ChannelsLast {
 public:
  ChannelsLast(Builder& builder, const StoreView& store) : builder_(builder), store_(store) {}
  TensorExpr forward(const Op& op);
  TensorExpr gathered(const Op& op, int ofKernels, int ofGradient);
  TensorExpr byPhases(const Op& op, int ofKernels, int ofGradient);
  TensorExpr weight(const Op& op);

 private:
  TensorExpr stored(const Value& operand, const Layout& layout);
  TensorExpr kernels(const Value& w, std::vector<int64_t> perm);
  /// Kernels KxCx1x1 as one matrix, where they lie.
  TensorExpr matrix(Value* w) {
    return TensorExpr{&builder_, w}.reshape({1, w->type.shape[0], w->type.shape[1]});
  }

  Builder& builder_;
  const StoreView& store_;
};

/// An operand, which has 16 bits in memory, stored in another layout and read as f32.
TensorExpr ChannelsLast::stored(const Value& operand, const Layout& layout) {
  Value* source = operand.def->in(0);
  Value* view =
      builder_.pad(builder_.transpose(source, layout.perm), {0, layout.before[0], layout.before[1], 0},
                   {0, layout.behind[0], layout.behind[1], 0});
  return TensorExpr{&builder_, store_(source, *view)}.cast(DType::f32);
}

TensorExpr ChannelsLast::kernels(const Value& w, std::vector<int64_t> perm) {
  const TensorExpr x = stored(w, {std::move(perm)});
  return x.reshape({1, x.shape()[0], x.value->type.elements() / x.shape()[0]});
}

// y[n, k, p] = Σ w[k, uvc]·windows(x)[n, p, uvc]
TensorExpr ChannelsLast::forward(const Op& op) {
  const as::conv2d conv(op);
  const Shape &x = conv.x()->type.shape, &w = conv.w()->type.shape, &y = op.result()->type.shape;
  const Window window = windowOf(op, {w[2], w[3]});
  if (isPlain(window, y[2] * y[3]) || !fits(w[0], y[2] * y[3], w[1] * w[2] * w[3], x[1])) return {};
  const std::vector<int64_t> padding{window[0].padding, window[1].padding};
  const TensorExpr windows = rows(stored(*conv.x(), {kChannelsLast, padding, padding}), window, false);
  if (isSingle(window)) return product(matrix(conv.w()), windows, false, true).reshape(y);
  return product(kernels(*conv.w(), kChannelsLast), windows, false, true).reshape(y);
}

// dx[n, c, p] = Σ w[c, uvk]·windows(dy)[n, p, uvk], at stride 1: the windows are read backwards
TensorExpr ChannelsLast::gathered(const Op& op, int ofKernels, int ofGradient) {
  const Shape &w = op.in(ofKernels)->type.shape, &dy = op.in(ofGradient)->type.shape,
              &dx = op.result()->type.shape;
  const Window window = windowOf(op, {w[2], w[3]});
  if (window[0].step != 1 || window[1].step != 1) return byPhases(op, ofKernels, ofGradient);
  if (isPlain(window, dx[2] * dx[3]) || !fits(w[1], dx[2] * dx[3], w[0] * w[2] * w[3], dy[1])) return {};
  Layout layout{kChannelsLast};
  for (size_t i = 0; i < 2; ++i) {
    const int axis = static_cast<int>(i) + 2;
    layout.before[i] = window[i].span() - 1 - window[i].padding;
    layout.behind[i] = dx[axis] + window[i].padding - dy[axis];
    if (layout.before[i] < 0 || layout.behind[i] < 0) return {};
  }
  const TensorExpr windows = rows(stored(*op.in(ofGradient), layout), window, true);
  if (isSingle(window)) return product(matrix(op.in(ofKernels)), windows, true, true).reshape(dx);
  return product(kernels(*op.in(ofKernels), {1, 2, 3, 0}), windows, false, true).reshape(dx);
}

// dx at a larger stride. Element i of dx, with p zeros before the image, is reached by the elements u of a window for
// which i + p - u is a multiple of the stride s. With u = s·v + r these are all v for one r, the phase of i:
//
//   dx[s·q + r - p] = Σ w[s·v + r]·dy[q - v]          stride 2, a window of 4:   r = 0   w[0] w[2]
//                                                                               r = 1   w[1] w[3]
//
// So the phases are channels of a gradient at stride 1, whose window is s times smaller. They are interleaved behind it.
TensorExpr ChannelsLast::byPhases(const Op& op, int ofKernels, int ofGradient) {
  const Value &w = *op.in(ofKernels), &gradient = *op.in(ofGradient);
  const Shape &dy = gradient.type.shape, &dx = op.result()->type.shape;
  const Window window = windowOf(op, {w.type.shape[2], w.type.shape[3]});
  const int64_t outputs = w.type.shape[0], inputs = w.type.shape[1];
  Window small;                 // those of a phase
  std::array<int64_t, 2> each;  // the elements of a phase along an axis
  Layout layout{kChannelsLast};
  std::vector<int64_t> missing{0, 0, 0, 0}, first{0, 0, 0, 0}, end{dx[0], dx[1], 0, 0};
  for (size_t i = 0; i < 2; ++i) {
    const WindowAxis& axis = window[i];
    if (axis.dilation != 1 || axis.size < axis.step) return {};
    small[i].size = divideCeil(axis.size, axis.step);
    missing[i + 2] = small[i].size * axis.step - axis.size;
    const int64_t begin = axis.padding / axis.step, extent = dx[static_cast<int>(i) + 2];
    const int64_t last = (axis.padding + extent - 1) / axis.step;
    each[i] = last - begin + 1;
    layout.before[i] = small[i].size - 1 - begin;
    layout.behind[i] = last + 1 - dy[static_cast<int>(i) + 2];
    first[i + 2] = axis.padding - begin * axis.step;
    end[i + 2] = first[i + 2] + extent;
    if (layout.before[i] < 0 || layout.behind[i] < 0) return {};
  }
  const int64_t sh = window[0].step, sw = window[1].step, kh = small[0].size, kw = small[1].size;
  if (!fits(inputs * sh * sw, each[0] * each[1], kh * kw * outputs, outputs)) return {};
  Value* source = w.def->in(0);
  Value* phases =
      builder_.reshape(builder_.pad(source, {0, 0, 0, 0}, missing), {outputs, inputs, kh, sh, kw, sw});
  phases = store_(source, *builder_.transpose(phases, {1, 3, 5, 2, 4, 0}));
  const TensorExpr left =
      TensorExpr{&builder_, phases}.cast(DType::f32).reshape({1, inputs * sh * sw, kh * kw * outputs});
  const TensorExpr all = product(left, rows(stored(gradient, layout), small, true), false, true);
  const TensorExpr apart = all.reshape({dx[0], inputs, sh, sw, each[0], each[1]});
  const TensorExpr whole =
      apart.transpose({0, 1, 4, 2, 5, 3}).reshape({dx[0], inputs, each[0] * sh, each[1] * sw});
  return {&builder_, builder_.slice(whole.value, first, end)};
}

// dw[k, uvc] = Σ dy[k, np]·windows(x)[np, uvc]
TensorExpr ChannelsLast::weight(const Op& op) {
  const as::conv2d_grad_weight grad(op);
  const Shape &x = grad.x()->type.shape, &dy = grad.dy()->type.shape;
  const Window window = windowOf(op);
  const int64_t positions = dy[2] * dy[3], inner = dy[0] * positions,
                size = window[0].size * window[1].size * x[1];
  const bool turned = positions % kVector != 0;  // vectors of dy lie along its channels then
  if (isPlain(window, positions) || !fits(dy[1], size, inner, x[1]) || (turned && dy[1] % kVector != 0))
    return {};
  const std::vector<int64_t> padding{window[0].padding, window[1].padding};
  const TensorExpr windows =
      rows(stored(*grad.x(), {kChannelsLast, padding, padding}), window, false).reshape({inner, size});
  const TensorExpr left = turned ? stored(*grad.dy(), {kChannelsLast}).reshape({inner, dy[1]})
                                 : TensorExpr{&builder_, grad.dy()}
                                       .reshape({dy[0], dy[1], positions})
                                       .transpose({1, 0, 2})
                                       .reshape({dy[1], inner});
  const TensorExpr dw = product(left, windows, turned, false);
  return dw.reshape({dy[1], window[0].size, window[1].size, x[1]}).transpose({0, 3, 1, 2});
}

}  // namespace

TensorExpr channelsLast(Builder& builder, const Op& op, const Target& target, const StoreView& store) {
  if (!isConvolution(op) || as::conv2d(op).groups() != 1 || target.matmul == "register") return {};
  const DType dtype = factorOf(*op.in(0));
  for (const Operand& operand : op.operands) {
    const Op* def = operand.value->def;
    if (!def || !isWidening(*def) || def->in(0)->type.dtype != dtype) return {};
  }
  if (!target.multiplies(dtype)) return {};
  ChannelsLast last(builder, store);
  switch (op.code) {
  case Opcode::conv2d: return last.forward(op);
  case Opcode::conv2d_grad_input:
    return last.gathered(op, at::conv2d_grad_input::w, at::conv2d_grad_input::dy);
  case Opcode::conv_transpose2d: return last.gathered(op, at::conv_transpose2d::w, at::conv_transpose2d::x);
  case Opcode::conv2d_grad_weight: return last.weight(op);
  default: return {};
  }
}

}  // namespace tg::fuse
