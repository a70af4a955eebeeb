// SPDX-License-Identifier: Apache-2.0
// How the invocations of a workgroup divide a tile of a product, and what they bring to shared memory. Private to
// codegen/.
#pragma once

#include <functional>
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

}  // namespace tg
