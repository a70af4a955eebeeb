// SPDX-License-Identifier: Apache-2.0
// The operations that move elements without computing with them.

#include <algorithm>
#include <functional>
#include <numeric>

#include "ir/infer.h"
#include "ir/trace/ops.h"
#include "ir/trace/recorder.h"

namespace tg::nn {

namespace {

using Ints = std::vector<int64_t>;

Ints extentsOf(const Arg& x) { return {x.shape().begin(), x.shape().end()}; }

/// Extents with the first left open (-1), so that they hold for another batch than the traced one.
Ints followingBatch(Ints shape) {
  shape.front() = -1;
  return shape;
}

/// An error about an axis; if the operand is invalid, returns it, because its error is known already.
Tensor badAxis(const Arg& x, const char* function, int64_t axis) {
  if (!x.tensor().valid()) return x.tensor();
  return Recorder::fail(x.site(), "{}: axis {} is out of range for {}", function, axis,
                        Type::tensor(x.tensor().dtype(), x.shape()).str());
}

}  // namespace

Tensor reshape(const Arg& x, const Dims& shape) {
  return make(Opcode::reshape, {x}, {{"shape", Attr::ints(shape.values())}});
}

Tensor flatten(const Arg& x, int first) {
  int axis = normalAxis(first, x.rank());
  if (axis < 0) return badAxis(x, "flatten", first);
  Ints shape = extentsOf(x);
  const int64_t joined = std::accumulate(shape.begin() + axis, shape.end(), int64_t{1}, std::multiplies<>());
  shape.resize(static_cast<size_t>(axis));
  shape.push_back(joined);
  return reshape(x, followingBatch(std::move(shape)));
}

Tensor transpose(const Arg& x, const Dims& perm) {
  Ints axes = perm.values();
  for (int64_t& axis : axes) axis = fromFront(axis, x.rank());
  return make(Opcode::transpose, {x}, {{"perm", Attr::ints(axes)}});
}

Tensor swapAxes(const Arg& x, int a, int b) {
  return make(Opcode::swap_axes, {x},
              {{"axis0", Attr::of(fromFront(a, x.rank()))}, {"axis1", Attr::of(fromFront(b, x.rank()))}});
}

Tensor flip(const Arg& x, const Axes& axes) {
  return make(Opcode::flip, {x}, {{"axes", Attr::ints(axes.of(x.rank()))}});
}

Tensor tile(const Arg& x, const Dims& repeats) {
  return make(Opcode::tile, {x}, {{"repeats", Attr::ints(repeats.values())}});
}

Tensor stack(const Args& xs, int axis) {
  int rank = xs.list().empty() ? 0 : xs.list().front().rank() + 1;
  return Recorder::emit(
      xs.site(),
      {.code = Opcode::stack, .operands = xs.list(), .attrs = {{"axis", Attr::of(fromFront(axis, rank))}}});
}

std::vector<Tensor> split(const Arg& x, int64_t sections, int axis) {
  constexpr int64_t kMostSections = 1 << 16;  // that are returned as invalid tensors after an error
  int count = static_cast<int>(std::clamp<int64_t>(sections, 1, kMostSections));
  return makeAll(Opcode::split, {x},
                 {{"axis", Attr::of(fromFront(axis, x.rank()))}, {"sections", Attr::of(sections)}}, count);
}

std::vector<Tensor> split(const Arg& x, const Dims& sizes, int axis) {
  return makeAll(Opcode::split, {x},
                 {{"axis", Attr::of(fromFront(axis, x.rank()))}, {"sizes", Attr::ints(sizes.values())}},
                 std::max(1, static_cast<int>(sizes.values().size())));
}

Tensor takeAlongAxis(const Arg& x, const Arg& ids, int axis) {
  return make(Opcode::take_along_axis, {x, ids}, {{"axis", Attr::of(fromFront(axis, x.rank()))}});
}

Tensor slice(const Arg& x, int axis, int64_t start, int64_t limit, int64_t stride) {
  int at = normalAxis(axis, x.rank());
  if (at < 0) return badAxis(x, "slice", axis);
  Ints starts(static_cast<size_t>(x.rank()), 0), limits = extentsOf(x), strides(starts.size(), 1);
  auto place = static_cast<size_t>(at);
  int64_t extent = limits[place];
  starts[place] = start < 0 ? start + extent : start;
  limits[place] = limit < 0 ? limit + extent : limit;
  strides[place] = stride;
  return slice(x, starts, limits, stride == 1 ? Dims() : Dims(strides));
}

Tensor slice(const Arg& x, const Dims& starts, const Dims& limits, const Dims& strides) {
  return make(Opcode::slice, {x},
              {{"starts", Attr::ints(starts.values())},
               {"limits", Attr::ints(limits.values())},
               {"strides", Attr::ints(strides.values())}});
}

Tensor sliceLastRange(const Arg& x, int64_t start, int64_t limit) { return slice(x, -1, start, limit); }

Tensor pad(const Arg& x, const Dims& low, const Dims& high, double value) {
  return make(
      Opcode::pad, {x},
      {{"low", Attr::ints(low.values())}, {"high", Attr::ints(high.values())}, {"value", Attr::of(value)}});
}

Tensor concat(const Args& xs, int axis) {
  int rank = xs.list().empty() ? 0 : xs.list().front().rank();
  return Recorder::emit(
      xs.site(),
      {.code = Opcode::concat, .operands = xs.list(), .attrs = {{"axis", Attr::of(fromFront(axis, rank))}}});
}

Tensor broadcastTo(const Arg& x, const Dims& shape) {
  return make(Opcode::broadcast_to, {x}, {{"shape", Attr::ints(shape.values())}});
}

Tensor splitHeads(const Arg& x, int64_t heads) {
  CallSite here(x.site());
  if (!x.tensor().valid()) return x.tensor();
  Ints shape = extentsOf(x);
  if (x.rank() < 2 || heads < 1 || shape.back() % heads)
    return Recorder::fail(x.site(), "splitHeads: {} does not split into {} heads",
                          Type::tensor(x.tensor().dtype(), x.shape()).str(), heads);
  int64_t width = shape.back() / heads;
  shape.back() = heads;
  shape.push_back(width);
  return swapAxes(reshape(x, followingBatch(std::move(shape))), -2, -3);
}

Tensor mergeHeads(const Arg& x) {
  CallSite here(x.site());
  if (!x.tensor().valid()) return x.tensor();
  if (x.rank() < 3) return Recorder::fail(x.site(), "mergeHeads: the operand needs rank 3 or more");
  Tensor apart = swapAxes(x, -2, -3);
  Ints shape = extentsOf(apart);
  int64_t width = shape.back();
  shape.pop_back();
  shape.back() *= width;
  return reshape(apart, followingBatch(std::move(shape)));
}

}  // namespace tg::nn
