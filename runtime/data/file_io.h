// Whole-file reading, and writing that leaves either the old file or the new one, never a part.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "ir/result.h"

namespace tg {

/// All bytes of a regular file or pipe. Errors name the file and the system's reason.
Result<std::vector<std::byte>> readFile(const std::string& path);

/// A file that appears under its name at `commit` only. Until then its bytes are in a temporary
/// file in the same directory, which the destructor removes.
class AtomicFile {
 public:
  static Result<AtomicFile> create(const std::string& path);
  AtomicFile(AtomicFile&& other) noexcept;
  AtomicFile& operator=(AtomicFile&&) = delete;
  ~AtomicFile();

  Result<void> write(std::span<const std::byte> bytes);
  /// Syncs, then renames over the final name.
  Result<void> commit();

 private:
  AtomicFile() = default;
  std::string path_, temporary_;
  int descriptor_ = -1;
};

/// Writes `bytes` as the file `path`, atomically.
Result<void> writeFile(const std::string& path, std::span<const std::byte> bytes);

}  // namespace tg
