// SPDX-License-Identifier: Apache-2.0
#include "passes/plan/order.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <numeric>
#include <set>
#include <utility>

namespace tg::plan {
namespace {

constexpr int kNoWindow = std::numeric_limits<int>::max();

/// What is known of a ready task until one of its blocks changes.
struct Known {
  int64_t cost = 0;   ///< bytes that it adds to the interval; kNever if it helps to free fewer
  double growth = 0;  ///< the bytes that it adds less those that it helps to free
};

constexpr int64_t kNever = std::numeric_limits<int64_t>::max();
constexpr Known kUnknown{std::numeric_limits<int64_t>::min(), -std::numeric_limits<double>::infinity()};
constexpr Known kAbsent{kNever, std::numeric_limits<double>::infinity()};

/// Ready tasks by rank, as a tree of minima: finds tasks that may go into an interval without visiting those that may not.
/// The cost of a task that is not evaluated yet is below all others, so that the search stops at it.
class ReadyTree {
 public:
  explicit ReadyTree(size_t count)
      : leaves_(std::bit_ceil(std::max<size_t>(1, count))), least_(2 * leaves_, kAbsent) {}

  const Known& at(int rank) const { return least_[leaves_ + static_cast<size_t>(rank)]; }
  void set(int rank, const Known& known) {
    size_t node = leaves_ + static_cast<size_t>(rank);
    least_[node] = known;
    while (node /= 2) {
      const Known &a = least_[2 * node], &b = least_[2 * node + 1];
      least_[node] = {std::min(a.cost, b.cost), std::min(a.growth, b.growth)};
    }
  }
  /// The first rank from `rank` on whose cost is at most `most`, or -1.
  int next(int rank, int64_t most) const {
    most = std::min(most, kNever - 1);
    size_t node = leaves_ + static_cast<size_t>(rank);
    if (node >= 2 * leaves_) return -1;
    while (least_[node].cost > most) {
      // Go to the next subtree on the right: up while this node is a right child.
      while (node & 1) node /= 2;
      if (node == 0) return -1;
      ++node;
    }
    while (node < leaves_) node = 2 * node + (least_[2 * node].cost > most);
    return static_cast<int>(node - leaves_);
  }
  /// The first rank with the least growth.
  int leastGrowth() const {
    size_t node = 1;
    while (node < leaves_) node = 2 * node + (least_[2 * node].growth > least_[2 * node + 1].growth);
    return static_cast<int>(node - leaves_);
  }

 private:
  size_t leaves_;
  std::vector<Known>
      least_;  ///< the minima of a node's leaves: node 1 is the root, 2·n and 2·n + 1 are the children of n
};

/// List scheduling by intervals: fills an interval with ready tasks, closes it, and counts live bytes meanwhile.
class Scheduler {
 public:
  /// `window`: how far behind the first remaining task, in the given order, a task may be to be chosen; or kNoWindow.
  Scheduler(const std::vector<Task>& tasks, const std::vector<int64_t>& bytes, int64_t limit, int window);
  Intervals run();

 private:
  bool isReady(int task) const { return waiting_[task] == 0; }
  bool takesOver(const std::pair<int, int>& pair) const;
  int64_t cost(int task) const;
  double gain(int task) const;
  std::vector<int> candidates() const;
  void fillWindow();
  void fillFreely();
  void beReady(int task);
  void look(int task);
  void forget(int block);
  void forgetBlocksOf(int task);
  void place(int task);
  void closeInterval();

  const std::vector<Task>& tasks_;
  const std::vector<int64_t>& bytes_;
  const int64_t limit_;
  const int window_;
  std::vector<std::vector<int>> followers_;
  std::vector<int> waiting_;  ///< for each task, dependences that are not in closed intervals yet
  std::vector<int> height_;   ///< for each task, the length of the longest chain that starts with it
  std::vector<bool> placed_;
  std::vector<int> usersLeft_;  ///< for each block, remaining tasks that read or write it
  std::vector<int> touched_;    ///< for each block, the last interval that used it
  std::vector<bool> alive_, passedOn_;
  std::vector<int> current_;  ///< tasks of the open interval
  /// Tasks by rank, and ranks by task. Lower ranks are tried first: without a window, tasks with the longest chains.
  std::vector<int> byRank_, rank_;
  std::set<int> ready_;  ///< ranks of tasks that are not placed and whose dependences are in closed intervals
  int first_ = 0;        ///< the first task that is not placed
  // Without a window:
  ReadyTree tree_;
  std::vector<std::vector<int>> knownBy_;  ///< for each block, evaluated ready tasks that use it
  int interval_ = 0;
  int64_t live_ = 0;
  Intervals out_;
};

Scheduler::Scheduler(const std::vector<Task>& tasks, const std::vector<int64_t>& bytes, int64_t limit,
                     int window)
    : tasks_(tasks), bytes_(bytes), limit_(limit), window_(window), followers_(tasks.size()),
      waiting_(tasks.size(), 0), height_(tasks.size(), 1), placed_(tasks.size(), false),
      usersLeft_(bytes.size(), 0), touched_(bytes.size(), -1), alive_(bytes.size(), false),
      passedOn_(bytes.size(), false), byRank_(tasks.size()), rank_(tasks.size()),
      tree_(window == kNoWindow ? tasks.size() : 0), knownBy_(bytes.size()) {
  for (int task = static_cast<int>(tasks.size()) - 1; task >= 0; --task) {
    waiting_[task] = static_cast<int>(tasks[task].after.size());
    for (int earlier : tasks[task].after) {
      followers_[earlier].push_back(task);
      height_[earlier] = std::max(height_[earlier], height_[task] + 1);
    }
    for (int block : tasks[task].reads) ++usersLeft_[block];
    for (int block : tasks[task].writes) ++usersLeft_[block];
  }
  std::iota(byRank_.begin(), byRank_.end(), 0);
  if (window_ == kNoWindow)
    std::ranges::stable_sort(byRank_, [&](int a, int b) { return height_[a] > height_[b]; });
  for (int rank = 0; rank < static_cast<int>(byRank_.size()); ++rank) rank_[byRank_[rank]] = rank;
  for (int task = 0; task < static_cast<int>(tasks.size()); ++task)
    if (isReady(task)) beReady(task);
}

void Scheduler::beReady(int task) {
  ready_.insert(rank_[task]);
  if (window_ == kNoWindow) tree_.set(rank_[task], kUnknown);
}

/// Whether a result may take an operand's bytes: all other users are done, in earlier intervals.
bool Scheduler::takesOver(const std::pair<int, int>& pair) const {
  int from = pair.second;
  return alive_[from] && !passedOn_[from] && usersLeft_[from] == 1 && touched_[from] != interval_;
}

/// The bytes that placing a task adds to the interval.
int64_t Scheduler::cost(int task) const {
  int64_t total = 0;
  for (int block : tasks_[task].writes)
    if (!alive_[block]) total += bytes_[block];
  for (const auto& pair : tasks_[task].takeOver)
    if (!alive_[pair.first] && takesOver(pair)) total -= bytes_[pair.first];
  return std::max<int64_t>(total, 0);
}

/// The bytes that placing a task helps to free; of a block with other users left, its share.
double Scheduler::gain(int task) const {
  double total = 0;
  for (int block : tasks_[task].reads)
    if (alive_[block]) total += static_cast<double>(bytes_[block]) / usersLeft_[block];
  return total;
}

/// Puts a task into the open interval.
void Scheduler::place(int task) {
  const Task& placed = tasks_[task];
  live_ += cost(task);
  for (const auto& pair : placed.takeOver)
    if (!alive_[pair.first] && takesOver(pair)) passedOn_[pair.second] = true;
  for (const auto* blocks : {&placed.reads, &placed.writes})
    for (int block : *blocks) {
      alive_[block] = true;
      touched_[block] = interval_;
      --usersLeft_[block];
    }
  placed_[task] = true;
  current_.push_back(task);
  if (window_ == kNoWindow) {
    tree_.set(rank_[task], kAbsent);
    forgetBlocksOf(task);
  }
  while (first_ < static_cast<int>(tasks_.size()) && placed_[first_]) ++first_;
}

/// The tasks of the window that may go into the open interval, those with the longest chains first.
std::vector<int> Scheduler::candidates() const {
  std::vector<int> ready;
  for (int task : ready_) {
    if (task - first_ >= window_) break;
    ready.push_back(task);
  }
  std::ranges::stable_sort(ready, [&](int a, int b) { return height_[a] > height_[b]; });
  return ready;
}

/// Fills the open interval from the window: tasks of the longest chains, and tasks that free at least what they add.
void Scheduler::fillWindow() {
  std::vector<int> ready = candidates();
  for (int task : ready) {
    bool urgent = height_[task] == height_[ready[0]];
    if (live_ + cost(task) > limit_) continue;
    // A window of one task keeps the given order.
    if (urgent || window_ == 1 || static_cast<double>(cost(task)) <= gain(task)) place(task);
  }
  if (!current_.empty()) return;
  // Nothing fits the limit: exceed it by as little as possible.
  auto growth = [&](int task) { return static_cast<double>(cost(task)) - gain(task); };
  place(*std::ranges::min_element(ready, [&](int a, int b) { return growth(a) < growth(b); }));
}

/// Evaluates what a ready task adds and frees.
void Scheduler::look(int task) {
  const int64_t bytes = cost(task);
  const double freed = gain(task);
  tree_.set(rank_[task],
            {static_cast<double>(bytes) <= freed ? bytes : kNever, static_cast<double>(bytes) - freed});
  for (const auto* blocks : {&tasks_[task].reads, &tasks_[task].writes})
    for (int block : *blocks) knownBy_[block].push_back(task);
}

/// Drops what is known of the tasks that use a block, which has changed.
void Scheduler::forget(int block) {
  for (int task : std::exchange(knownBy_[block], {}))
    if (!placed_[task] && tree_.at(rank_[task]).cost != kUnknown.cost) tree_.set(rank_[task], kUnknown);
}

void Scheduler::forgetBlocksOf(int task) {
  for (const auto* blocks : {&tasks_[task].reads, &tasks_[task].writes})
    for (int block : *blocks) forget(block);
}

/// The same as fillWindow without a window, but the evaluation of a task is kept until one of its blocks changes.
void Scheduler::fillFreely() {
  const int longest = height_[byRank_[*ready_.begin()]];
  int rank = 0;
  for (auto at = ready_.begin(); at != ready_.end() && height_[byRank_[*at]] == longest; ++at) {
    rank = *at + 1;
    if (live_ + cost(byRank_[*at]) <= limit_) place(byRank_[*at]);
  }
  while ((rank = tree_.next(rank, limit_ - live_)) >= 0) {
    const int task = byRank_[rank];
    if (tree_.at(rank).cost == kUnknown.cost) look(task);
    if (const int64_t bytes = tree_.at(rank).cost; bytes != kNever && live_ + bytes <= limit_) place(task);
    ++rank;
  }
  if (!current_.empty()) return;
  while (tree_.at(tree_.leastGrowth()).cost == kUnknown.cost) look(byRank_[tree_.leastGrowth()]);
  place(byRank_[tree_.leastGrowth()]);
}

/// Closes the open interval: frees blocks without remaining users, and makes tasks ready that waited for it.
void Scheduler::closeInterval() {
  out_.peak = std::max(out_.peak, live_);
  out_.starts.push_back(static_cast<int>(out_.order.size()));
  std::ranges::sort(current_);
  std::vector<int> found;  // tasks that have become ready
  for (int task : current_) {
    out_.order.push_back(task);
    for (int follower : followers_[task])
      if (--waiting_[follower] == 0) found.push_back(follower);
    for (const auto* blocks : {&tasks_[task].reads, &tasks_[task].writes})
      for (int block : *blocks)
        if (usersLeft_[block] == 0 && alive_[block]) {
          alive_[block] = false;
          if (!passedOn_[block]) live_ -= bytes_[block];
        }
  }
  for (int task : current_) {
    ready_.erase(rank_[task]);
    if (window_ == kNoWindow) forgetBlocksOf(task);
  }
  for (int task : found) beReady(task);
  current_.clear();
  ++interval_;
}

Intervals Scheduler::run() {
  const int count = static_cast<int>(tasks_.size());
  while (first_ < count) {
    window_ == kNoWindow ? fillFreely() : fillWindow();
    // The interval continues in the given order while the next task is independent of it and fits.
    while (window_ == 1 && first_ < count && isReady(first_) && live_ + cost(first_) <= limit_) place(first_);
    closeInterval();
  }
  return std::move(out_);
}

size_t longestChain(const std::vector<Task>& tasks) {
  std::vector<size_t> depth(tasks.size(), 1);
  size_t longest = 0;
  for (size_t task = 0; task < tasks.size(); ++task) {
    for (int earlier : tasks[task].after) depth[task] = std::max(depth[task], depth[earlier] + 1);
    longest = std::max(longest, depth[task]);
  }
  return longest;
}

}  // namespace

Intervals cutIntervals(const std::vector<Task>& tasks, const std::vector<int64_t>& bytes) {
  return Scheduler(tasks, bytes, std::numeric_limits<int64_t>::max(), 1).run();
}

Intervals orderTasks(const std::vector<Task>& tasks, const std::vector<int64_t>& bytes, int64_t limit) {
  // Without a window most memory is needed. The narrower the window, the closer the result to the given order.
  Intervals best = cutIntervals(tasks, bytes);
  const size_t chain = longestChain(tasks);
  for (int window : {kNoWindow, 64, 16, 4, 1}) {
    if (best.peak <= limit && best.starts.size() <= chain) break;
    Intervals attempt = Scheduler(tasks, bytes, limit, window).run();
    bool fits = attempt.peak <= limit, fewer = attempt.starts.size() < best.starts.size();
    if (best.peak > limit ? attempt.peak < best.peak : fits && fewer) best = std::move(attempt);
  }
  return best;
}

}  // namespace tg::plan
