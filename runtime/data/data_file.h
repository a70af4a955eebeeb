// SPDX-License-Identifier: Apache-2.0
// A file that is read where it is asked for, so that it may be larger than memory.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "ir/result.h"

namespace tg {

/// A regular file, open as long as this lives, or the bytes of a pipe, read at once. Nothing is mapped: a
/// mapped page of a file that is cut off meanwhile ends the process where it is touched; a read is an error.
class DataFile {
 public:
  /// Errors name the file and the system's reason; a directory and a device are errors.
  static Result<std::shared_ptr<const DataFile>> open(const std::string& path);
  DataFile(const DataFile&) = delete;
  DataFile& operator=(const DataFile&) = delete;
  ~DataFile();

  const std::string& path() const { return path_; }
  /// Bytes, when it was opened.
  size_t size() const { return size_; }
  /// Copies the bytes from `offset` on, which must be inside. An error where the file was cut off meanwhile.
  Result<void> read(size_t offset, std::span<std::byte> to) const;
  /// The first `most` bytes, or all where there are fewer.
  Result<std::vector<std::byte>> beginning(size_t most) const;
  /// An error when the file no longer has the size it was opened with.
  Result<void> checkSize() const;

 private:
  DataFile() = default;
  std::string path_;
  int descriptor_ = -1;
  size_t size_ = 0;
  std::vector<std::byte> held_;  ///< of a pipe
};

/// Reads bytes from a place on.
using ReadBytes = std::function<Result<void>(size_t offset, std::span<std::byte> to)>;

/// `use`s the bytes first … first + size - 1 piece after piece; `at` is where a piece begins.
Result<void> inPieces(const ReadBytes& read, size_t first, size_t size,
                      const std::function<Result<void>(std::span<const std::byte> piece, size_t at)>& use);

}  // namespace tg
