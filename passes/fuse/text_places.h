// SPDX-License-Identifier: Apache-2.0
// Keeps track of the order of a function's ops while some of them move up.
#pragma once

#include <cstddef>
#include <unordered_map>

#include "ir/module.h"

namespace tg::fuse {

class TextPlaces {
 public:
  explicit TextPlaces(OpList& ops);

  /// An op's position in the original text, from 1 on. A new or moved op has the position of the op it was put behind. 0 for
  /// ops at the front, and for null.
  size_t of(const Op* op) const;
  /// The last op at the front; null if there is none.
  Op* lastAtFront() const { return front_ ? front_->previous() : ops_.back(); }
  /// The later of two ops, each of which may be null; `a` if both have the same position.
  Op* later(Op* a, Op* b) const { return of(a) >= of(b) ? a : b; }
  /// Records that an op now stands behind `other`.
  void putBehind(const Op* op, const Op* other) { places_[op] = of(other); }
  /// Moves an op that reads a symbol, or a pure op with one rank-0 result, to the front, after the ops that define its
  /// operands. Returns false and leaves the op if it depends on other kinds of ops.
  bool moveToFront(Op* op);

 private:
  OpList& ops_;
  Op* front_;  ///< what is moved to the front stands before it
  std::unordered_map<const Op*, size_t> places_;
};

}  // namespace tg::fuse
