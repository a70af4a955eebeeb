// SPDX-License-Identifier: Apache-2.0
// Helpers for cells of the tables that verbs print.
#pragma once

#include <string>

namespace tg {

/// Shown instead of a column or of lines with the driver's statistics on kernels.
inline constexpr const char* kNoStatistics = "the driver tells no statistics of kernels";

/// At most `width` characters; a `~` at the end marks text that was cut.
inline std::string cut(const std::string& text, size_t width) {
  return text.size() <= width ? text : text.substr(0, width - 1) + "~";
}

}  // namespace tg
