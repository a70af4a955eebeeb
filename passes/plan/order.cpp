// SPDX-License-Identifier: Apache-2.0
#include "passes/plan/order.h"

#include <algorithm>
#include <limits>

namespace tg::plan {
namespace {

class Scheduler {
 public:
  /// `window`: how far behind the first task left, in the given order, a task may stand to be chosen.
  Scheduler(const std::vector<Task>& tasks, const std::vector<int64_t>& bytes, int64_t limit, int window);
  Intervals run();

 private:
  bool isReady(int task) const { return waiting_[task] == 0; }
  bool takesOver(const std::pair<int, int>& pair) const;
  int64_t cost(int task) const;
  double gain(int task) const;
  std::vector<int> candidates();
  void fillInterval();
  void place(int task);
  void closeInterval();

  const std::vector<Task>& tasks_;
  const std::vector<int64_t>& bytes_;
  const int64_t limit_;
  const int window_;
  std::vector<std::vector<int>> followers_;
  std::vector<int> waiting_;  ///< tasks in earlier intervals that it still waits for
  std::vector<int> height_;   ///< intervals from a task on to the end of its longest chain
  std::vector<bool> placed_;
  std::vector<int> usersLeft_;  ///< of each block: tasks that read or write it
  std::vector<int> touched_;    ///< the interval that used a block last
  std::vector<bool> alive_, passedOn_;
  std::vector<int> current_;  ///< tasks of the open interval
  std::vector<int> ready_;    ///< tasks not placed whose dependences lie in closed intervals, by number
  int first_ = 0;             ///< the first task that is not placed
  int interval_ = 0;
  int64_t live_ = 0;
  Intervals out_;
};

Scheduler::Scheduler(const std::vector<Task>& tasks, const std::vector<int64_t>& bytes, int64_t limit,
                     int window)
    : tasks_(tasks), bytes_(bytes), limit_(limit), window_(window), followers_(tasks.size()),
      waiting_(tasks.size(), 0), height_(tasks.size(), 1), placed_(tasks.size(), false),
      usersLeft_(bytes.size(), 0), touched_(bytes.size(), -1), alive_(bytes.size(), false),
      passedOn_(bytes.size(), false) {
  for (int task = static_cast<int>(tasks.size()) - 1; task >= 0; --task) {
    waiting_[task] = static_cast<int>(tasks[task].after.size());
    for (int earlier : tasks[task].after) {
      followers_[earlier].push_back(task);
      height_[earlier] = std::max(height_[earlier], height_[task] + 1);
    }
    for (int block : tasks[task].reads) ++usersLeft_[block];
    for (int block : tasks[task].writes) ++usersLeft_[block];
  }
  for (int task = 0; task < static_cast<int>(tasks.size()); ++task)
    if (isReady(task)) ready_.push_back(task);
}

/// Whether a result may take over an operand's bytes: everybody else has used them in an earlier interval.
bool Scheduler::takesOver(const std::pair<int, int>& pair) const {
  int from = pair.second;
  return alive_[from] && !passedOn_[from] && usersLeft_[from] == 1 && touched_[from] != interval_;
}

int64_t Scheduler::cost(int task) const {
  int64_t total = 0;
  for (int block : tasks_[task].writes)
    if (!alive_[block]) total += bytes_[block];
  for (const auto& pair : tasks_[task].takeOver)
    if (!alive_[pair.first] && takesOver(pair)) total -= bytes_[pair.first];
  return std::max<int64_t>(total, 0);
}

/// Bytes that placing the task helps to free, its share of those that others use too.
double Scheduler::gain(int task) const {
  double total = 0;
  for (int block : tasks_[task].reads)
    if (alive_[block]) total += static_cast<double>(bytes_[block]) / usersLeft_[block];
  return total;
}

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
  while (first_ < static_cast<int>(tasks_.size()) && placed_[first_]) ++first_;
}

/// Tasks that may stand in the open interval, the longest chains first.
std::vector<int> Scheduler::candidates() {
  std::vector<int> ready;
  for (int task : ready_) {
    if (task - first_ >= window_) break;
    ready.push_back(task);
  }
  std::stable_sort(ready.begin(), ready.end(), [&](int a, int b) { return height_[a] > height_[b]; });
  return ready;
}

void Scheduler::fillInterval() {
  std::vector<int> ready = candidates();
  for (int task : ready) {
    bool urgent = height_[task] == height_[ready[0]];
    if (live_ + cost(task) > limit_) continue;
    // With a window of one task, the given order.
    if (urgent || window_ == 1 || static_cast<double>(cost(task)) <= gain(task)) place(task);
  }
  if (!current_.empty()) return;
  // Over the limit in any case: by as little as possible.
  auto growth = [&](int task) { return static_cast<double>(cost(task)) - gain(task); };
  place(*std::min_element(ready.begin(), ready.end(), [&](int a, int b) { return growth(a) < growth(b); }));
}

void Scheduler::closeInterval() {
  out_.peak = std::max(out_.peak, live_);
  out_.starts.push_back(static_cast<int>(out_.order.size()));
  std::sort(current_.begin(), current_.end());
  std::vector<int> found;  // what has become ready
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
  current_.clear();
  std::erase_if(ready_, [&](int task) { return placed_[task]; });
  ready_.insert(ready_.end(), found.begin(), found.end());
  std::sort(ready_.begin(), ready_.end());
  ++interval_;
}

Intervals Scheduler::run() {
  const int count = static_cast<int>(tasks_.size());
  while (first_ < count) {
    fillInterval();
    // The given order goes on while the next task is independent of the interval and fits.
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
  // Breadth first needs the most memory. The narrower the window, the more the given order decides.
  Intervals best = cutIntervals(tasks, bytes);
  const size_t chain = longestChain(tasks);
  for (int window : {std::numeric_limits<int>::max(), 64, 16, 4, 1}) {
    if (best.peak <= limit && best.starts.size() <= chain) break;
    Intervals attempt = Scheduler(tasks, bytes, limit, window).run();
    bool fits = attempt.peak <= limit, fewer = attempt.starts.size() < best.starts.size();
    if (best.peak > limit ? attempt.peak < best.peak : fits && fewer) best = std::move(attempt);
  }
  return best;
}

}  // namespace tg::plan
