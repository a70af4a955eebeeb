// SPDX-License-Identifier: Apache-2.0
// JSON as text, and text as JSON.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

namespace tg {

/// Members keep their order.
using Json = nlohmann::ordered_json;

/// The text of an nlohmann JSON value, on one line or indented. Names of files, devices and drivers may contain any
/// bytes: those that are not UTF-8 are replaced.
template <class Tree>
std::string jsonText(const Tree& json, int indent = -1) {
  return json.dump(indent, ' ', false, Tree::error_handler_t::replace);
}

/// A number or text, or null. As text, a number that is not finite is null too.
template <class T>
Json orNull(const std::optional<T>& value) {
  return value ? Json(*value) : Json();
}

/// The nlohmann JSON value of a text; a discarded one if the text is not JSON, or nests so deeply that copying or
/// printing the value, which recurse, would exceed the stack.
template <class Tree>
Tree parseJson(std::string_view text) {
  constexpr int kDeepest = 100;
  bool deep = false;
  Tree json = Tree::parse(
      text,
      [&](int depth, auto, const Tree&) {
        deep = deep || depth > kDeepest;
        return depth <= kDeepest;
      },
      /*allow_exceptions=*/false);
  return deep ? Tree(Tree::value_t::discarded) : json;
}

}  // namespace tg
