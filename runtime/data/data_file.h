// SPDX-License-Identifier: Apache-2.0
// A file that is read on demand, and may be larger than memory.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "ir/file_io.h"
#include "ir/result.h"

namespace tg {

/// A regular file, kept open for the lifetime of this object, or the contents of a pipe, read at once. The file is not
/// mapped: if it is truncated, access to a mapped page would crash the process, while a read returns an error.
class DataFile {
 public:
  /// Errors name the file and the system's reason. Directories and devices are errors.
  static Result<std::shared_ptr<const DataFile>> open(const std::string& path);

  const std::string& path() const { return path_; }
  /// The size in bytes when the file was opened.
  size_t size() const { return size_; }
  /// Whether the contents are in memory: those of a pipe are read when it is opened.
  bool inMemory() const { return !file_; }
  /// Copies the bytes from `offset` on, which must lie inside the file. An error if the file was truncated meanwhile.
  Result<void> read(size_t offset, std::span<std::byte> to) const;
  /// The first `most` bytes, or the whole file if it is shorter.
  Result<std::vector<std::byte>> beginning(size_t most) const;
  /// An error if the size of the file has changed since it was opened.
  Result<void> checkSize() const;

 private:
  DataFile() = default;
  std::string path_;
  Descriptor file_;
  size_t size_ = 0;
  std::vector<std::byte> held_;  ///< the contents of a pipe
};

/// Reads bytes from an offset on.
using ReadBytes = std::function<Result<void>(size_t offset, std::span<std::byte> to)>;

/// Calls `use` for the bytes first … first + size - 1, piece by piece; `at` is the offset of a piece.
Result<void> inPieces(const ReadBytes& read, size_t first, size_t size,
                      const std::function<Result<void>(std::span<const std::byte> piece, size_t at)>& use);

}  // namespace tg
