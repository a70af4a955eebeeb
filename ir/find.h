// SPDX-License-Identifier: Apache-2.0
// Searches of maps and lists.
#pragma once

#include <algorithm>

namespace tg {

/// The value of a key in a map, or null.
template <class Map, class Key>
auto* valueIn(Map& map, const Key& key) {
  const auto at = map.find(key);
  return at == map.end() ? nullptr : &at->second;
}

/// In a list of pairs, the second part of the first pair whose first part is `first`, or null.
template <class List, class First>
auto* secondOf(List& list, const First& first) {
  const auto at = std::ranges::find_if(list, [&](const auto& pair) { return pair.first == first; });
  return at == list.end() ? nullptr : &at->second;
}

/// Whether a list has an element.
template <class List, class Element>
bool contains(const List& list, const Element& element) {
  return std::ranges::find(list, element) != list.end();
}

/// Adds an element behind the others, unless the list has it.
template <class List, class Element>
void addOnce(List& list, const Element& element) {
  if (!contains(list, element)) list.push_back(element);
}

}  // namespace tg
