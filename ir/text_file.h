// SPDX-License-Identifier: Apache-2.0
// Reads files that hold text (modules, targets, tuning files), and writes to descriptors.
#pragma once

#include <string>
#include <string_view>

#include "ir/result.h"

namespace tg {

/// The content of a file. An error if it does not exist, cannot be read, is a folder, or contains a zero byte.
Result<std::string> readTextFile(const std::string& path);
/// The rest of an open file; `name` is for errors.
Result<std::string> readText(int file, const std::string& name);

/// Writes a whole text to a descriptor. False, with errno, if that fails. Safe in a signal handler.
bool writeAll(int file, std::string_view text);
/// Whether the open file is the one that the path names now, so that it was not replaced, moved or removed.
bool isFileAt(int file, const std::string& path);

}  // namespace tg
