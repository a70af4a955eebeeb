// SPDX-License-Identifier: Apache-2.0
// JSON as text.
#pragma once

#include <string>

namespace tg {

/// The text of an nlohmann JSON value, on one line or indented. Names of files, devices and drivers may contain any
/// bytes: those that are not UTF-8 are replaced.
template <class Json>
std::string jsonText(const Json& json, int indent = -1) {
  return json.dump(indent, ' ', false, Json::error_handler_t::replace);
}

}  // namespace tg
