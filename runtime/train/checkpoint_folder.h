// SPDX-License-Identifier: Apache-2.0
// The files of a checkpoint folder: its COMPLETE, and the atomic replacement of one folder by another.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ir/result.h"
#include "runtime/data/file_io.h"

namespace tg {

inline constexpr std::string_view kModelFile = "model.safetensors";
inline constexpr std::string_view kOptimizerFile = "optim.safetensors";
inline constexpr std::string_view kStateFile = "state.json";
inline constexpr std::string_view kCompleteFile = "COMPLETE";

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
/// Removes the temporary folders in `parent` that belong to dead processes.
void removeStaleFolders(const std::string& parent);

}  // namespace tg
