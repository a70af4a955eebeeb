// SPDX-License-Identifier: Apache-2.0
// Lists as text.
#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace tg {

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

}  // namespace tg
