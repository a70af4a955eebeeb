// SPDX-License-Identifier: Apache-2.0
// Counts, byte counts, lists, names, hashes and bytes as text.
#pragma once

#include <charconv>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ir/result.h"

namespace tg {

/// `1 kernel`, `2 kernels`; `many` is the plural if it is not `one` with an s: `1 value agrees`, `2 values agree`.
inline std::string countText(int64_t count, std::string_view one, std::string_view many = "") {
  std::string text = std::to_string(count);
  text.append(" ").append(count == 1 || many.empty() ? one : many);
  return count == 1 || !many.empty() ? text : text + 's';
}

/// The number that a text is from end to end, or nothing. `base` is that of a whole number; without it, 10.
template <class T, class... Base>
std::optional<T> numberIn(std::string_view text, Base... base) {
  T value{};
  const char* end = text.data() + text.size();
  const auto [at, status] = std::from_chars(text.data(), end, value, base...);
  return status == std::errc() && at == end ? std::optional(value) : std::nullopt;
}

/// A text without the spaces around it.
std::string_view trimmed(std::string_view text);

/// The texts of all elements, separated by `between`: `listText(func.results, &NamedType::name)` is "loss, y".
template <class Range, class TextOf>
std::string listText(Range&& range, TextOf textOf, std::string_view between = ", ") {
  std::string out;
  for (const auto& each : range) {
    if (!out.empty()) out += between;
    out += std::invoke(textOf, each);
  }
  return out;
}

/// The names of items, given as pointers: `@a, @b`, or `none`.
template <class Range>
std::string namesOf(Range&& items) {
  const std::string names = listText(items, [](const auto& item) { return "@" + item->name; });
  return names.empty() ? "none" : names;
}

/// The keys of a map, separated by `between`.
template <class Map>
std::string keysText(const Map& map, std::string_view between = ", ") {
  return listText(map, &Map::value_type::first, between);
}

/// Parses `8GiB`, `1.5 MiB`, `512KB`, `4096`: a number and a unit, at least 1 byte. Units are B, KiB, MiB, GiB, TiB
/// (powers of 1024) and KB, MB, GB, TB (of 1000), in letters of any case. An error says what is expected.
Result<int64_t> parseBytes(std::string_view text);

/// `512 B`, `12.5 KiB`, `13.0 MiB`: uses the larger unit from 10 of it on.
std::string sizeText(int64_t bytes);

/// The known name nearest to a misspelt one, or "" when none is near.
std::string nearestName(std::string_view name, const std::vector<std::string>& known);

/// XXH3-64 of the bytes as 16 hexadecimal digits: identifies texts in modules, checkpoints and caches.
std::string textHash(std::string_view bytes);

/// A text as it stands between single quotes in a command of a shell.
std::string insideQuotes(std::string_view text);

std::string base64Encode(std::string_view bytes);
/// Nothing if the text is not valid base64.
std::optional<std::string> base64Decode(std::string_view text);

/// The parts of a text between separators: one more than it has separators.
std::vector<std::string> splitText(std::string_view text, char separator);

}  // namespace tg
