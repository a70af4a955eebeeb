// SPDX-License-Identifier: Apache-2.0
// Emission rules of elementwise ops, constants, views, and indexing (pad, concat, gather): ops whose elements need
// no loop.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "codegen/emit_region.h"
#include "ir/infer.h"
#include "ir/kernel/expr.h"
#include "ir/op_view.h"

namespace tg {

KV RegionEmitter::broadcastOperand(const Value* v, const Shape& to, const Indices& at) {
  int added = to.rank() - v->type.rank();
  Indices in;
  for (int axis = 0; axis < v->type.rank(); ++axis)
    in.push_back(v->type.shape[axis] == 1 ? IndexSpace::constant(0) : at[static_cast<size_t>(axis + added)]);
  return emit(v, in);
}

KV RegionEmitter::elementwise(const Op& op, const Indices& at) {
  std::vector<KV> operands;
  for (int i = 0; i < op.numOperands(); ++i)
    operands.push_back(broadcastOperand(op.in(i), op.result()->type.shape, at));
  kernel_.hint(op.result()->name);
  KV value = lowerScalar(kernel_, op.info().scalar, operands);
  kernel_.hint("");
  return value;
}

/// A table of several values becomes a chain of selects on the element's index.
KV RegionEmitter::element(at::constant, const Op& op, const Indices& at) {
  DType dtype = op.result()->type.dtype;
  const Operand& value = op.operands[0];
  if (value.isLiteral()) return KernelBuilder::literal(dtype, value.number());
  constexpr size_t kLargestTable = 256;  // beyond this a parameter with init = dense<…> is the right form
  if (value.items.size() > kLargestTable && problem_.empty())
    problem_ = failAt(op.loc,
                      "a constant of {} values, more than {}; make it a param with init = dense<…>, read "
                      "through tg.stop_gradient so that no optimizer changes it",
                      value.items.size(), kLargestTable);
  KV index = space_.materialize(space_.linear(at, op.result()->type.shape));
  KV out = KernelBuilder::literal(dtype, value.items[0].number());
  for (size_t i = 1; i < std::min(value.items.size(), kLargestTable); ++i) {
    KV here = kernel_.op(Opcode::k_eq, {index, KernelBuilder::u32(static_cast<int64_t>(i))}, DType::i1);
    out = kernel_.select(here, KernelBuilder::literal(dtype, value.items[i].number()), out);
  }
  return out;
}

KV RegionEmitter::element(at::iota, const Op& op, const Indices& at) {
  int axis = normalAxis(as::iota(op).axis(), op.result()->type.rank());
  return kernel_.cast(space_.materialize(at[static_cast<size_t>(axis)]), op.result()->type.dtype);
}

/// column <= row + columns - rows: the diagonal ends in the last row's last column.
KV RegionEmitter::element(at::causal_mask, const Op& op, const Indices& at) {
  const Shape& shape = op.result()->type.shape;
  const int64_t more = shape.back() - shape[shape.rank() - 2];
  auto place = [&](const Index& index) { return kernel_.cast(space_.materialize(index), DType::i32); };
  KV column = place(at.back()), row = place(at[at.size() - 2]);
  if (more != 0)
    row = lowerScalar(kernel_, Scalar::add,
                      {row, KernelBuilder::literal(DType::i32, static_cast<double>(more))});
  kernel_.hint(op.result()->name);
  KV value = lowerScalar(kernel_, Scalar::less_equal, {column, row});
  kernel_.hint("");
  return value;
}

KV RegionEmitter::element(at::reshape, const Op& op, const Indices& at) {
  const Shape& to = op.in(0)->type.shape;
  Index offset = space_.linear(at, op.result()->type.shape);
  const Value* origin = op.in(0);
  while (origin->def && origin->def->code == Opcode::reshape) origin = origin->def->in(0);
  // A binding's shape means nothing in memory, so four lanes may straddle its rows.
  if (auto it = bindingOf_.find(origin); it != bindingOf_.end()) return load(it->second, offset);
  if (!space_.laneDelinearizes(offset, to)) return lanewise(op.result(), at);
  return emit(op.in(0), space_.delinear(offset, to));
}

KV RegionEmitter::element(at::slice, const Op& op, const Indices& at) {
  std::vector<int64_t> starts = as::slice(op).starts(), strides = as::slice(op).strides();
  Indices in;
  for (size_t i = 0; i < at.size(); ++i)
    in.push_back(
        space_.add(space_.scale(at[i], strides.empty() ? 1 : strides[i]), IndexSpace::constant(starts[i])));
  return emit(op.in(0), in);
}

/// A number that divides the factors of all terms; 1 if a factor is negative.
static int64_t stepOf(const Index& index) {
  int64_t step = 0;
  for (auto [variable, factor] : index.terms) step = factor < 0 ? 1 : std::gcd(step, factor);
  return std::max<int64_t>(step, 1);
}

/// (index - index.c + number) / step, where step divides every factor and the number. Wraps around in u32 if the
/// sum is negative; the caller's predicate is false there.
KV RegionEmitter::quotient(Index index, int64_t number, int64_t step) {
  index.c = 0;
  for (auto& [variable, factor] : index.terms) factor /= step;
  KV value = space_.materialize(index), by = KernelBuilder::u32(std::abs(number / step));
  if (number == 0) return value;
  return number > 0 ? kernel_.add(value, by) : kernel_.op(Opcode::k_sub, {value, by}, DType::u32);
}

std::pair<KV, Index> RegionEmitter::ofRow(const Index& at, int64_t count) {
  // With barriers, every load precedes the first store.
  const bool barriers = rows_.subgroup == 1 || rows_.width != rows_.subgroup;
  const Index first = space_.scale(rows_.lane, IndexSpace::usesLane(at) ? kLanes : 1);
  const bool all = space_.max(first) < count;  // each invocation has at least one element
  const Hit part = hit(at, 0, count, all && !barriers ? first : Index{});
  if (!all && !barriers && !part.cond.isLiteral())
    for (const auto& [variable, factor] : part.inside.terms)
      if (variable != kLane) busy_.emplace(variable, part.cond);
  return {part.cond, part.inside};
}

/// Decides as much as it can at compile time: bounds that the index's range excludes need no test, and a constant
/// index gives a literal. The test of a vector must come out the same for its four lanes: they are an aligned four,
/// and four divides both bounds. Else the caller has to split it.
RegionEmitter::Hit RegionEmitter::hit(const Index& at, int64_t low, int64_t extent, const Index& elsewhere) {
  Hit out{KernelBuilder::literal(DType::i1, 1), space_.add(at, IndexSpace::constant(-low)), false};
  bool needLow = low > 0, needHigh = space_.max(at) >= low + extent;
  if (!needLow && !needHigh) return out;
  Index base = IndexSpace::atLane(at, 0);
  bool lanes = IndexSpace::usesLane(at);
  if (lanes && (IndexSpace::factor(at, kLane) != 1 || low % kLanes || extent % kLanes ||
                space_.align(base) % kLanes)) {
    out.split = true;
    return out;
  }
  if (base.isConstant()) {
    bool inside = base.c >= low && base.c < low + extent;
    out.cond = KernelBuilder::literal(DType::i1, inside);
    out.inside =
        space_.add(IndexSpace::constant(inside ? base.c - low : 0), lanes ? IndexSpace::lane() : Index{});
    return out;
  }
  KV value = space_.materialize(base);
  KV above = kernel_.op(Opcode::k_ge, {value, KernelBuilder::u32(low)}, DType::i1);
  KV below = kernel_.op(Opcode::k_lt, {value, KernelBuilder::u32(low + extent)}, DType::i1);
  out.cond = needLow && needHigh ? kernel_.op(Opcode::k_and, {above, below}, DType::i1)
             : needLow           ? above
                                 : below;
  // Where the predicate is false, reads an element in range whose distance from a multiple of the index's step is
  // that of `at`. So the lane of an element among its four neighbours stays known at compile time.
  int64_t step = lanes ? 1 : stepOf(base), first = base.c - low, rest = (first % step + step) % step;
  if (rest >= extent) step = 1, rest = 0;
  KV count = quotient(base, first - rest, step);
  Index safe =
      space_.variable(kernel_.select(out.cond, count, space_.materialize(space_.div(elsewhere, step))),
                      (extent - 1 - rest) / step + 1, lanes ? kLanes : 1);
  out.inside = space_.add(space_.add(space_.scale(safe, step), IndexSpace::constant(rest)),
                          lanes ? IndexSpace::lane() : Index{});
  return out;
}

/// Unlike `whereInside`, without branches.
KV RegionEmitter::within(const Index& a, int64_t countA, const Index& b, int64_t countB, const AtTwo& body) {
  Hit first = hit(a, 0, countA), second = hit(b, 0, countB);
  KV value = kernel_.select(second.cond, body(first.inside, second.inside), KernelBuilder::f32(0));
  return kernel_.select(first.cond, value, KernelBuilder::f32(0));
}

void RegionEmitter::whereInside(const Index& a, int64_t countA, const Index& b, int64_t countB,
                                const std::function<void(const Index&, const Index&)>& body) {
  auto bound = [&](const Index& index, int64_t count, const std::function<void(const Index&)>& inside) {
    if (space_.max(index) < count) return inside(index);
    if (index.isConstant()) return;  // always outside
    KV value = space_.materialize(index);
    kernel_.guard(kernel_.op(Opcode::k_lt, {value, KernelBuilder::u32(count)}, DType::i1),
                  [&] { inside(space_.variable(value, count)); });
  };
  bound(a, countA, [&](const Index& insideA) {
    bound(b, countB, [&](const Index& insideB) { body(insideA, insideB); });
  });
}

KV RegionEmitter::element(at::flip, const Op& op, const Indices& at) {
  const Shape& shape = op.result()->type.shape;
  Indices in = at;
  for (int64_t given : as::flip(op).axes()) {
    int axis = normalAxis(given, shape.rank());
    Index& index = in[static_cast<size_t>(axis)];
    index = space_.add(IndexSpace::constant(shape[axis] - 1), space_.scale(index, -1));
  }
  return emit(op.in(0), in);
}

/// The predicate is the conjunction over the axes: the index lies between the low and the high padding, and on no
/// interior padding.
KV RegionEmitter::element(at::pad, const Op& op, const Indices& at) {
  std::vector<int64_t> low = as::pad(op).low(), interior = as::pad(op).interior();
  const Shape& inner = op.in(0)->type.shape;
  KV cond = KernelBuilder::literal(DType::i1, 1);
  auto require = [&](const KV& also) { cond = kernel_.op(Opcode::k_and, {cond, also}, DType::i1); };
  Indices in;
  for (size_t i = 0; i < at.size(); ++i) {
    int64_t step = interior.empty() ? 1 : interior[i] + 1;
    if (step > 1 && IndexSpace::usesLane(at[i])) return lanewise(op.result(), at);
    Hit part = hit(at[i], low[i], (inner[static_cast<int>(i)] - 1) * step + 1);
    if (part.split) return lanewise(op.result(), at);
    require(part.cond);
    Index off = space_.mod(part.inside, step);
    if (off.isConstant())
      require(KernelBuilder::literal(DType::i1, off.c == 0));
    else
      require(kernel_.op(Opcode::k_eq, {space_.materialize(off), KernelBuilder::u32(0)}, DType::i1));
    in.push_back(space_.div(part.inside, step));
  }
  KV fill = KernelBuilder::literal(op.result()->type.dtype, as::pad(op).value());
  return cond.is(0) ? fill : kernel_.select(cond, emit(op.in(0), in), fill);
}

/// A chain of selects over the parts. The last part needs no test; parts that the index never hits are left out.
KV RegionEmitter::element(at::concat, const Op& op, const Indices& at) {
  size_t axis = static_cast<size_t>(normalAxis(as::concat(op).axis(), op.result()->type.rank()));
  // All tests come before the first load: if one part forces the lanes apart, no other part is read as vectors.
  std::vector<Hit> hits;
  int64_t low = 0;
  for (int i = 0; i < op.numOperands(); ++i) {
    int64_t extent = op.in(i)->type.shape[static_cast<int>(axis)];
    hits.push_back(hit(at[axis], low, extent));
    if (hits.back().split) return lanewise(op.result(), at);
    low += extent;
  }
  KV out;
  bool any = false;
  for (int i = op.numOperands() - 1; i >= 0; --i) {
    const Hit& part = hits[static_cast<size_t>(i)];
    if (part.cond.is(0)) continue;
    Indices in = at;
    in[axis] = part.inside;
    KV piece = emit(op.in(i), in);
    out = any ? kernel_.select(part.cond, piece, out) : piece;
    any = true;
  }
  return out;
}

RegionEmitter::Hit RegionEmitter::idHit(const KV& id, int64_t extent) {
  const DType type = id.type.dtype;
  const KV zero = KernelBuilder::literal(type, 0),
           end = KernelBuilder::literal(type, static_cast<double>(extent));
  const KV notNegative = type == DType::u32 ? KernelBuilder::literal(DType::i1, 1)
                                            : kernel_.op(Opcode::k_ge, {id, zero}, DType::i1);
  const KV cond =
      kernel_.op(Opcode::k_and, {notNegative, kernel_.op(Opcode::k_lt, {id, end}, DType::i1)}, DType::i1);
  const KV safe = kernel_.cast(kernel_.select(cond, id, zero), DType::u32);
  return {cond, space_.variable(safe, extent), false};
}

/// The row of an id that is out of range is 0, and its load is made at id 0.
KV RegionEmitter::element(at::gather, const Op& op, const Indices& at) {
  const Type &table = as::gather(op).table()->type, &ids = as::gather(op).ids()->type;
  Indices idAt(at.begin(), at.begin() + ids.rank());
  if (IndexSpace::usesLane(idAt)) return lanewise(op.result(), at);
  Hit row = idHit(emit(as::gather(op).ids(), idAt), table.shape[0]);
  Indices in{row.inside};
  in.insert(in.end(), at.begin() + ids.rank(), at.end());
  return kernel_.select(row.cond, emit(op.in(0), in), KernelBuilder::literal(table.dtype, 0));
}

KV RegionEmitter::element(at::take_along_axis, const Op& op, const Indices& at) {
  if (IndexSpace::usesLane(at)) return lanewise(op.result(), at);
  const Type& x = op.in(0)->type;
  int axis = normalAxis(as::take_along_axis(op).axis(), x.rank());
  Hit place = idHit(emit(as::take_along_axis(op).ids(), at), x.shape[axis]);
  Indices in = at;
  in[static_cast<size_t>(axis)] = place.inside;
  return kernel_.select(place.cond, emit(op.in(0), in), KernelBuilder::literal(x.dtype, 0));
}

KV RegionEmitter::element(at::one_hot, const Op& op, const Indices& at) {
  KV id = emit(op.in(0), Indices(at.begin(), at.end() - 1));
  KV column = kernel_.cast(space_.materialize(at.back()), op.in(0)->type.dtype);
  return kernel_.select(kernel_.op(Opcode::k_eq, {id, column}, DType::i1), KernelBuilder::f32(1),
                        KernelBuilder::f32(0));
}

KV RegionEmitter::element(at::cast, const Op& op, const Indices& at) {
  return kernel_.cast(emit(op.in(0), at), op.result()->type.dtype);
}

KV RegionEmitter::element(at::one_minus_pow, const Op& op, const Indices& at) {
  return lowerOneMinusPow(kernel_, emit(op.in(0), at), as::one_minus_pow(op).base());
}

KV RegionEmitter::element(at::broadcast_to, const Op& op, const Indices& at) {
  return broadcastOperand(op.in(0), op.result()->type.shape, at);
}

KV RegionEmitter::element(at::transpose, const Op& op, const Indices& at) {
  std::vector<int64_t> perm = as::transpose(op).perm();
  Indices in(at.size());
  for (size_t i = 0; i < perm.size(); ++i) in[static_cast<size_t>(perm[i])] = at[i];
  return emit(op.in(0), in);
}

}  // namespace tg
