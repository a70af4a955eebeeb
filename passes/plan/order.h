// SPDX-License-Identifier: Apache-2.0
// An order of tasks that needs few barriers.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

namespace tg::plan {

/// A kernel, as far as its order among others is concerned. Blocks are pieces of memory, by number.
struct Task {
  std::vector<int> after;                     ///< earlier tasks that a barrier must part it from
  std::vector<int> reads, writes;             ///< blocks, each once
  std::vector<std::pair<int, int>> takeOver;  ///< (written block, read block whose bytes it may take)
};

/// Tasks interval by interval: within one nothing depends on anything else, between two is a barrier.
struct Intervals {
  std::vector<int> order;   ///< all tasks; within an interval by number
  std::vector<int> starts;  ///< of each interval, an index into `order`
  int64_t peak = 0;         ///< the most bytes alive in an interval
};

/// The given order, cut where a task depends on one of its interval.
Intervals cutIntervals(const std::vector<Task>& tasks, const std::vector<int64_t>& bytes);

/// Groups independent tasks, so that few barriers remain. What bounds the number of intervals, the longest
/// chain of tasks, goes as early as it can; a task beside it goes as soon as it frees no less than it takes,
/// or as late as it may. A block lives from the interval that writes it first to the one that uses it last;
/// `bytes` are their sizes, 0 for blocks that cost nothing. Where the given order, cut by intervals that it
/// closes early, stays within `limit` bytes, so does the result.
Intervals orderTasks(const std::vector<Task>& tasks, const std::vector<int64_t>& bytes, int64_t limit);

}  // namespace tg::plan
