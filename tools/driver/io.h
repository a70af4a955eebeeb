// SPDX-License-Identifier: Apache-2.0
// Files of the tools: inputs read whole, outputs written whole or not at all.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ir/result.h"

namespace tg {

/// The text of a file, or of standard input for "-". A directory, a missing file and binary data are
/// errors that say so.
Result<std::string> readInput(const std::string& path);
/// Writes to a temporary file beside `path` and renames it; "-" is standard output. What is there and
/// is no regular file (a pipe, /dev/null) is written to directly.
Result<void> writeOutput(const std::string& path, const std::string& text);
/// Replaces a file by what `change` makes of its text, nothing where there is none. Processes that do so at once take
/// turns, so that each one's change is in what is left. After an error of `change` the file is as it was.
using ChangeText = std::function<Result<std::string>(const std::optional<std::string>& held)>;
Result<void> updateOutput(const std::string& path, const ChangeText& change);

/// An error where no file can be written under this name: it is a folder, there is no folder for it, one may
/// not write there. "" and "-" are fine. Asked before the work whose result would be lost.
Result<void> mayWrite(const std::string& flag, const std::string& path);
/// The same for a folder that is there or will be made with those above it.
Result<void> mayMakeFolder(const std::string& flag, const std::string& path);

/// An error where what is written to `path` would take the place of one of the files `read`, by any name, or of one
/// that does not begin as `begins` tells. The error names `flag`.
Result<void> notOverOther(const std::string& flag, const std::string& path, bool (*begins)(std::string_view),
                          const std::vector<std::string>& read);
/// What a flag names to be written.
struct OutputFile {
  std::string flag, path;
};
/// An error where two of these outputs are one file, by any name: one of them would be lost. Pipes and devices take both.
Result<void> notOneFile(const std::vector<OutputFile>& outputs);
/// Whether these bytes begin a text.
bool beginsText(std::string_view bytes);

/// Writes all of a text to a descriptor; false, with errno, when that fails. Safe in a signal handler.
bool writeAll(int file, std::string_view text);

}  // namespace tg
