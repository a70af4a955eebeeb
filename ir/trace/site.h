// SPDX-License-Identifier: Apache-2.0
// The location of a call in the model's C++ source.
#pragma once

#include <source_location>

namespace tg::nn {

#ifdef __cpp_lib_source_location
using Site = std::source_location;
#else
/// A replacement for Clang before 15, which lacks the builtin that std::source_location needs.
class Site {
 public:
  static constexpr Site current(const char* file = __builtin_FILE(),
                                const char* function = __builtin_FUNCTION(),
                                uint_least32_t line = __builtin_LINE(),
                                uint_least32_t column = __builtin_COLUMN()) noexcept {
    Site site;
    site.file_ = file;
    site.function_ = function;
    site.line_ = line;
    site.column_ = column;
    return site;
  }
  constexpr const char* file_name() const noexcept { return file_; }
  constexpr const char* function_name() const noexcept { return function_; }
  constexpr uint_least32_t line() const noexcept { return line_; }
  constexpr uint_least32_t column() const noexcept { return column_; }

 private:
  const char *file_ = "", *function_ = "";
  uint_least32_t line_ = 0, column_ = 0;
};
#endif

}  // namespace tg::nn
