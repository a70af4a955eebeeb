// SPDX-License-Identifier: Apache-2.0
// The lexer: tokens of .tgir text.
#pragma once

#include <memory>
#include <string_view>

#include "ir/location.h"

namespace tg {

/// Whether the character can be part of a name: letters, digits and `_ . $`.
bool isWordChar(char c);
/// Whether the text is a plain word: letters, digits and `_`, not starting with a digit.
bool isWord(std::string_view text);

/// One token. Its text is a view into the source.
struct Token {
  enum class Kind : uint8_t { word, value, symbol, number, string, punct, arrow, end, bad };
  Kind kind = Kind::end;
  std::string_view
      text;  ///< words whole (`tg.add`; `2x3xf32` is lexed by rawUntil); values and symbols without sigil
  uint32_t offset = 0;  ///< byte offset of the first character
  bool is(std::string_view punct) const {
    return (kind == Kind::punct || kind == Kind::arrow) && text == punct;
  }
  bool isWord(std::string_view word) const { return kind == Kind::word && text == word; }
};

/// Reads tokens one at a time, with one token of look-ahead. The text must outlive the lexer.
class Lexer {
 public:
  explicit Lexer(std::shared_ptr<const SourceFile> file);
  const Token& peek() const { return token_; }
  Token next();
  /// The raw text up to (not including) the first `stop` character on this line, and moves past `stop`. For types,
  /// whose `2x3xf32` is not an ordinary token.
  std::string_view rawUntil(char stop);
  Loc locAt(uint32_t offset) const;
  /// Whether the text continues with this at the current token, even if that is longer or shorter than the token:
  /// `<=` is two tokens.
  bool startsWith(std::string_view text) const;
  /// Whether the current token begins on the line of an earlier one.
  bool isOnLineOf(const Token& earlier) const;
  /// Whether the current token is the first one on its line.
  bool beginsLine() const;
  /// The end of the token before the current one.
  Loc endOfLast() const { return locAt(last_); }
  /// Continues at a byte offset, which must be the start of a token or white space.
  void rewind(uint32_t offset);

 private:
  void advance();
  std::shared_ptr<const SourceFile> file_;
  std::string_view text_;
  uint32_t at_ = 0;
  uint32_t last_ = 0;  ///< the end of the token before the current one
  Token token_;
  // The line of the last location asked for: the next one is usually later in the text.
  mutable uint32_t knownOffset_ = 0, knownLine_ = 1, knownLineStart_ = 0;
};

}  // namespace tg
