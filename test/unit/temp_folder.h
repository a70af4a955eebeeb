// SPDX-License-Identifier: Apache-2.0
// A folder of a test's own. Tests run in parallel: a file of a fixed name may be read by one while another writes it.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <system_error>

namespace tg {

/// A new folder, removed with all it holds at the end of this object's life. Throws std::system_error where none can
/// be made.
class TempFolder {
 public:
  TempFolder() : directory_(testing::TempDir() + "/tg_test_XXXXXX") {
    if (!mkdtemp(directory_.data())) throw std::system_error(errno, std::generic_category(), directory_);
  }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;
  ~TempFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(directory_, ignored);
  }

  std::string path(const std::string& name) const { return directory_ + "/" + name; }
  /// Writes a file; returns its path.
  std::string put(const std::string& name, const std::string& bytes) const {
    std::ofstream(path(name), std::ios::binary) << bytes;
    return path(name);
  }
  std::string slurp(const std::string& name) const {
    std::ifstream file(path(name), std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  size_t fileCount() const {
    const std::filesystem::directory_iterator files(directory_);
    return static_cast<size_t>(std::distance(begin(files), end(files)));
  }

 protected:
  std::string directory_;
};

/// A fixture each of whose tests has a folder.
class FolderTest : public testing::Test, protected TempFolder {};

}  // namespace tg
