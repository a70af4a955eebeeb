// SPDX-License-Identifier: Apache-2.0
// Counts in messages.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tg {

/// `1 kernel`, `2 kernels`; `many` is the plural if it is not `one` with an s: `1 value agrees`, `2 values agree`.
inline std::string countText(int64_t count, std::string_view one, std::string_view many = "") {
  std::string text = std::to_string(count);
  text.append(" ").append(count == 1 || many.empty() ? one : many);
  return count == 1 || !many.empty() ? text : text + 's';
}

}  // namespace tg
