// SPDX-License-Identifier: Apache-2.0
// A device of a test's own, as a file that a pass's option names.
#pragma once

#include <string>

#include "ir/target.h"
#include "test/unit/temp_folder.h"

namespace tg::test {

class TargetFile {
 public:
  explicit TargetFile(const Target& target) : path_(folder_.put("target.json", targetToJson(target))) {}
  const std::string& path() const { return path_; }

 private:
  TempFolder folder_;
  std::string path_;
};

}  // namespace tg::test
