// SPDX-License-Identifier: Apache-2.0
// Orders tasks so that few barriers are needed.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

namespace tg::plan {

/// A kernel as seen by the ordering. Blocks are ranges of memory, by number.
struct Task {
  std::vector<int> after;                     ///< earlier tasks that must be separated from it by a barrier
  std::vector<int> reads, writes;             ///< blocks, each once
  std::vector<std::pair<int, int>> takeOver;  ///< (written block, read block whose bytes it may take)
};

/// Tasks in intervals: tasks of one interval do not depend on each other, and a barrier separates two intervals.
struct Intervals {
  std::vector<int> order;   ///< all tasks; those of an interval by number
  std::vector<int> starts;  ///< for each interval, the index of its first task in `order`
  int64_t peak = 0;         ///< the most bytes alive in an interval
};

/// Keeps the given order, and starts a new interval at each task that depends on one of its interval.
Intervals cutIntervals(const std::vector<Task>& tasks, const std::vector<int64_t>& bytes);

/// Puts independent tasks into common intervals, so that few barriers remain. The longest chain of tasks is a lower bound of
/// the number of intervals; its tasks go as early as possible. Another task goes as soon as it frees at least as many
/// bytes as it takes, or as late as possible. A block is alive from the interval that writes it first to the last one that
/// uses it. `bytes` are the blocks' sizes, 0 for blocks that cost nothing. If the given order, with intervals closed early
/// where needed, stays within `limit` bytes, so does the result.
Intervals orderTasks(const std::vector<Task>& tasks, const std::vector<int64_t>& bytes, int64_t limit);

}  // namespace tg::plan
