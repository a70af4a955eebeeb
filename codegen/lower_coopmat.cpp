// SPDX-License-Identifier: Apache-2.0
// coopmat: products by the matrix units of subgroups. A workgroup computes a tile of the result, in steps along k.
// In each step it stages the tiles of both operands in shared memory, 16 bytes at a time. An operand that memory
// holds in the matrices' type is copied; any other is read through its views and fused maps, and rounded. Each
// subgroup then multiplies 16x16 matrices from shared memory. The loop over k is software-pipelined:
//
//   - the matrices of the next 16 of k are loaded before the products of these 16 are computed,
//   - the tiles of the step after the next are loaded from memory while this step multiplies,
//   - tiles go to shared memory between two barriers; the last products of a step are computed there too.
//
// For f32x3 the tiles are split into two f16, high and low, which are staged separately. The products of 16 of k
// are summed from zero, small ones first, and added to the sums in f32, because matrix units truncate when they add
// to a sum.
//
// The epilogue is computed on the matrices in registers if its ops allow it (see FragmentEpilogue): f32 results are
// stored as matrices, 16-bit ones through shared memory, 16 bytes an invocation. Otherwise the sums go through a
// patch of shared memory, where every invocation knows the row and column of its elements, so that any epilogue may
// follow.

#include <algorithm>
#include <array>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "codegen/fragment_epilogue.h"
#include "codegen/schedule_coopmat.h"
#include "codegen/tile.h"
#include "ir/divide.h"
#include "ir/op_view.h"

namespace tg {
namespace {

constexpr size_t kInFlight = 2;  ///< matrices of sums that f32x3 interleaves to hide latency

class CoopmatProduct {
 public:
  CoopmatProduct(LowerContext& c, const CoopmatSchedule& schedule, const Product& p)
      : c_(c), p_(p), schedule_(schedule), tile_(schedule.tile), warp_(schedule.warp),
        patchColumns_(schedule.patch) {}
  Result<void> run();

 private:
  /// One operand's tile in shared memory. It has a row for each k, whose elements are positions along m or n, or
  /// (alongK) the other way round, whichever way vectors load best. A buffer element is four words: eight 16-bit
  /// values.
  struct Stage {
    bool alongK = false;
    /// Whether words are copied without conversion, since memory has the matrices' type. The first read decides it, so that
    /// all steps carry the same values in registers.
    std::optional<bool> copied;
    int64_t rows = 0, eights = 0;  ///< see stageExtents
    int64_t extent = 0;            ///< of the whole operand along m or n
    Index origin;
    std::vector<Value*> halves;  ///< the rounded values; for f32x3 the high halves, then the low ones
  };

  /// Checks the schedule against product and target, and sets what follows from it.
  Result<void> check();
  /// Emits the kernel's body for one workgroup.
  void group(const Index& group);
  /// Allocates an operand's tile in shared memory; `origin` is its first position along m or n.
  void makeStage(int which, const Index& origin);
  StagingTasks cells(const Stage& stage) { return {c_, stage.rows * stage.eights, invocations_, lane_}; }
  std::pair<Index, Index> rowAndEight(const Stage& stage, const Index& cell);
  /// The first k of a step.
  Index stepAt(const KV& step) { return c_.space.scale(c_.space.variable(step, count_), depth_); }
  KV inRange(const Index& index, int64_t extent, Index* inside);
  std::vector<KV> read(int which, const Index& k0, const Index& row, const Index& column);
  std::vector<KV> fetch(const Index& k0);
  std::vector<KV> halved(std::vector<KV> fetched);
  void stage(std::span<const KV> fetched);
  void write(Stage& stage, std::span<const KV> values, const Index& row, const Index& eight);
  KV load(int which, int half, const Index& position, int64_t deep);
  std::vector<KV> factors(int64_t deep);
  void multiply(const std::vector<KV>& factors, std::vector<KV>& sums);
  void multiplyHalves(const std::vector<KV>& factors, std::vector<KV>& sums);
  std::vector<KV> sum();
  void store(const std::vector<KV>& sums);
  std::vector<KV> drained(const Index& cell);
  void results(const Index& cell, int64_t i, int64_t j, const std::vector<KV>& values);

  /// The number of matrices of sums that a subgroup holds.
  size_t tiles() const { return static_cast<size_t>(warp_[0] / kSide * (warp_[1] / kSide)); }
  int64_t halves() const { return split_ ? 2 : 1; }
  /// The number of matrices of both operands at one place along k.
  size_t factorsHeld() const { return static_cast<size_t>((warp_[0] + warp_[1]) / kSide * halves()); }
  Type matrixType(MatrixUse use) const {
    return Type::coopmat(use == MatrixUse::acc ? DType::f32 : narrow_, kSide, kSide, use);
  }

  LowerContext& c_;
  Product p_;
  const CoopmatSchedule& schedule_;
  std::array<int64_t, 3> tile_;
  std::array<int64_t, 2> warp_;
  int64_t patchColumns_;
  int64_t depth_ = 0, subgroups_ = 0, invocations_ = 0, across_ = 0, count_ = 0;
  int64_t wide_ = kLanes;  ///< columns that an invocation takes out of the patch at a time
  bool split_ = false;
  std::optional<FragmentEpilogue::Operands> operands_;  ///< if the epilogue is computed in registers
  DType narrow_ = DType::f16;                           ///< of the factors
  Stage stages_[2];
  Value* patch_ = nullptr;
  Index batch_, lane_, warpRow_, warpColumn_;
  Indices lead_;
  KV subgroup_;
};

Result<void> CoopmatProduct::check() {
  bool fits = tile_[2] % kSide == 0 && patchColumns_ % kSide == 0 && warp_[1] % patchColumns_ == 0;
  for (size_t axis = 0; axis < 2; ++axis)
    fits = fits && warp_[axis] % kSide == 0 && tile_[axis] % warp_[axis] == 0;
  if (!fits)
    return failAt(c_.fused.loc,
                  "schedule {} needs multiples of 16, of which warp divides tile, and patch warp[1]",
                  c_.schedule.str());
  split_ = isSplit(*p_.op);
  narrow_ = factorType(*p_.op);
  if (!c_.target.multiplies(narrow_))
    return failAt(c_.fused.loc, "schedule {} needs `coopmat` of {}, which target '{}' lacks",
                  c_.schedule.str(), name(narrow_), c_.target.name);
  if (as::matmul(*p_.op).precision() == "f32")
    return failAt(c_.fused.loc, "schedule {} rounds to 16 bits, but the product's precision is f32",
                  c_.schedule.str());
  depth_ = tile_[2];
  across_ = tile_[1] / warp_[1];
  subgroups_ = tile_[0] / warp_[0] * across_;
  invocations_ = subgroups_ * c_.target.subgroup;
  count_ = divideCeil(p_.k, depth_);
  for (int which = 0; which < 2; ++which) {
    Stage& stage = stages_[which];
    stage.alongK = alongK(p_, schedule_, which);
    const auto [rows, eights] = stageExtents(p_, schedule_, which);
    stage.rows = rows, stage.eights = eights;
    stage.extent = which == 0 ? p_.m : p_.n;
  }
  if (kSide * kSide / kLanes % c_.target.subgroup != 0)
    return failAt(c_.fused.loc, "schedule {} needs subgroups of at most {}, those of target '{}' have {}",
                  c_.schedule.str(), kSide * kSide / kLanes, c_.target.name, c_.target.subgroup);
  operands_ = FragmentEpilogue::operandsOf(c_.fused, c_.region, p_, c_.target);
  const bool words =
      std::ranges::any_of(c_.yields, [&](const Value* value) { return isNarrow(value->type.dtype); });
  if (words && p_.n % kEight == 0 && kSide * patchColumns_ / kEight % c_.target.subgroup == 0) wide_ = kEight;
  return {};
}

void CoopmatProduct::makeStage(int which, const Index& origin) {
  Stage& stage = stages_[which];
  stage.origin = origin;
  // A vector of padding behind each row, so that rows start in other banks.
  Type type = Type::buffer(DType::u32, kLanes, {stage.rows, stage.eights + 1}, BufMode::shared);
  stage.halves = {c_.kernel.sharedBuffer(type, which == 0 ? "tile_a" : "tile_b")};
  if (split_) stage.halves.push_back(c_.kernel.sharedBuffer(type, which == 0 ? "low_a" : "low_b"));
}

/// Gives the predicate index < extent, and in `inside` an index that is always below extent.
KV CoopmatProduct::inRange(const Index& index, int64_t extent, Index* inside) {
  *inside = index;
  if (c_.space.max(index) < extent) return KernelBuilder::literal(DType::i1, 1);
  KV value = c_.space.materialize(index);
  KV cond = c_.kernel.op(Opcode::k_lt, {value, KernelBuilder::u32(extent)}, DType::i1);
  *inside =
      c_.space.variable(c_.kernel.select(cond, value, KernelBuilder::u32(0)), extent, c_.space.align(index));
  return cond;
}

/// Loads eight neighbouring elements of an operand at a row and (first) column of the stage: as words, or as two
/// vectors of f32. Behind the operand's end along k they are 0; behind its end along m or n they are arbitrary,
/// since no result is computed from them. If other steps copy words and these cannot, the vectors are packed.
std::vector<KV> CoopmatProduct::read(int which, const Index& k0, const Index& row, const Index& column) {
  Stage& stage = stages_[which];
  const int64_t outerExtent = stage.alongK ? stage.extent : p_.k,
                innerExtent = stage.alongK ? p_.k : readableExtent(p_, which);
  const Index outer = c_.space.add(stage.alongK ? stage.origin : k0, row),
              inner = c_.space.add(stage.alongK ? k0 : stage.origin, column);
  const KV always = KernelBuilder::literal(DType::i1, 1), zero = KernelBuilder::f32(0);
  Index outerIn;
  KV outerHit = inRange(outer, outerExtent, &outerIn);
  if (stage.alongK) outerHit = always;
  auto at = [&](const Index& innerIn) {
    const Index &position = stage.alongK ? outerIn : innerIn, &k = stage.alongK ? innerIn : outerIn;
    return operandIndices(p_, which, lead_, which == 0 ? position : k, which == 0 ? k : position);
  };
  auto where = [&](const KV& innerHit, const KV& value, const KV& other) {
    const KV inside = c_.kernel.select(stage.alongK ? innerHit : always, value, other);
    return c_.kernel.select(outerHit, inside, other);
  };
  if (innerExtent % kEight == 0) {
    Index innerIn;
    const KV hit = inRange(inner, innerExtent, &innerIn);
    innerIn = c_.space.add(innerIn, IndexSpace::lane());
    std::optional<KV> words;
    if (!split_ && stage.copied.value_or(true))
      words = c_.emitter.words(p_.op->in(which), narrow_, at(innerIn),
                               at(c_.space.add(innerIn, IndexSpace::constant(kLanes))));
    if (!stage.copied) stage.copied = words.has_value();
    if (words) return {where(hit, *words, KernelBuilder::u32(0))};
  }
  if (!stage.copied) stage.copied = false;
  std::vector<KV> out;
  for (int64_t first = 0; first < kEight; first += kLanes) {
    std::vector<KV> lanes;
    const int64_t step = innerExtent % kLanes == 0 ? kLanes : 1;
    for (int64_t lane = 0; lane < kLanes; lane += step) {
      Index innerIn;
      const KV hit = inRange(c_.space.add(inner, IndexSpace::constant(first + lane)), innerExtent, &innerIn);
      if (step > 1) innerIn = c_.space.add(innerIn, IndexSpace::lane());
      lanes.push_back(where(hit, c_.emitter.emit(p_.op->in(which), at(innerIn)), zero));
    }
    out.push_back(c_.kernel.splat(lanes.size() == 1 ? lanes[0] : c_.kernel.vec(lanes), kLanes));
  }
  if (*stage.copied) return {packedWords(c_.kernel, narrow_, out[0], out[1])};
  return out;
}

/// The place of a cell in the stage. If a row has four vectors, the eight invocations that store at a time write to
/// two rows 4 apart, which lie in different banks.
std::pair<Index, Index> CoopmatProduct::rowAndEight(const Stage& stage, const Index& cell) {
  IndexSpace& space = c_.space;
  const int64_t count = stage.eights;
  if (count != 4) return {space.div(cell, count), space.mod(cell, count)};
  Index row =
      space.add(space.scale(space.div(cell, 32), 8), space.scale(space.mod(space.div(cell, 4), 2), 4));
  return {space.add(row, space.mod(space.div(cell, 8), 4)), space.mod(cell, 4)};
}

/// Loads the cells that this invocation will stage of the step whose first k is k0: those of A, then those of B.
std::vector<KV> CoopmatProduct::fetch(const Index& k0) {
  std::vector<KV> out;
  for (int which = 0; which < 2; ++which)
    cells(stages_[which]).load([&](const Index& cell) {
      const auto [row, eight] = rowAndEight(stages_[which], cell);
      const std::vector<KV> values = read(which, k0, row, c_.space.scale(eight, kEight));
      out.insert(out.end(), values.begin(), values.end());
    });
  return out;
}

/// Stores one cell to a stage: packs it, or copies its words.
void CoopmatProduct::write(Stage& stage, std::span<const KV> values, const Index& row, const Index& eight) {
  std::vector<KV> at{c_.space.materialize(row), c_.space.materialize(eight)};
  if (!split_ && !*stage.copied)
    return c_.kernel.store(packedWords(c_.kernel, narrow_, values[0], values[1]), stage.halves[0], at);
  for (size_t half = 0; half < stage.halves.size(); ++half)
    c_.kernel.store(values[half], stage.halves[half], at);
}

/// For f32x3: splits each eight f32 into two vectors of words, the high halves and the low halves.
std::vector<KV> CoopmatProduct::halved(std::vector<KV> fetched) {
  if (!split_) return fetched;
  for (size_t i = 0; i < fetched.size(); i += 2) {
    const auto [high, low] = halvedWords(c_.kernel, fetched[i], fetched[i + 1]);
    fetched[i] = high, fetched[i + 1] = low;
  }
  return fetched;
}

/// Stores to shared memory what `fetch` gave.
void CoopmatProduct::stage(std::span<const KV> fetched) {
  for (Stage& stage : stages_)
    cells(stage).store([&](const Index& cell) {
      const size_t each = *stage.copied ? 1 : 2;
      const auto [row, eight] = rowAndEight(stage, cell);
      write(stage, fetched.first(each), row, eight);
      fetched = fetched.subspan(each);
    });
}

/// Loads the matrix of an operand at a position along m or n of the stage, and at a k.
KV CoopmatProduct::load(int which, int half, const Index& position, int64_t deep) {
  const Stage& stage = stages_[which];
  Index row = stage.alongK ? position : IndexSpace::constant(deep);
  Index eight = stage.alongK ? IndexSpace::constant(deep / kEight) : c_.space.div(position, kEight);
  // Rows of A lie along m, those of B along k.
  return c_.kernel.coopmatLoad(
      stage.halves[static_cast<size_t>(half)], {c_.space.materialize(row), c_.space.materialize(eight)},
      matrixType(which == 0 ? MatrixUse::a : MatrixUse::b), stage.alongK != (which == 0));
}

/// Loads the matrices at 16 of k: those of A, then those of B; for f32x3 the high ones of each operand, then its
/// low ones.
std::vector<KV> CoopmatProduct::factors(int64_t deep) {
  std::vector<KV> out;
  for (int which = 0; which < 2; ++which)
    for (int half = 0; half < halves(); ++half)
      for (int64_t i = 0; i < warp_[static_cast<size_t>(which)]; i += kSide)
        out.push_back(load(which, half,
                           c_.space.add(which == 0 ? warpRow_ : warpColumn_, IndexSpace::constant(i)), deep));
  return out;
}

/// Adds the products of the factors to the sums.
void CoopmatProduct::multiply(const std::vector<KV>& factors, std::vector<KV>& sums) {
  if (split_) return multiplyHalves(factors, sums);
  const auto down = static_cast<size_t>(warp_[0] / kSide), right = static_cast<size_t>(warp_[1] / kSide);
  const KV* a = factors.data();
  const KV* b = a + down;
  for (size_t i = 0; i < down; ++i)
    for (size_t j = 0; j < right; ++j) {
      const size_t at = i * right + j;
      sums[at] = c_.kernel.coopmatMma(a[i], b[j], sums[at]);
    }
}

/// The same for f32x3: low·high + high·low + high·high, from zero, for kInFlight matrices of sums at a time.
void CoopmatProduct::multiplyHalves(const std::vector<KV>& factors, std::vector<KV>& sums) {
  const auto down = static_cast<size_t>(warp_[0] / kSide), right = static_cast<size_t>(warp_[1] / kSide);
  const KV *highA = factors.data(), *lowA = highA + down, *highB = lowA + down, *lowB = highB + right;
  const KV zero = c_.kernel.coopmatSplat(0, matrixType(MatrixUse::acc));
  for (size_t first = 0; first < tiles(); first += kInFlight) {
    const size_t count = std::min(kInFlight, tiles() - first);
    std::vector<KV> fresh(count, zero);
    auto add = [&](const KV* a, const KV* b) {
      for (size_t at = 0; at < count; ++at)
        fresh[at] = c_.kernel.coopmatMma(a[(first + at) / right], b[(first + at) % right], fresh[at]);
    };
    add(lowA, highB);
    add(highA, lowB);
    add(highA, highB);
    for (size_t at = 0; at < count; ++at) sums[first + at] = c_.kernel.add(sums[first + at], fresh[at]);
  }
}

/// Emits the steps along k: all but the last as a loop, which carries the sums, the first factors of a step, and the
/// cells of the next step. The last step is behind it: it stages nothing, so it needs no barrier.
std::vector<KV> CoopmatProduct::sum() {
  // The first two steps have constant numbers, but their indices are computed as those of any step, so that all steps read
  // operands in the same way.
  auto first = [&](int64_t step) { return stepAt(KernelBuilder::u32(step)); };
  stage(halved(fetch(first(0))));
  std::vector<KV> fetched = count_ > 1 ? fetch(first(1)) : std::vector<KV>{};
  c_.kernel.barrier();
  std::vector<KV> these = factors(0);
  std::vector<KV> sums(tiles(), c_.kernel.coopmatSplat(0, matrixType(MatrixUse::acc)));
  // All products of a step but those of its last factors, which stay in `these`.
  auto multiplyMost = [&] {
    for (int64_t deep = kSide; deep < depth_; deep += kSide) {
      std::vector<KV> following = factors(deep);
      multiply(these, sums);
      these = std::move(following);
    }
  };
  auto joined = [&] {
    std::vector<KV> out = sums;
    out.insert(out.end(), these.begin(), these.end());
    out.insert(out.end(), fetched.begin(), fetched.end());
    return out;
  };
  auto parted = [&](const std::vector<KV>& carried) {
    const auto factorsBegin = carried.begin() + static_cast<long>(tiles());
    const auto fetchedBegin = factorsBegin + static_cast<long>(factorsHeld());
    sums.assign(carried.begin(), factorsBegin);
    these.assign(factorsBegin, fetchedBegin);
    fetched.assign(fetchedBegin, carried.end());
  };
  auto step = [&](const KV& turn, const std::vector<KV>& held) {
    parted(held);
    multiplyMost();
    const std::vector<KV> staged = halved(fetched);
    c_.kernel.barrier();
    stage(staged);
    // The loop's last turn loads the last step again, which nothing reads.
    KV next = c_.kernel.add(turn, KernelBuilder::u32(2));
    next = c_.kernel.op(Opcode::k_min, {next, KernelBuilder::u32(count_ - 1)}, DType::u32);
    fetched = fetch(stepAt(next));
    multiply(these, sums);
    c_.kernel.barrier();
    these = factors(0);
    return joined();
  };
  if (count_ > 1) {
    c_.kernel.hint("step");
    c_.kernel.rolled();
    parted(c_.kernel.loop(c_.kernel.depth(), KernelBuilder::u32(0), KernelBuilder::u32(count_ - 1), 1,
                          joined(), step));
  }
  multiplyMost();
  multiply(these, sums);
  return sums;
}

/// Reads neighbouring sums from the patch, which holds a row of each subgroup's matrices.
std::vector<KV> CoopmatProduct::drained(const Index& cell) {
  const int64_t perRow = patchColumns_ / wide_;
  KV row = c_.space.materialize(c_.space.div(cell, perRow));
  Index column = c_.space.scale(c_.space.mod(cell, perRow), wide_);
  std::vector<KV> lanes;
  for (int64_t lane = 0; lane < wide_; ++lane)
    lanes.push_back(c_.kernel.loadHere(
        patch_, {row, c_.space.materialize(c_.space.add(column, IndexSpace::constant(lane)))}));
  return lanes;
}

/// Emits the epilogue of one cell of the patch, which holds row i of matrices from matrix column j on.
void CoopmatProduct::results(const Index& cell, int64_t i, int64_t j, const std::vector<KV>& values) {
  const int64_t perRow = patchColumns_ / wide_, perPatch = kSide * perRow;
  Index subgroup = c_.space.div(cell, perPatch), own = c_.space.mod(cell, perPatch);
  auto place = [&](const Index& origin, const Index& warp, int64_t extent, int64_t matrix, const Index& at) {
    Index within = c_.space.add(IndexSpace::constant(matrix * kSide), at);
    return c_.space.add(origin, c_.space.add(c_.space.scale(warp, extent), within));
  };
  Index row =
      place(stages_[0].origin, c_.space.div(subgroup, across_), warp_[0], i, c_.space.div(own, perRow));
  Index column = place(stages_[1].origin, c_.space.mod(subgroup, across_), warp_[1], j,
                       c_.space.scale(c_.space.mod(own, perRow), wide_));
  c_.bounded(row, p_.m, [&](const Index& rowIn) {
    if (p_.n % wide_ == 0) {
      std::vector<KV> fours;
      for (auto first = values.begin(); first != values.end(); first += kLanes)
        fours.push_back(c_.kernel.vec({first, first + kLanes}));
      return c_.bounded(column, p_.n, [&](const Index& columnIn) {
        epilogue(c_, p_, batch_, rowIn, columnIn, 1, wide_, true, fours);
      });
    }
    for (size_t lane = 0; lane < values.size(); ++lane)
      c_.bounded(c_.space.add(column, IndexSpace::constant(static_cast<int64_t>(lane))), p_.n,
                 [&](const Index& columnIn) {
                   epilogue(c_, p_, batch_, rowIn, columnIn, 1, 1, false, {values[lane]});
                 });
  });
}

/// Stores the results of the sums through the patch, one row of matrices after another.
void CoopmatProduct::store(const std::vector<KV>& sums) {
  const int64_t down = warp_[0] / kSide, right = warp_[1] / kSide, wide = patchColumns_ / kSide;
  const int64_t parts = subgroups_ * kSide * patchColumns_ / wide_ / invocations_;
  KV row = c_.kernel.mul(subgroup_, KernelBuilder::u32(kSide));
  for (int64_t i = 0; i < down; ++i)
    for (int64_t j = 0; j < right; j += wide) {
      for (int64_t at = 0; at < wide; ++at)
        c_.kernel.coopmatStore(sums[static_cast<size_t>(i * right + j + at)], patch_,
                               {row, KernelBuilder::u32(at * kSide)});
      c_.kernel.barrier();
      auto cell = [&](const Index& part) { return c_.space.add(lane_, c_.space.scale(part, invocations_)); };
      c_.kernel.hint("part");
      c_.kernel.loop(c_.kernel.depth(), KernelBuilder::u32(0), parts, 1, {},
                     [&](const KV& part, const std::vector<KV>&) {
                       Index own = cell(c_.space.variable(part, parts));
                       results(own, i, j, drained(own));
                       return std::vector<KV>{};
                     });
      c_.kernel.barrier();
    }
}

void CoopmatProduct::group(const Index& group) {
  const int64_t groupsM = divideCeil(p_.m, tile_[0]), groupsN = divideCeil(p_.n, tile_[1]);
  // Workgroups that run at the same time share a tile of the larger operand and read all tiles of the smaller one,
  // which fits the device's cache better.
  const bool down = p_.m < p_.n;
  const int64_t fast = down ? groupsM : groupsN, slow = down ? groupsN : groupsM;
  const Index first = c_.space.mod(group, fast), rest = c_.space.div(group, fast);
  const Index second = c_.space.mod(rest, slow);
  const Index &row = down ? first : second, &column = down ? second : first;
  batch_ = c_.space.div(rest, slow);
  lead_ = c_.space.delinear(batch_, p_.lead);
  lane_ = c_.space.variable(c_.kernel.id(Opcode::k_local_id, 0), invocations_);
  subgroup_ = c_.kernel.subgroup(Opcode::k_subgroup_id);
  Index subgroup = c_.space.variable(subgroup_, subgroups_);
  warpRow_ = c_.space.scale(c_.space.div(subgroup, across_), warp_[0]);
  warpColumn_ = c_.space.scale(c_.space.mod(subgroup, across_), warp_[1]);
  makeStage(0, c_.space.scale(row, tile_[0]));
  makeStage(1, c_.space.scale(column, tile_[1]));
  if (operands_) {
    const std::optional<int> free = stageForPatches(p_, schedule_);
    const FragmentTile tile{batch_,
                            c_.space.add(stages_[0].origin, warpRow_),
                            c_.space.add(stages_[1].origin, warpColumn_),
                            warp_,
                            patchColumns_,
                            subgroup_,
                            subgroups_,
                            free ? stages_[*free].halves[0] : nullptr};
    return storeFragments(c_, p_, *operands_, tile, sum());
  }
  patch_ = c_.kernel.sharedBuffer(
      Type::buffer(DType::f32, 1, {subgroups_ * kSide, patchColumns_ + kPatchPad}, BufMode::shared), "patch");
  store(sum());
}

Result<void> CoopmatProduct::run() {
  TG_CHECK(check());
  const int64_t groupsM = divideCeil(p_.m, tile_[0]), groupsN = divideCeil(p_.n, tile_[1]);
  c_.launchGroups(p_.batch * groupsM * groupsN, invocations_, [&](const Index& index) { group(index); });
  return {};
}

}  // namespace

Result<void> lowerKernel(LowerContext& c, const CoopmatSchedule& schedule) {
  TG_TRY(Product p, findProduct(c));
  return CoopmatProduct(c, schedule, p).run();
}

}  // namespace tg
