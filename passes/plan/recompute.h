// SPDX-License-Identifier: Apache-2.0
// Chooses the kernels that run again, so that fewer bytes are alive at the peak.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "passes/plan/order.h"

namespace tg::plan {

/// A kernel of the function: its task, and the cost of one run.
struct Kernel {
  Task task;
  double work = 0;
  bool again = false;  ///< whether it may run more than once
  int repeats = -1;    ///< the earlier kernel of which this is another run; both then have the same blocks
};

/// Several lists in one vector. They can be refilled without new allocations.
template <class T>
class Lists {
 public:
  /// Makes all lists empty, list i with room for `sizes[i]` elements.
  void clear(const std::vector<int>& sizes) {
    begins_.resize(sizes.size());
    size_t elements = 0;
    for (size_t list = 0; list < sizes.size(); ++list) {
      begins_[list] = elements;
      elements += static_cast<size_t>(sizes[list]);
    }
    ends_ = begins_;
    elements_.resize(elements);
  }
  void push(int list, T element) { elements_[ends_[list]++] = std::move(element); }
  std::span<const T> operator[](int list) const {
    return {elements_.data() + begins_[list], elements_.data() + ends_[list]};
  }
  std::span<T> operator[](int list) {
    return {elements_.data() + begins_[list], elements_.data() + ends_[list]};
  }

 private:
  std::vector<T> elements_;
  std::vector<size_t> begins_, ends_;
};

/// The kernels in the order they run, some of them more than once. Each reads the result of the last run before it.
///
///   steps   0 1 2 3 | 4     5         the peak is at |; kernel 1 writes block 1, which 2 and 5 read
///   step()  0 1 2 3 | 4 0 1 5         block 1 is free at the peak; 0 runs again too, since block 0, which 1 reads, is gone
class Recompute {
 public:
  /// `bytes`: the size of each block, 0 for those outside of the arena.
  Recompute(std::vector<Kernel> kernels, std::vector<int64_t> bytes);

  /// Reduces the peak by the choice that adds the least work for each byte freed. False if nothing can be freed or too much
  /// work would be added. Deterministic: the next step depends only on the steps so far.
  bool step();
  /// Removes runs without which the peak stays at most `most`: each step was the best when it was taken, but later ones may
  /// have made it unnecessary.
  void spare(int64_t most);

  /// The kernels to run, by number, in order.
  const std::vector<int>& steps() const { return steps_; }
  /// The most bytes alive at one time.
  int64_t peak() const;
  int runsAgain() const { return static_cast<int>(steps_.size() - kernels_.size()); }
  /// The added work as a fraction of the work of running each kernel once.
  double addedWork() const { return added_ / work_; }

 private:
  /// The live range of the result of one run: from the step that writes it to the last that reads it.
  struct Life {
    int made = 0, last = 0;
    size_t from = 0, to = 0;  ///< its range among the block's readers
  };
  struct Choice;
  void follow();
  void followBlocks();
  void countLive();
  std::span<const int> readersOf(int block, const Life& life) const {
    return readers_[block].subspan(life.from, life.to - life.from);
  }
  const Life* lifeAt(int block, int place) const;
  bool spares(int block, int peak, int place) const;
  bool canStay(int block, int from, int to, int64_t most) const;
  bool collect(int block, int place, int peak, std::vector<int>& found) const;
  std::optional<Choice> choiceFor(int block, int peak) const;
  bool apply(const Choice& choice, bool merge);
  bool isNeeded(int place) const;
  void setSteps(std::vector<int> steps);
  int laterRun(int kernel, int place) const;

  std::vector<Kernel> kernels_;
  std::vector<int64_t> bytes_;
  std::vector<int> maker_;  ///< for each block, its only writer if that may run again, otherwise -1
  double work_ = 0, added_ = 0;

  std::vector<int> steps_;
  // Derived from steps_:
  Lists<int> readers_;         ///< for each block, the steps that read it, of all its lives
  Lists<Life> lives_;          ///< for each block, in order
  Lists<int> runs_;            ///< for each kernel, the steps that run it, in order
  std::vector<int64_t> live_;  ///< bytes alive at each step
};

}  // namespace tg::plan
