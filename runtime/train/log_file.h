// SPDX-License-Identifier: Apache-2.0
// Files that grow by lines while other processes read them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include <sys/types.h>

#include "ir/file_io.h"

namespace tg {

/// Renames an existing file to NAME.old, NAME.old.2 and so on. Returns its new path, or "" if there was no file.
Result<std::string> setAside(const std::string& path);

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
  /// `flags` are additional flags of open(2).
  Result<void> open(const std::string& path, int flags);
  Result<void> append(std::string_view text);

 private:
  std::string path_;
  Descriptor file_;
  off_t size_ = 0;
};

}  // namespace tg
