// SPDX-License-Identifier: Apache-2.0
#include "ir/attr.h"

#include <fmt/format.h>

#include <cmath>

#include "ir/text.h"

namespace tg {

Attr Attr::boolean(bool value) {
  Attr attr;
  attr.kind = Kind::boolean;
  attr.integer = value;
  return attr;
}
Attr Attr::of(int value) { return of(int64_t{value}); }
Attr Attr::of(int64_t value) {
  Attr attr;
  attr.kind = Kind::integer;
  attr.integer = value;
  return attr;
}
Attr Attr::of(double value) {
  Attr attr;
  attr.kind = Kind::real;
  attr.real = value;
  return attr;
}
static Attr textAttr(Attr::Kind kind, std::string value) {
  Attr attr;
  attr.kind = kind;
  attr.text = std::move(value);
  return attr;
}
Attr Attr::string(std::string value) { return textAttr(Kind::string, std::move(value)); }
Attr Attr::word(std::string value) { return textAttr(Kind::word, std::move(value)); }
Attr Attr::symbol(std::string value) { return textAttr(Kind::symbol, std::move(value)); }
Attr Attr::array(std::vector<Attr> elements) {
  Attr attr;
  attr.kind = Kind::array;
  attr.list = std::move(elements);
  return attr;
}
Attr Attr::ints(const std::vector<int64_t>& values) {
  std::vector<Attr> elements;
  elements.reserve(values.size());
  for (int64_t value : values) elements.push_back(of(value));
  return array(std::move(elements));
}
Attr Attr::call(std::string callee, std::vector<Attr> args) {
  return call(std::move(callee), std::move(args), {});
}
Attr Attr::call(std::string callee, std::vector<Attr> args, std::vector<NamedAttr> named) {
  Attr attr = textAttr(Kind::call, std::move(callee));
  attr.list = std::move(args);
  attr.dict = std::move(named);
  return attr;
}
Attr Attr::dictionary(std::vector<NamedAttr> members) {
  Attr attr;
  attr.kind = Kind::dict;
  attr.dict = std::move(members);
  return attr;
}

std::vector<int64_t> Attr::asInts() const {
  std::vector<int64_t> out;
  if (kind != Kind::array) return out;
  for (const Attr& element : list)
    if (element.kind == Kind::integer) out.push_back(element.integer);
  return out;
}

const Attr* Attr::find(std::string_view member) const { return tg::find(dict, member); }

bool Attr::operator==(const Attr& other) const {
  return kind == other.kind && angle == other.angle && integer == other.integer &&
         (real == other.real || (std::isnan(real) && std::isnan(other.real))) && text == other.text &&
         list == other.list && dict == other.dict;
}

static std::string escaped(const std::string& text) {
  std::string out;
  for (char c : text) {
    if (c == '"' || c == '\\')
      out += '\\', out += c;
    else if (c == '\n')
      out += "\\n";
    else if (c == '\t')
      out += "\\t";
    else
      out += c;
  }
  return out;
}

static std::string joined(const std::vector<Attr>& list) { return listText(list, &Attr::str); }

static std::string joined(const std::vector<NamedAttr>& dict) {
  return listText(dict, [](const NamedAttr& member) { return member.name + " = " + member.value.str(); });
}

std::string Attr::str() const {
  switch (kind) {
  case Kind::none: return "none";
  case Kind::boolean: return integer ? "true" : "false";
  case Kind::integer: return std::to_string(integer);
  case Kind::real: return formatReal(real);
  case Kind::string: return '"' + escaped(text) + '"';
  case Kind::word: return text;
  case Kind::symbol: return '@' + text;
  case Kind::array: return '[' + joined(list) + ']';
  case Kind::call:
    if (angle) return text + '<' + joined(list) + '>';
    if (!dict.empty()) return text + '{' + joined(dict) + '}';
    return text + '(' + joined(list) + ')';
  case Kind::dict: return '{' + joined(dict) + '}';
  }
  return "";
}

const Attr* find(const AttrList& attrs, std::string_view name) {
  for (const NamedAttr& attr : attrs)
    if (attr.name == name) return &attr.value;
  return nullptr;
}

void set(AttrList& attrs, std::string_view name, Attr value) {
  for (NamedAttr& attr : attrs)
    if (attr.name == name) {
      attr.value = std::move(value);
      return;
    }
  attrs.push_back({std::string(name), std::move(value)});
}

void erase(AttrList& attrs, std::string_view name) {
  std::erase_if(attrs, [&](const NamedAttr& attr) { return attr.name == name; });
}

template <class T>
static std::string formatFloat(T value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  std::string text = fmt::format("{}", value);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

std::string formatReal(double value) { return formatFloat(value); }
std::string formatF32(double value) { return formatFloat(static_cast<float>(value)); }

}  // namespace tg
