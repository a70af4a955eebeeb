// SPDX-License-Identifier: Apache-2.0
// For each byte of each buffer, which value wrote it last. Kept as a map of disjoint pieces.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "ir/byte_range.h"

namespace tg {

/// The last writer of each byte. An owner is a number that the caller gives to a value, from 1 on.
class ByteOwners {
 public:
  static constexpr int kNone = -1;  ///< never written
  static constexpr int kZero = 0;   ///< filled with zeros

  struct Piece {
    int64_t begin, end;
    int owner;
  };

  void write(const ByteRange& range, int owner);
  /// The first written piece of a range that is not the owner's.
  std::optional<Piece> foreign(const ByteRange& range, int owner) const;
  /// Whether the owner wrote every byte of a range last.
  bool owns(const ByteRange& range, int owner) const;

 private:
  using Pieces = std::map<int64_t, Piece>;  ///< by begin; disjoint
  std::map<std::string, Pieces> buffers_;
};

}  // namespace tg
