// SPDX-License-Identifier: Apache-2.0
// Emission rules of ops that need a loop: reductions, argmax and argmin, cumsum, scatters, matmul. A reduction is
// computed by each invocation alone, or shared by the invocations of a row (RowLanes): each takes every width-th
// element, then all combine their partial results.
#include <algorithm>
#include <limits>

#include "codegen/emit_region.h"
#include "codegen/product.h"
#include "codegen/schedule.h"
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
  int rank = op.in(0)->type.rank();
  std::array<bool, kMaxRank> reduced{};
  for (int64_t axis : as::sum(op).axes()) reduced[static_cast<size_t>(normalAxis(axis, rank))] = true;
  Indices in(static_cast<size_t>(rank));
  for (size_t axis = 0, next = 0; axis < in.size(); ++axis) {
    if (!reduced[axis])
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
  std::vector<int> axes;
  for (int64_t axis : as::sum(op).axes()) axes.push_back(normalAxis(axis, shape.rank()));
  std::sort(axes.begin(), axes.end());
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
      std::all_of(at.begin(), at.end(), [&](const Index& index) { return space_.follows(index, rows_.row); });
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
    int64_t rounds = (count + rows_.width * step - 1) / (rows_.width * step);
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
  const std::vector<KV> best = over(level, (count + width - 1) / width, 1, start, body);
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
  const Type &ids = as::scatter_add(op).ids()->type, &updates = as::scatter_add(op).updates()->type;
  KV row = kernel_.cast(space_.materialize(at[0]), ids.dtype);
  int level = levelOf(at);
  const KV start = zeroAt(level, at, updates.dtype);
  // Adds the update of id number n to the sum if the id is this row, and `valid` holds.
  auto step = [&](const Index& n, const KV& sum, const KV& valid = KernelBuilder::literal(DType::i1, 1)) {
    Indices in = space_.delinear(n, ids.shape);
    KV id = emit(op.in(0), in);
    in.insert(in.end(), at.begin() + 1, at.end());
    const KV isRow = kernel_.op(Opcode::k_eq, {id, row}, DType::i1);
    const KV same = kernel_.op(Opcode::k_and, {isRow, valid}, DType::i1);
    return kernel_.guarded(same, sum,
                           [&] { return kernel_.add(sum, emit(as::scatter_add(op).updates(), in)); });
  };
  if (op.numOperands() < 3 && isShared(at)) {
    int64_t rounds = (ids.elements() + rows_.width - 1) / rows_.width;
    KV partial = sumOver(level, rounds, 1, start, [&](const Index& round, const KV& sum) {
      const auto [inside, place] =
          ofRow(space_.add(space_.scale(round, rows_.width), rows_.lane), ids.elements());
      return step(place, sum, inside);
    });
    KV out;
    kernel_.at(level, [&] { out = combined(partial, Opcode::k_add); });
    return out;
  }
  if (op.numOperands() < 3)
    return sumOver(level, ids.elements(), 1, start,
                   [&](const Index& n, const KV& sum) { return step(n, sum); });
  return scatterByBuckets(op, at, row, level, start);
}

// Blocks without an id in this row's bucket are skipped. A block with one such id adds its update; a block with
// several is searched in order. Several flags, and several ids, are loaded before the first is tested, so that the
// latencies of their loads overlap.
KV RegionEmitter::scatterByBuckets(const Op& op, const Indices& at, const KV& row, int level,
                                   const KV& start) {
  const Type& ids = as::scatter_add(op).ids()->type;
  const Shape& near = as::scatter_add(op).near()->type.shape;
  int64_t block = ids.elements() / near[1], rows = as::scatter_add(op).rows();
  Index bucket = space_.div(at[0], (rows + near[0] - 1) / near[0]);
  using Load = std::function<KV(const Index&)>;
  using Test = std::function<KV(const KV&)>;
  using Each = std::function<KV(const Index&, const KV& loaded, const KV& sum)>;
  // A sum over `count` places, where load(place) tells by `holds` whether add(place) has a term. `atOnce` places
  // are loaded together, or fewer if that does not divide the count.
  auto where = [&](int loop, int64_t count, int64_t atOnce, const Load& load, const Test& holds,
                   const Each& add) {
    int64_t some = atOnce;
    while (count % some != 0) some /= 2;
    auto visit = [&](const Index& first, const KV& sum) {
      auto index = [&](int64_t i) { return space_.add(first, IndexSpace::constant(i)); };
      std::vector<KV> loaded, conditions;
      for (int64_t i = 0; i < some; ++i) loaded.push_back(load(index(i)));
      for (const KV& value : loaded) conditions.push_back(holds(value));
      KV any = conditions[0];
      for (size_t i = 1; i < conditions.size(); ++i)
        any = kernel_.op(Opcode::k_or, {any, conditions[i]}, DType::i1);
      return kernel_.guarded(any, sum, [&] {
        KV out = sum;
        for (int64_t i = 0; i < some; ++i) {
          const auto slot = static_cast<size_t>(i);
          const KV before = out;
          out =
              kernel_.guarded(conditions[slot], before, [&] { return add(index(i), loaded[slot], before); });
        }
        return out;
      });
    };
    return sumOver(loop, count, some, start, visit, 1);
  };
  auto place = [&](const Index& k, const Index& n) {
    return space_.delinear(space_.add(space_.scale(k, block), n), ids.shape);
  };
  auto isRow = [&](const KV& id) { return kernel_.op(Opcode::k_eq, {id, row}, DType::i1); };
  auto added = [&](Indices in, const KV& sum) {
    in.insert(in.end(), at.begin() + 1, at.end());
    return kernel_.add(sum, emit(as::scatter_add(op).updates(), in));
  };
  auto isNear = [&](const KV& flag) {
    return kernel_.op(Opcode::k_ne, {flag, KernelBuilder::literal(DType::i32, 0)}, DType::i1);
  };
  auto flagOf = [&](const Index& k) { return emit(as::scatter_add(op).near(), {bucket, k}); };
  // If this region computes the flags, every row searches a block, and more loads at once hide their latency. If it
  // loads them, most blocks are skipped, and fewer registers give a higher occupancy.
  const int64_t most = kIdsAtOnce, atOnce = bindingOf_.contains(as::scatter_add(op).near()) ? most / 2 : most;
  // The flag of a block is 0, kOneNear + place for a single id, or a larger sum for several.
  return where(level, near[1], most, flagOf, isNear, [&](const Index& k, const KV& flag, const KV& total) {
    const KV alone =
        kernel_.op(Opcode::k_sub, {kernel_.cast(flag, DType::u32), KernelBuilder::u32(kOneNear)}, DType::u32);
    const KV end = KernelBuilder::u32(block);
    const KV isAlone = kernel_.op(Opcode::k_lt, {alone, end}, DType::i1),
             areSeveral = kernel_.op(Opcode::k_ge, {alone, end}, DType::i1);
    const KV one = kernel_.guarded(isAlone, total, [&] {
      const Indices in = place(k, space_.variable(alone, block));
      return kernel_.guarded(isRow(emit(op.in(0), in)), total, [&] { return added(in, total); });
    });
    return kernel_.guarded(areSeveral, one, [&] {
      auto idAt = [&](const Index& n) { return emit(op.in(0), place(k, n)); };
      return kernel_.add(
          one, where(kernel_.depth(), block, atOnce, idAt, isRow,
                     [&](const Index& n, const KV&, const KV& sum) { return added(place(k, n), sum); }));
    });
  });
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
