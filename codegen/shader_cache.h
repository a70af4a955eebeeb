// SPDX-License-Identifier: Apache-2.0
// A cache of compiled shaders on disk.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tg {

/// A folder with a file for each shader, named by the 128-bit hash of all that its code depends on. A truncated,
/// damaged or foreign file counts as no entry, and the next `store` replaces it. Files are written under a
/// temporary name and renamed, so threads and processes may share a folder. No function fails: without the cache,
/// compiling takes longer.
class ShaderCache {
 public:
  static constexpr uint64_t kDefaultBytes = uint64_t(256) << 20;

  /// The folder is made when something is stored; "" is a cache that holds nothing. `mostBytes` is the size that
  /// `trim` allows.
  explicit ShaderCache(std::string folder, uint64_t mostBytes = kDefaultBytes)
      : folder_(std::move(folder)), mostBytes_(mostBytes) {}

  /// The key of a content: its hash as 32 hexadecimal digits.
  static std::string key(std::string_view content);
  std::optional<std::vector<uint32_t>> load(const std::string& key) const;
  void store(const std::string& key, const std::vector<uint32_t>& words);
  /// If something was stored since the last call and the cache exceeds its size, removes the entries used longest
  /// ago until it has three quarters of the size. Also removes temporary files that interrupted writers left
  /// behind.
  void trim();

 private:
  std::string path(const std::string& key) const;
  std::string folder_;
  uint64_t mostBytes_;
  std::atomic<bool> grew_ = false;
};

}  // namespace tg
