// SPDX-License-Identifier: Apache-2.0
// The ops of a function in their order, and the bytes alive at each, while ops come between them.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "ir/module.h"

namespace tg::fuse {

/// Steps stand in stretches of some hundred. What is alive over many steps is counted for a stretch as a whole, and a
/// step that comes between two moves those of its stretch alone: so each change costs the root of the steps.
class Timeline {
  struct Stretch;

 public:
  /// The turn of an op.
  class Step {
   public:
    Op& op() const { return *op_; }
    bool isBefore(const Step& other) const {
      return stretch_ == other.stretch_ ? at_ < other.at_ : stretch_->at < other.stretch_->at;
    }

   private:
    friend class Timeline;
    Op* op_ = nullptr;
    Stretch* stretch_ = nullptr;
    size_t at_ = 0;         ///< its place there
    int64_t bytes_ = 0;     ///< alive, without those of the stretch as a whole
    int64_t taken_ = 0;     ///< of them: by results that take the place of operands
    bool isKnown_ = false;  ///< whether that was asked
  };

  /// `takenOver` says how many bytes results take over from operands that die at a step; it is asked where it matters.
  explicit Timeline(std::function<int64_t(const Step&)> takenOver) : takenOver_(std::move(takenOver)) {}

  /// A step behind all others.
  Step* append(Op* op);
  Step* insertBefore(const Step& next, Op* op);
  /// Bytes are alive from one step to another, both included.
  void add(const Step& from, const Step& to, int64_t bytes);
  /// What is taken over at a step may have changed.
  void forgetTaken(const Step& at);
  /// The step where most bytes are alive, the first of equals; null where none are.
  const Step* peak();

 private:
  struct Stretch {
    size_t at = 0;  ///< its place among them
    std::vector<std::unique_ptr<Step>> steps;
    int64_t bytes = 0;    ///< alive at all of its steps
    int64_t most = 0;     ///< of its steps, without those; what is taken over and known does not count
    bool isStale = true;  ///< and has to be found anew
  };
  static void setPlaces(Stretch& stretch);
  void split(Stretch& stretch);
  void addTo(Stretch& stretch, size_t from, size_t to, int64_t bytes);

  std::function<int64_t(const Step&)> takenOver_;
  std::vector<std::unique_ptr<Stretch>> stretches_;
};

}  // namespace tg::fuse
