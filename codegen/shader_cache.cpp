// SPDX-License-Identifier: Apache-2.0
// An entry is a sealed file of SPIR-V words. Its modification time is that of the last use, to an hour.
#include "codegen/shader_cache.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <span>

#include <fmt/format.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "ir/file_io.h"

namespace fs = std::filesystem;

namespace tg {
namespace {

constexpr std::string_view kMagic = "tgspirv2";
constexpr const char* kEnding = ".spv";

using Clock = fs::file_time_type::clock;
/// How often an entry's time is renewed.
constexpr auto kHour = std::chrono::hours(1);

struct Entry {
  fs::path path;
  uint64_t bytes;
  fs::file_time_type used;
};

}  // namespace

std::string ShaderCache::key(std::string_view content) {
  XXH128_hash_t hash = XXH3_128bits(content.data(), content.size());
  return fmt::format("{:016x}{:016x}", hash.high64, hash.low64);
}

std::string ShaderCache::path(const std::string& key) const { return folder_ + "/" + key + kEnding; }

std::optional<std::vector<uint32_t>> ShaderCache::load(const std::string& key) const {
  if (folder_.empty()) return {};
  const std::string file = path(key);
  const std::vector<std::byte> bytes = readSealed(file, {kMagic, key});
  if (bytes.empty() || bytes.size() % sizeof(uint32_t) != 0) return {};
  std::vector<uint32_t> words(bytes.size() / sizeof(uint32_t));
  std::memcpy(words.data(), bytes.data(), bytes.size());
  std::error_code ignored;
  auto now = Clock::now();
  if (fs::last_write_time(file, ignored) + kHour < now) fs::last_write_time(file, now, ignored);
  return words;
}

void ShaderCache::store(const std::string& key, const std::vector<uint32_t>& words) {
  if (folder_.empty()) return;
  grew_ = true;
  if (makeFolder(folder_)) (void)writeSealed(path(key), {kMagic, key}, std::as_bytes(std::span(words)));
}

void ShaderCache::trim() {
  if (!grew_.exchange(false)) return;
  removeStaleFiles(folder_);
  std::error_code error;
  std::vector<Entry> entries;
  uint64_t bytes = 0;
  for (fs::directory_iterator at(folder_, error), end; !error && at != end; at.increment(error)) {
    std::error_code gone;
    Entry entry{at->path(), at->file_size(gone), at->last_write_time(gone)};
    if (gone) continue;
    if (entry.path.extension() != kEnding) continue;
    bytes += entry.bytes;
    entries.push_back(std::move(entry));
  }
  if (bytes <= mostBytes_) return;
  std::ranges::sort(entries, {}, &Entry::used);
  for (const Entry& entry : entries) {
    if (bytes <= mostBytes_ / 4 * 3) break;
    fs::remove(entry.path, error);
    bytes -= entry.bytes;
  }
}

}  // namespace tg
