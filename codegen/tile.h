// SPDX-License-Identifier: Apache-2.0
// Building blocks of tiled contractions, for products and attention alike: how the invocations of a workgroup
// divide a tile and what each copies to shared memory, the software-pipelined loop over tiles, and outer products
// in registers. Private to codegen/.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "codegen/lower_schedules.h"

namespace tg {

/// The place of an invocation's tile in a block, counted in tiles.
struct TilePlace {
  Index row, column;
};

/// The place of invocation `number` in a block of `down` x `across` tiles.
TilePlace placeOf(IndexSpace& space, const Index& number, int64_t down, int64_t across);

/// The vectors that the invocations of a workgroup copy to shared memory, `invocations` of them at a time:
/// invocation `lane` has the tasks lane, lane + invocations, …
class StagingTasks {
 public:
  /// `tasks` vectors in all.
  StagingTasks(LowerContext& c, int64_t tasks, int64_t invocations, Index lane)
      : c_(c), count_(tasks), invocations_(invocations), lane_(std::move(lane)) {}
  /// Emits body(task) for each vector of this invocation. In the last round an invocation may have no task: it
  /// loads the vector of another task, since a branch would wait for the load.
  void load(const std::function<void(const Index&)>& body) const;
  /// The same under a predicate: invocations without a task do nothing.
  void store(const std::function<void(const Index&)>& body) const;

 private:
  std::vector<Index> tasks() const;

  LowerContext& c_;
  int64_t count_, invocations_;
  Index lane_;
};

/// A tile of vectors of four f32 in shared memory. Vector (row, column) has index row · pitch + column.
struct SharedTile {
  Value* buffer = nullptr;
  int64_t pitch = 0;

  /// Allocates a tile of `rows` rows.
  static SharedTile make(LowerContext& c, int64_t rows, int64_t pitch, const char* name);
  KV read(LowerContext& c, const Index& row, const Index& column) const;
  void write(LowerContext& c, const Index& row, const Index& column, const KV& value) const;
  /// `count` vectors of a row, at column, column + apart, …
  std::vector<KV> vectors(LowerContext& c, const Index& row, const Index& column, int64_t count,
                          int64_t apart) const;
};

/// Adds the outer product of a column, in vectors of four, and a row: sums[i · row.size() + j] += column[i] ·
/// row[j].
void addOuterProduct(KernelBuilder& kernel, std::span<const KV> column, std::span<const KV> row,
                     std::span<KV> sums);

/// The software-pipelined loop over tiles that pass through shared memory. A step:
///
///   store the tile that the last step loaded into registers; barrier; load the next tile; body; barrier
///
/// So the loads are in flight while the body computes. Without anything to load, a step is its body. Several loops
/// of one pipeline may follow each other. The last step loads the last tile again: a branch would wait for the
/// load.
class Pipeline {
 public:
  using Load = std::function<std::vector<KV>(const Index& tile)>;
  using Store = std::function<void(std::span<const KV> loaded)>;
  using Body = std::function<void(const Index& tile, std::span<KV> state)>;
  /// Loads what the next step stores.
  using Next = std::function<std::vector<KV>()>;

  /// Loads the tile `first` of `tiles`, with which the first step begins.
  Pipeline(LowerContext& c, int64_t tiles, const KV& first, Load load, Store store);
  /// The same, where the first tile has been loaded.
  Pipeline(LowerContext& c, int64_t tiles, std::vector<KV> loaded, Load load, Store store);
  /// Adds `count` values that the steps carry, which start as `value`; or values that start as these.
  void carry(const KV& value, size_t count) { carried_.resize(carried_.size() + count, value); }
  void carry(std::span<const KV> values) { carried_.insert(carried_.end(), values.begin(), values.end()); }
  std::span<KV> state() { return std::span(carried_).subspan(loads_); }

  /// Emits a loop over the tiles from..to; `name` is the name of its counter.
  void run(const char* name, const KV& from, const KV& to, const Body& body);
  /// Emits a loop over all tiles, and the last step behind it, which loads for what follows: returns what `next` loads.
  std::vector<KV> runThen(const char* name, const Body& body, const Next& next);
  /// As `run`, if all carried values are sums: those of `block` tiles at a time start from their initial values,
  /// which must be zero, and are then added to the totals. That keeps the rounding errors of long sums small.
  void runInBlocks(const KV& from, const KV& to, int64_t block, const Body& body);

 private:
  Index index(const KV& tile) { return c_.space.variable(tile, tiles_); }
  /// A step as described at the class; `now` has the loaded tile, then the state. Returns what `next` loads.
  std::vector<KV> emitStep(const Index& tile, std::span<KV> now, const Body& body, const Next& next);
  KernelBuilder::LoopBody step(const Body& body);

  LowerContext& c_;
  KernelBuilder& kernel_;
  int64_t tiles_;
  Load load_;
  Store store_;
  std::vector<KV> carried_;  ///< the loaded tile, then the state
  size_t loads_ = 0;
};

}  // namespace tg
