// A file's bytes without reading them: pages come from disk when they are touched.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "ir/result.h"

namespace tg {

/// The bytes of a regular file, mapped; those of a pipe are read. The bytes live as long as this does.
class MappedFile {
 public:
  /// Errors name the file and the system's reason; a directory and a device are errors.
  static Result<std::shared_ptr<const MappedFile>> open(const std::string& path);
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile();

  const std::string& path() const { return path_; }
  std::span<const std::byte> bytes() const { return bytes_; }
  /// An error when the file no longer has the size it was opened with. Touching bytes that were cut off
  /// ends the process, so ask before reading; one system call.
  Result<void> checkSize() const;

 private:
  MappedFile() = default;
  std::string path_;
  int descriptor_ = -1;
  std::span<const std::byte> bytes_;
  std::vector<std::byte> read_;  ///< of a pipe
};

}  // namespace tg
