// SPDX-License-Identifier: Apache-2.0
// Text for character models: bytes as token ids.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ir/result.h"

namespace tg {

/// The distinct bytes of a text, sorted by value. The id of a byte is its index in this order.
class Vocabulary {
 public:
  static Vocabulary ofText(std::string_view text);
  /// Parses the output of `printable`.
  static Result<Vocabulary> parse(std::string_view printable);

  int size() const { return static_cast<int>(symbols_.size()); }
  /// The bytes in order of their ids.
  const std::string& symbols() const { return symbols_; }
  /// One line of ASCII: printable bytes as they are, the escapes for line break, tab, carriage return and backslash
  /// of C, and `\xHH` for all others.
  std::string printable() const;

  /// The id of a byte, or -1 if it is not in the vocabulary.
  int32_t idOf(char symbol) const { return ids_[static_cast<uint8_t>(symbol)]; }
  /// An error for the first byte outside the vocabulary, with its value and position; the text begins at byte `first`.
  Result<void> check(std::string_view text, size_t first = 0) const;
  /// The id of each byte. A byte outside the vocabulary is an error that gives its position.
  Result<std::vector<int32_t>> encode(std::string_view text) const;
  /// The bytes with these ids; an id outside [0, size) is an error.
  Result<std::string> decode(std::span<const int32_t> ids) const;

 private:
  explicit Vocabulary(std::string symbols);
  std::string symbols_;
  std::array<int16_t, 256> ids_;  ///< by byte; -1 outside the vocabulary
};

}  // namespace tg
