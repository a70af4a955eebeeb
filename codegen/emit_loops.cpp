// SPDX-License-Identifier: Apache-2.0
// Emission rules of ops that need a loop: reductions, argmax and argmin, cumsum, scatters, matmul. A reduction is
// computed by each invocation alone, or shared by the invocations of a row (RowLanes): each takes every width-th
// element, then all combine their partial results.
#include <algorithm>
#include <limits>

#include "codegen/emit_region.h"
#include "codegen/product.h"
#include "codegen/schedule.h"
#include "ir/divide.h"
#include "ir/infer.h"
#include "ir/op_view.h"

namespace tg {

std::vector<KV>
RegionEmitter::over(int level, int64_t extent, int64_t step, const std::vector<KV>& init,
                    const std::function<std::vector<KV>(const Index&, const std::vector<KV>&)>& body,
                    int64_t inlined, bool sums) {
  int64_t trips = extent / step;
  std::vector<KV> carried = init;
  if (trips <= inlined) {  // so few cost less as straight code than a loop's bookkeeping does
    kernel_.at(level, [&] {
      for (int64_t trip = 0; trip < trips; ++trip) carried = body(IndexSpace::constant(trip * step), carried);
    });
    return carried;
  }
  int64_t unroll = trips % inlined == 0 ? inlined : trips % 4 == 0 ? 4 : trips % 2 == 0 ? 2 : 1;
  // The loop counts rounds and multiplies, so that the index algebra sees multiples of the step.
  auto round = [&](const KV& k, const std::vector<KV>& inside) {
    Index base = space_.scale(space_.variable(k, trips / unroll), step * unroll);
    std::vector<KV> values = inside;
    for (int64_t part = 0; part < unroll; ++part)
      values = body(space_.add(base, IndexSpace::constant(part * step)), values);
    return values;
  };
  if (sums) return kernel_.sumLoop(level, trips / unroll, kSumBlock / unroll, init, round);
  return kernel_.loop(level, KernelBuilder::u32(0), trips / unroll, 1, init, round);
}

KV RegionEmitter::sumOver(int level, int64_t extent, int64_t step, const KV& zero,
                          const std::function<KV(const Index&, const KV&)>& body, int64_t inlined) {
  return over(
      level, extent, step, {zero},
      [&](const Index& index, const std::vector<KV>& carried) {
        return std::vector<KV>{body(index, carried[0])};
      },
      inlined, isFloat(zero.type.dtype))[0];
}

/// Combines the four lanes of a vector, as a tree.
KV RegionEmitter::horizontal(const KV& vector, Opcode combine) {
  DType dtype = vector.type.dtype;
  std::array<KV, kLanes> lanes;
  for (int lane = 0; lane < kLanes; ++lane) lanes[static_cast<size_t>(lane)] = kernel_.extract(vector, lane);
  KV low = kernel_.op(combine, {lanes[0], lanes[1]}, dtype),
     high = kernel_.op(combine, {lanes[2], lanes[3]}, dtype);
  return kernel_.op(combine, {low, high}, dtype);
}

/// The kernel op that combines two elements of a reduction.
static Opcode combiner(Opcode code) {
  return code == Opcode::max_reduce   ? Opcode::k_max
         : code == Opcode::min_reduce ? Opcode::k_min
                                      : Opcode::k_add;
}

/// The neutral element that a reduction starts from.
static KV neutral(Opcode combine, DType dtype) {
  if (combine == Opcode::k_add) return KernelBuilder::literal(dtype, 0);
  const bool ofLeast = combine == Opcode::k_min;
  constexpr double kInfinite = std::numeric_limits<double>::infinity();
  if (isFloat(dtype)) return KernelBuilder::literal(dtype, ofLeast ? kInfinite : -kInfinite);
  const auto [least, most] = integerRange(dtype);
  return KernelBuilder::literal(dtype, static_cast<double>(ofLeast ? most : least));
}

Indices RegionEmitter::keptIndices(const Op& op, const Indices& at) {
  const std::vector<int64_t> reduced = reducedAxes(op);
  Indices in(static_cast<size_t>(op.in(0)->type.rank()));
  for (size_t axis = 0, next = 0; axis < in.size(); ++axis) {
    if (!contains(reduced, static_cast<int64_t>(axis)))
      in[axis] = at[next++];
    else if (as::sum(op).keepdims())
      ++next;
  }
  return in;
}

/// A nest of loops over the reduced axes, the last one innermost. If four divides that one and the result is a
/// scalar, it is taken by vectors of four, whose lanes are combined at the end.
KV RegionEmitter::reduction(const Op& op, const Indices& at) {
  const Shape& shape = op.in(0)->type.shape;
  const std::vector<int64_t> reduced = reducedAxes(op);
  std::vector<int> axes(reduced.begin(), reduced.end());
  std::erase_if(axes, [&](int axis) { return shape[axis] == 1; });
  int level = levelOf(at);
  if (isShared(at)) return sharedReduction(op, keptIndices(op, at), axes, level);

  Indices in = keptIndices(op, at);
  Opcode combine = combiner(op.code);
  DType dtype = op.result()->type.dtype;
  bool vector = !axes.empty() && shape[axes.back()] % kLanes == 0 && !IndexSpace::usesLane(at);
  bool lanes = vector || IndexSpace::usesLane(at);
  KV start = neutral(combine, dtype);
  kernel_.at(level, [&] { start = lanes ? kernel_.splat(start) : start; });
  const bool isSum = combine == Opcode::k_add && isFloat(dtype);
  int64_t terms = 1;
  for (int axis : axes) terms *= shape[axis];
  // The loops from axis number `depth` on, which add to `acc`; placed at scope `loopLevel`.
  std::function<KV(size_t, const KV&, int)> nest = [&](size_t depth, const KV& acc, int loopLevel) -> KV {
    if (depth == axes.size()) {
      KV element = emit(op.in(0), in);
      return kernel_.op(combine, {acc, element}, dtype);
    }
    bool inner = depth + 1 == axes.size();
    int axis = axes[depth];
    // With many terms along several axes, the sums along the inner axes are the blocks that keep rounding errors
    // low.
    const bool apart = isSum && depth > 0 && terms > 2 * kSumBlock;
    KV sum = over(
        loopLevel, shape[axis], inner && vector ? kLanes : 1, {apart ? start : acc},
        [&](const Index& index, const std::vector<KV>& carried) {
          in[static_cast<size_t>(axis)] = inner && vector ? space_.add(index, IndexSpace::lane()) : index;
          return std::vector<KV>{nest(depth + 1, carried[0], kernel_.depth())};
        },
        kInlined, isSum)[0];
    return apart ? kernel_.add(acc, sum) : sum;
  };
  KV out;
  kernel_.at(level, [&] {
    out = nest(0, start, level);
    if (vector) out = horizontal(out, combine);
    if (op.code == Opcode::mean) {
      out = kernel_.mul(out, KernelBuilder::f32(1.0 / static_cast<double>(terms)));
    }
  });
  return out;
}
KV RegionEmitter::element(at::sum, const Op& op, const Indices& at) { return reduction(op, at); }
KV RegionEmitter::element(at::mean, const Op& op, const Indices& at) { return reduction(op, at); }
KV RegionEmitter::element(at::max_reduce, const Op& op, const Indices& at) { return reduction(op, at); }
KV RegionEmitter::element(at::min_reduce, const Op& op, const Indices& at) { return reduction(op, at); }

bool RegionEmitter::isShared(const Indices& at) const {
  // Not shared if each invocation has another row, as where a result reads the rows transposed.
  bool sameRow =
      std::ranges::all_of(at, [&](const Index& index) { return space_.follows(index, rows_.row); });
  return rows_.width > 1 && levelOf(at) <= rows_.level && sameRow;
}

static const char* kindOf(Opcode combine) {
  return combine == Opcode::k_max ? "max" : combine == Opcode::k_min ? "min" : "add";
}

/// Parts have workgroups of their own, so a part may reuse a buffer of another part, but not one of its own.
Value* RegionEmitter::slotsFor(const Type& type) {
  for (size_t i = 0; i < slots_.size(); ++i) {
    if (slotsTaken_[i] || !(slots_[i]->type == type)) continue;
    slotsTaken_[i] = true;
    return slots_[i];
  }
  slots_.push_back(kernel_.sharedBuffer(type, "slots"));
  slotsTaken_.push_back(true);
  return slots_.back();
}

/// By a workgroup reduction if the target has no subgroups to rely on; else by a subgroup reduction, and by shared
/// memory if the row has several subgroups. Every invocation adds up the subgroups' slots itself, in their order.
KV RegionEmitter::combined(const KV& partial, Opcode combine) {
  if (rows_.side) return combinedSides(partial, combine);
  if (rows_.subgroup == 1) return kernel_.workgroupReduce(partial, kindOf(combine));
  KV part = kernel_.subgroupReduce(partial, kindOf(combine));
  if (rows_.width == rows_.subgroup) return part;
  // A slot for each subgroup. Each reduction has its own slots, so no second barrier is needed before the next one.
  int64_t count = rows_.width / rows_.subgroup;
  Value* slots = slotsFor(Type::buffer(part.type.dtype, 1, {count}, BufMode::shared));
  KV first =
      kernel_.op(Opcode::k_eq, {kernel_.subgroup(Opcode::k_subgroup_lane), KernelBuilder::u32(0)}, DType::i1);
  kernel_.guard(first, [&] { kernel_.store(part, slots, kernel_.subgroup(Opcode::k_subgroup_id)); });
  kernel_.barrier();
  KV out = kernel_.loadHere(slots, KernelBuilder::u32(0));
  for (int64_t at = 1; at < count; ++at)
    out = kernel_.op(combine, {out, kernel_.loadHere(slots, KernelBuilder::u32(at))}, part.type.dtype);
  return out;
}

/// Combines as a tree, halving the lanes of each row until lane 0 has the total.
KV RegionEmitter::combinedSides(const KV& partial, Opcode combine) {
  DType dtype = partial.type.dtype;
  Type slot = Type::buffer(dtype, partial.lanes(), {rows_.width * rows_.side}, BufMode::shared);
  Value* slots = slotsFor(slot);
  KV local = kernel_.id(Opcode::k_local_id, 0);
  kernel_.store(partial, slots, local);
  kernel_.barrier();
  for (int64_t width = rows_.width / 2; width > 0; width /= 2) {
    KV distance = KernelBuilder::u32(width * rows_.side);
    kernel_.guard(kernel_.op(Opcode::k_lt, {local, distance}, DType::i1), [&] {
      KV low = kernel_.loadHere(slots, local), high = kernel_.loadHere(slots, kernel_.add(local, distance));
      kernel_.store(kernel_.op(combine, {low, high}, dtype), slots, local);
    });
    kernel_.barrier();
  }
  return kernel_.loadHere(slots,
                          kernel_.op(Opcode::k_mod, {local, KernelBuilder::u32(rows_.side)}, DType::u32));
}

std::optional<KV> RegionEmitter::soleTerm(const Op& op, Indices in, const std::vector<int>& axes) {
  const Op* chosen = op.in(0)->def;
  if (op.code != Opcode::sum || axes.size() != 1 || !chosen || chosen->code != Opcode::select ||
      IndexSpace::usesLane(in))
    return {};
  const auto choice = as::select(*chosen);
  const Op *hit = choice.cond()->def, *zero = choice.on_false()->def;
  if (!hit || hit->code != Opcode::equal || !zero || zero->code != Opcode::constant ||
      !zero->operands[0].isLiteral() || zero->operands[0].number() != 0)
    return {};
  // The axes of the iota and of the id, counted in the shape that both are broadcast to.
  const Shape& shape = op.in(0)->type.shape;
  const Value *places = as::equal(*hit).lhs(), *id = as::equal(*hit).rhs();
  if (isFloat(id->type.dtype)) return {};  // between two places there is none; of bf16, several may be equal
  const int axis = axes[0], ofPlaces = axis - (shape.rank() - places->type.rank()),
            ofId = axis - (shape.rank() - id->type.rank());
  if (!places->def || places->def->code != Opcode::iota || as::iota(*places->def).axis() != ofPlaces ||
      hit->result()->type.shape.rank() != shape.rank() || (ofId >= 0 && id->type.shape[ofId] != 1))
    return {};
  in[static_cast<size_t>(axis)] = IndexSpace::constant(0);
  const Hit place = idHit(broadcastOperand(id, shape, in), shape[axis]);
  in[static_cast<size_t>(axis)] = place.inside;
  return kernel_.select(place.cond, broadcastOperand(choice.on_true(), shape, in),
                        KernelBuilder::literal(op.result()->type.dtype, 0));
}

/// A reduction that a row's invocations share: each takes every width-th element, or group of rows_.vec elements,
/// then they combine.
KV RegionEmitter::sharedReduction(const Op& op, Indices in, const std::vector<int>& axes, int level) {
  const Shape& shape = op.in(0)->type.shape;
  Shape inner;
  for (int axis : axes) inner.push(shape[axis]);
  int64_t count = inner.elements();
  Opcode combine = combiner(op.code);
  DType dtype = op.result()->type.dtype;
  bool vector =
      rows_.vec == kLanes && !axes.empty() && inner.back() % kLanes == 0 && !IndexSpace::usesLane(in);
  bool lanes = vector || IndexSpace::usesLane(in);
  int64_t step = vector ? kLanes : 1;
  KV out;
  kernel_.at(level, [&] {
    KV start = neutral(combine, dtype);
    if (lanes) start = kernel_.splat(start);
    int64_t rounds = divideCeil(count, rows_.width * step);
    auto body = [&](const Index& round, const std::vector<KV>& carried) {
      Index offset = space_.add(space_.scale(round, rows_.width * step), space_.scale(rows_.lane, step));
      if (vector) offset = space_.add(offset, IndexSpace::lane());
      auto take = [&](const Index& element) {
        Indices parts = space_.delinear(element, inner);
        for (size_t i = 0; i < axes.size(); ++i) in[static_cast<size_t>(axes[i])] = parts[i];
        return emit(op.in(0), in);
      };
      KV element;
      if (space_.max(offset) < count)
        element = take(offset);
      else {
        const auto [inside, place] = ofRow(offset, count);
        element = kernel_.select(inside, take(place), start);
      }
      return std::vector<KV>{kernel_.op(combine, {carried[0], element}, dtype)};
    };
    const bool isSum = combine == Opcode::k_add && isFloat(dtype);
    KV partial;
    if (const std::optional<KV> one = soleTerm(op, in, axes)) {
      KV first = kernel_.op(Opcode::k_eq, {space_.materialize(rows_.lane), KernelBuilder::u32(0)}, DType::i1);
      partial = kernel_.select(first, *one, neutral(combine, dtype));
    } else {
      const int64_t held = rows_.side ? kHeldRounds : heldRounds(rows_.width, rows_.subgroup);
      partial = over(level, rounds, 1, {start}, body, rounds <= held ? held : kHeldRounds, isSum)[0];
      if (vector) partial = horizontal(partial, combine);
    }
    // No invocation gets past this before all have read the row: a result may be stored in place of an operand.
    out = combined(partial, combine);
    if (op.code == Opcode::mean) out = kernel_.mul(out, KernelBuilder::f32(1.0 / static_cast<double>(count)));
  });
  return out;
}

/// Each lane of a row takes every width-th element and keeps the first extremum of these. Of the lanes that hold
/// the row's extremum, the least index wins. The first lane starts with the row's first element, the others with
/// the value that any element beats or equals. If the first element is NaN, nothing beats it and no lane equals the
/// extremum: the answer is 0.
KV RegionEmitter::argExtremum(const Op& op, const Indices& at) {
  if (IndexSpace::usesLane(at)) return lanewise(op.result(), at);
  const Shape& shape = op.in(0)->type.shape;
  const int axis = normalAxis(as::argmax(op).axis(), shape.rank());
  const int64_t count = shape[axis];
  Indices in = at;
  if (as::argmax(op).keepdims())
    in[static_cast<size_t>(axis)] = {};
  else
    in.insert(in.begin() + axis, Index{});
  const DType dtype = op.in(0)->type.dtype;
  const bool least = op.code == Opcode::argmin;
  const Opcode beats = least ? Opcode::k_lt : Opcode::k_gt, combine = least ? Opcode::k_min : Opcode::k_max;
  const int level = levelOf(at);
  const bool shared = isShared(at);
  const int64_t width = shared ? rows_.width : 1;
  auto take = [&](const Index& index) {
    in[static_cast<size_t>(axis)] = index;
    return emit(op.in(0), in);
  };
  auto body = [&](const Index& round, const std::vector<KV>& carried) {
    const Index index = shared ? space_.add(space_.scale(round, width), rows_.lane) : round;
    const bool full = space_.max(index) < count;
    const auto [inside, place] = full ? std::pair<KV, Index>{{}, index} : ofRow(index, count);
    const KV element = take(place);
    KV better = kernel_.op(beats, {element, carried[0]}, DType::i1);
    if (!full) better = kernel_.op(Opcode::k_and, {better, inside}, DType::i1);
    KV here = kernel_.cast(space_.materialize(place), DType::i32);
    return std::vector<KV>{kernel_.op(Opcode::k_select, {better, element, carried[0]}, dtype),
                           kernel_.select(better, here, carried[1])};
  };
  std::vector<KV> start = {{}, KernelBuilder::literal(DType::i32, 0)};
  kernel_.at(level, [&] {
    if (!shared) return void(start[0] = take(Index{}));
    const KV first =
        kernel_.op(Opcode::k_eq, {space_.materialize(rows_.lane), KernelBuilder::u32(0)}, DType::i1);
    const Index own = space_.max(rows_.lane) < count ? rows_.lane : ofRow(rows_.lane, count).second;
    start[0] = kernel_.select(first, take(own), neutral(combine, dtype));
  });
  const std::vector<KV> best = over(level, divideCeil(count, width), 1, start, body);
  // Invocations that do not hold the row's extremum vote for no index; the least of the others is the answer.
  if (!shared) return best[1];
  KV out;
  kernel_.at(level, [&] {
    const KV none = neutral(Opcode::k_min, DType::i32);
    const KV holds = kernel_.op(Opcode::k_eq, {best[0], combined(best[0], combine)}, DType::i1);
    const KV first = combined(kernel_.select(holds, best[1], none), Opcode::k_min);
    out = kernel_.select(kernel_.op(Opcode::k_eq, {first, none}, DType::i1),
                         KernelBuilder::literal(DType::i32, 0), first);
  });
  return out;
}
KV RegionEmitter::element(at::argmax, const Op& op, const Indices& at) { return argExtremum(op, at); }
KV RegionEmitter::element(at::argmin, const Op& op, const Indices& at) { return argExtremum(op, at); }

/// Goes over the whole axis and adds the elements on the right side of this one; O(n) for each element, so fuse
/// keeps long axes away from it.
KV RegionEmitter::element(at::cumsum, const Op& op, const Indices& at) {
  const Type& type = op.in(0)->type;
  auto axis = static_cast<size_t>(normalAxis(as::cumsum(op).axis(), type.rank()));
  bool reverse = as::cumsum(op).reverse(), exclusive = as::cumsum(op).exclusive();
  Opcode counts =
      reverse ? (exclusive ? Opcode::k_gt : Opcode::k_ge) : (exclusive ? Opcode::k_lt : Opcode::k_le);
  int level = levelOf(at);
  KV zero = KernelBuilder::literal(type.dtype, 0), here;
  kernel_.at(level, [&] { here = space_.materialize(at[axis]); });
  const KV start = zeroAt(level, at, type.dtype);
  Indices in = at;
  return over(level, type.shape[static_cast<int>(axis)], 1, {start},
              [&](const Index& index, const std::vector<KV>& carried) {
                in[axis] = index;
                KV element = emit(op.in(0), in);
                KV cond = kernel_.op(counts, {space_.materialize(index), here}, DType::i1);
                return std::vector<KV>{kernel_.add(carried[0], kernel_.select(cond, element, zero))};
              })[0];
}

KV RegionEmitter::zeroAt(int level, const Indices& at, DType dtype) {
  KV zero = KernelBuilder::literal(dtype, 0);
  if (IndexSpace::usesLane(at)) kernel_.at(level, [&] { zero = kernel_.splat(zero); });
  return zero;
}

KV RegionEmitter::element(at::scatter_add, const Op& op, const Indices& at) {
  if (IndexSpace::usesLane(at[0])) return lanewise(op.result(), at);
  if (op.numOperands() > 2) return sortedScatter(op, at);
  const as::scatter_add scatter(op);
  const Type& ids = scatter.ids()->type;
  const int64_t count = ids.elements() / scatter.pieces(), rows = scatter.rows() / scatter.pieces();
  const KV row = kernel_.cast(space_.materialize(at[0]), ids.dtype);
  const Index first = space_.scale(space_.div(at[0], rows), count);  // the first id of the row's piece
  int level = levelOf(at);
  const KV start = zeroAt(level, at, scatter.updates()->type.dtype);
  auto place = [&](const Index& n) { return space_.delinear(space_.add(first, n), ids.shape); };
  auto isRow = [&](const Index& n) {
    return kernel_.op(Opcode::k_eq, {emit(op.in(0), place(n)), row}, DType::i1);
  };
  auto added = [&](const Index& n, const KV& sum) {
    Indices in = place(n);
    in.insert(in.end(), at.begin() + 1, at.end());
    return kernel_.add(sum, emit(scatter.updates(), in));
  };
  if (isShared(at)) {
    int64_t rounds = divideCeil(count, rows_.width);
    KV partial = sumOver(level, rounds, 1, start, [&](const Index& round, const KV& sum) {
      const auto [inside, n] = ofRow(space_.add(space_.scale(round, rows_.width), rows_.lane), count);
      const KV same = kernel_.op(Opcode::k_and, {isRow(n), inside}, DType::i1);
      return kernel_.guarded(same, sum, [&, &n = n] { return added(n, sum); });
    });
    KV out;
    kernel_.at(level, [&] { out = combined(partial, Opcode::k_add); });
    return out;
  }
  // Several ids are loaded before the first is tested, so that the latencies of their loads overlap.
  int64_t some = kIdsAtOnce;
  while (count % some != 0) some /= 2;
  auto visit = [&](const Index& from, const KV& sum) {
    std::vector<KV> hits;
    for (int64_t i = 0; i < some; ++i) hits.push_back(isRow(space_.add(from, IndexSpace::constant(i))));
    KV any = hits[0];
    for (size_t i = 1; i < hits.size(); ++i) any = kernel_.op(Opcode::k_or, {any, hits[i]}, DType::i1);
    return kernel_.guarded(any, sum, [&] {
      KV out = sum;
      for (int64_t i = 0; i < some; ++i) {
        const KV before = out;
        out = kernel_.guarded(hits[static_cast<size_t>(i)], before,
                              [&] { return added(space_.add(from, IndexSpace::constant(i)), before); });
      }
      return out;
    });
  };
  return sumOver(level, count, some, start, visit, 1);
}

// A row adds the updates whose numbers are neighbours in `order`. Several are loaded before the first is added,
// so that the latencies of their loads overlap; those behind the last are loaded again and not added.
KV RegionEmitter::sortedScatter(const Op& op, const Indices& at) {
  const as::scatter_add scatter(op);
  const Type &ids = scatter.ids()->type, &updates = scatter.updates()->type;
  const int64_t count = ids.elements();
  const int level = levelOf(at);
  const KV start = zeroAt(level, at, updates.dtype);
  auto atMost = [&](const KV& x, const KV& most) { return kernel_.op(Opcode::k_min, {x, most}, DType::u32); };
  auto number = [&](const Value* list, const Index& i, int64_t most) {
    return atMost(kernel_.cast(emit(list, {i}), DType::u32), KernelBuilder::u32(most));
  };
  KV begin, end;
  kernel_.at(level, [&] {
    begin = number(scatter.offsets(), at[0], count);
    end = number(scatter.offsets(), space_.add(at[0], IndexSpace::constant(1)), count);
  });
  auto round = [&](const KV& from, const std::vector<KV>& sum) {
    const KV last = kernel_.op(Opcode::k_sub, {end, KernelBuilder::u32(1)}, DType::u32);
    std::vector<KV> terms;
    for (int64_t i = 0; i < kSortedAtOnce; ++i) {
      const KV own = kernel_.add(from, KernelBuilder::u32(i));
      const KV id = number(scatter.order(), space_.variable(i ? atMost(own, last) : own, count), count - 1);
      Indices in = space_.delinear(space_.variable(id, count), ids.shape);
      in.insert(in.end(), at.begin() + 1, at.end());
      const KV term = emit(scatter.updates(), in);
      const KV isInside = kernel_.op(Opcode::k_lt, {own, end}, DType::i1);
      terms.push_back(i ? kernel_.select(isInside, term, kernel_.widened(start, term.type)) : term);
    }
    KV total = sum[0];
    for (const KV& term : terms) total = kernel_.add(total, term);
    return std::vector<KV>{total};
  };
  if (count <= 2 * kSumBlock) return kernel_.loop(level, begin, end, kSortedAtOnce, {start}, round)[0];
  // Sums of blocks, which are then added: the error of a long sum grows less.
  return kernel_.loop(level, begin, end, kSumBlock, {start},
                      [&](const KV& first, const std::vector<KV>& sum) {
                        const KV behind = atMost(kernel_.add(first, KernelBuilder::u32(kSumBlock)), end);
                        const KV block = kernel_.loop(kernel_.depth(), first, behind,
                                                      KernelBuilder::u32(kSortedAtOnce), {start}, round)[0];
                        return std::vector<KV>{kernel_.add(sum[0], block)};
                      })[0];
}

/// Sums the updates along the axis whose id is this element's place.
KV RegionEmitter::element(at::take_along_axis_grad, const Op& op, const Indices& at) {
  const Type& updates = as::take_along_axis_grad(op).dy()->type;
  size_t axis = static_cast<size_t>(normalAxis(as::take_along_axis_grad(op).axis(), updates.rank()));
  if (IndexSpace::usesLane(at[axis])) return lanewise(op.result(), at);
  KV place = kernel_.cast(space_.materialize(at[axis]), op.in(0)->type.dtype);
  int level = levelOf(at);
  const KV start = zeroAt(level, at, updates.dtype);
  Indices in = at;
  return sumOver(level, updates.shape[static_cast<int>(axis)], 1, start, [&](const Index& n, const KV& sum) {
    in[axis] = n;
    KV same = kernel_.op(Opcode::k_eq, {emit(op.in(0), in), place}, DType::i1);
    return kernel_.select(same, kernel_.add(sum, emit(as::take_along_axis_grad(op).dy(), in)), sum);
  });
}

/// A dot product: by vectors along k if four divides it, unless the result itself is a vector, along m or n.
KV RegionEmitter::element(at::matmul, const Op& op, const Indices& at) {
  const Shape& a = op.in(0)->type.shape;
  bool ta = as::matmul(op).transpose_a(), tb = as::matmul(op).transpose_b();
  int64_t inner = a[a.rank() - (ta ? 2 : 1)];
  auto operand = [&](int which, const Index& row, const Index& column) {
    const Shape& shape = op.in(which)->type.shape;
    Indices in;
    int lead = shape.rank() - 2, added = static_cast<int>(at.size()) - shape.rank();
    for (int axis = 0; axis < lead; ++axis)
      in.push_back(shape[axis] == 1 ? Index{} : at[static_cast<size_t>(axis + added)]);
    in.push_back(row);
    in.push_back(column);
    return rounded(kernel_, op, emit(op.in(which), in));
  };
  bool outer = IndexSpace::usesLane(at);
  bool vector = !outer && inner % kLanes == 0;
  int level = levelOf(at);
  KV start = KernelBuilder::f32(0);
  kernel_.at(level, [&] { start = outer || vector ? kernel_.splat(start) : start; });
  const Index &m = at[at.size() - 2], &n = at[at.size() - 1];
  KV sum = sumOver(level, inner, vector ? kLanes : 1, start, [&](const Index& index, const KV& carried) {
    Index k = vector ? space_.add(index, IndexSpace::lane()) : index;
    KV x = ta ? operand(0, k, m) : operand(0, m, k);
    KV y = tb ? operand(1, n, k) : operand(1, k, n);
    return kernel_.fma(x, y, carried);
  });
  if (vector) kernel_.at(level, [&] { sum = horizontal(sum, Opcode::k_add); });
  return sum;
}

void RegionEmitter::pullRowReductions(const Index& row, int64_t length,
                                      const std::unordered_set<const Op*>& ops) {
  for (Op* op : region_.body.ops) {
    auto space = rowSpaceOf(*op);
    if (ops.contains(op) && op->info().fusion == table::Fusion::reduce && space && space->length == length &&
        op->result()->type.elements() == space->rows)
      emitLinear(op->result(), row);
  }
}

void RegionEmitter::pullNumbers(const std::unordered_set<const Op*>& ops) {
  for (const Op* op : region_.body.ops) {
    if (!ops.contains(op)) continue;
    forEachUse(*op, [&](const Value* value) {
      if (value->type.rank() == 0 && bindingOf_.contains(value)) emit(value, {});
    });
  }
}

}  // namespace tg
