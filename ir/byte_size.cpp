// SPDX-License-Identifier: Apache-2.0
#include "ir/byte_size.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstring>

#include <fmt/format.h>

namespace tg {

Result<int64_t> parseBytes(std::string_view text) {
  double value = 0;
  const char* end = text.data() + text.size();
  auto [at, status] = std::from_chars(text.data(), end, value);
  std::string unit(at, static_cast<size_t>(end - at));
  std::erase(unit, ' ');
  std::transform(unit.begin(), unit.end(), unit.begin(), [](unsigned char c) { return std::tolower(c); });
  double scale = unit.empty() || unit == "b" ? 1 : 0;
  if (const char* prefix = unit.empty() ? nullptr : std::strchr("kmgt", unit[0])) {
    const auto power = static_cast<double>(prefix - "kmgt" + 1);
    std::string rest = unit.substr(1);
    if (rest == "ib") scale = std::pow(1024.0, power);
    if (rest == "b") scale = std::pow(1000.0, power);
  }
  if (status == std::errc() && scale > 0 && value * scale >= 1 && value * scale < 0x1p62)
    return static_cast<int64_t>(value * scale);
  return fail(fmt::format("'{}' is not a number of bytes: expected one such as 8GiB, 512MiB or 4096", text));
}

std::string sizeText(int64_t bytes) {
  if (bytes >= int64_t{10} << 30) return fmt::format("{:.1f} GiB", static_cast<double>(bytes) / (1 << 30));
  if (bytes >= int64_t{10} << 20) return fmt::format("{:.1f} MiB", static_cast<double>(bytes) / (1 << 20));
  if (bytes >= int64_t{10} << 10) return fmt::format("{:.1f} KiB", static_cast<double>(bytes) / (1 << 10));
  return fmt::format("{} B", bytes);
}

}  // namespace tg
