// SPDX-License-Identifier: Apache-2.0
// What all parts of the parser use: token helpers, types, attributes. Private to ir/parser*.cpp.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ir/attr.h"
#include "ir/lexer.h"
#include "ir/result.h"
#include "ir/type.h"
#include "ir/verify.h"

namespace tg {

/// A number token: an integer (`isInteger`) or a real.
struct Number {
  bool isInteger = false;
  int64_t integer = 0;
  double real = 0;
};
/// A constant defined by `const NAME = …`.
struct NamedConstant {
  std::string name;
  Number value;
  Loc loc;
};

/// Base of the parser: the token stream, and the grammar of types and attributes. An error ends the parse, so that no
/// rule has to restore state.
class ParseCore {
 public:
  explicit ParseCore(std::shared_ptr<const SourceFile> file) : lex_(std::move(file)) {}

 protected:
  Loc here() const { return lex_.locAt(lex_.peek().offset); }
  Error errorHere(std::string message) const { return failAt(here(), std::move(message)); }
  /// The error "expected ',' before 'x'".
  Error expected(std::string_view what) const;
  bool accept(std::string_view punct);
  Result<void> expect(std::string_view punct);
  Result<std::string> expectWord(std::string_view what);
  Result<std::string> expectSymbol(std::string_view what);
  /// An integer of at most `most`.
  Result<int64_t> expectInt(std::string_view what, int64_t most = INT64_MAX);
  /// The token after the current one; does not consume it.
  Token peekSecond() const;

  /// Parses a type. `axes` receives the names of a buffer's axes, "" for an axis without a name; if it is null, only
  /// the names of constants are allowed.
  Result<Type> parseType(std::vector<std::string>* axes = nullptr);
  const NamedConstant* constant(std::string_view name) const;
  Result<Attr> parseAttrValue(int depth = 0);
  /// Parses `name = value, …` and the closing brace.
  Result<AttrList> parseAttrMembers(int depth = 0);

  Lexer lex_;
  std::vector<NamedConstant> constants_;  ///< those in scope

 private:
  std::optional<std::pair<Shape, std::string_view>> splitShape(std::string_view text,
                                                               std::vector<std::string>* axes) const;
  Result<Type> parseBuffer(const Loc& loc, std::vector<std::string>* axes);
  Result<Type> parseCoopmat(const Loc& loc, std::string_view raw);
  Result<Attr> parseAttrList(std::string_view close, int depth);
  Result<Attr> parseAttrWord(int depth);
};

std::optional<Number> parseNumber(std::string_view text);
/// Undoes the escapes of a string token.
std::string unescape(std::string_view text);

}  // namespace tg
