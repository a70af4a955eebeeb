#include "runtime/data/text_data.h"

#include <fmt/format.h>

#include <algorithm>
#include <bitset>
#include <charconv>
#include <optional>
#include <utility>

#include "ir/philox.h"
#include "runtime/data/file_io.h"

namespace tg {

namespace {

/// Keeps the draws apart from those of other uses of the same seed.
constexpr uint32_t kWindowStream = 0x74657874;

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

/// Takes one byte, escaped or not, from the front of `text`.
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
  uint8_t value = 0;
  if (text.size() < 2) return std::nullopt;
  const auto [end, status] = std::from_chars(text.data(), text.data() + 2, value, 16);
  if (status != std::errc() || end != text.data() + 2) return std::nullopt;
  text.remove_prefix(2);
  return static_cast<char>(value);
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
    if (!symbol)
      return fail(fmt::format("expected a printable vocabulary, got another byte or escape at {}", at));
    if (!symbols.empty() && static_cast<uint8_t>(*symbol) <= static_cast<uint8_t>(symbols.back()))
      return fail(fmt::format("expected a vocabulary of distinct bytes in rising order, got '{}' after '{}'",
                              escaped(*symbol), escaped(symbols.back())));
    symbols += *symbol;
  }
  return Vocabulary(std::move(symbols));
}

std::string Vocabulary::printable() const {
  std::string text;
  for (const char symbol : symbols_) text += escaped(symbol);
  return text;
}

Result<std::vector<int32_t>> Vocabulary::encode(std::string_view text) const {
  std::vector<int32_t> ids;
  ids.reserve(text.size());
  for (size_t at = 0; at < text.size(); ++at) {
    const int id = ids_[static_cast<uint8_t>(text[at])];
    if (id < 0)
      return fail(fmt::format("expected bytes of the vocabulary ({} of them), got '{}' at byte {}", size(),
                              escaped(text[at]), at));
    ids.push_back(id);
  }
  return ids;
}

Result<std::string> Vocabulary::decode(std::span<const int32_t> ids) const {
  std::string text;
  text.reserve(ids.size());
  for (const int32_t id : ids) {
    if (id < 0 || id >= size()) return fail(fmt::format("expected ids from 0 to {}, got {}", size() - 1, id));
    text += symbols_[static_cast<size_t>(id)];
  }
  return text;
}

Result<TextData> readText(const std::string& path) {
  TG_TRY(const auto bytes, readFile(path));
  if (bytes.empty()) return fail(fmt::format("{}: expected a text, got an empty file", path));
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  Vocabulary vocabulary = Vocabulary::ofText(text);
  TG_TRY(auto tokens, vocabulary.encode(text));
  return TextData{std::move(vocabulary), std::move(tokens)};
}

Result<Windows> sampleWindows(std::span<const int32_t> tokens, uint64_t seed, uint64_t step, int64_t batch,
                              int64_t length) {
  if (batch < 1 || length < 1)
    return fail(fmt::format("expected windows of 1 token and more, got {} of {} tokens", batch, length));
  const auto count = static_cast<int64_t>(tokens.size());
  if (count - 1 < length)
    return fail(
        fmt::format("expected a text of at least {} tokens for windows of {} and their targets, got {}",
                    length + 1, length, count));
  const std::array<int64_t, 2> dims{batch, length};
  TG_TRY(const Shape shape, checkedShape(dims));
  Windows windows{HostArray::zeros(DType::i32, shape), HostArray::zeros(DType::i32, shape)};
  const PhiloxKey key{lowWord(seed), highWord(seed)};
  for (int64_t row = 0; row < batch; ++row) {
    const auto words =
        philox({static_cast<uint32_t>(row), lowWord(step), highWord(step), kWindowStream}, key);
    // 64 bits, so that the remainder favours no place measurably.
    const uint64_t bits = uint64_t{words[1]} << 32 | words[0];
    const auto start = tokens.begin() + static_cast<int64_t>(bits % static_cast<uint64_t>(count - length));
    std::copy_n(start, length, windows.x.i32().begin() + row * length);
    std::copy_n(start + 1, length, windows.y.i32().begin() + row * length);
  }
  return windows;
}

}  // namespace tg
