// What the parser's parts share: token helpers, types, attributes. Private to ir/parser*.cpp.
#pragma once

#include <fmt/format.h>

#include <optional>
#include <string>
#include <utility>

#include "ir/attr.h"
#include "ir/lexer.h"
#include "ir/result.h"
#include "ir/type.h"

namespace tg {

// Deeper nesting than this is garbage, not a program; it bounds the recursion.
constexpr int kMaxNesting = 64;
/// Offsets and sizes in bytes, and pitches in elements, stay below these: sums and products of what a text
/// says then fit 64 bits.
constexpr int64_t kMaxBytes = int64_t{1} << 50, kMaxPitch = int64_t{1} << 20;

class ParseCore {
 public:
  explicit ParseCore(std::shared_ptr<const SourceFile> file) : lex_(std::move(file)) {}

 protected:
  Loc here() const { return lex_.locAt(lex_.peek().offset); }
  Error errorHere(std::string message) const { return failAt(here(), std::move(message)); }
  /// "expected ',' before 'x'".
  Error expected(std::string_view what) const;
  bool accept(std::string_view punct);
  Result<void> expect(std::string_view punct);
  Result<std::string> expectWord(std::string_view what);
  Result<std::string> expectSymbol(std::string_view what);
  /// At most `most`.
  Result<int64_t> expectInt(std::string_view what, int64_t most = INT64_MAX);
  /// The token after the current one, without moving.
  Token peekSecond();

  Result<Type> parseType();
  Result<Attr> parseAttrValue(int depth = 0);
  /// `name = value, …` up to the closing brace, which it takes.
  Result<AttrList> parseAttrMembers(int depth = 0);

  Lexer lex_;

 private:
  Result<Attr> parseAttrList(std::string_view close, int depth);
  Result<Attr> parseAttrWord(int depth);
};

/// A number token as an integer (`isInteger`) or a real.
struct Number {
  bool isInteger = false;
  int64_t integer = 0;
  double real = 0;
};
std::optional<Number> parseNumber(std::string_view text);
/// Undoes the escapes of a string token.
std::string unescape(std::string_view text);

}  // namespace tg
