// SPDX-License-Identifier: Apache-2.0
// A file to which lines are appended while other processes read it.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "ir/result.h"

namespace tg {

/// The damaged lines of a file of rows. The whole file was kept as `aside`, and its good rows were copied.
struct DamagedRows {
  std::string path, aside;
  int64_t first = 0, count = 0;  ///< number of the first damaged line, and how many there are

  void add(int64_t line) { first = count++ ? first : line; }
  /// A message that begins with the file and the line; "" if there are none.
  std::string text() const;
};

/// A file that only grows. A write that fails half-way is undone, so that every line in the file is whole.
class AppendFile {
 public:
  AppendFile() = default;
  AppendFile(const AppendFile&) = delete;
  AppendFile& operator=(const AppendFile&) = delete;
  ~AppendFile() { close(); }

  /// `flags` are additional flags of open(2).
  Result<void> open(const std::string& path, int flags);
  Result<void> append(std::string_view text);

 private:
  void close();

  std::string path_;
  int descriptor_ = -1;
  off_t size_ = 0;
};

}  // namespace tg
