// SPDX-License-Identifier: Apache-2.0
// A file's bytes without reading them: pages come from disk when they are touched.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "ir/result.h"

namespace tg {

/// The bytes of a regular file, mapped; those of a pipe are read. The bytes live as long as this does. Mapped
/// ones are for what is done once while a file is opened; `read` is for all that comes later.
class MappedFile {
 public:
  /// Errors name the file and the system's reason; a directory and a device are errors.
  static Result<std::shared_ptr<const MappedFile>> open(const std::string& path);
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile();

  const std::string& path() const { return path_; }
  std::span<const std::byte> bytes() const { return bytes_; }
  /// Copies the bytes from `offset` on, which must be inside. An error where the file was cut off meanwhile:
  /// touching `bytes` there ends the process.
  Result<void> read(size_t offset, std::span<std::byte> to) const;
  /// An error when the file no longer has the size it was opened with.
  Result<void> checkSize() const;

 private:
  MappedFile() = default;
  std::string path_;
  int descriptor_ = -1;
  std::span<const std::byte> bytes_;
  std::vector<std::byte> read_;  ///< of a pipe
};

}  // namespace tg
