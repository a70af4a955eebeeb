// SPDX-License-Identifier: Apache-2.0
#include "ir/parse_core.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdlib>
#include <limits>
#include <optional>

#include "ir/infer.h"
#include "ir/parser.h"
#include "ir/text.h"

namespace tg {

/// A hexadecimal integer, `0x7fffffff` or `-0x10`. Nothing for a hex float, which has a point or an exponent.
static std::optional<Number> parseHex(std::string_view text) {
  const bool negative = text.starts_with('-');
  if (negative) text.remove_prefix(1);
  if (!text.starts_with("0x") && !text.starts_with("0X")) return std::nullopt;
  text.remove_prefix(2);
  const auto value = numberIn<int64_t>(text, 16);
  if (!value) return std::nullopt;
  return Number{.isInteger = true, .integer = negative ? -*value : *value};
}

std::optional<Number> parseNumber(std::string_view text) {
  if (const auto value = numberIn<int64_t>(text)) return Number{.isInteger = true, .integer = *value};
  if (text.empty()) return std::nullopt;
  if (auto hex = parseHex(text)) return hex;
  std::string copy(text);
  char* parsed = nullptr;
  Number number;
  number.real = std::strtod(copy.c_str(), &parsed);
  if (*parsed != '\0') return std::nullopt;
  return number;
}

std::string unescape(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\\' || i + 1 == text.size()) {
      out += text[i];
      continue;
    }
    char c = text[++i];
    out += c == 'n' ? '\n' : c == 't' ? '\t' : c;
  }
  return out;
}

Error ParseCore::expected(std::string_view what) const {
  const Token& token = lex_.peek();
  if (token.kind == Token::Kind::end)
    return errorHere(fmt::format("expected {} before the end of the text", what));
  std::string shown(token.text.substr(0, 40));
  for (char& c : shown)
    if (static_cast<unsigned char>(c) < 32 || static_cast<unsigned char>(c) > 126) c = '?';
  const char* sigil = token.kind == Token::Kind::value ? "%" : token.kind == Token::Kind::symbol ? "@" : "";
  const bool foreign = token.kind == Token::Kind::bad && std::ranges::any_of(token.text, [](char c) {
                         return static_cast<signed char>(c) < 0;
                       });
  return errorHere(fmt::format("expected {} before '{}{}'{}", what, sigil, shown,
                               foreign ? "; names have ASCII letters, digits, '_', '.' and '$'" : ""));
}

bool ParseCore::accept(std::string_view punct) {
  if (!lex_.peek().is(punct)) return false;
  lex_.next();
  return true;
}
Result<void> ParseCore::expect(std::string_view punct) {
  if (accept(punct)) return {};
  return expected(fmt::format("'{}'", punct));
}
Result<std::string> ParseCore::expectWord(std::string_view what) {
  if (lex_.peek().kind != Token::Kind::word) return expected(what);
  return std::string(lex_.next().text);
}
Result<std::string> ParseCore::expectSymbol(std::string_view what) {
  if (lex_.peek().kind != Token::Kind::symbol) return expected(what);
  return std::string(lex_.next().text);
}
Result<int64_t> ParseCore::expectInt(std::string_view what, int64_t most) {
  if (lex_.peek().kind == Token::Kind::number)
    if (auto number = parseNumber(lex_.peek().text); number && number->isInteger) {
      if (number->integer < 0) return errorHere(fmt::format("{} is negative", number->integer));
      if (number->integer > most) return errorHere(fmt::format("{} is more than {}", number->integer, most));
      lex_.next();
      return number->integer;
    }
  return expected(what);
}

Token ParseCore::peekSecond() const {
  Lexer ahead = lex_;
  ahead.next();
  return ahead.peek();
}

/// A kernel scalar or vector type by name: `f32`, `bool`, `vec4<f32>`.
static std::optional<Type> scalarNamed(std::string_view text) {
  int lanes = 1;
  if (text.starts_with("vec") && text.size() > 6 && text[4] == '<' && text.back() == '>') {
    lanes = text[3] - '0';
    if (lanes != 2 && lanes != 4) return std::nullopt;
    text = text.substr(5, text.size() - 6);
  }
  if (text == "bool") return Type::scalar(DType::i1, lanes);
  auto dtype = dtypeNamed(text);
  if (!dtype || *dtype == DType::i1) return std::nullopt;
  return Type::scalar(*dtype, lanes);
}

const NamedConstant* ParseCore::constant(std::string_view name) const {
  for (const NamedConstant& each : constants_)
    if (each.name == name) return &each;
  return nullptr;
}

static bool isAxisName(std::string_view text) {
  if (text.empty() || std::isdigit(static_cast<unsigned char>(text[0])) || scalarNamed(text)) return false;
  return std::ranges::all_of(text, [](unsigned char c) { return std::isalnum(c) != 0 || c == '_'; });
}

/// Splits `2x3xREST` into extents and REST; nothing if an extent is malformed or there are too many. An extent is a
/// number, a constant, `?` or, with `axes`, the name of an open axis.
std::optional<std::pair<Shape, std::string_view>>
ParseCore::splitShape(std::string_view text, std::vector<std::string>* axes) const {
  Shape shape;
  for (size_t x; (x = text.find('x')) != std::string_view::npos; text = text.substr(x + 1)) {
    std::string_view extent = text.substr(0, x);
    std::string axis;
    int64_t value = Shape::kDynamic;
    if (isAxisName(extent)) {
      const NamedConstant* known = constant(extent);
      if (known && !known->value.isInteger) return std::nullopt;
      if (known)
        value = known->value.integer;
      else if (axes)
        axis = std::string(extent);
      else
        return std::nullopt;
    } else if (extent != "?") {
      auto number = parseNumber(extent);
      if (!number || !number->isInteger) return std::nullopt;
      value = number->integer;
    }
    const bool open = extent == "?" || !axis.empty();
    if (shape.rank() == kMaxRank || (!open && (value < 1 || value > (int64_t{1} << 40)))) return std::nullopt;
    shape.push(value);
    if (axes) axes->push_back(std::move(axis));
  }
  return std::pair{shape, text};
}

/// The content of a coopmat's angle brackets: `f16, 16x16, A`.
Result<Type> ParseCore::parseCoopmat(const Loc& loc, std::string_view raw) {
  std::array<std::string_view, 3> parts;
  std::string_view rest = raw;
  size_t count = 0;
  for (; count < 3 && !rest.empty(); ++count) {
    size_t comma = rest.find(',');
    parts[count] = trimmed(rest.substr(0, comma));
    rest = comma == std::string_view::npos ? std::string_view() : rest.substr(comma + 1);
  }
  const std::optional<Type> element = scalarNamed(parts[0]);
  std::string sizes = std::string(parts[1]) + "x";
  auto split = splitShape(sizes, nullptr);
  std::optional<MatrixUse> use;
  for (MatrixUse each : {MatrixUse::a, MatrixUse::b, MatrixUse::acc})
    if (parts[2] == name(each)) use = each;
  bool fits = count == 3 && rest.empty() && element && element->lanes == 1 && split &&
              split->second.empty() && split->first.rank() == 2 && split->first[0] != Shape::kDynamic &&
              split->first[1] != Shape::kDynamic && use;
  if (!fits)
    return failAt(
        loc, "'coopmat<{}>' is not a matrix type; the form is coopmat<f16, 16x16, A>, with B or acc for A",
        raw.substr(0, 60));
  return Type::coopmat(element->dtype, split->first[0], split->first[1], *use);
}

/// The rest of a buffer type after `buf<`: `4x?xNxvec4<f32>, in, texel>`.
Result<Type> ParseCore::parseBuffer(const Loc& loc, std::vector<std::string>* axes) {
  std::string_view raw = trimmed(lex_.rawUntil(','));
  if (const size_t end = raw.find('>');
      end != std::string_view::npos && raw.find('<') == std::string_view::npos)
    return failAt(loc, "'buf<{}>' lacks a mode, as buf<{}, in>", raw.substr(0, end), raw.substr(0, end));
  std::vector<std::string> names;
  auto split = splitShape(raw, &names);
  auto element = split ? scalarNamed(split->second) : std::nullopt;
  if (!element) return failAt(loc, "'{}' is not a buffer shape and element", raw.substr(0, 60));
  for (const std::string& axis : names)
    if (!axes && !axis.empty())
      return failAt(loc, "'{}' is not a number or constant; only a kernel's parameters have named extents",
                    axis);
  Shape fixed;
  for (int64_t dim : split->first) fixed.push(dim == Shape::kDynamic ? 1 : dim);
  if (!hasValidExtents(fixed))
    return failAt(loc, "'{}' has more than {} elements", raw.substr(0, 60), kMaxElements);
  TG_TRY(std::string modeName, expectWord("a buffer mode"));
  std::optional<BufMode> mode;
  for (int m = 0; m <= static_cast<int>(BufMode::tape); ++m)
    if (modeName == name(static_cast<BufMode>(m))) mode = static_cast<BufMode>(m);
  if (!mode)
    return failAt(loc, "'{}' is not a buffer mode; known: in out inout accum shared local tape", modeName);
  bool texel = false;
  if (accept(",")) {
    TG_TRY(std::string word, expectWord("'texel'"));
    if (word != "texel") return failAt(loc, "expected 'texel', got '{}'", word);
    texel = true;
  }
  TG_CHECK(expect(">"));
  if (axes) *axes = std::move(names);
  return Type::buffer(element->dtype, element->lanes, split->first, *mode, texel);
}

Result<Type> ParseCore::parseType(std::vector<std::string>* axes) {
  auto loc = [this, at = lex_.peek().offset] { return lex_.locAt(at); };
  TG_TRY(std::string head, expectWord("a type"));
  if (head == "tensor") {
    TG_CHECK(expect("<"));
    std::string_view raw = trimmed(lex_.rawUntil('>'));
    auto split = splitShape(raw, nullptr);
    auto dtype = split ? dtypeNamed(split->second) : std::nullopt;
    if (split && !dtype && !split->second.empty())
      return failAt(loc(), "'tensor<{}>' needs an element type {}, not '{}'", raw.substr(0, 60), dtypeNames(),
                    split->second.substr(0, 60));
    if (std::ranges::count(raw, 'x') > kMaxRank && !split)
      return failAt(loc(), "'tensor<{}>' has more than {} axes", raw.substr(0, 60), kMaxRank);
    if (!dtype)
      return failAt(
          loc(),
          "'tensor<{}>' is not a tensor type: it has extents of at least 1, then an element type, as 2x3xf32",
          raw.substr(0, 60));
    for (int64_t dim : split->first)
      if (dim == Shape::kDynamic)
        return failAt(loc(), "a tensor's extents are fixed; '?' is for kernel buffers");
    if (!hasValidExtents(split->first))
      return failAt(loc(), "'tensor<{}>' has more than {} elements", raw.substr(0, 60), kMaxElements);
    return Type::tensor(*dtype, split->first);
  }
  if (head == "buf") {
    TG_CHECK(expect("<"));
    return parseBuffer(loc(), axes);
  }
  if (head == "coopmat") {
    TG_CHECK(expect("<"));
    return parseCoopmat(loc(), trimmed(lex_.rawUntil('>')));
  }
  if (head.starts_with("vec") && accept("<")) head += '<' + std::string(trimmed(lex_.rawUntil('>'))) + '>';
  if (auto scalar = scalarNamed(head)) return *scalar;
  const char* way = head == "i1"               ? "; a kernel's conditions are bool"
                    : head.starts_with("vec3") ? "; vectors have 2 or 4 lanes: use three f32, or a vec4"
                                               : "";
  return failAt(loc(), "'{}' is not a type{}", head.substr(0, 60), way);
}

Result<Attr> ParseCore::parseAttrList(std::string_view close, int depth) {
  Attr list = Attr::array({});
  if (accept(close)) return list;
  do {
    TG_TRY(Attr element, parseAttrValue(depth + 1));
    list.list.push_back(std::move(element));
  } while (accept(","));
  TG_CHECK(expect(close));
  return list;
}

Result<AttrList> ParseCore::parseAttrMembers(int depth) {
  AttrList members;
  if (accept("}")) return members;
  do {
    Loc loc = here();
    TG_TRY(std::string memberName, expectWord("an attribute's name"));
    TG_CHECK(expect("="));
    if (find(members, memberName)) return failAt(loc, "attribute '{}' is given twice", memberName);
    TG_TRY(Attr value, parseAttrValue(depth + 1));
    members.push_back({std::move(memberName), std::move(value)});
  } while (accept(","));
  TG_CHECK(expect("}"));
  return members;
}

Result<Attr> ParseCore::parseAttrWord(int depth) {
  std::string word(lex_.next().text);
  if (word == "true" || word == "false") return Attr::boolean(word == "true");
  if (word == "inf") return Attr::of(std::numeric_limits<double>::infinity());
  if (word == "nan") return Attr::of(std::numeric_limits<double>::quiet_NaN());
  if (accept("(")) {
    TG_TRY(Attr args, parseAttrList(")", depth));
    return Attr::call(std::move(word), std::move(args.list));
  }
  if (word == "dense" && accept("<")) {
    TG_TRY(Attr args, parseAttrList(">", depth));
    Attr call = Attr::call(std::move(word), std::move(args.list));
    call.angle = true;
    return call;
  }
  if (accept("{")) {
    TG_TRY(AttrList named, parseAttrMembers(depth));
    return Attr::call(std::move(word), {}, std::move(named));
  }
  return Attr::word(std::move(word));
}

Result<Attr> ParseCore::parseAttrValue(int depth) {
  if (depth > kMaxNesting) return errorHere("attributes are nested too deeply");
  const Token token = lex_.peek();
  switch (token.kind) {
  case Token::Kind::number: {
    auto number = parseNumber(token.text);
    if (!number) return errorHere(fmt::format("'{}' is not a number", token.text.substr(0, 40)));
    lex_.next();
    return number->isInteger ? Attr::of(number->integer) : Attr::of(number->real);
  }
  case Token::Kind::string: lex_.next(); return Attr::string(unescape(token.text));
  case Token::Kind::symbol: lex_.next(); return Attr::symbol(std::string(token.text));
  case Token::Kind::word: return parseAttrWord(depth);
  default: break;
  }
  if (accept("[")) return parseAttrList("]", depth);
  if (accept("{")) {
    TG_TRY(AttrList members, parseAttrMembers(depth));
    return Attr::dictionary(std::move(members));
  }
  return expected("an attribute value");
}

namespace {
struct AttrParser : ParseCore {
  using ParseCore::ParseCore;
  Result<Attr> run() {
    TG_TRY(Attr value, parseAttrValue());
    if (lex_.peek().kind != Token::Kind::end) return expected("the end");
    return value;
  }
};
}  // namespace

Result<Attr> parseAttr(std::string_view text, std::string fileName) {
  auto file = std::make_shared<SourceFile>(SourceFile{std::move(fileName), std::string(text)});
  return AttrParser(std::move(file)).run();
}

}  // namespace tg
