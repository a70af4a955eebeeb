// SPDX-License-Identifier: Apache-2.0
#include "passes/plan/recompute.h"

#include <algorithm>

#include "ir/find.h"
#include "passes/fuse/cost.h"

namespace tg::plan {

using fuse::kLeastSaving;
using fuse::kMostAddedWork;
using fuse::kMostKernelsAgain;

/// Kernels that could run again in front of a step.
struct Recompute::Choice {
  int place = 0;             ///< the step
  std::vector<int> kernels;  ///< in order
  std::vector<int> merged;   ///< later runs of them, by step, that these runs make unnecessary
  int64_t bytes = 0;         ///< freed at the peak
  double work = 0;           ///< added, less that of `merged`
  double price() const { return work / static_cast<double>(bytes); }
};

Recompute::Recompute(std::vector<Kernel> kernels, std::vector<int64_t> bytes)
    : kernels_(std::move(kernels)), bytes_(std::move(bytes)), maker_(bytes_.size(), -1) {
  std::vector<int> writers(bytes_.size(), 0);
  for (int kernel = 0; kernel < static_cast<int>(kernels_.size()); ++kernel) {
    const int repeats = kernels_[kernel].repeats;
    steps_.push_back(repeats >= 0 ? repeats : kernel);
    work_ += kernels_[steps_.back()].work;
    if (repeats >= 0) continue;
    for (int block : kernels_[kernel].task.writes)
      maker_[block] = kernels_[kernel].again && writers[block]++ == 0 ? kernel : -1;
  }
  // A block with several writers is a group with padding, whose members are written in place; it cannot be made again.
  for (int block = 0; block < static_cast<int>(bytes_.size()); ++block)
    if (maker_[block] >= 0 && writers[block] > 1) maker_[block] = -1;
  follow();
}

int64_t Recompute::peak() const { return live_.empty() ? 0 : *std::ranges::max_element(live_); }

/// Derives runs, live ranges and live bytes from steps_.
void Recompute::follow() {
  std::vector<int> runs(kernels_.size());
  for (int kernel : steps_) ++runs[kernel];
  runs_.clear(runs);
  for (int place = 0; place < static_cast<int>(steps_.size()); ++place) runs_.push(steps_[place], place);
  followBlocks();
  countLive();
}

/// Derives each block's lives and readers from steps_: a run of its maker begins a new life.
void Recompute::followBlocks() {
  std::vector<int> uses(bytes_.size()), lives(bytes_.size());
  for (int kernel : steps_) {
    const Task& task = kernels_[kernel].task;
    for (int block : task.reads) ++uses[block];
    for (int block : task.writes) ++(maker_[block] >= 0 ? lives : uses)[block];
  }
  // One more life for each block: one without a maker lives once, and one that is read before it is written lives before.
  for (int& count : lives) ++count;
  readers_.clear(uses);
  lives_.clear(lives);
  auto make = [&](int block, int place) {
    const size_t readers = readers_[block].size();
    lives_.push(block, {place, place, readers, readers});
  };
  auto read = [&](int block, int place) {
    if (lives_[block].empty()) make(block, place);
    readers_.push(block, place);
    Life& life = lives_[block].back();
    life.last = place;
    ++life.to;
  };
  for (int place = 0; place < static_cast<int>(steps_.size()); ++place) {
    const Task& task = kernels_[steps_[place]].task;
    for (int block : task.reads) read(block, place);
    for (int block : task.writes) {
      if (lives_[block].empty() || maker_[block] >= 0)
        make(block, place);
      else
        read(block, place);
    }
  }
}

/// Derives live_ from the lives, less the bytes that results take over from operands.
void Recompute::countLive() {
  live_.assign(steps_.size() + 1, 0);
  for (int block = 0; block < static_cast<int>(bytes_.size()); ++block)
    for (const Life& life : std::as_const(lives_)[block]) {
      live_[life.made] += bytes_[block];
      live_[life.last + 1] -= bytes_[block];
    }
  for (size_t place = 1; place < live_.size(); ++place) live_[place] += live_[place - 1];
  live_.pop_back();
  std::vector<int> taken;
  for (int place = 0; place < static_cast<int>(steps_.size()); ++place) {
    // A result may take the bytes of an operand that dies at this step.
    taken.clear();
    for (const auto& [written, read] : kernels_[steps_[place]].task.takeOver) {
      const Life* life = lifeAt(read, place);
      if (!life || life->last != place || contains(taken, read)) continue;
      taken.push_back(read);
      live_[place] -= bytes_[written];
    }
  }
}

/// The life of a block that a read at a step would find, or null.
const Recompute::Life* Recompute::lifeAt(int block, int place) const {
  const std::span<const Life> lives = lives_[block];
  auto next = std::ranges::partition_point(lives, [&](const Life& life) { return life.made < place; });
  return next == lives.begin() ? nullptr : &*(next - 1);
}

/// Whether a block is alive at the peak but not used there, so that its bytes are free if it is made again at a later
/// step, `place`, and no read comes before that.
bool Recompute::spares(int block, int peak, int place) const {
  const Life* life = lifeAt(block, peak);
  if (!life || life->last <= peak) return false;
  const std::span<const int> readers = readersOf(block, *life);
  const int next = *std::ranges::lower_bound(readers, peak);
  return next > peak && next >= place;
}

/// Whether a block may stay alive between two steps too, with fewer than `most` bytes alive.
bool Recompute::canStay(int block, int from, int to, int64_t most) const {
  return std::all_of(live_.begin() + from, live_.begin() + to,
                     [&](int64_t live) { return live + bytes_[block] < most; });
}

/// Collects the kernels that make a block at a step from blocks that are alive there or may be kept until then. False if
/// some block cannot be made, or too many kernels are needed.
bool Recompute::collect(int block, int place, int peak, std::vector<int>& found) const {
  const int kernel = maker_[block];
  if (kernel < 0) return false;
  if (contains(found, kernel)) return true;
  if (static_cast<int>(found.size()) == kMostKernelsAgain) return false;
  found.push_back(kernel);
  for (int source : kernels_[kernel].task.reads) {
    const Life* life = lifeAt(source, place);
    if (bytes_[source] == 0 || (life && life->last >= place)) continue;
    if (life && life->last > peak && canStay(source, life->last + 1, place, live_[peak])) continue;
    if (!collect(source, place, peak, found)) return false;
  }
  return true;
}

/// The first step behind `place` where a kernel runs again, or -1.
int Recompute::laterRun(int kernel, int place) const {
  const std::span<const int> runs = runs_[kernel];
  auto next = std::upper_bound(runs.begin() + 1, runs.end(), place);
  return next == runs.end() ? -1 : *next;
}

/// How to free a block at the peak by making it again before its next read; nothing if that frees too little.
std::optional<Recompute::Choice> Recompute::choiceFor(int block, int peak) const {
  if (maker_[block] < 0 || bytes_[block] == 0 || !spares(block, peak, peak)) return {};
  const std::span<const int> readers = readersOf(block, *lifeAt(block, peak));
  Choice choice;
  choice.place = *std::ranges::upper_bound(readers, peak);
  if (!collect(block, choice.place, peak, choice.kernels)) return {};
  std::ranges::sort(choice.kernels);
  for (int kernel : choice.kernels) {
    choice.work += kernels_[kernel].work;
    int64_t bytes = 0;
    for (int written : kernels_[kernel].task.writes) {
      if (spares(written, peak, choice.place)) choice.bytes += bytes_[written];
      bytes += bytes_[written];
    }
    const int later = laterRun(kernel, choice.place);
    auto fits = [&](int64_t live) { return live + bytes < live_[peak]; };
    if (later < 0 || !std::all_of(live_.begin() + choice.place, live_.begin() + later, fits)) continue;
    choice.merged.push_back(later);
    choice.work -= kernels_[kernel].work;
  }
  if (choice.bytes < std::max<int64_t>(1, live_[peak] / kLeastSaving)) return {};
  return choice;
}

/// Inserts the runs of a choice, in place of later runs if `merge`. Undoes this and returns false if the peak is no lower
/// or too much work is added.
bool Recompute::apply(const Choice& choice, bool merge) {
  const int64_t most = peak();
  const auto atPeak = std::ranges::count(live_, most);
  const std::vector<int> old = steps_;
  std::vector<int> steps = steps_;
  if (merge)
    for (int place : choice.merged) steps[place] = -1;
  steps.insert(steps.begin() + choice.place, choice.kernels.begin(), choice.kernels.end());
  std::erase(steps, -1);
  setSteps(std::move(steps));
  const int64_t now = peak();
  const bool fewer = now < most || (now == most && std::ranges::count(live_, most) < atPeak);
  if (fewer && added_ <= kMostAddedWork * work_) return true;
  setSteps(old);
  return false;
}

/// Replaces the steps, and derives everything that follows from them.
void Recompute::setSteps(std::vector<int> steps) {
  steps_ = std::move(steps);
  added_ = -work_;
  for (int kernel : steps_) added_ += kernels_[kernel].work;
  follow();
}

/// Whether a step is the first run of its kernel, or its result is read.
bool Recompute::isNeeded(int place) const {
  const int kernel = steps_[place];
  if (runs_[kernel][0] == place) return true;
  const std::vector<int>& written = kernels_[kernel].task.writes;
  return std::ranges::any_of(written,
                             [&](int block) { return !readersOf(block, *lifeAt(block, place + 1)).empty(); });
}

void Recompute::spare(int64_t most) {
  std::vector<int> again;  // kernels that run more than once, those with the most work first
  for (int kernel = 0; kernel < static_cast<int>(kernels_.size()); ++kernel)
    if (runs_[kernel].size() > 1) again.push_back(kernel);
  std::ranges::stable_sort(again, [&](int a, int b) { return kernels_[a].work > kernels_[b].work; });
  for (int kernel : again)
    for (size_t run = runs_[kernel].size() - 1; run > 0; --run) {
      const std::vector<int> old = steps_;
      std::vector<int> steps = steps_;
      steps.erase(steps.begin() + runs_[kernel][run]);
      setSteps(std::move(steps));
      if (peak() > most) setSteps(old);
    }
  // Then runs whose results only removed runs read.
  for (auto place = static_cast<int>(steps_.size()) - 1; place >= 0; --place) {
    if (isNeeded(place)) continue;
    std::vector<int> steps = steps_;
    steps.erase(steps.begin() + place);
    setSteps(std::move(steps));
  }
}

bool Recompute::step() {
  if (live_.empty()) return false;
  const auto peak = static_cast<int>(std::ranges::max_element(live_) - live_.begin());
  std::vector<Choice> choices;
  for (int block = 0; block < static_cast<int>(bytes_.size()); ++block)
    if (std::optional<Choice> choice = choiceFor(block, peak)) choices.push_back(std::move(*choice));
  // Among equals the one needed last: it is made again where the fewest bytes are alive.
  std::ranges::stable_sort(choices, [](const Choice& a, const Choice& b) {
    return a.price() != b.price() ? a.price() < b.price() : a.place > b.place;
  });
  return std::ranges::any_of(choices, [&](const Choice& choice) {
    return apply(choice, true) || (!choice.merged.empty() && apply(choice, false));
  });
}

}  // namespace tg::plan
