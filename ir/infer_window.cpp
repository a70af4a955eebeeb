// SPDX-License-Identifier: Apache-2.0
// Types of unfold, fold, convolutions and pooling.

#include <algorithm>
#include <cstdlib>

#include "ir/infer.h"
#include "ir/infer_context.h"
#include "ir/op_view.h"
#include "ir/text.h"
#include "ir/window.h"

namespace tg::inference {

static constexpr int64_t kMaxEntry = INT32_MAX;  // so that the product of two entries does not overflow

/// Checks size, step and dilation of an unfold or fold.
static Result<void> checkSteps(const Context& c, int64_t size, const char* sizeName) {
  int64_t step = as::unfold(c.op).step(), dilation = as::unfold(c.op).dilation();
  if (size < 1 || step < 1) return c.error(2, "{} = {} and step = {} must be positive", sizeName, size, step);
  if (dilation == 0) return c.error(2, "dilation must not be 0");
  if (std::max(size, step) > kMaxEntry || dilation > kMaxEntry || dilation < -kMaxEntry)
    return c.error(2, "an attribute is over {}", kMaxEntry);
  return {};
}

Result<Types> types(at::unfold, const Context& c) {
  const Shape& x = c.shape(0);
  int axis = normalAxis(as::unfold(c.op).axis(), x.rank());
  if (axis < 0)
    return c.errorAt(0, 1, "axis {} is out of range for {}", as::unfold(c.op).axis(), c.in(0).str());
  int64_t size = as::unfold(c.op).size();
  TG_CHECK(checkSteps(c, size, "size"));
  WindowAxis window{size, as::unfold(c.op).step(), 0, std::abs(as::unfold(c.op).dilation())};
  if (window.count(x[axis]) < 1)
    return c.errorAt(0, 3, "a window over {} elements does not fit extent {} of axis {}", window.span(),
                     x[axis], axis);
  if (x.rank() == kMaxRank) return c.errorAt(0, 4, "the result's rank is too high");
  Shape shape = x;
  shape[axis] = window.count(x[axis]);
  shape.push(size);
  return Types{Type::tensor(c.in(0).dtype, shape)};
}

Result<Types> types(at::fold, const Context& c) {
  const Shape& p = c.shape(0);
  int axis = p.rank() < 2 ? -1 : normalAxis(as::fold(c.op).axis(), p.rank() - 1);
  if (axis < 0)
    return c.errorAt(0, 1, "axis {} is not an axis of the fold of {}", as::fold(c.op).axis(), c.in(0).str());
  int64_t extent = as::fold(c.op).extent();
  TG_CHECK(checkSteps(c, extent, "extent"));
  WindowAxis window{p.back(), as::fold(c.op).step(), 0, std::abs(as::fold(c.op).dilation())};
  if (window.count(extent) != p[axis])
    return c.errorAt(0, 3, "extent {} has {} of {}, axis {} of {} has {}", extent,
                     countText(window.count(extent), "window"), countText(window.size, "element"), axis,
                     c.in(0).str(), p[axis]);
  Shape shape = p;
  shape.resize(p.rank() - 1);
  shape[axis] = extent;
  return Types{Type::tensor(c.in(0).dtype, shape)};
}

static Result<void> checkRanks(const Context& c) {
  for (int i = 0; i < c.op.numOperands(); ++i)
    if (c.in(i).rank() != 4)
      return c.errorAt(i, 1, "{} is {}, not of rank 4", c.op.info().slots[i].name, c.in(i).str());
  const int last = c.op.numOperands() - 1;
  return c.haveOneElement(0, last, 1);
}

/// Checks all attributes with two entries that the op has: each entry has a least value.
static Result<void> checkPairs(const Context& c) {
  static constexpr std::pair<const char*, int64_t> kLeast[] = {
      {"kernel", 1},  {"kernel_size", 1}, {"input_size", 1}, {"stride", 1},
      {"padding", 0}, {"dilation", 1},    {"scale", 1},      {"output_padding", 0}};
  for (auto [attr, least] : kLeast) {
    if (!c.op.info().attr(attr)) continue;
    std::vector<int64_t> entries = c.op.ints(attr);
    bool pools = c.op.info().fusion == table::Fusion::window;
    if (entries.empty() && pools && std::string_view(attr) == "stride") continue;
    if (entries.size() != 2) return c.error(2, "{} needs two entries, not {}", attr, c.op.attr(attr).str());
    for (int64_t entry : entries)
      if (entry < least || entry > kMaxEntry)
        return c.error(2, "{} = {} is outside {}..{}", attr, entry, least, kMaxEntry);
  }
  return {};
}

/// Checks that all window ops but unfold and fold share.
static Result<void> checkImages(const Context& c) {
  TG_CHECK(checkRanks(c));
  return checkPairs(c);
}

/// Checks that `groups` divides both numbers of channels.
static Result<void> checkGroups(const Context& c, int64_t first, int64_t second, int note) {
  int64_t groups = as::conv2d(c.op).groups();
  if (groups < 1 || first % groups != 0 || second % groups != 0)
    return c.errorAt(note, 3, "groups = {} does not divide {} and {} channels", groups, first, second);
  return {};
}

/// The number of windows along H and W over images of these extents, when they all fit.
static Result<std::array<int64_t, 2>> countWindows(const Context& c, const Window& window, int64_t h,
                                                   int64_t w) {
  std::array<int64_t, 2> counts{window[0].count(h), window[1].count(w)};
  if (counts[0] < 1 || counts[1] < 1)
    return c.errorAt(0, 4, "a window of {}x{} elements does not fit {}x{}", window[0].span(),
                     window[1].span(), h + 2 * window[0].padding, w + 2 * window[1].padding);
  return counts;
}

/// Checks operand `dy` against the result of the forward op for images of these extents.
static Result<void> checkResult(const Context& c, const Window& window, int64_t h, int64_t w, int dy) {
  TG_TRY(auto counts, countWindows(c, window, h, w));
  if (c.shape(dy)[2] != counts[0] || c.shape(dy)[3] != counts[1])
    return c.errorAt(dy, 4, "dy is {}, its H and W should be {}x{}", c.in(dy).str(), counts[0], counts[1]);
  return {};
}

Result<Types> types(at::conv2d, const Context& c) {
  TG_CHECK(checkImages(c));
  const Shape &x = c.shape(at::conv2d::x), &w = c.shape(at::conv2d::w);
  int64_t groups = as::conv2d(c.op).groups();
  TG_CHECK(checkGroups(c, x[1], w[0], 0));
  if (w[1] != x[1] / groups)
    return c.errorAt(1, 3, "w is {}, its second extent should be {} / {}", c.in(at::conv2d::w).str(),
                     countText(x[1], "channel"), countText(groups, "group"));
  TG_TRY(auto counts, countWindows(c, windowOf(c.op, {w[2], w[3]}), x[2], x[3]));
  return Types{Type::tensor(c.in(0).dtype, {x[0], w[0], counts[0], counts[1]})};
}

Result<Types> types(at::conv2d_grad_input, const Context& c) {
  TG_CHECK(checkImages(c));
  const Shape &w = c.shape(at::conv2d_grad_input::w), &dy = c.shape(at::conv2d_grad_input::dy);
  std::vector<int64_t> size = as::conv2d_grad_input(c.op).input_size();
  if (dy[1] != w[0]) return c.errorAt(1, 3, "dy has {}, w gives {}", countText(dy[1], "channel"), w[0]);
  TG_CHECK(checkGroups(c, dy[1], w[0], 0));
  TG_CHECK(checkResult(c, windowOf(c.op, {w[2], w[3]}), size[0], size[1], 1));
  return Types{Type::tensor(c.in(at::conv2d_grad_input::dy).dtype,
                            {dy[0], w[1] * as::conv2d_grad_input(c.op).groups(), size[0], size[1]})};
}

Result<Types> types(at::conv2d_grad_weight, const Context& c) {
  TG_CHECK(checkImages(c));
  const Shape &x = c.shape(at::conv2d_grad_weight::x), &dy = c.shape(at::conv2d_grad_weight::dy);
  std::vector<int64_t> size = as::conv2d_grad_weight(c.op).kernel_size();
  if (x[0] != dy[0]) return c.errorAt(1, 3, "N differs: {} and {}", x[0], dy[0]);
  TG_CHECK(checkGroups(c, x[1], dy[1], 1));
  TG_CHECK(checkResult(c, windowOf(c.op), x[2], x[3], 1));
  return Types{
      Type::tensor(c.in(0).dtype, {dy[1], x[1] / as::conv2d_grad_weight(c.op).groups(), size[0], size[1]})};
}

Result<Types> types(at::conv_transpose2d, const Context& c) {
  TG_CHECK(checkImages(c));
  const Shape &x = c.shape(at::conv_transpose2d::x), &w = c.shape(at::conv_transpose2d::w);
  if (x[1] != w[0]) return c.errorAt(1, 3, "x has {}, w takes {}", countText(x[1], "channel"), w[0]);
  TG_CHECK(checkGroups(c, x[1], w[0], 0));
  Window window = windowOf(c.op, {w[2], w[3]});
  std::vector<int64_t> extra = as::conv_transpose2d(c.op).output_padding();
  Shape shape{x[0], w[1] * as::conv_transpose2d(c.op).groups()};
  for (int i = 0; i < 2; ++i) {
    const WindowAxis& axis = window[static_cast<size_t>(i)];
    int64_t more = extra[static_cast<size_t>(i)];
    if (more >= axis.step) return c.error(4, "output_padding {} is not below stride {}", more, axis.step);
    if (axis.step > kMaxElements / x[2 + i]) return c.error(4, "stride {} is too large", axis.step);
    int64_t extent = (x[2 + i] - 1) * axis.step - 2 * axis.padding + axis.span() + more;
    if (extent < 1) return c.errorAt(0, 4, "the result's extent would be {}", extent);
    shape.push(extent);
  }
  return Types{Type::tensor(c.in(0).dtype, shape)};
}

/// The windows of a pooling op, checked.
static Result<Window> poolWindow(const Context& c) {
  TG_CHECK(checkImages(c));
  Window window = windowOf(c.op);
  for (const WindowAxis& axis : window)
    if (2 * axis.padding > axis.size)
      return c.error(3, "padding {} is more than half of kernel {}", axis.padding, axis.size);
  return window;
}

/// The type of x with one element for each window.
static Result<Type> pooled(const Context& c) {
  TG_TRY(Window window, poolWindow(c));
  const Shape& x = c.shape(0);
  TG_TRY(auto counts, countWindows(c, window, x[2], x[3]));
  // At most half of the kernel is padding, so that a window can step over all of x, from padding into padding, only
  // in this way.
  for (int i = 0; i < 2; ++i)
    if (const WindowAxis& axis = window[static_cast<size_t>(i)]; axis.padding > 0 && axis.dilation > x[2 + i])
      return c.errorAt(0, 4, "a window of dilation {} lies in the padding around extent {} of axis {}",
                       axis.dilation, x[2 + i], 2 + i);
  return Type::tensor(c.in(0).dtype, {x[0], x[1], counts[0], counts[1]});
}

/// Types of max_pool2d and avg_pool2d, which share their constraints.
static Result<Types> pool(const Context& c) {
  TG_TRY(Type type, pooled(c));
  return Types{type};
}
Result<Types> types(at::max_pool2d, const Context& c) { return pool(c); }
Result<Types> types(at::avg_pool2d, const Context& c) { return pool(c); }

Result<Types> types(at::max_pool2d_grad, const Context& c) {
  TG_TRY(Type type, pooled(c));
  const Type& dy = c.in(at::max_pool2d_grad::dy);
  if (!(dy == type)) return c.errorAt(1, 5, "dy is {}, the pooled x {}", dy.str(), type.str());
  return Types{c.in(0)};
}

Result<Types> types(at::avg_pool2d_grad, const Context& c) {
  TG_TRY(Window window, poolWindow(c));
  const std::vector<int64_t> size = as::avg_pool2d_grad(c.op).input_size();
  TG_CHECK(checkResult(c, window, size[0], size[1], at::avg_pool2d_grad::dy));
  const Shape& dy = c.shape(at::avg_pool2d_grad::dy);
  return Types{Type::tensor(c.in(0).dtype, {dy[0], dy[1], size[0], size[1]})};
}

Result<Types> types(at::upsample_nearest2d, const Context& c) {
  TG_CHECK(checkImages(c));
  std::vector<int64_t> scale = as::upsample_nearest2d(c.op).scale();
  Shape shape = c.shape(0);
  for (int i = 0; i < 2; ++i) {
    int64_t factor = scale[static_cast<size_t>(i)];
    if (factor > kMaxElements / shape[2 + i])
      return c.error(2, "{} times scale {} is too large", shape[2 + i], factor);
    shape[2 + i] *= factor;
  }
  return Types{Type::tensor(c.in(0).dtype, shape)};
}

}  // namespace tg::inference
