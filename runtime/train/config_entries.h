// SPDX-License-Identifier: Apache-2.0
// Parses config.toml, a run's options.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ir/result.h"

namespace tg {

/// A key of config.toml with its value or values.
struct ConfigEntry {
  std::string key;
  std::vector<std::string> values;
  int line = 0;
};
/// Parses lines `key = value` of TOML: strings in either kind of quotes, numbers, true and false, and lists of these. A
/// repeated key is an error. Errors name `where` and the line.
Result<std::vector<ConfigEntry>> parseConfig(std::string_view text, const std::string& where);

}  // namespace tg
