// SPDX-License-Identifier: Apache-2.0
#include "test/fuzz/mutator.h"

#include <cctype>
#include <iterator>

namespace tg::fuzz {
namespace {

constexpr std::string_view kNumbers[] = {"0",
                                         "-1",
                                         "1",
                                         "2",
                                         "3",
                                         "4",
                                         "7",
                                         "16",
                                         "64",
                                         "65536",
                                         "2147483648",
                                         "4294967295",
                                         "4294967296",
                                         "1099511627776",
                                         "9223372036854775807",
                                         "-9223372036854775808",
                                         "0.5",
                                         "1e38",
                                         "nan",
                                         "-0.0"};

/// Beginnings and ends of what modules are made of.
constexpr std::string_view kPieces[] = {
    "1e400",        "[]",    "{",    "}",        "(",           "[",
    "%x",           "%nope", "@l.w", "@arena",   "tensor<f32>", "tensor<1x1x1x1x1x1x1x1xf32>",
    "vec4<f32>",    "\"",    "//",   "true",     "1.0",         "loc(unknown)",
    "-> @arena[0]", "else",  "= ",   "tg.fused", "return",      "\\"};

bool isWord(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.'; }

/// What a token is: `%` a value, `@` a symbol, `t` an op or type by its third letter, `0` a number, `a`
/// another word, else its one character.
char kindOf(std::string_view token) {
  if (token.empty()) return 0;
  if (token.size() > 2 && (token.starts_with("tg") || token.starts_with("tensor"))) return token[2];
  if (std::isdigit(static_cast<unsigned char>(token[0]))) return '0';
  return std::isalpha(static_cast<unsigned char>(token[0])) ? 'a' : token[0];
}

}  // namespace

Mutator::Span Mutator::token(std::string_view text) {
  size_t at = pick(text.size());
  for (size_t tries = 0; tries < 8 && std::isspace(static_cast<unsigned char>(text[at])); ++tries)
    at = pick(text.size());
  while (at > 0 && isWord(text[at]) && isWord(text[at - 1])) --at;
  size_t end = at + 1;
  if (isWord(text[at]))
    while (end < text.size() && isWord(text[end])) ++end;
  if (at > 0 && (text[at - 1] == '%' || text[at - 1] == '@' || text[at - 1] == '-')) --at;
  return {at, end - at};
}

Mutator::Span Mutator::lineAt(std::string_view text) {
  const size_t at = pick(text.size());
  size_t begin = text.rfind('\n', at);
  begin = begin == std::string_view::npos ? 0 : begin + 1;
  const size_t end = text.find('\n', begin);
  return {begin, (end == std::string_view::npos ? text.size() : end + 1) - begin};
}

std::string Mutator::like(std::string_view token, const std::string& from) {
  for (int tries = 0; tries < 20 && !from.empty(); ++tries) {
    auto [at, length] = this->token(from);
    if (kindOf(std::string_view(from).substr(at, length)) == kindOf(token)) return from.substr(at, length);
  }
  return {};
}

/// A number, and of extents such as 2x3xf32 one of them, in the place of another.
void Mutator::number(std::string& text) {
  for (int tries = 0; tries < 40; ++tries) {
    size_t at = pick(text.size());
    if (!std::isdigit(static_cast<unsigned char>(text[at]))) continue;
    auto digit = [&](size_t i) { return std::isdigit(static_cast<unsigned char>(text[i])) != 0; };
    while (at > 0 && digit(at - 1)) --at;
    if (at > 0 && std::isalpha(static_cast<unsigned char>(text[at - 1])) && text[at - 1] != 'x') continue;
    size_t end = at;
    while (end < text.size() && digit(end)) ++end;
    if (pick(3) == 0)  // a neighbour
      text.replace(at, end - at,
                   std::to_string(std::stoull(text.substr(at, std::min<size_t>(end - at, 9))) + pick(3)));
    else
      text.replace(at, end - at, kNumbers[pick(std::size(kNumbers))]);
    return;
  }
}

void Mutator::exchange(std::string& text) {
  auto [at, length] = token(text);
  const std::string other = like(std::string_view(text).substr(at, length), text);
  if (!other.empty()) text.replace(at, length, other);
}

/// An attribute list, a token or a line of another text.
void Mutator::fromDonor(std::string& text) {
  if (donors_.empty()) return;
  const std::string& donor = donors_[pick(donors_.size())];
  if (donor.empty()) return;
  switch (pick(3)) {
  case 0: {
    auto [at, length] = token(text);
    const std::string other = like(std::string_view(text).substr(at, length), donor);
    if (!other.empty()) text.replace(at, length, other);
    return;
  }
  case 1: {
    auto [at, length] = lineAt(donor);
    text.insert(lineAt(text).first, donor.substr(at, length));
    return;
  }
  default: {  // `{a = 1, b = 2}` behind some line's op
    const size_t open = donor.find('{', pick(donor.size()));
    const size_t close = open == std::string::npos ? open : donor.find('}', open);
    if (close == std::string::npos || donor.find('\n', open) < close) return;
    const size_t own = text.find('{', pick(text.size()));
    const size_t end = own == std::string::npos ? own : text.find('}', own);
    if (end == std::string::npos || text.find('\n', own) < end) return;
    text.replace(own, end - own + 1, donor.substr(open, close - open + 1));
    return;
  }
  }
}

void Mutator::line(std::string& text) {
  auto [at, length] = lineAt(text);
  const std::string own = text.substr(at, length);
  switch (pick(3)) {
  case 0: text.erase(at, length); return;
  case 1: text.insert(lineAt(text).first, own); return;
  default:
    text.erase(at, length);
    if (!text.empty()) text.insert(lineAt(text).first, own);
  }
}

void Mutator::bytes(std::string& text) {
  switch (pick(5)) {
  case 0: text[pick(text.size())] ^= static_cast<char>(1u << pick(8)); return;
  case 1: text.resize(pick(text.size())); return;
  case 2: {
    auto [at, length] = token(text);
    text.erase(at, length);
    return;
  }
  case 3: {
    auto [at, length] = token(text);
    text.insert(at, text.substr(at, length) + ' ');
    return;
  }
  default: {
    auto [at, length] = token(text);
    text.replace(at, length, kPieces[pick(std::size(kPieces))]);
    return;
  }
  }
}

void Mutator::change(std::string& text) {
  const size_t kind = pick(16);
  if (kind < 6) return number(text);
  if (kind < 10) return exchange(text);
  if (kind < 13) return fromDonor(text);
  if (kind < 15) return line(text);
  bytes(text);
}

std::string Mutator::mutate(std::string text) {
  const size_t changes = pick(2) ? 1 : 1 + pick(4);
  for (size_t times = changes; times > 0 && !text.empty(); --times) change(text);
  return text;
}

}  // namespace tg::fuzz
