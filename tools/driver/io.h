// SPDX-License-Identifier: Apache-2.0
// File input and output of the tools: inputs are read whole, outputs are written atomically.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ir/result.h"

namespace tg {

/// The text of a file, or of standard input for "-". A directory, a missing file and binary data are errors.
Result<std::string> readInput(const std::string& path);
/// Writes to a temporary file beside `path` and renames it; "-" means standard output. If `path` exists and is not a
/// regular file (a pipe, /dev/null), it is written directly.
Result<void> writeOutput(const std::string& path, const std::string& text);
/// Replaces the text of a file by the result of `change`, which gets the current text, or nothing if there is no file.
/// Concurrent processes take turns, so that no change is lost. After an error of `change` the file is unchanged.
using ChangeText = std::function<Result<std::string>(const std::optional<std::string>& held)>;
Result<void> updateOutput(const std::string& path, const ChangeText& change);

/// An error if no file can be written under this name: it is a folder, its folder does not exist, or there is no
/// permission. "" and "-" are allowed. Call it before the work whose result would be lost.
Result<void> mayWrite(const std::string& flag, const std::string& path);
/// The same for a folder that exists, or that will be created together with its parents.
Result<void> mayMakeFolder(const std::string& flag, const std::string& path);

/// An error if writing `path` would overwrite one of the files in `read` (also under another name), or a file whose
/// beginning `begins` does not accept. The error names `flag`.
Result<void> notOverOther(const std::string& flag, const std::string& path, bool (*begins)(std::string_view),
                          const std::vector<std::string>& read);
/// An output file that a flag names.
struct OutputFile {
  std::string flag, path;
};
/// An error if two outputs are the same file (also under different names), since one would be lost. Pipes and devices
/// may be named twice.
Result<void> notOneFile(const std::vector<OutputFile>& outputs);
/// The first bytes of a file, at most `most`; none if it cannot be read.
std::string beginningOf(const std::string& path, size_t most);
/// Whether a file that begins with these bytes is text.
bool beginsText(std::string_view bytes);

}  // namespace tg
