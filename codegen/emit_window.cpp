// Pulling of windows: unfold as an index map, fold as a sum over the windows an element lies in.
#include "codegen/emit_region.h"
#include "ir/infer.h"

namespace tg {

/// How far element k of a window is from the window's first in the axis: k·dilation, or counted from the
/// far end when the dilation is negative. Indices never get negative terms.
Index RegionEmitter::windowOffset(const Index& k, int64_t size, int64_t dilation) {
  if (dilation > 0) return space_.scale(k, dilation);
  Index fromEnd = IndexSpace::constant(size - 1 - k.c);
  if (!k.isConstant()) {
    KV reversed = kernel_.op(Opcode::k_sub, {KernelBuilder::u32(size - 1), space_.materialize(k)}, DType::u32);
    fromEnd = space_.variable(reversed, size);
  }
  return space_.scale(fromEnd, -dilation);
}

KV RegionEmitter::unfold(const Op& op, const Indices& at) {
  int64_t size = op.intAttr("size"), dilation = op.intAttr("dilation");
  if (dilation < 0 && IndexSpace::usesLane(at.back())) return lanewise(op.result(), at);
  Indices in(at.begin(), at.end() - 1);
  Index& position = in[static_cast<size_t>(normalAxis(op.intAttr("axis"), op.in(0)->type.rank()))];
  position =
      space_.add(space_.scale(position, op.intAttr("step")), windowOffset(at.back(), size, dilation));
  return emit(op.in(0), in);
}

KV RegionEmitter::fold(const Op& op, const Indices& at) {
  const Shape& windows = op.in(0)->type.shape;
  size_t axis = static_cast<size_t>(normalAxis(op.intAttr("axis"), op.result()->type.rank()));
  if (IndexSpace::usesLane(at[axis])) return lanewise(op.result(), at);
  int64_t step = op.intAttr("step"), size = windows.back(), count = windows[static_cast<int>(axis)];
  int level = levelOf(at);
  KV element = space_.materialize(at[axis]);
  KV start = KernelBuilder::literal(op.result()->type.dtype, 0);
  if (IndexSpace::usesLane(at)) kernel_.at(level, [&] { start = kernel_.splat(start); });
  return over(level, size, 1, {start}, [&](const Index& k, const std::vector<KV>& carried) {
    // The window whose element k this is: o·step = rest. A rest below zero wraps to above any count·step.
    KV offset = space_.materialize(windowOffset(k, size, op.intAttr("dilation")));
    KV rest = kernel_.op(Opcode::k_sub, {element, offset}, DType::u32);
    KV window = rest;
    KV hits = KernelBuilder::literal(DType::i1, 1);
    if (step > 1) {
      window = kernel_.op(Opcode::k_div, {rest, KernelBuilder::u32(step)}, DType::u32);
      KV over = kernel_.op(Opcode::k_mod, {rest, KernelBuilder::u32(step)}, DType::u32);
      hits = kernel_.op(Opcode::k_eq, {over, KernelBuilder::u32(0)}, DType::i1);
    }
    KV exists = kernel_.op(Opcode::k_lt, {window, KernelBuilder::u32(count)}, DType::i1);
    hits = step > 1 ? kernel_.op(Opcode::k_and, {hits, exists}, DType::i1) : exists;
    return std::vector<KV>{kernel_.guarded(hits, carried[0], [&] {
      Indices in = at;
      in[axis] = space_.variable(window, count);
      in.push_back(k);
      return kernel_.add(carried[0], emit(op.in(0), in));
    })};
  })[0];
}

}  // namespace tg
