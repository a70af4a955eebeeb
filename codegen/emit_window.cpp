// SPDX-License-Identifier: Apache-2.0
// Emission rules of windows: tg.unfold maps indices; tg.fold sums over the windows that an element lies in.
#include "codegen/emit_region.h"
#include "ir/divide.h"
#include "ir/infer.h"
#include "ir/op_view.h"

namespace tg {

/// The distance of element k of a window from the window's first position in the axis: k·dilation. A negative
/// dilation counts from the far end, since an index must never be negative.
Index RegionEmitter::windowOffset(const Index& k, int64_t size, int64_t dilation) {
  if (dilation > 0) return space_.scale(k, dilation);
  Index fromEnd = IndexSpace::constant(size - 1 - k.c);
  if (!k.isConstant()) {
    KV reversed =
        kernel_.op(Opcode::k_sub, {KernelBuilder::u32(size - 1), space_.materialize(k)}, DType::u32);
    fromEnd = space_.variable(reversed, size);
  }
  return space_.scale(fromEnd, -dilation);
}

Indices RegionEmitter::unfolded(const Op& op, const Indices& at) {
  const as::unfold unfold(op);
  Indices in(at.begin(), at.end() - 1);
  Index& position = in[static_cast<size_t>(normalAxis(unfold.axis(), op.in(0)->type.rank()))];
  position = space_.add(space_.scale(position, unfold.step()),
                        windowOffset(at.back(), unfold.size(), unfold.dilation()));
  return in;
}

KV RegionEmitter::element(at::unfold, const Op& op, const Indices& at) {
  if (as::unfold(op).dilation() < 0 && IndexSpace::usesLane(at.back())) return lanewise(op.result(), at);
  return emit(op.in(0), unfolded(op, at));
}

RegionEmitter::Hit RegionEmitter::hitWindow(const Op& op, const Index& element, const Index& trip, Index* k) {
  const Shape& windows = op.in(0)->type.shape;
  int64_t step = as::fold(op).step(), dilation = as::fold(op).dilation(), size = windows.back();
  int64_t count = windows[normalAxis(as::fold(op).axis(), op.result()->type.rank())];
  auto below = [&](const KV& value, int64_t limit) {
    return kernel_.op(Opcode::k_lt, {value, KernelBuilder::u32(limit)}, DType::i1);
  };
  Hit hit{KernelBuilder::literal(DType::i1, 1), {}, false};
  KV window;
  if (dilation == 1 || dilation == -1) {
    // Element q·step + r lies in the windows q - t, at place r + t·step. Every t is a round, and none is wasted.
    Index q = space_.div(element, step);
    Index within = space_.add(space_.mod(element, step), space_.scale(trip, step));
    if (space_.max(within) >= size) {
      KV value = space_.materialize(within);
      hit.cond = below(value, size);
      within = space_.variable(value, size);
    }
    *k = dilation > 0 ? within : windowOffset(within, size, -1);
    if (trip == IndexSpace::constant(0) && space_.max(q) < count) {
      hit.inside = q;
      return hit;
    }
    window = kernel_.op(Opcode::k_sub, {space_.materialize(q), space_.materialize(trip)}, DType::u32);
  } else {
    *k = trip;
    KV offset = space_.materialize(windowOffset(trip, size, dilation));
    window = kernel_.op(Opcode::k_sub, {space_.materialize(element), offset}, DType::u32);
    if (step > 1) {
      KV over = kernel_.op(Opcode::k_mod, {window, KernelBuilder::u32(step)}, DType::u32);
      hit.cond = kernel_.op(Opcode::k_eq, {over, KernelBuilder::u32(0)}, DType::i1);
      window = kernel_.op(Opcode::k_div, {window, KernelBuilder::u32(step)}, DType::u32);
    }
  }
  // A negative difference wraps around to a number above any count.
  hit.cond = kernel_.op(Opcode::k_and, {hit.cond, below(window, count)}, DType::i1);
  hit.inside = space_.variable(window, count);
  return hit;
}

/// Loops over the windows that may hold the element. A window that does not hold it is skipped by a branch, since
/// the operand may be costly.
KV RegionEmitter::element(at::fold, const Op& op, const Indices& at) {
  size_t axis = static_cast<size_t>(normalAxis(as::fold(op).axis(), op.result()->type.rank()));
  if (IndexSpace::usesLane(at[axis])) return lanewise(op.result(), at);
  int64_t size = op.in(0)->type.shape.back(), step = as::fold(op).step(), dilation = as::fold(op).dilation();
  int64_t trips = dilation == 1 || dilation == -1 ? divideCeil(size, step) : size;
  int level = levelOf(at);
  KV start = KernelBuilder::literal(op.result()->type.dtype, 0);
  if (IndexSpace::usesLane(at)) kernel_.at(level, [&] { start = kernel_.splat(start); });
  return over(level, trips, 1, {start}, [&](const Index& trip, const std::vector<KV>& carried) {
    Indices in = at;
    Index k;
    Hit window = hitWindow(op, at[axis], trip, &k);
    in[axis] = window.inside;
    in.push_back(k);
    return std::vector<KV>{kernel_.guarded(window.cond, carried[0],
                                           [&] { return kernel_.add(carried[0], emit(op.in(0), in)); })};
  })[0];
}

}  // namespace tg
