// SPDX-License-Identifier: Apache-2.0
// The parts that tiled contractions are built of, products and attention alike: how the invocations of a workgroup
// divide a tile and what they bring to shared memory, the loop over tiles, and the products of what they hold.
// Private to codegen/.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "codegen/lower_schedules.h"

namespace tg {

/// Which of a block's places an invocation takes, counted in tiles.
struct TilePlace {
  Index row, column;
};

/// The place of invocation `number` of a block of `down` x `across` places.
TilePlace placeOf(IndexSpace& space, const Index& number, int64_t down, int64_t across);

/// Vectors that the invocations of a workgroup bring to shared memory, one after the other.
class StagingTasks {
 public:
  /// `tasks` vectors by so many invocations, of which this is the one with number `lane`.
  StagingTasks(LowerContext& c, int64_t tasks, int64_t invocations, Index lane)
      : c_(c), count_(tasks), invocations_(invocations), lane_(std::move(lane)) {}
  /// body(task) for each vector of this invocation. One without a task loads what another does, since a branch
  /// would wait for the load.
  void load(const std::function<void(const Index&)>& body) const;
  /// The same, without those that have no task.
  void store(const std::function<void(const Index&)>& body) const;

 private:
  std::vector<Index> tasks() const;

  LowerContext& c_;
  int64_t count_, invocations_;
  Index lane_;
};

/// Rows of four f32 each in shared memory, vector row · pitch + column.
struct SharedTile {
  Value* buffer = nullptr;
  int64_t pitch = 0;

  /// A tile of `rows` rows.
  static SharedTile make(LowerContext& c, int64_t rows, int64_t pitch, const char* name);
  KV read(LowerContext& c, const Index& row, const Index& column) const;
  void write(LowerContext& c, const Index& row, const Index& column, const KV& value) const;
  /// The `count` vectors of a row from `column` on, so many apart.
  std::vector<KV> vectors(LowerContext& c, const Index& row, const Index& column, int64_t count,
                          int64_t apart) const;
};

/// Adds the products of a column, in vectors of four, and a row: sums[i · row.size() + j] += column[i] · row[j].
void addOuterProduct(KernelBuilder& kernel, std::span<const KV> column, std::span<const KV> row,
                     std::span<KV> sums);

/// The loop over tiles that pass through shared memory. A step:
///
///   store what the step before has loaded into registers; barrier; load the next tile; body; barrier
///
/// Without anything to load a step is its body. The loops of a pipeline follow each other; the last step loads the
/// last tile again, as a branch would wait for the loads.
class Pipeline {
 public:
  using Load = std::function<std::vector<KV>(const Index& tile)>;
  using Store = std::function<void(std::span<const KV> loaded)>;
  using Body = std::function<void(const Index& tile, std::span<KV> state)>;

  /// Of `tiles` tiles: loads the first that counts.
  Pipeline(LowerContext& c, int64_t tiles, const KV& first, Load load, Store store);
  /// Values that the steps carry.
  void carry(const KV& value, size_t count) { carried_.resize(carried_.size() + count, value); }
  std::span<KV> state() { return std::span(carried_).subspan(loads_); }

  /// A loop over the tiles from..to, counted by a variable of this name.
  void run(const char* name, const KV& from, const KV& to, const Body& body);
  /// The same of sums, which are those of `block` tiles each and begin as the state is.
  void runInBlocks(const KV& from, const KV& to, int64_t block, const Body& body);

 private:
  Index index(const KV& tile) { return c_.space.variable(tile, tiles_); }
  KernelBuilder::LoopBody step(const Body& body);

  LowerContext& c_;
  KernelBuilder& kernel_;
  int64_t tiles_;
  Load load_;
  Store store_;
  std::vector<KV> carried_;  ///< what is loaded, then the state
  size_t loads_ = 0;
};

}  // namespace tg
