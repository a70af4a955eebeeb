// SPDX-License-Identifier: Apache-2.0
// config.toml: what is written is what is read, and any bytes are read or refused.
#include <gtest/gtest.h>

#include <filesystem>
#include <random>

#include <CLI/CLI.hpp>

#include "runtime/train/run_files.h"
#include "tools/driver/run_config.h"

namespace tg {
namespace {

using namespace std::literals;

constexpr const char* kModel = "/runs/a/model.tgir";

/// The configuration of a command with a module on standard input and one option.
std::string textOf(const std::string& value) {
  CLI::App app;
  std::string into, file;
  app.add_option("FILE", file);
  app.add_option("--text", into);
  app.parse(std::vector<std::string>{"--text=" + value});
  return configText(app, kModel);
}

std::string randomText(std::mt19937& random) {
  static constexpr std::string_view often = "\"'#\\\n\t[],= =aZ09.-\r\0\x7f\xc3\xa9"sv;
  std::string text;
  for (size_t size = random() % 12; text.size() < size;)
    text += random() % 4 ? often[random() % often.size()] : static_cast<char>(random() % 256);
  return text;
}

TEST(RunConfig, EveryValueComesBack) {
  std::mt19937 random(1);
  std::vector<std::string> values = {"true", "1e3",   "-0.5", "007", "0x10", "nan",
                                     "inf",  "1e400", "a b",  "'",   "\\"};
  for (int i = 0; i < 3000; ++i) values.push_back(randomText(random));
  for (const std::string& value : values) {
    if (value.empty()) continue;  // CLI11 takes no empty word from a list
    const std::string text = textOf(value);
    auto entries = parseConfig(text, "config.toml");
    ASSERT_TRUE(entries) << text << entries.error().message();
    ASSERT_EQ(entries->size(), 2u) << text;
    EXPECT_EQ((*entries)[0].values, std::vector<std::string>{kModel});
    EXPECT_EQ((*entries)[1].values, std::vector<std::string>{value}) << text;
  }
}

TEST(RunConfig, TomlOfOthersIsRead) {
  auto entries = parseConfig("# a comment\n\n steps = 200 # behind\r\ndevice=cpu\n\"lr\" = 1e-3\nset = [ "
                             "'a\\b', \"c\\u00e9\",\n  \"d\" ]\n",
                             "c");
  ASSERT_TRUE(entries) << entries.error().message();
  ASSERT_EQ(entries->size(), 4u);
  EXPECT_EQ((*entries)[0].values, std::vector<std::string>{"200"});
  EXPECT_EQ((*entries)[1].values, std::vector<std::string>{"cpu"});
  EXPECT_EQ((*entries)[2].key, "lr");
  EXPECT_EQ((*entries)[3].values, (std::vector<std::string>{"a\\b", "c\xc3\xa9", "d"}));
  EXPECT_EQ((*entries)[3].line, 6);
  // As some editors begin a file.
  auto marked = parseConfig("\xef\xbb\xbfsteps = 200\r\n", "c");
  ASSERT_TRUE(marked) << marked.error().message();
  EXPECT_EQ(marked->front().key, "steps");
}

TEST(RunConfig, AnyBytesAreReadOrRefused) {
  std::mt19937 random(2);
  for (int i = 0; i < 20000; ++i) {
    const std::string text = (random() % 2 ? "a=" : "") + randomText(random) + randomText(random);
    auto entries = parseConfig(text, "c");
    EXPECT_TRUE(entries || entries.error().message().starts_with("c:")) << text;
  }
}

TEST(RunConfig, TheFirstLineTellsAChange) {
  const RunHashes hashes{"0123456789abcdef", "fedcba9876543210"};
  const std::string whole = formatConfig(hashes, "steps=200\nseed=7\n");
  auto read = configHashes(whole, "c");
  ASSERT_TRUE(read && *read);
  EXPECT_EQ((*read)->model, hashes.model);
  EXPECT_EQ((*read)->module, hashes.module);
  for (size_t at = 0; at < whole.size(); ++at) {
    std::string changed = whole;
    changed[at] ^= 1;
    auto refused = configHashes(changed, "c");
    // A change of the words before the hashes makes it a comment, and changes no option.
    EXPECT_TRUE(!refused || (at < 7 && !*refused)) << at;
    auto cut = configHashes(whole.substr(0, at), "c");
    EXPECT_FALSE(cut) << at;
  }
  EXPECT_TRUE(configHashes("steps=200\n", "c")) << "someone took the line away";
}

TEST(RunConfig, PathsMeanTheSameInAnyFolder) {
  const std::string here = std::filesystem::current_path().string() + "/";
  EXPECT_EQ(fromAnyFolder("out", "a/../b"), here + "b");
  EXPECT_EQ(fromAnyFolder("out", "/b"), "/b");
  EXPECT_EQ(fromAnyFolder("data", "val=x=@x.npy,%y=?x2xf32=@d/y.bin/255,z=[1,2],w=rand(3,4)"),
            "val=x=@" + here + "x.npy,%y=?x2xf32=@" + here + "d/y.bin/255,z=[1,2],w=rand(3,4)");
  EXPECT_EQ(fromAnyFolder("data", "text:a,b.txt"), "text:" + here + "a,b.txt");
  EXPECT_EQ(fromAnyFolder("data", "x=@a,b.npy,y=[1,2],z=@/c,d.npy"),
            "x=@" + here + "a,b.npy,y=[1,2],z=@/c,d.npy");
  EXPECT_EQ(fromAnyFolder("data", "train=tokens:a.bin,/s/*.bin"), "train=tokens:" + here + "a.bin,/s/*.bin");
  EXPECT_EQ(fromAnyFolder("target", "vulkan-min"), "vulkan-min");
  EXPECT_EQ(fromAnyFolder("target", "t.json"), here + "t.json");
  EXPECT_EQ(fromAnyFolder("tuning", "auto"), "auto");
  EXPECT_EQ(fromAnyFolder("FILE", "-"), "-");
  EXPECT_EQ(fromAnyFolder("load-pass-plugin", "p.so"), here + "p.so");
  EXPECT_EQ(fromAnyFolder("lr", "1e-3"), "1e-3");
}

}  // namespace
}  // namespace tg
