// SPDX-License-Identifier: Apache-2.0
// Reads files that hold text: modules, targets, tuning files.
#pragma once

#include <string>

#include "ir/result.h"

namespace tg {

/// The content of a file. An error if it does not exist, cannot be read, is a folder, or contains a zero byte.
Result<std::string> readTextFile(const std::string& path);
/// The rest of an open file; `name` is for errors.
Result<std::string> readText(int file, const std::string& name);

}  // namespace tg
