// SPDX-License-Identifier: Apache-2.0
// The files of a checkpoint folder: its COMPLETE, and the atomic replacement of one folder by another.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ir/file_io.h"

namespace tg {

inline constexpr std::string_view kModelFile = "model.safetensors";
inline constexpr std::string_view kOptimizerFile = "optim.safetensors";
inline constexpr std::string_view kStateFile = "state.json";
inline constexpr std::string_view kCompleteFile = "COMPLETE";

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

/// Makes renames and new names in a folder survive a power failure. A file system that cannot sync folders is no error;
/// a disk failure is.
Result<void> syncFolder(const std::string& path);

using FileDigests = std::vector<std::pair<std::string, FileDigest>>;

/// The text of COMPLETE: a line `XXH3-64  bytes  name` for each file, their sum, and the hash of the lines before.
std::string formatComplete(const FileDigests& files);
/// Parses the text of COMPLETE. Any other text is an error, which begins with COMPLETE.
Result<FileDigests> parseComplete(std::string_view text);

/// A temporary folder. It is locked while its process lives, and removed by the destructor unless `commit` renames it.
class StagedFolder {
 public:
  /// Creates `parent`/.tmp-NAME-PID; `parent` must exist.
  static Result<StagedFolder> create(const std::string& parent, const std::string& name);
  StagedFolder(StagedFolder&&) noexcept;
  StagedFolder& operator=(StagedFolder&&) = delete;
  ~StagedFolder();

  const std::string& path() const { return path_; }
  /// An error of writing into the folder, with the path that the user knows: `parent`/NAME.
  Error named(const Error& error) const;
  /// Renames the folder to `parent`/NAME and syncs. An existing folder of that name is exchanged for it and then
  /// removed.
  Result<void> commit();

 private:
  StagedFolder() = default;
  std::string parent_, name_, path_;
  Descriptor lock_;
};

/// Protects a folder's files while they are read: `removeFolder` leaves a folder alone that is held.
class FolderHold {
 public:
  /// Null if the folder is gone, or is being removed.
  static std::shared_ptr<const FolderHold> take(const std::string& path);

 private:
  explicit FolderHold(Descriptor folder) : folder_(std::move(folder)) {}
  Descriptor folder_;
};

/// Removes a folder so that nobody sees a part of it under its name. Does nothing if it is held.
Result<void> removeFolder(const std::string& parent, const std::string& name);
/// Removes the temporary folders in `parent` that belong to dead processes; with `name`, only those of StagedFolders of
/// this name.
void removeStaleFolders(const std::string& parent, const std::string& name = "");

}  // namespace tg
