// SPDX-License-Identifier: Apache-2.0
#include "runtime/data/text_data.h"

#include <fmt/format.h>

#include <bitset>
#include <optional>
#include <utility>

#include "ir/text.h"

namespace tg {

namespace {

std::string escaped(char symbol) {
  switch (symbol) {
  case '\n': return "\\n";
  case '\t': return "\\t";
  case '\r': return "\\r";
  case '\\': return "\\\\";
  default: break;
  }
  if (symbol >= ' ' && symbol <= '~') return std::string(1, symbol);
  return fmt::format("\\x{:02x}", static_cast<uint8_t>(symbol));
}

/// Parses one byte, escaped or not, from the front of `text`.
std::optional<char> takeSymbol(std::string_view& text) {
  const char first = text.front();
  text.remove_prefix(1);
  if (first != '\\') return first >= ' ' && first <= '~' ? std::optional(first) : std::nullopt;
  if (text.empty()) return std::nullopt;
  const char kind = text.front();
  text.remove_prefix(1);
  switch (kind) {
  case 'n': return '\n';
  case 't': return '\t';
  case 'r': return '\r';
  case '\\': return '\\';
  case 'x': break;
  default: return std::nullopt;
  }
  const auto value = text.size() < 2 ? std::nullopt : numberIn<uint8_t>(text.substr(0, 2), 16);
  if (!value) return std::nullopt;
  text.remove_prefix(2);
  return static_cast<char>(*value);
}

}  // namespace

Vocabulary::Vocabulary(std::string symbols) : symbols_(std::move(symbols)) {
  ids_.fill(-1);
  for (size_t id = 0; id < symbols_.size(); ++id)
    ids_[static_cast<uint8_t>(symbols_[id])] = static_cast<int16_t>(id);
}

Vocabulary Vocabulary::ofText(std::string_view text) {
  std::bitset<256> present;
  for (const char symbol : text) present.set(static_cast<uint8_t>(symbol));
  std::string symbols;
  for (int value = 0; value < 256; ++value)
    if (present[static_cast<size_t>(value)]) symbols += static_cast<char>(value);
  return Vocabulary(std::move(symbols));
}

Result<Vocabulary> Vocabulary::parse(std::string_view printable) {
  std::string symbols;
  std::string_view rest = printable;
  while (!rest.empty()) {
    const size_t at = printable.size() - rest.size();
    const auto symbol = takeSymbol(rest);
    if (!symbol) return fail("expected a printable vocabulary, got another byte or escape at {}", at);
    if (!symbols.empty() && static_cast<uint8_t>(*symbol) <= static_cast<uint8_t>(symbols.back()))
      return fail("expected a vocabulary of distinct bytes in rising order, got '{}' after '{}'",
                  escaped(*symbol), escaped(symbols.back()));
    symbols += *symbol;
  }
  return Vocabulary(std::move(symbols));
}

std::string Vocabulary::printable() const {
  std::string text;
  for (const char symbol : symbols_) text += escaped(symbol);
  return text;
}

Result<void> Vocabulary::check(std::string_view text, size_t first) const {
  for (size_t at = 0; at < text.size(); ++at)
    if (idOf(text[at]) < 0)
      return fail("expected bytes of the vocabulary ({} of them), got '{}' at byte {}", size(),
                  escaped(text[at]), first + at);
  return {};
}

Result<std::vector<int32_t>> Vocabulary::encode(std::string_view text) const {
  TG_CHECK(check(text));
  std::vector<int32_t> ids;
  ids.reserve(text.size());
  for (const char symbol : text) ids.push_back(idOf(symbol));
  return ids;
}

Result<std::string> Vocabulary::decode(std::span<const int32_t> ids) const {
  std::string text;
  text.reserve(ids.size());
  for (const int32_t id : ids) {
    if (id < 0 || id >= size()) return fail("expected ids from 0 to {}, got {}", size() - 1, id);
    text += symbols_[static_cast<size_t>(id)];
  }
  return text;
}

}  // namespace tg
