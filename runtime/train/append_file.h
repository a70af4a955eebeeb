// SPDX-License-Identifier: Apache-2.0
// A file that grows line by line while others read it.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "ir/result.h"

namespace tg {

/// Damaged lines of a file of rows. The whole file is kept as `aside`; the good rows were taken over.
struct DamagedRows {
  std::string path, aside;
  int64_t first = 0, count = 0;  ///< the number of the first such line, and how many there are

  void add(int64_t line) { first = count++ ? first : line; }
  /// For people, beginning with the file and the line; "" where there are none.
  std::string text() const;
};

/// A file that only grows. A write that fails half way is taken back, so that every line in it is whole.
class AppendFile {
 public:
  AppendFile() = default;
  AppendFile(const AppendFile&) = delete;
  AppendFile& operator=(const AppendFile&) = delete;
  ~AppendFile() { close(); }

  /// `flags` are added to those of open(2).
  Result<void> open(const std::string& path, int flags);
  Result<void> append(std::string_view text);

 private:
  Error systemError() const;
  void close();

  std::string path_;
  int descriptor_ = -1;
  off_t size_ = 0;
};

}  // namespace tg
