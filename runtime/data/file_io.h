// SPDX-License-Identifier: Apache-2.0
// Reads whole files, writes files atomically (a reader sees the old contents or the new, never a part), and appends lines
// to files while other processes read them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <sys/types.h>

#include "ir/result.h"
#include "ir/text_file.h"

namespace tg {

/// The error `path: cannot write: ` (with `doing` as the verb), followed by the text of errno.
Error systemError(const std::string& path, const char* doing);

/// The bytes as text.
inline std::string_view asText(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// An error if something other than a regular file is at this path: a folder, a pipe, a socket, a device.
Result<void> expectFile(const std::string& path);

/// All bytes of a regular file. Errors name the file and the system's reason.
Result<std::vector<std::byte>> readFile(const std::string& path);
/// The same for a path from the user, which may also be a pipe; waits for its end.
Result<std::vector<std::byte>> readFileOrPipe(const std::string& path);

/// A file that gets its name only at `commit`. Until then its bytes are in a temporary file in the same directory,
/// which the destructor removes.
class AtomicFile {
 public:
  static Result<AtomicFile> create(const std::string& path);
  AtomicFile(AtomicFile&&) noexcept = default;
  AtomicFile& operator=(AtomicFile&&) = delete;
  ~AtomicFile();

  Result<void> write(std::span<const std::byte> bytes);
  /// Syncs the file and renames it to its final name.
  Result<void> commit();

 private:
  AtomicFile() = default;
  std::string path_, temporary_;
  Descriptor file_;
};

/// A checksum of a file.
struct FileDigest {
  uint64_t xxh3 = 0;   ///< XXH3-64 of the bytes
  uint64_t bytes = 0;  ///< its size
  bool operator==(const FileDigest&) const = default;
};
/// Reads a regular file once, a megabyte at a time. Errors name the file and the system's reason.
Result<FileDigest> digestFile(const std::string& path);

struct FileHash;  ///< makes a FileDigest

/// A new file under its own name, for a folder that nobody reads before it is complete. If a write fails, the owner of
/// the folder must remove the file.
class NewFile {
 public:
  /// The file must not exist.
  static Result<NewFile> create(const std::string& path);
  NewFile(NewFile&&) noexcept;
  ~NewFile();

  Result<void> write(std::span<const std::byte> bytes);
  /// Syncs and closes the file. The digest is that of the bytes written, which are not read back.
  Result<FileDigest> finish();

 private:
  NewFile();
  std::string path_;
  std::unique_ptr<FileHash> hash_;
  Descriptor file_;
};

/// Renames an existing file to NAME.old, NAME.old.2 and so on. Returns its new path, or "" if there was no file.
Result<std::string> setAside(const std::string& path);

/// Removes the temporary files in `folder` that killed processes left behind.
void removeStaleFiles(const std::string& folder);

/// Makes renames and new names in a folder survive a power failure. A file system that cannot sync folders is no error;
/// a disk failure is.
Result<void> syncFolder(const std::string& path);

/// Writes `bytes` as the file `path`, atomically.
Result<void> writeFile(const std::string& path, std::span<const std::byte> bytes);
Result<void> writeFile(const std::string& path, std::string_view text);

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
