// SPDX-License-Identifier: Apache-2.0
// Reads whole files, and writes files atomically: a reader sees the old contents or the new, never a part.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ir/result.h"

namespace tg {

/// A file descriptor, closed by the destructor. -1 is none.
class Descriptor {
 public:
  explicit Descriptor(int value = -1) : value_(value) {}
  Descriptor(Descriptor&& other) noexcept : value_(std::exchange(other.value_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(value_, other.value_);
    return *this;
  }
  ~Descriptor() { close(); }
  /// Opens a folder, to lock or to sync it.
  static Descriptor ofFolder(const std::string& path);

  explicit operator bool() const { return value_ >= 0; }
  int get() const { return value_; }
  /// False, with errno, if that fails: some network file systems report a full disk only here.
  bool close();

 private:
  int value_;
};

/// The error `path: cannot write: ` (with `doing` as the verb), followed by the text of errno.
Error systemError(const std::string& path, const char* doing);

/// The bytes as text.
inline std::string_view asText(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// Whether a path leads to something, such as a file or a folder.
bool isThere(const std::filesystem::path& path);
/// The same, but a link that leads to nothing is something too.
bool isNamed(const std::filesystem::path& path);
/// An error if something other than a regular file is at this path: a folder, a pipe, a socket, a device.
Result<void> expectFile(const std::string& path);

/// All bytes of a regular file. Errors name the file and the system's reason.
Result<std::vector<std::byte>> readFile(const std::string& path);
/// The same for a path from the user, which may also be a pipe; waits for its end.
Result<std::vector<std::byte>> readFileOrPipe(const std::string& path);
/// The text of a file, a pipe or a device. An error if it does not exist, cannot be read, is a folder, or contains a
/// zero byte.
Result<std::string> readTextFile(const std::string& path);
/// The rest of an open file; `name` is for errors.
Result<std::string> readText(int file, const std::string& name);

/// Writes a whole text to a descriptor. False, with errno, if that fails. Safe in a signal handler.
bool writeAll(int file, std::string_view text);
/// Whether the open file is the one that the path names now, so that it was not replaced, moved or removed.
bool isFileAt(int file, const std::string& path);

/// A file that gets its name only at `commit`. Until then its bytes are in a temporary file in the same directory,
/// which the destructor removes. It keeps the permissions of the file that it replaces. The target of a symbolic link
/// is replaced or made, not the link. A pipe, a device and an open file without a name are written directly.
class AtomicFile {
 public:
  static Result<AtomicFile> create(const std::string& path);
  AtomicFile(AtomicFile&& other) noexcept;
  AtomicFile& operator=(AtomicFile&&) = delete;
  ~AtomicFile();

  Result<void> write(std::span<const std::byte> bytes);
  /// Gives the file its name. After a power failure it may be empty.
  Result<void> commit();
  /// Does so once its bytes are on the disk.
  Result<void> commitDurably();
  /// Gives the file its name if no file has it; false if one has.
  Result<bool> commitIfAbsent();

 private:
  AtomicFile() = default;
  Result<Descriptor> close();
  Result<void> rename();

  std::string path_,
      temporary_;  // temporary_ is empty if the file is written directly, and once it has its name
  Descriptor file_;
};

/// Removes the temporary files in `folder` that killed processes left behind.
void removeStaleFiles(const std::string& folder);

/// Writes `bytes` as the file `path`, atomically and durably.
Result<void> writeFile(const std::string& path, std::span<const std::byte> bytes);
Result<void> writeFile(const std::string& path, std::string_view text);

/// A sealed file is an entry of a cache: `magic` (8 characters), the number of bytes, a checksum of `name` and the
/// bytes, and the bytes. `name` tells entries of one kind apart.
struct Seal {
  std::string_view magic, name;
};
/// The bytes of a sealed file; none if there is no such file, or if it is damaged or another entry.
std::vector<std::byte> readSealed(const std::string& path, const Seal& seal);
/// Writes a sealed file atomically.
Result<void> writeSealed(const std::string& path, const Seal& seal, std::span<const std::byte> bytes);

/// Makes a folder and its parents, unless they exist.
Result<void> makeFolder(const std::string& path);

}  // namespace tg
