// SPDX-License-Identifier: Apache-2.0
// Whole-file reading, and writing that leaves either the old file or the new one, never a part.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "ir/result.h"

namespace tg {

/// `path: cannot write: ` and what errno stands for.
Error systemError(const std::string& path, const char* doing);

/// An error where something is at a path that is no regular file: a folder, a pipe, a socket, a device.
Result<void> expectFile(const std::string& path);

/// All bytes of a regular file. Errors name the file and the system's reason.
Result<std::vector<std::byte>> readFile(const std::string& path);
/// The same of what a user names, which may be a pipe; it is waited for.
Result<std::vector<std::byte>> readFileOrPipe(const std::string& path);

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

/// What a file holds, in short.
struct FileDigest {
  uint64_t xxh3 = 0;   ///< XXH3-64 of the bytes
  uint64_t bytes = 0;  ///< how many
  bool operator==(const FileDigest&) const = default;
};
/// Reads a regular file once, a megabyte at a time. Errors name the file and the system's reason.
Result<FileDigest> digestFile(const std::string& path);

/// A file under its own name from the start, for a folder that nobody reads before it is complete. Nothing
/// removes it when a write fails: that is up to whoever owns the folder.
class NewFile {
 public:
  /// The file must not exist.
  static Result<NewFile> create(const std::string& path);
  NewFile(NewFile&& other) noexcept;
  NewFile& operator=(NewFile&&) = delete;
  ~NewFile();

  Result<void> write(std::span<const std::byte> bytes);
  /// Syncs and closes; the digest is of the bytes as given, not as read back.
  Result<FileDigest> finish();

 private:
  struct Hash;
  NewFile();
  std::string path_;
  std::unique_ptr<Hash> hash_;
  int descriptor_ = -1;
};

/// Moves a file that is there aside, to NAME.old, NAME.old.2 and so on; its new path, "" when none was there.
Result<std::string> setAside(const std::string& path);

/// Removes the temporary files in `folder` that processes of AtomicFile left when they were killed.
void removeStaleFiles(const std::string& folder);

/// Makes renames and new names in a folder last through a loss of power. A file system that cannot sync
/// folders is no error; a failing disk is.
Result<void> syncFolder(const std::string& path);

/// Writes `bytes` as the file `path`, atomically.
Result<void> writeFile(const std::string& path, std::span<const std::byte> bytes);

}  // namespace tg
