// SPDX-License-Identifier: Apache-2.0
// A file is a Header and the SPIR-V words. Its modification time is that of the last use, to an hour.
#include "codegen/shader_cache.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace fs = std::filesystem;

namespace tg {
namespace {

constexpr char kMagic[8] = {'t', 'g', 's', 'p', 'i', 'r', 'v', '1'};
constexpr const char* kEnding = ".spv";

struct Header {
  char magic[8];
  uint64_t bytes;
  uint64_t checksum;
};

/// The checksum covers the code and its key, so that a file under another's name counts as no entry.
uint64_t checksum(const std::string& key, const std::vector<uint32_t>& words) {
  return XXH3_64bits_withSeed(words.data(), words.size() * sizeof(uint32_t),
                              XXH3_64bits(key.data(), key.size()));
}

using Clock = fs::file_time_type::clock;
/// How often an entry's time is renewed, and the age at which a temporary file counts as abandoned.
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
  std::string file = path(key);
  std::error_code ignored;
  if (!fs::is_regular_file(file, ignored)) return {};  // to open a pipe would wait for a writer
  std::ifstream in(file, std::ios::binary | std::ios::ate);
  if (!in) return {};
  auto size = static_cast<uint64_t>(in.tellg());
  Header header;
  if (size < sizeof header || (size - sizeof header) % sizeof(uint32_t)) return {};
  in.seekg(0);
  in.read(reinterpret_cast<char*>(&header), sizeof header);
  if (std::memcmp(header.magic, kMagic, sizeof kMagic) || header.bytes != size - sizeof header) return {};
  std::vector<uint32_t> words(header.bytes / sizeof(uint32_t));
  in.read(reinterpret_cast<char*>(words.data()), static_cast<std::streamsize>(header.bytes));
  if (!in || checksum(key, words) != header.checksum) return {};
  auto now = Clock::now();
  if (fs::last_write_time(file, ignored) + kHour < now) fs::last_write_time(file, now, ignored);
  return words;
}

void ShaderCache::store(const std::string& key, const std::vector<uint32_t>& words) {
  if (folder_.empty()) return;
  grew_ = true;
  std::error_code error;
  fs::create_directories(folder_, error);
  if (error) return;
  Header header{{}, words.size() * sizeof(uint32_t), checksum(key, words)};
  std::memcpy(header.magic, kMagic, sizeof kMagic);
  static std::atomic<int> serial{0};
  std::string temporary = fmt::format("{}/{}.{}.{}.tmp", folder_, key, getpid(), serial++);
  std::ofstream out(temporary, std::ios::binary);
  out.write(reinterpret_cast<const char*>(&header), sizeof header);
  out.write(reinterpret_cast<const char*>(words.data()), static_cast<std::streamsize>(header.bytes));
  out.close();
  if (out) fs::rename(temporary, path(key), error);
  if (!out || error) fs::remove(temporary, error);
}

void ShaderCache::trim() {
  if (!grew_.exchange(false)) return;
  std::error_code error;
  std::vector<Entry> entries;
  uint64_t bytes = 0;
  auto now = Clock::now();
  for (fs::directory_iterator at(folder_, error), end; !error && at != end; at.increment(error)) {
    std::error_code gone;
    Entry entry{at->path(), at->file_size(gone), at->last_write_time(gone)};
    if (gone) continue;
    if (entry.path.extension() == ".tmp" && entry.used + kHour < now) fs::remove(entry.path, gone);
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
