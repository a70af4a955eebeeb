// SPDX-License-Identifier: Apache-2.0
// Tokens of .tgir.
#pragma once

#include <memory>
#include <string_view>

#include "ir/location.h"

namespace tg {

/// Letters, digits and `_ . $`: what names are made of.
bool isWordChar(char c);
/// Whether it is one word: these characters, the first no digit and none of `. $`.
bool isWord(std::string_view text);

struct Token {
  enum class Kind : uint8_t { word, value, symbol, number, string, punct, arrow, end, bad };
  Kind kind = Kind::end;
  std::string_view
      text;  ///< words whole (`tg.add`, `2x3xf32` is lexed by type rules); values and symbols without sigil
  uint32_t offset = 0;  ///< byte offset of the first character
  bool is(std::string_view punct) const {
    return (kind == Kind::punct || kind == Kind::arrow) && text == punct;
  }
  bool isWord(std::string_view word) const { return kind == Kind::word && text == word; }
};

/// One token of look-ahead over a text that outlives the lexer.
class Lexer {
 public:
  explicit Lexer(std::shared_ptr<const SourceFile> file);
  const Token& peek() const { return token_; }
  Token next();
  /// The raw text up to (not including) the first `stop` character on this line; used for types,
  /// whose `2x3xf32` is no ordinary token. Moves past `stop`.
  std::string_view rawUntil(char stop);
  Loc locAt(uint32_t offset) const;
  const std::shared_ptr<const SourceFile>& file() const { return file_; }
  /// Whether the text goes on with this at the current token, which may be a part of it: `<=` is two tokens.
  bool startsWith(std::string_view text) const;
  /// Whether the current token begins on the line of an earlier one.
  bool isOnLineOf(const Token& earlier) const;
  /// Restarts at a byte offset, which must begin a token or white space.
  void rewind(uint32_t offset);

 private:
  void advance();
  std::shared_ptr<const SourceFile> file_;
  std::string_view text_;
  uint32_t at_ = 0;
  Token token_;
  // Line of the last location asked for; lookups go mostly forward.
  mutable uint32_t knownOffset_ = 0, knownLine_ = 1, knownLineStart_ = 0;
};

}  // namespace tg
