// SPDX-License-Identifier: Apache-2.0
// The ops of a function in order, with the bytes alive at each, while ops are inserted between them.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "ir/module.h"

namespace tg::fuse {

/// Steps are kept in stretches of at most some hundred. Bytes alive during a whole stretch are counted once for it, and
/// inserting a step renumbers only its stretch. A change thus costs the steps of a stretch plus the number of stretches.
class Timeline {
  struct Stretch;

 public:
  /// The position of an op in the order.
  class Step {
   public:
    Op& op() const { return *op_; }
    bool isBefore(const Step& other) const {
      return stretch_ == other.stretch_ ? at_ < other.at_ : stretch_->at < other.stretch_->at;
    }
    /// The bytes alive here; results placed in operands that die here count as well.
    int64_t alive() const { return stretch_->bytes + bytes_; }
    /// Of the peak, the bytes of its results that are placed in operands which die here.
    int64_t taken() const { return taken_; }

   private:
    friend class Timeline;
    Op* op_ = nullptr;
    Stretch* stretch_ = nullptr;
    size_t at_ = 0;         ///< its index in the stretch
    int64_t bytes_ = 0;     ///< alive here, without those counted for the whole stretch
    int64_t taken_ = 0;     ///< of these, bytes of results placed in operands that die here
    bool isKnown_ = false;  ///< whether taken_ is known
  };

  /// `takenOver(step)` gives the bytes of results placed in operands that die at the step; it is called only where needed.
  explicit Timeline(std::function<int64_t(const Step&)> takenOver) : takenOver_(std::move(takenOver)) {}

  /// Adds a step behind all others.
  Step* append(Op* op);
  Step* insertBefore(const Step& next, Op* op);
  /// Adds bytes that are alive from one step to another, both included.
  void add(const Step& from, const Step& to, int64_t bytes);
  /// Drops the known result of `takenOver` at a step, which may have changed.
  void forgetTaken(const Step& at);
  /// The step with the most live bytes, the first of equals; null if no bytes are alive.
  const Step* peak();

 private:
  struct Stretch {
    size_t at = 0;  ///< its index among the stretches
    std::vector<std::unique_ptr<Step>> steps;
    int64_t bytes = 0;    ///< alive at all of its steps
    int64_t most = 0;     ///< the most bytes of a step, without `bytes` and less the known taken_
    bool isStale = true;  ///< whether `most` must be computed anew
  };
  static void setPlaces(Stretch& stretch);
  void split(Stretch& stretch);
  void addTo(Stretch& stretch, size_t from, size_t to, int64_t bytes);

  std::function<int64_t(const Step&)> takenOver_;
  std::vector<std::unique_ptr<Stretch>> stretches_;
};

}  // namespace tg::fuse
