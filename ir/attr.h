// SPDX-License-Identifier: Apache-2.0
// Attribute values: what follows `name =` on ops, items and modules, and in pass options.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tg {

struct NamedAttr;

/// The value of an attribute, a small tree: `true`, `3`, `0.5`, `"text"`, `word`, `@symbol`, `[…]`, `word(…)`,
/// `word{…}`, `dense<…>`, `{…}`.
struct Attr {
  enum class Kind : uint8_t { none, boolean, integer, real, string, word, symbol, array, call, dict };
  Kind kind = Kind::none;
  bool angle = false;           ///< call: printed with <…> (dense)
  int64_t integer = 0;          ///< boolean (0/1) and integer
  double real = 0;              ///< real
  std::string text;             ///< string, word, symbol, the callee of a call
  std::vector<Attr> list;       ///< array elements, positional arguments of a call
  std::vector<NamedAttr> dict;  ///< members of a dict, named arguments of a call

  static Attr boolean(bool value);
  static Attr of(int64_t value);
  static Attr of(int value);
  static Attr of(double value);
  static Attr string(std::string value);
  static Attr word(std::string value);
  static Attr symbol(std::string value);
  static Attr array(std::vector<Attr> elements);
  static Attr ints(const std::vector<int64_t>& values);
  // Overloads, since NamedAttr is incomplete here: a default argument would have to destroy a vector of it.
  static Attr call(std::string callee, std::vector<Attr> args);
  static Attr call(std::string callee, std::vector<Attr> args, std::vector<NamedAttr> named);
  static Attr dictionary(std::vector<NamedAttr> members);

  bool isNone() const { return kind == Kind::none; }
  /// An integer or real as a double.
  bool isNumber() const { return kind == Kind::integer || kind == Kind::real; }
  double number() const { return kind == Kind::real ? real : static_cast<double>(integer); }
  /// An array of integers as a vector; empty for anything else.
  std::vector<int64_t> asInts() const;
  const Attr* find(std::string_view member) const;
  bool operator==(const Attr& other) const;
  std::string str() const;
};

struct NamedAttr {
  std::string name;
  Attr value;
  bool operator==(const NamedAttr& other) const = default;
};

using AttrList = std::vector<NamedAttr>;

const Attr* find(const AttrList& attrs, std::string_view name);
void set(AttrList& attrs, std::string_view name, Attr value);
void erase(AttrList& attrs, std::string_view name);

/// The shortest text that parses back to the same f64; it always contains a '.', an exponent, inf or nan.
std::string formatReal(double value);
/// The same for the value rounded to f32.
std::string formatF32(double value);

}  // namespace tg
