// SPDX-License-Identifier: Apache-2.0
#define XXH_INLINE_ALL
#include "ir/text.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstring>

#include <fmt/format.h>
#include <xxhash.h>

namespace tg {

Result<int64_t> parseBytes(std::string_view text) {
  double value = 0;
  const char* end = text.data() + text.size();
  auto [at, status] = std::from_chars(text.data(), end, value);
  std::string unit(at, static_cast<size_t>(end - at));
  std::erase(unit, ' ');
  std::ranges::transform(unit, unit.begin(), [](unsigned char c) { return std::tolower(c); });
  double scale = unit.empty() || unit == "b" ? 1 : 0;
  if (const char* prefix = unit.empty() ? nullptr : std::strchr("kmgt", unit[0])) {
    const auto power = static_cast<double>(prefix - "kmgt" + 1);
    std::string rest = unit.substr(1);
    if (rest == "ib") scale = std::pow(1024.0, power);
    if (rest == "b") scale = std::pow(1000.0, power);
  }
  if (status == std::errc() && scale > 0 && value * scale >= 1 && value * scale < 0x1p62)
    return static_cast<int64_t>(value * scale);
  return fail("'{}' is not a number of bytes: expected one such as 8GiB, 512MiB or 4096", text);
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

std::string sizeText(int64_t bytes) {
  if (bytes >= int64_t{10} << 30) return fmt::format("{:.1f} GiB", static_cast<double>(bytes) / (1 << 30));
  if (bytes >= int64_t{10} << 20) return fmt::format("{:.1f} MiB", static_cast<double>(bytes) / (1 << 20));
  if (bytes >= int64_t{10} << 10) return fmt::format("{:.1f} KiB", static_cast<double>(bytes) / (1 << 10));
  return fmt::format("{} B", bytes);
}

/// The number of edits (insert, delete, replace, swap of neighbours) between two names.
static int editDistance(std::string_view a, std::string_view b) {
  std::vector<std::vector<int>> cost(a.size() + 1, std::vector<int>(b.size() + 1));
  for (size_t i = 0; i <= a.size(); ++i) {
    for (size_t j = 0; j <= b.size(); ++j) {
      if (i == 0 || j == 0) {
        cost[i][j] = static_cast<int>(i + j);
        continue;
      }
      cost[i][j] =
          std::min({cost[i - 1][j] + 1, cost[i][j - 1] + 1, cost[i - 1][j - 1] + (a[i - 1] != b[j - 1])});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        cost[i][j] = std::min(cost[i][j], cost[i - 2][j - 2] + 1);
    }
  }
  return cost[a.size()][b.size()];
}

std::string nearestName(std::string_view name, const std::vector<std::string>& known) {
  std::string best;
  if (name.empty() || name.size() > 64) return best;
  int limit = std::max(1, static_cast<int>(name.size()) / 3) + 1;
  for (const std::string& candidate : known) {
    int distance = editDistance(name, candidate);
    // A part of a name, such as `adam` for `append-adam`, counts as one edit.
    if (name.size() >= 3 && candidate.find(name) != std::string::npos) distance = std::min(distance, 1);
    if (distance < limit) limit = distance, best = candidate;
  }
  return best;
}

std::string textHash(std::string_view bytes) {
  return fmt::format("{:016x}", XXH3_64bits(bytes.data(), bytes.size()));
}

std::string insideQuotes(std::string_view text) {
  std::string out;
  for (const char c : text) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out;
}

static constexpr std::string_view kAlphabet =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

std::string base64Encode(std::string_view bytes) {
  std::string out;
  out.reserve((bytes.size() + 2) / 3 * 4);
  for (size_t i = 0; i < bytes.size(); i += 3) {
    uint32_t bits = 0;
    for (size_t j = 0; j < 3; ++j)
      bits = bits << 8 | (i + j < bytes.size() ? static_cast<uint8_t>(bytes[i + j]) : 0);
    for (size_t j = 0; j < 4; ++j) out += i + j > bytes.size() ? '=' : kAlphabet[bits >> (18 - 6 * j) & 63];
  }
  return out;
}

std::optional<std::string> base64Decode(std::string_view text) {
  static const std::array<int8_t, 256> values = [] {
    std::array<int8_t, 256> table{};
    table.fill(-1);
    for (size_t i = 0; i < kAlphabet.size(); ++i)
      table[static_cast<uint8_t>(kAlphabet[i])] = static_cast<int8_t>(i);
    return table;
  }();
  if (text.size() % 4 != 0) return std::nullopt;
  std::string out;
  out.reserve(text.size() / 4 * 3);
  for (size_t i = 0; i < text.size(); i += 4) {
    uint32_t bits = 0;
    int padding = 0;
    for (size_t j = 0; j < 4; ++j) {
      char c = text[i + j];
      bool last = i + 4 == text.size();
      if (c == '=' && last && j >= 2) {
        ++padding;
        bits <<= 6;
        continue;
      }
      int value = values[static_cast<uint8_t>(c)];
      if (value < 0 || padding) return std::nullopt;
      bits = bits << 6 | static_cast<uint32_t>(value);
    }
    for (int j = 0; j < 3 - padding; ++j) out += static_cast<char>(bits >> (16 - 8 * j));
  }
  return out;
}

std::vector<std::string> splitText(std::string_view text, char separator) {
  std::vector<std::string> parts;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(separator, begin), text.size());
    parts.emplace_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

}  // namespace tg
