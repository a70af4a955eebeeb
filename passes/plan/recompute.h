// SPDX-License-Identifier: Apache-2.0
// Which kernels run again, so that fewer bytes are alive at once.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "passes/plan/order.h"

namespace tg::plan {

/// A kernel of the function: its task, and what one run of it takes.
struct Kernel {
  Task task;
  double work = 0;
  bool again = false;  ///< it may run more than once
  int repeats = -1;    ///< an earlier kernel of which this is another run; its blocks are that one's then
};

/// Lists one behind the other in one vector, which are refilled without asking for memory again.
template <class T>
class Lists {
 public:
  /// Makes all lists empty, each with room for as many elements as `sizes` says.
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

/// The kernels in the order they run, some of them more than once. A kernel reads what ran last before it.
///
///   steps   0 1 2 3 | 4     5         the peak is at |; block 1 is made by kernel 1 and read by 2 and 5
///   step()  0 1 2 3 | 4 0 1 5         its bytes are free in between; kernel 1 reads block 0, which is gone too
class Recompute {
 public:
  /// `bytes` of each block, 0 for those outside of the arena.
  Recompute(std::vector<Kernel> kernels, std::vector<int64_t> bytes);

  /// Frees bytes where most are alive, at the least work for each; false where nothing can be freed, or work
  /// would become too much. What it does next depends on what it did and on nothing else.
  bool step();
  /// Leaves out runs that `most` bytes alive at once do without: each step was the best one when it was taken,
  /// and later ones may have made it needless.
  void spare(int64_t most);

  /// Kernels by number.
  const std::vector<int>& steps() const { return steps_; }
  /// The most bytes alive at once.
  int64_t peak() const;
  int runsAgain() const { return static_cast<int>(steps_.size() - kernels_.size()); }
  /// Work that was added, as a part of that of each kernel once.
  double addedWork() const { return added_ / work_; }

 private:
  /// The bytes of one run's result: from the place that writes them to the last that reads them.
  struct Life {
    int made = 0, last = 0;
    size_t from = 0, to = 0;  ///< of the block's readers
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
  std::vector<int> maker_;  ///< the kernel that writes a block alone and may run again, else -1
  double work_ = 0, added_ = 0;

  std::vector<int> steps_;
  // What follows from steps_.
  Lists<int> readers_;         ///< of each block, the places of all its lives
  Lists<Life> lives_;          ///< of each block, in order
  Lists<int> runs_;            ///< places of each kernel, in order
  std::vector<int64_t> live_;  ///< bytes alive at each place
};

}  // namespace tg::plan
