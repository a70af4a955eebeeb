// SPDX-License-Identifier: Apache-2.0
// Compiled shaders on disk, by what they are compiled from.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tg {

/// A folder with a file for each shader, named by the 128-bit hash of all that its code depends on. A file
/// that is torn, damaged or of another form is no entry, and the next `store` replaces it. Files are written
/// aside and renamed, so threads and processes may share a folder. Losing it costs time and nothing else:
/// nothing here fails.
class ShaderCache {
 public:
  static constexpr uint64_t kDefaultBytes = uint64_t(256) << 20;

  /// The folder is made when something is stored; "" is a cache that holds nothing. `mostBytes` is what
  /// `trim` leaves.
  explicit ShaderCache(std::string folder, uint64_t mostBytes = kDefaultBytes)
      : folder_(std::move(folder)), mostBytes_(mostBytes) {}

  /// 32 hexadecimal digits.
  static std::string key(std::string_view content);
  std::optional<std::vector<uint32_t>> load(const std::string& key) const;
  void store(const std::string& key, const std::vector<uint32_t>& words);
  /// When something was stored: drops entries used longest ago until three quarters of the bound are left,
  /// should they exceed it, and what writers that were stopped left behind.
  void trim();

 private:
  std::string path(const std::string& key) const;
  std::string folder_;
  uint64_t mostBytes_;
  std::atomic<bool> grew_ = false;
};

}  // namespace tg
