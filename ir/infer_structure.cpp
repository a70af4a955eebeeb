// SPDX-License-Identifier: Apache-2.0
// Inference of rearrangements along axes, of reads by index along one axis, and of concatenation.
#include <array>

#include "ir/access.h"
#include "ir/infer.h"
#include "ir/infer_context.h"
#include "ir/op_view.h"
#include "ir/text.h"

namespace tg::inference {

Result<void> checkAxes(const Context& c, const std::vector<int64_t>& axes, int rank, int constraint) {
  std::array<bool, kMaxRank> seen{};
  for (int64_t axis : axes) {
    int normal = normalAxis(axis, rank);
    if (normal < 0) return c.error(constraint, "axis {} is out of range for rank {}", axis, rank);
    if (seen[normal]) return c.error(constraint, "axis {} is given twice", axis);
    seen[normal] = true;
  }
  return {};
}

Result<Types> types(at::flip, const Context& c) {
  TG_CHECK(checkAxes(c, as::flip(c.op).axes(), c.in(0).rank(), 1));
  return Types{c.in(0)};
}

Result<Types> types(at::swap_axes, const Context& c) {
  Type type = c.in(0);
  TG_TRY(int a, c.axisOf("axis0", type.rank(), 1));
  TG_TRY(int b, c.axisOf("axis1", type.rank(), 1));
  std::swap(type.shape[a], type.shape[b]);
  return Types{type};
}

Result<Types> types(at::stack, const Context& c) {
  if (c.op.operands.empty()) return c.error(1, "there is no operand to join");
  for (int i = 1; i < c.op.numOperands(); ++i) TG_CHECK(c.isLikeFirst(i, 1));
  int rank = c.in(0).rank() + 1;
  if (rank > kMaxRank) return c.errorAt(0, 2, "the result's rank is over {}", kMaxRank);
  TG_TRY(int at, c.axisOf("axis", rank, 2));
  Shape shape;
  for (int axis = 0; axis < rank; ++axis)
    shape.push(axis == at ? c.op.numOperands() : c.shape(0)[axis < at ? axis : axis - 1]);
  return Types{Type::tensor(c.in(0).dtype, shape)};
}

/// Checks that only the host reads the result: no kernel can bind it.
static Result<void> checkReaders(const Context& c) {
  for (const auto& result : c.op.results)
    for (const Use& use : result->uses)
      if (const Op* reader = use.user(); !hostReads(*reader))
        return c.error(4, "{} reads %{}, which only the host may read", reader->info().name, result->name);
  return {};
}

Result<Types> types(at::adjoin, const Context& c) {
  TG_TRY(const Type type, c.declared());
  if (c.op.numOperands() == 0) return c.error(1, "it has no operand");
  int64_t elements = 0;
  for (int i = 0; i < c.op.numOperands(); ++i) {
    const Type& part = c.in(i);
    if (part.dtype != type.dtype)
      return c.errorAt(i, 2, "operand {} is {}, the result {}", i, part.str(), type.str());
    if (i + 1 < c.op.numOperands() && part.bytes() % kMemberAlignment != 0)
      return c.errorAt(i, 3, "operand {} takes {} bytes, no multiple of {}", i, part.bytes(),
                       kMemberAlignment);
    elements += part.elements();
  }
  if (elements != type.elements())
    return c.error(2, "the operands have {}, {} has {}", countText(elements, "element"), type.str(),
                   type.elements());
  TG_CHECK(checkReaders(c));
  return Types{type};
}

Result<Types> types(at::disjoin, const Context& c) {
  const Type& whole = c.in(0);
  if (c.op.in(0)->def) return c.errorAt(0, 1, "%{} is no argument of the function", c.op.in(0)->name);
  if (c.op.results.empty()) return c.error(2, "it has no result");
  Types out;
  int64_t elements = 0;
  for (int i = 0; i < static_cast<int>(c.op.results.size()); ++i) {
    const Type& part = c.op.result(i)->type;
    if (!part.isTensor() || part.dtype != whole.dtype)
      return c.error(2, "result {} is {}, the operand {}", i, part.str(), whole.str());
    if (i + 1 < static_cast<int>(c.op.results.size()) && part.bytes() % kMemberAlignment != 0)
      return c.error(3, "result {} takes {} bytes, no multiple of {}", i, part.bytes(), kMemberAlignment);
    elements += part.elements();
    out.push_back(part);
  }
  if (elements != whole.elements())
    return c.error(2, "the results have {}, {} has {}", countText(elements, "element"), whole.str(),
                   whole.elements());
  return out;
}

Result<Types> types(at::split, const Context& c) {
  TG_TRY(int axis, c.axisOf("axis", c.in(0).rank(), 1));
  std::vector<int64_t> sizes = as::split(c.op).sizes();
  int64_t sections = as::split(c.op).sections(), extent = c.shape(0)[axis];
  if ((sections != 0) == !sizes.empty()) return c.error(2, "give exactly one of sections and sizes");
  if (sections != 0) {
    if (sections < 0 || extent % sections != 0)
      return c.errorAt(0, 3, "{} sections do not divide axis {} with extent {}", sections, axis, extent);
    sizes.assign(static_cast<size_t>(sections), extent / sections);
  }
  int64_t left = extent;
  for (int64_t size : sizes) {
    if (size < 1 || size > left)
      return c.errorAt(0, 4, "sizes {} do not cut axis {} with extent {}", c.op.attr("sizes").str(), axis,
                       extent);
    left -= size;
  }
  if (left)
    return c.errorAt(0, 4, "sizes {} leave {} of axis {} with extent {}", c.op.attr("sizes").str(), left,
                     axis, extent);
  Types out(sizes.size(), c.in(0));
  for (size_t i = 0; i < sizes.size(); ++i) out[i].shape[axis] = sizes[i];
  return out;
}

Result<Types> types(at::tile, const Context& c) {
  std::vector<int64_t> repeats = as::tile(c.op).repeats();
  int rank = static_cast<int>(std::min<size_t>(repeats.size(), kMaxRank + 1));
  int added = rank - c.in(0).rank();
  if (added < 0) return c.errorAt(0, 1, "repeats need {} entries or more", c.in(0).rank());
  if (rank > kMaxRank) return c.errorAt(0, 3, "the result's rank is over {}", kMaxRank);
  Shape shape;
  int split = 0;  // axes that the decomposition splits in two: repeated ones of more than one element
  for (int axis = 0; axis < rank; ++axis) {
    int64_t extent = axis < added ? 1 : c.shape(0)[axis - added], times = repeats[static_cast<size_t>(axis)];
    if (times < 1) return c.error(2, "repeat {} is not positive", times);
    if (times > kMaxElements / extent)
      return c.error(2, "repeat {} is over {}", times, kMaxElements / extent);
    split += times > 1 && extent > 1;
    shape.push(extent * times);
  }
  if (rank + split > kMaxRank)
    return c.errorAt(0, 3,
                     "the rank, {}, and one more for each repeated axis of two elements or more, {}, are "
                     "over {} together{}",
                     rank, split, kMaxRank, rank < kMaxRank ? "; tile one axis after the other" : "");
  return Types{Type::tensor(c.in(0).dtype, shape)};
}

Result<Types> types(at::where_causal, const Context& c) {
  const Type& x = c.in(0);
  if (x.rank() < 2) return c.errorAt(0, 1, "x is {}, of rank under 2", x.str());
  TG_CHECK(c.mayHold(x.dtype, as::where_causal(c.op).fill(), 2, "fill"));
  return Types{x};
}

Result<Types> types(at::take_along_axis, const Context& c) {
  const Type &x = c.in(at::take_along_axis::x), &ids = c.in(at::take_along_axis::ids);
  TG_TRY(int axis, c.axisOf("axis", x.rank(), 1));
  bool fits = ids.rank() == x.rank();
  for (int i = 0; fits && i < x.rank(); ++i) fits = i == axis || ids.shape[i] == x.shape[i];
  if (!fits)
    return c.errorAt(1, 2, "ids {} do not match {} on the axes other than {}", ids.str(), x.str(), axis);
  return Types{Type::tensor(x.dtype, ids.shape)};
}

Result<Types> types(at::take_along_axis_grad, const Context& c) {
  Type type = c.in(at::take_along_axis_grad::dy);
  TG_TRY(int axis, c.axisOf("axis", type.rank(), 1));
  if (!(c.shape(at::take_along_axis_grad::ids) == c.shape(at::take_along_axis_grad::dy)))
    return c.errorAt(1, 2, "shapes differ: {} and {}", c.in(at::take_along_axis_grad::ids).str(),
                     c.in(at::take_along_axis_grad::dy).str());
  int64_t extent = as::take_along_axis_grad(c.op).extent();
  if (extent < 1) return c.error(3, "extent = {} is not positive", extent);
  type.shape[axis] = extent;
  return Types{type};
}

}  // namespace tg::inference
