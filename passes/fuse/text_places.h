// SPDX-License-Identifier: Apache-2.0
// The order of a function's ops while some of them move up.
#pragma once

#include <cstddef>
#include <unordered_map>

#include "ir/module.h"

namespace tg::fuse {

class TextPlaces {
 public:
  explicit TextPlaces(OpList& ops);

  /// An op's position in the text as it was; of a new or moved op, that of the op it was put behind. 0 at the
  /// front, and for null.
  size_t of(const Op* op) const;
  /// The last op at the front; null without any.
  Op* lastAtFront() const { return front_ ? front_->previous() : ops_.back(); }
  /// The later of two ops, of which each may be null; of two at the front the first.
  Op* later(Op* a, Op* b) const { return of(a) >= of(b) ? a : b; }
  /// Says that an op stands behind another now.
  void putBehind(const Op* op, const Op* other) { places_[op] = of(other); }
  /// Moves what reads a symbol, or a number, to the front, behind its operands. False, and the op stays, if it
  /// depends on more than arguments, symbols and constants.
  bool moveToFront(Op* op);

 private:
  OpList& ops_;
  Op* front_;  ///< what is moved to the front stands before it
  std::unordered_map<const Op*, size_t> places_;
};

}  // namespace tg::fuse
