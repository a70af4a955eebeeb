// SPDX-License-Identifier: Apache-2.0
// Files that hold text: modules, targets, tuning files.
#pragma once

#include <string>

#include "ir/result.h"

namespace tg {

/// All of a file. An error says which: one that is not there or cannot be read, a folder, one with a byte of zero.
Result<std::string> readTextFile(const std::string& path);
/// All that an open file has left; `name` is for errors.
Result<std::string> readText(int file, const std::string& name);

}  // namespace tg
