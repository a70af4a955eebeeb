// SPDX-License-Identifier: Apache-2.0
// Cells of the tables that verbs print.
#pragma once

#include <cstdint>
#include <string>

#include <fmt/format.h>

namespace tg {

/// At most `width` characters; a `~` at the end says that there were more.
inline std::string cut(const std::string& text, size_t width) {
  return text.size() <= width ? text : text.substr(0, width - 1) + "~";
}

/// `512 B`, `12.5 KiB`, `13.0 MiB`: a larger unit from ten of it on.
inline std::string sizeText(int64_t bytes) {
  if (bytes >= int64_t{10} << 20) return fmt::format("{:.1f} MiB", static_cast<double>(bytes) / (1 << 20));
  if (bytes >= int64_t{10} << 10) return fmt::format("{:.1f} KiB", static_cast<double>(bytes) / (1 << 10));
  return fmt::format("{} B", bytes);
}

}  // namespace tg
