// SPDX-License-Identifier: Apache-2.0
// matmul{tile, shared}: each workgroup computes a block of the product, in steps along k. In a step both operands'
// tiles are in shared memory, as vectors along m (or n), so that an invocation reads four factors at once, and the
// next tiles are being loaded into registers (see Pipeline in tile.h):
//
//                     block[1]
//            B     ┌───────────────┐ depth       an invocation multiplies tile[0] of A by tile[1] of B
//       depth      └───────────────┘             for each k of the step; its tile is made of fours that
//      ┌─────┐     ┌───────────────┐             lie apart, so that reads have no bank conflicts
//    A │     │     │ block of C    │ block[0]
//      └─────┘     └───────────────┘

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "codegen/product.h"
#include "codegen/schedule.h"
#include "codegen/schedule_parts.h"
#include "codegen/tile.h"
#include "ir/access.h"
#include "ir/divide.h"
#include "ir/op_view.h"

namespace tg {
namespace {

/// How a workgroup divides its block of a product.
struct SharedBlocking {
  int64_t tile[2];     ///< rows and columns of an invocation
  int64_t block[2];    ///< rows and columns of a workgroup
  int64_t depth;       ///< of a tile along k
  int64_t slices = 1;  ///< invocations that share each place of the block; each takes a part of a tile's k
  int64_t run = 1;     ///< consecutive rows (along k) of the second operand's tile that an invocation loads
  int64_t across() const { return block[1] / tile[1]; }
  int64_t places() const { return block[0] / tile[0] * across(); }
  int64_t invocations() const { return places() * slices; }
  /// Upper bound of shared memory in bytes: both tiles, with a vector of padding behind each row, and the sums of
  /// the slices.
  int64_t bytes() const {
    return 4 * (depth * (block[0] + block[1] + 8) + (slices > 1 ? slices * block[0] * block[1] : 0));
  }
};

/// A blocking, and the conditions under which it is chosen.
struct BlockingChoice {
  SharedBlocking blocking;
  int64_t leastBlocks;  ///< least size of the product, in blocks of 32 x 32 elements for each processor
  /// Bounds of the extent along k.
  int64_t leastInner = 1, mostInner = INT64_MAX;
  bool bothAlongK = false;  ///< only where both operands lie along k in memory
  bool fits(const Target& target) const {
    return blocking.invocations() <= largestGroup(target) &&
           gives(target, LimitId::sharedBytes, blocking.bytes());
  }
  SharedMatmulSchedule schedule() const {
    const auto& [tile, block, depth, slices, run] = blocking;
    return {.tile = {tile[0], tile[1]}, .shared = {block[0], block[1], depth}, .slices = slices, .run = run};
  }
};

/// The first one that fits is taken. Measured on an H200 (132 processors, fma ceiling 61.9 TFLOP/s): products of
/// thousands of blocks reach 44 to 49 TFLOP/s with 8 × 8 elements an invocation; 4 × 4 fill the device with fewer
/// blocks. Blocks with twice the columns take 3 to 18 % less time, unless most of the added columns are outside the
/// product; then those with twice the rows do (44 against 39, 64 columns). An operand that lies along k is
/// transposed on its way to shared memory, for which more invocations are better: if both do, 128 × 128 reach 46.6
/// and 64 × 128 reach 44.4. 128 × 128 are better over 50 304 terms too: 13.6 ms against 14.2 on an H100 (8192 ×
/// 768). With fewer blocks, every step waits for memory, so longer steps that slices share win (2048 × 128 over
/// 512: 16.5 us in two slices, 22.6 in one).
constexpr BlockingChoice kSharedBlockings[] = {
    {{{8, 8}, {128, 128}, 16}, 32, 65, INT64_MAX, true},
    {{{8, 8}, {128, 128}, 16}, 32, 32768},
    {{{8, 8}, {64, 128}, 16}, 24},
    {{{8, 8}, {128, 64}, 16}, 24},
    {{{8, 8}, {64, 64}, 16}, 32},
    {{{8, 4}, {64, 64}, 16}, 16},
    {{{4, 4}, {64, 64}, 16}, 8},
    {{{4, 4}, {32, 32}, 16}, 6},
    {{{4, 4}, {32, 32}, 16}, 0, 1, 32},
    {{{4, 4}, {32, 32}, 32, 2}, 2},
    {{{4, 4}, {32, 32}, 32, 4}, 1},
    {{{4, 4}, {32, 32}, 48, 4}, 0, 512},
    {{{4, 4}, {32, 32}, 32, 4}, 0},
    {{{4, 4}, {32, 32}, 16}, 0},
};

const Type kVector = Type::scalar(DType::f32, kLanes);

/// The blocking of a convolution whose windows are the second factor. An invocation loads a run of k, one row of
/// the window, for four positions. The windows of neighbouring positions overlap, so that this takes 6 loads
/// instead of 12 for windows of three. Neighbouring invocations load the next positions, which are contiguous in
/// memory; if they took neighbouring k instead, each would read another place of the window or another channel.
/// Microseconds on an H100, of the forward product and of the gradient of the images:
///
///                                     this blocking 8 x 8, depth 12, in runs  8 x 8, depth 16, along k
///   3x3, 64 channels, 32 of 56 x 56   193  199      218  223                  248  261
///   3x3, 128 channels, 32 of 28 x 28  209  220      215  225                  256  254
constexpr BlockingChoice windowBlocking(int64_t window) {
  return {{{8, 4}, {64, 64}, 8 * window, 1, window}, 0};
}

/// One operand's tile in shared memory, as vectors of four of its positions (m or n). An invocation has vectors that are
/// `places` apart, so that neighbours read neighbouring vectors. The vector that each position of the block belongs to,
/// if four divide the extent, and otherwise (`spread_`):
///
///   0 0 0 0 1 1 1 1 2 2 2 2 …    a vector's positions are contiguous: one access to memory may load all four
///   0 1 2 … 0 1 2 … 0 1 2 …      each lane is one access, contiguous with those of the neighbouring invocations
class Staged {
 public:
  Staged(LowerContext& c, const Product& p, int which, bool alongK, const SharedBlocking& blocking,
         const Index& lane, const Index& place)
      : c_(c), p_(p), which_(which), depth_(blocking.depth), place_(place), extent_(which == 0 ? p.m : p.n),
        tile_(blocking.tile[which]), fours_(blocking.block[which] / kLanes),
        run_(which == 0 ? 1 : blocking.run), groups_(blocking.invocations() / fours_),
        places_(blocking.block[which] / tile_), alongK_(alongK), vector_(!alongK && extent_ % kLanes == 0),
        spread_(extent_ % kLanes != 0 && run_ == 1),
        tasks_(c, depth_ * fours_, blocking.invocations(), lane) {
    // An odd pitch for a tile that is transposed while it is written, so that the writes of neighbours hit other
    // banks.
    const int64_t pitch = alongK_ ? fours_ + 1 - fours_ % 2 : fours_;
    shared_ = SharedTile::make(c, depth_, pitch, which == 0 ? "tile_a" : "tile_b");
  }

  /// Loads this invocation's vectors of the tile at (origin, k0) into registers. If memory runs along k,
  /// neighbouring invocations take neighbouring k, and each the four positions of one k.
  std::vector<KV> load(const Indices& lead, const Index& origin, const Index& k0) {
    std::vector<KV> out;
    tasks_.load([&](const Index& task) {
      Index k = c_.space.add(k0, depthOf(task));
      auto factor = [&](const Index& lane) {
        return at(lead, c_.space.add(origin, positionOf(vectorOf(task), lane)), k);
      };
      if (vector_) return out.push_back(c_.kernel.widened(factor(IndexSpace::lane()), kVector));
      std::vector<KV> lanes;
      for (int64_t lane = 0; lane < kLanes; ++lane) lanes.push_back(factor(IndexSpace::constant(lane)));
      // `vec` folds equal literals of a constant operand to a scalar, but the loop carries vectors.
      out.push_back(c_.kernel.splat(c_.kernel.vec(lanes)));
    });
    return out;
  }
  /// Stores what `load` gave into the tile; returns the number of vectors.
  size_t store(std::span<const KV> loaded) {
    size_t next = 0;
    tasks_.store(
        [&](const Index& task) { shared_.write(c_, depthOf(task), vectorOf(task), loaded[next++]); });
    return next;
  }
  /// Reads this invocation's factors at one k of the tile.
  std::vector<KV> read(const Index& k) { return shared_.vectors(c_, k, place_, tile_ / kLanes, places_); }
  /// The position in the block of factor `i` of the invocation's tile.
  Index position(int64_t i) const {
    return positionOf(c_.space.add(place_, IndexSpace::constant(i / kLanes * places_)),
                      IndexSpace::constant(i % kLanes));
  }

 private:
  /// The k of the tile that a task loads. The invocations that load the same k, one for each four positions, are a
  /// group. A group takes every `groups_`th k or, with runs, `run_` consecutive k, followed by the run of the next
  /// group.
  Index depthOf(const Index& task) const {
    if (alongK_) return c_.space.mod(task, depth_);
    const Index row = c_.space.div(task, fours_);
    if (run_ == 1) return row;
    const Index turn = c_.space.div(row, groups_), group = c_.space.mod(row, groups_);
    const Index within = c_.space.add(c_.space.scale(group, run_), c_.space.mod(turn, run_));
    return c_.space.add(c_.space.scale(c_.space.div(turn, run_), groups_ * run_), within);
  }
  /// The vector of the tile's row that a task loads.
  Index vectorOf(const Index& task) const {
    return alongK_ ? c_.space.div(task, depth_) : c_.space.mod(task, fours_);
  }
  /// The position in the block of a vector's lane.
  Index positionOf(const Index& vector, const Index& lane) const {
    return spread_ ? c_.space.add(vector, c_.space.scale(lane, fours_))
                   : c_.space.add(c_.space.scale(vector, kLanes), lane);
  }
  KV at(const Indices& lead, const Index& position, const Index& k) {
    return c_.emitter.within(k, p_.k, position, extent_, [&](const Index& kIn, const Index& in) {
      return element(c_.emitter, p_, which_, lead, which_ == 0 ? in : kIn, which_ == 0 ? kIn : in);
    });
  }

  LowerContext& c_;
  const Product& p_;
  int which_;
  int64_t depth_;
  Index place_;
  int64_t extent_, tile_, fours_, run_, groups_, places_;
  bool alongK_, vector_;  ///< how memory runs, and whether a load takes four positions
  bool spread_;           ///< whether the positions of a vector are apart
  StagingTasks tasks_;
  SharedTile shared_;
};

/// Whether neighbouring invocations load neighbouring k of an operand. They do if it is contiguous along k in memory,
/// so that their loads are coalesced: as the product's transposes say, unless the schedule says that views turn it.
bool alongK(const Product& p, const SharedMatmulSchedule& schedule, int which) {
  const bool own = (which == 0) != (which == 0 ? p.ta : p.tb);
  return own != schedule.turned[static_cast<size_t>(which)];
}

/// Emits one block of the product, at a row and column (counted in blocks) of one batch.
class BlockProduct {
 public:
  BlockProduct(LowerContext& c, const Product& p, const SharedMatmulSchedule& schedule,
               const SharedBlocking& blocking)
      : c_(c), p_(p), schedule_(schedule), blocking_(blocking),
        lane_(c.space.variable(c.kernel.id(Opcode::k_local_id, 0), blocking.invocations())),
        place_(placeOf(c.space, c.space.mod(lane_, blocking.places()), blocking.places() / blocking.across(),
                       blocking.across())),
        slice_(c.space.div(lane_, blocking.places())),
        a_(c, p, 0, alongK(p, schedule, 0), blocking, lane_, place_.row),
        b_(c, p, 1, alongK(p, schedule, 1), blocking, lane_, place_.column) {}

  void emit(const Index& batch, const Index& row, const Index& column) {
    batch_ = batch;
    lead_ = c_.space.delinear(batch, p_.lead);
    origin_[0] = c_.space.scale(row, blocking_.block[0]);
    origin_[1] = c_.space.scale(column, blocking_.block[1]);
    std::vector<KV> acc = sums();
    if (blocking_.slices > 1) return storeSlices(acc);
    if (!schedule_.zeros) return whereStored({}, [&] { storeTile(acc); });
    c_.kernel.guard(visible_, [&] { storeTile(acc); });
    whereStored(c_.kernel.op(Opcode::k_not, {visible_}, DType::i1), [&] { storeTile({}); });
  }

 private:
  int64_t quads() const { return blocking_.tile[1] / kLanes; }

  /// Emits `body` under the condition, if there is one. With `unread`, also under the condition that other kernels
  /// read the block: that part of it lies in a tile on the diagonal or below.
  void whereStored(std::optional<KV> condition, const std::function<void()>& body) {
    KernelBuilder& kernel = c_.kernel;
    if (schedule_.unread) {
      auto tile = [&](const Index& at) { return c_.space.materialize(c_.space.div(at, schedule_.unread)); };
      const Index last = c_.space.add(origin_[0], IndexSpace::constant(blocking_.block[0] - 1));
      const KV isRead = kernel.op(Opcode::k_le, {tile(origin_[1]), tile(last)}, DType::i1);
      condition = condition ? kernel.op(Opcode::k_and, {*condition, isRead}, DType::i1) : isRead;
    }
    condition ? kernel.guard(*condition, body) : body();
  }

  /// Stores the results of the tile's sums, or zeros if there are none.
  void storeTile(std::span<const KV> acc) {
    for (int64_t i = 0; i < blocking_.tile[0]; ++i)
      for (int64_t quad = 0; quad < quads(); ++quad)
        store(
            a_.position(i), [&](int64_t lane) { return b_.position(quad * kLanes + lane); },
            acc.empty() ? nullptr : &acc[static_cast<size_t>(i * quads() + quad)]);
  }

  /// The steps along k that are not skipped: none of a block that a mask hides, none whose tile of A is zero.
  struct Steps {
    KV from, to;
  };
  Steps counting(int64_t steps) {
    KernelBuilder& kernel = c_.kernel;
    Steps out{KernelBuilder::u32(0), KernelBuilder::u32(steps)};
    // The first column that no row of the block can see, under a causal mask of rows x columns.
    auto sees = [&](int64_t rows, int64_t columns) {
      return c_.space.add(origin_[0], IndexSpace::constant(blocking_.block[0] + columns - rows));
    };
    if (schedule_.lower && p_.ta) out.from = c_.space.materialize(c_.space.div(origin_[0], blocking_.depth));
    if (schedule_.lower && !p_.ta) {
      Index last = c_.space.add(sees(p_.m, p_.k), IndexSpace::constant(blocking_.depth - 1));
      out.to = kernel.op(Opcode::k_min, {out.to, c_.space.materialize(c_.space.div(last, blocking_.depth))},
                         DType::u32);
    }
    if (schedule_.hidden) {
      visible_ =
          kernel.op(Opcode::k_lt, {c_.space.materialize(origin_[1]), c_.space.materialize(sees(p_.m, p_.n))},
                    DType::i1);
      out.to = kernel.op(Opcode::k_select, {visible_, out.to, KernelBuilder::u32(0)}, DType::u32);
    }
    return out;
  }
  /// The sums of the invocation's tile, in vectors of four columns, over its slice of every step. If k is long they
  /// are summed in blocks of 512, which lose fewer digits. The totals need as many registers as the sums, so tiles
  /// of more than 16 elements add in one chain: blocks of 8x8 tiles made GPT-2's step 10 % longer on an H200.
  std::vector<KV> sums() {
    constexpr int64_t kBlock = 512;
    const int64_t steps = divideCeil(p_.k, blocking_.depth);
    const Steps counted = counting(steps);
    auto load = [&](const Index& step) {
      const Index k0 = c_.space.scale(step, blocking_.depth);
      std::vector<KV> tiles = a_.load(lead_, origin_[0], k0);
      for (const KV& part : b_.load(lead_, origin_[1], k0)) tiles.push_back(part);
      return tiles;
    };
    auto store = [&](std::span<const KV> tiles) { b_.store(tiles.subspan(a_.store(tiles))); };
    Pipeline pipeline(c_, steps, counted.from, load, store);
    pipeline.carry(c_.kernel.splat(KernelBuilder::f32(0)), static_cast<size_t>(blocking_.tile[0] * quads()));
    auto multiply = [&](const Index&, std::span<KV> acc) {
      const int64_t own = blocking_.depth / blocking_.slices;
      for (int64_t k = 0; k < own; ++k) {
        const Index at = c_.space.add(c_.space.scale(slice_, own), IndexSpace::constant(k));
        const std::vector<KV> a = a_.read(at), b = b_.read(at);
        addOuterProduct(c_.kernel, a, b, acc);
      }
    };
    const int64_t block = kBlock * blocking_.slices / blocking_.depth;
    if (steps <= 2 * block || blocking_.tile[0] * blocking_.tile[1] > 16)
      pipeline.run("step", counted.from, counted.to, multiply);
    else
      pipeline.runInBlocks(counted.from, counted.to, block, multiply);
    return {pipeline.state().begin(), pipeline.state().end()};
  }

  /// Adds up the sums of the slices through shared memory, in the order of the slices, and stores the results; each
  /// invocation takes some fours of the block.
  void storeSlices(const std::vector<KV>& acc) {
    int64_t elements = blocking_.block[0] * blocking_.block[1];
    Value* parts = c_.kernel.sharedBuffer(
        Type::buffer(DType::f32, 1, {blocking_.slices * elements}, BufMode::shared), "parts");
    auto part = [&](const Index& slice, const Index& m, const Index& n) {
      return c_.space.materialize(c_.space.add(c_.space.scale(slice, elements),
                                               c_.space.add(c_.space.scale(m, blocking_.block[1]), n)));
    };
    for (int64_t i = 0; i < blocking_.tile[0]; ++i)
      for (int64_t j = 0; j < blocking_.tile[1]; ++j)
        c_.kernel.store(c_.kernel.extract(acc[static_cast<size_t>(i * quads() + j / kLanes)],
                                          static_cast<int>(j % kLanes)),
                        parts, part(slice_, a_.position(i), b_.position(j)));
    c_.kernel.barrier();
    int64_t perRow = blocking_.block[1] / kLanes;
    for (int64_t first = 0; first < elements / kLanes; first += blocking_.invocations()) {
      Index task = c_.space.add(lane_, IndexSpace::constant(first));
      c_.emitter.whereInside(
          task, elements / kLanes, IndexSpace::constant(0), 1, [&](const Index& in, const Index&) {
            Index m = c_.space.div(in, perRow), n = c_.space.scale(c_.space.mod(in, perRow), kLanes);
            std::vector<KV> lanes;
            for (int64_t lane = 0; lane < kLanes; ++lane) {
              KV sum;
              for (int64_t slice = 0; slice < blocking_.slices; ++slice) {
                KV own = c_.kernel.loadHere(
                    parts, part(IndexSpace::constant(slice), m, c_.space.add(n, IndexSpace::constant(lane))));
                sum = slice == 0 ? own : c_.kernel.add(sum, own);
              }
              lanes.push_back(sum);
            }
            const KV sum = c_.kernel.vec(lanes);
            store(
                m, [&](int64_t lane) { return c_.space.add(n, IndexSpace::constant(lane)); }, &sum);
          });
    }
  }

  /// Stores the results at four columns of a row: of a sum, or zeros. By vectors if four divides n: the columns are side by
  /// side then, and no vector straddles the edge.
  void store(const Index& m, const std::function<Index(int64_t lane)>& column, const KV* sum) {
    const bool vector = p_.n % kLanes == 0;
    for (int lane = 0; lane < (vector ? 1 : kLanes); ++lane)
      c_.emitter.whereInside(c_.space.add(origin_[0], m), p_.m, c_.space.add(origin_[1], column(lane)), p_.n,
                             [&](const Index& mIn, const Index& nIn) {
                               if (!sum) return storeZero(c_, p_, batch_, mIn, nIn, vector);
                               epilogue(c_, p_, batch_, mIn, nIn, 1, vector ? kLanes : 1, vector,
                                        {vector ? *sum : c_.kernel.extract(*sum, lane)});
                             });
  }

  LowerContext& c_;
  const Product& p_;
  const SharedMatmulSchedule& schedule_;
  const SharedBlocking& blocking_;
  Index lane_;
  TilePlace place_;
  Index slice_;
  Staged a_, b_;
  Index batch_, origin_[2];
  Indices lead_;
  KV visible_;  ///< whether some element of the block is not hidden
};

Result<SharedBlocking> blockingOf(const LowerContext& c, const Product& p,
                                  const SharedMatmulSchedule& schedule) {
  const std::array<int64_t, 2>& tile = schedule.tile;
  const std::array<int64_t, 3>& shared = schedule.shared;
  const int64_t slices = schedule.slices;
  bool whole = shared[2] % (kLanes * slices) == 0;
  for (size_t i = 0; i < 2; ++i) whole = whole && tile[i] % kLanes == 0 && shared[i] % tile[i] == 0;
  if (!whole)
    return failAt(c.fused.loc,
                  "schedule {} needs tiles that are multiples of 4, blocks that are multiples of the tile, "
                  "and a depth that is a multiple of 4 times the slices",
                  c.schedule.str());
  SharedBlocking blocking{{tile[0], tile[1]}, {shared[0], shared[1]}, shared[2], slices, schedule.run};
  const int64_t fours = shared[1] / kLanes, groups = blocking.invocations() / fours;
  if (schedule.run > 1 && (alongK(p, schedule, 1) || blocking.invocations() % fours != 0 ||
                           shared[2] % (groups * schedule.run) != 0))
    return failAt(c.fused.loc,
                  "schedule {} has a run, but the second operand is contiguous along k, or the run does not "
                  "divide {} elements along k between the groups of invocations that load {} columns",
                  c.schedule.str(), shared[2], shared[1]);
  TG_CHECK(c.checkStraight(tile[0] * tile[1] * (shared[2] / slices)));
  return blocking;
}

}  // namespace

template <>
std::optional<SharedMatmulSchedule> choose(const Op& product, const Target& target) {
  const auto [m, n, inner, batch] = productSizes(product);
  if (target.matmul != "shared" || std::min(m, n) < kLeastSharedSide) return {};
  const bool bothAlongK = !as::matmul(product).transpose_a() && as::matmul(product).transpose_b();
  for (const BlockingChoice& each : kSharedBlockings) {
    if (!each.fits(target) || (each.bothAlongK && !bothAlongK)) continue;
    const SharedBlocking& it = each.blocking;
    int64_t rows = alignTo(m, it.block[0]), columns = alignTo(n, it.block[1]);
    // Skipped if it covers over 9/8 of the rows or columns that blocks of 64 cover: the rest would lie outside.
    if (8 * columns > 9 * alignTo(n, std::min<int64_t>(it.block[1], 64)) ||
        8 * rows > 9 * alignTo(m, std::min<int64_t>(it.block[0], 64)))
      continue;
    if (batch * rows * columns / (32 * 32) >= each.leastBlocks * target.units() && inner >= each.leastInner &&
        inner <= each.mostInner)
      return each.schedule();
  }
  return std::nullopt;
}

/// A smaller tile for a product that has few terms and whose epilogue reads an operand as large as the result: that
/// operand's loads take as long as the sums. A smaller tile needs fewer registers, so that the occupancy is higher
/// and more loads are in flight. The gradient of a softmax as the epilogue of a product of 64 terms, 96 x 1024 x
/// 1024 elements, took 427 us on an H100 with 4 x 4 elements an invocation, 474 with 8 x 4, 582 with 8 x 8.
static SharedMatmulSchedule forEpilogue(const Op& fused, const Op& product, const Target& target,
                                        const SharedMatmulSchedule& chosen) {
  constexpr int64_t kFewTerms = 64;
  constexpr BlockingChoice kSmall{{{4, 4}, {64, 64}, 16}, 0};
  const auto [m, n, inner, batch] = productSizes(product);
  const bool isLarger = chosen.tile[0] * chosen.tile[1] > kSmall.blocking.tile[0] * kSmall.blocking.tile[1];
  if (!isLarger || inner > kFewTerms || inner >= std::min(m, n) || !kSmall.fits(target)) return chosen;
  // With fewer terms than rows and columns, both factors are smaller than the result, so a binding of that size is
  // another operand.
  const bool adds =
      anyUse(fused, [least = batch * m * n](const Value* x) { return x->type.elements() >= least; });
  return adds ? kSmall.schedule() : chosen;
}

/// The schedule that loads windows in runs, for a product whose second factor is windows of two or three columns across
/// k; it has many steps along k, or its last step is full.
static std::optional<SharedMatmulSchedule> inRuns(const Op& product, const Target& target) {
  constexpr int64_t kWidestRun = 3, kManySteps = 8;
  const int64_t window = innermostWindow(as::matmul(product).rhs()), inner = productSizes(product).inner;
  if (window <= 1 || window > kWidestRun || as::matmul(product).transpose_b()) return std::nullopt;
  const BlockingChoice runs = windowBlocking(window);
  const int64_t depth = runs.blocking.depth;
  const bool suits = (inner % depth == 0 || inner >= kManySteps * depth) && runs.fits(target);
  return suits ? std::optional(runs.schedule()) : std::nullopt;
}

/// The schedule for a product whose second factor is windows, if blocks of 64 x 64 fill the device: in runs where that
/// is possible, else with at least 8 x 4 elements an invocation. A load from a window takes index arithmetic, part of
/// which the loads of an invocation share. Microseconds on an H200, 3x3 windows of 64 images of 14 x 14 with 16 and 32
/// channels:
///
///                              4 x 4    8 x 4    8 x 4 in runs
///   forward                     13.8     10.9     10.7
///   gradient of the images      25.2     20.6     16.2
///   gradient of the weights     19.9     12.4
static SharedMatmulSchedule forWindows(const Op& product, const Target& target,
                                       const SharedMatmulSchedule& chosen) {
  constexpr int64_t kLeastBlock = 64;
  constexpr BlockingChoice kLargerTile{{{8, 4}, {64, 64}, 16}, 0};
  if (innermostWindow(as::matmul(product).rhs()) <= 1 ||
      std::min(chosen.shared[0], chosen.shared[1]) < kLeastBlock)
    return chosen;
  if (auto runs = inRuns(product, target)) return *runs;
  const bool small = chosen.tile == std::array<int64_t, 2>{4, 4};
  return small && kLargerTile.fits(target) ? kLargerTile.schedule() : chosen;
}

SharedMatmulSchedule forRegion(const Op& fused, const Op& product, const Target& target,
                               const SharedMatmulSchedule& chosen) {
  return forWindows(product, target, forEpilogue(fused, product, target, chosen));
}

SharedMatmulSchedule arranged(const Op& fused, const Target&, SharedMatmulSchedule schedule) {
  constexpr int64_t kMostBand = 8;
  const std::unique_ptr<PlainRegion> region = plainRegion(fused);
  const Product p = productIn(*region);
  if (!p.op) return schedule;
  const int64_t rows = divideCeil(p.m, schedule.shared[0]);
  schedule.band = kMostBand;
  while (rows % schedule.band != 0) --schedule.band;
  schedule.turned = turnedOperands(fused, *region, p, p.k);
  if (schedule.run > 1) schedule.turned[1] = false;
  return schedule;
}

std::vector<Schedule> neighbours(const Op& fused, const Target& target, const SharedMatmulSchedule&) {
  std::vector<Schedule> out;
  if (auto runs = inRuns(*contractionOf(fused), target)) out.push_back(*runs);
  for (const BlockingChoice& each : kSharedBlockings)
    if (each.fits(target)) out.push_back(each.schedule());
  return out;
}

std::vector<SharedMatmulSchedule> sharedMatmulSchedules() {
  std::vector<SharedMatmulSchedule> out;
  for (const BlockingChoice& each : kSharedBlockings)
    if (auto schedule = each.schedule(); !contains(out, schedule)) out.push_back(schedule);
  return out;
}

Result<void> lowerKernel(LowerContext& c, const SharedMatmulSchedule& schedule) {
  TG_TRY(Product p, findProduct(c));
  TG_TRY(SharedBlocking blocking, blockingOf(c, p, schedule));
  int64_t groupsM = divideCeil(p.m, blocking.block[0]), groupsN = divideCeil(p.n, blocking.block[1]);
  const int64_t band = schedule.band;
  if (groupsM % band != 0)
    return failAt(c.fused.loc, "schedule {} has a band that does not divide {} rows of blocks",
                  c.schedule.str(), groupsM);
  const int64_t bands = groupsM / band;
  c.launchGroups(p.batch * groupsM * groupsN, blocking.invocations(), [&](const Index& group) {
    const Index within = c.space.mod(group, band * groupsN), rest = c.space.div(group, band * groupsN);
    Index batch = c.space.div(rest, bands), rows = c.space.mod(rest, bands);
    if (schedule.lower) {
      batch = c.space.mod(rest, p.batch), rows = c.space.div(rest, p.batch);
      if (!p.ta) rows = c.space.add(IndexSpace::constant(bands - 1), c.space.scale(rows, -1));
    }
    const Index row = c.space.add(c.space.scale(rows, band), c.space.mod(within, band));
    BlockProduct(c, p, schedule, blocking).emit(batch, row, c.space.div(within, band));
  });
  return {};
}

}  // namespace tg
