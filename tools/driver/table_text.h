// SPDX-License-Identifier: Apache-2.0
// Cells of the tables that verbs print.
#pragma once

#include <string>

namespace tg {

/// In the place of a column or lines of what a driver tells of kernels.
inline constexpr const char* kNoStatistics = "the driver tells no statistics of kernels";

/// At most `width` characters; a `~` at the end says that there were more.
inline std::string cut(const std::string& text, size_t width) {
  return text.size() <= width ? text : text.substr(0, width - 1) + "~";
}

}  // namespace tg
