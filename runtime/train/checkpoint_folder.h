// SPDX-License-Identifier: Apache-2.0
// A checkpoint's folder as files: its COMPLETE, and how one folder takes the place of another.
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

/// COMPLETE: a line `XXH3-64  bytes  name` for each file, their sum, and the hash of the lines before.
std::string formatComplete(const FileDigests& files);
/// Reads that back; anything else is an error that begins with COMPLETE.
Result<FileDigests> parseComplete(std::string_view text);

/// A temporary folder that is locked while its process lives and removed unless `commit` renames it.
class StagedFolder {
 public:
  /// `parent`/.tmp-NAME-PID; `parent` must exist.
  static Result<StagedFolder> create(const std::string& parent, const std::string& name);
  StagedFolder(StagedFolder&& other) noexcept;
  StagedFolder& operator=(StagedFolder&&) = delete;
  ~StagedFolder();

  const std::string& path() const { return path_; }
  /// Takes the name `parent`/NAME, exchanging what has it, and syncs. What had it is removed.
  Result<void> commit();

 private:
  StagedFolder() = default;
  std::string parent_, name_, path_;
  int lock_ = -1;
};

/// Keeps a folder's files while someone reads them: `removeFolder` passes over one that is held.
class FolderHold {
 public:
  /// Null where the folder is gone, or is being removed.
  static std::shared_ptr<const FolderHold> take(const std::string& path);
  FolderHold(const FolderHold&) = delete;
  FolderHold& operator=(const FolderHold&) = delete;
  ~FolderHold();

 private:
  explicit FolderHold(int descriptor) : descriptor_(descriptor) {}
  int descriptor_;
};

/// Removes a folder so that nobody sees a part of it under its name; one that is held stays.
Result<void> removeFolder(const std::string& parent, const std::string& name);
/// Removes the temporary folders in `parent` whose processes no longer live.
void removeStaleFolders(const std::string& parent);

}  // namespace tg
