// SPDX-License-Identifier: Apache-2.0
// The folder of compiled shaders: hits, damage, bounds, several writers.
#include "codegen/shader_cache.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <thread>

#include "codegen/shader.h"
#include "ir/file_io.h"
#include "test/unit/temp_folder.h"

namespace fs = std::filesystem;

namespace tg {
namespace {

using Words = std::vector<uint32_t>;

class ShaderCacheTest : public FolderTest {
 protected:
  fs::path file(const std::string& key) const { return folder_ / (key + ".spv"); }
  void makeOlder(const fs::path& path, int hours) {
    fs::last_write_time(path, fs::file_time_type::clock::now() - std::chrono::hours(hours));
  }
  void flipByte(const fs::path& path, std::streamoff at) {
    std::fstream stream(path, std::ios::in | std::ios::out | std::ios::binary);
    stream.seekg(at);
    char byte = static_cast<char>(stream.get() ^ 1);
    stream.seekp(at);
    stream.put(byte);
  }

  const fs::path folder_ = directory_;
};

TEST_F(ShaderCacheTest, GivesBackWhatWasStored) {
  ShaderCache cache(folder_);
  std::string key = ShaderCache::key("a"), other = ShaderCache::key("b");
  EXPECT_EQ(key.size(), 32u);
  EXPECT_NE(key, other);
  EXPECT_FALSE(cache.load(key));
  cache.store(key, {1, 2, 3});
  EXPECT_EQ(cache.load(key), Words({1, 2, 3}));
  EXPECT_EQ(ShaderCache(folder_).load(key), Words({1, 2, 3}));
  EXPECT_FALSE(cache.load(other));
  EXPECT_EQ(fileCount(), 1u) << "no temporary file is left";
}

TEST_F(ShaderCacheTest, DamagedEntriesAreReplaced) {
  ShaderCache cache(folder_);
  std::string key = ShaderCache::key("a");
  cache.store(key, {1, 2, 3});
  auto size = static_cast<std::streamoff>(fs::file_size(file(key)));
  for (std::streamoff at = 0; at < size; ++at) {
    flipByte(file(key), at);
    EXPECT_FALSE(cache.load(key)) << "byte " << at;
    cache.store(key, {1, 2, 3});
    EXPECT_TRUE(cache.load(key)) << "byte " << at;
  }
  for (std::streamoff left = 0; left < size; ++left) {
    fs::resize_file(file(key), static_cast<uintmax_t>(left));
    EXPECT_FALSE(cache.load(key)) << left << " bytes";
    cache.store(key, {1, 2, 3});
  }
  EXPECT_EQ(cache.load(key), Words({1, 2, 3}));
}

TEST_F(ShaderCacheTest, AnEntryUnderAnotherNameIsNone) {
  ShaderCache cache(folder_);
  std::string key = ShaderCache::key("a"), other = ShaderCache::key("b");
  cache.store(key, {1, 2, 3});
  fs::copy_file(file(key), file(other));
  EXPECT_FALSE(cache.load(other));
}

TEST_F(ShaderCacheTest, TrimsTheOldestToTheBound) {
  ShaderCache cache(folder_, 4096);
  std::vector<std::string> keys;
  for (int i = 0; i < 8; ++i) {
    keys.push_back(ShaderCache::key(std::to_string(i)));
    cache.store(keys.back(), Words(256, 7));  // 1024 bytes and a header
    makeOlder(file(keys.back()), 20 - i);
  }
  ASSERT_TRUE(cache.load(keys[0])) << "which makes it the newest";
  cache.trim();
  EXPECT_TRUE(cache.load(keys[0]));
  EXPECT_TRUE(cache.load(keys[7]));
  for (int i = 1; i < 7; ++i) EXPECT_FALSE(cache.load(keys[i])) << i;
}

TEST_F(ShaderCacheTest, TrimDropsWhatStoppedWritersLeft) {
  ShaderCache cache(folder_);
  const fs::path stale = folder_ / "a.spv.tmp.1.0", foreign = folder_ / "notes.txt";
  for (const fs::path& path : {stale, foreign}) std::ofstream(path) << "x";
  makeOlder(foreign, 2000);
  const auto fresh = AtomicFile::create(folder_ / "b.spv");
  ASSERT_TRUE(fresh);
  cache.trim();
  EXPECT_TRUE(fs::exists(stale)) << "nothing was stored, so nothing is looked at";
  cache.store(ShaderCache::key("a"), {1});
  cache.trim();
  EXPECT_FALSE(fs::exists(stale));
  EXPECT_TRUE(fs::exists(foreign));
  EXPECT_EQ(fileCount(), 3u) << "what is being written stays";
}

TEST_F(ShaderCacheTest, WritersDoNotDisturbReaders) {
  std::string key = ShaderCache::key("a");
  Words words(5000, 42);
  ShaderCache(folder_).store(key, words);
  std::vector<std::thread> threads;
  std::atomic<int> wrong = 0;
  for (int thread = 0; thread < 4; ++thread)
    threads.emplace_back([&] {
      ShaderCache cache(folder_);
      for (int i = 0; i < 50; ++i) {
        cache.store(key, words);
        if (cache.load(key) != words) ++wrong;
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(fileCount(), 1u);
}

TEST_F(ShaderCacheTest, WithoutAFolderNothingHappens) {
  ShaderCache none("");
  none.store(ShaderCache::key("a"), {1});
  EXPECT_FALSE(none.load(ShaderCache::key("a")));
  none.trim();
  std::ofstream(folder_ / "file") << "x";
  ShaderCache blocked(folder_ / "file" / "inside");
  blocked.store(ShaderCache::key("a"), {1});
  EXPECT_FALSE(blocked.load(ShaderCache::key("a")));
  blocked.trim();
}

// A marker in place of the code shows which call compiled and which did not.
TEST_F(ShaderCacheTest, TheKeyIsTheText) {
  GlslText glsl{"#version 450\nlayout(local_size_x = 1) in;\nvoid main() {}\n", {}, {}};
  ShaderCache cache(folder_);
  auto cold = compileGlsl(glsl, "k", &cache);
  ASSERT_TRUE(cold);
  EXPECT_EQ(*cold, *compileGlsl(glsl, "k")) << "with and without a cache";
  ASSERT_EQ(fileCount(), 1u);
  std::string key = fs::directory_iterator(folder_)->path().stem();
  cache.store(key, {1, 2, 3});
  EXPECT_EQ(*compileGlsl(glsl, "other", &cache), Words({1, 2, 3})) << "a hit, whatever the name";
  glsl.text += "\n";
  EXPECT_EQ(*compileGlsl(glsl, "k", &cache), *cold);
  EXPECT_EQ(fileCount(), 2u);
  flipByte(file(key), 30);
  glsl.text.pop_back();
  EXPECT_EQ(*compileGlsl(glsl, "k", &cache), *cold) << "a damaged entry is compiled again";
  EXPECT_EQ(cache.load(key), *cold) << "and replaced";
}

TEST_F(ShaderCacheTest, RefusedShadersAreNotStored) {
  GlslText glsl{"#version 450\nvoid main() { nothing; }\n", {}, {}};
  ShaderCache cache(folder_);
  EXPECT_FALSE(compileGlsl(glsl, "k", &cache));
  EXPECT_EQ(fileCount(), 0u);
}

}  // namespace
}  // namespace tg
