// SPDX-License-Identifier: Apache-2.0
// What the drivers do when a pass of ours is wrong: it crashes, or leaves a broken module.
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "ir/parser.h"
#include "ir/verify.h"
#include "passes/pass_options.h"
#include "test/unit/temp_folder.h"
#include "tools/driver/bench_models.h"
#include "tools/driver/driver.h"
#include "tools/driver/expected.h"
#include "tools/driver/io.h"
#include "tools/main.h"

namespace tg {
namespace {

constexpr const char* kModule = "module @m {\n  func @f(%x: tensor<2xf32>) -> (y: tensor<2xf32>) {\n"
                                "    return %x : tensor<2xf32>\n  }\n}\n";

Result<void> runAborting(Module&, const NoOptions&, const PassContext&) { std::abort(); }
Result<void> runFaulting(Module&, const NoOptions&, const PassContext&) {
  std::raise(SIGSEGV);
  return {};
}
Result<void> runBreaking(Module& module, const NoOptions&, const PassContext&) {
  module.func("f")->body.ops.back()->operands.clear();
  return {};
}

/// A sum becomes a product.
Result<void> runMultiplying(Module& module, const NoOptions&, const PassContext&) {
  for (Op* op : module.func("f")->body.ops)
    if (op->code == Opcode::add) op->code = Opcode::mul;
  return {};
}

void addPass(const std::string& name, Result<void> (*run)(Module&, const NoOptions&, const PassContext&)) {
  if (findPass(name)) return;  // the death tests are a suite of their own
  ASSERT_TRUE(registerPass(
      {name, "", Stage::tensor, Stage::tensor, "A pass.", {}, passFactory<NoOptions>(name, run)}));
}

class DriverTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    testing::FLAGS_gtest_death_test_style = "threadsafe";
    addPass("t-abort", runAborting);
    addPass("t-fault", runFaulting);
    addPass("t-break", runBreaking);
    addPass("t-multiply", runMultiplying);
  }
  void SetUp() override {
    folder_ = std::filesystem::path(testing::TempDir()) /
              ("driver_" + std::string(testing::UnitTest::GetInstance()->current_test_info()->name()));
    std::filesystem::remove_all(folder_);  // a run that was killed leaves its files
    std::filesystem::create_directories(folder_);
    ASSERT_TRUE(writeOutput(path("in.tgir"), kModule));
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::string path(const char* name) const { return folder_ / name; }
  static int opt(std::vector<std::string> args) {
    args.insert(args.begin(), "tg-opt");
    std::vector<char*> argv;
    for (std::string& arg : args) argv.push_back(arg.data());
    return optMain(static_cast<int>(argv.size()), argv.data());
  }
  static std::string textOf(const std::string& path) {
    std::stringstream text;
    text << std::ifstream(path).rdbuf();
    return text.str();
  }
  std::filesystem::path folder_;
};
using DriverDeathTest = DriverTest;

TEST_F(DriverTest, ABrokenModuleLeavesAReproducerAndNoOutput) {
  EXPECT_EQ(
      opt({"--t-break", path("in.tgir"), "-o", path("out.tgir"), "--crash-reproducer=" + path("r.tgir")}), 1);
  EXPECT_FALSE(std::filesystem::exists(path("out.tgir")));
  EXPECT_EQ(textOf(path("r.tgir")),
            fmt::format("// Reproduce: tg-opt --pass-pipeline='t-break' THIS_FILE\n{}", kModule));
  EXPECT_EQ(opt({"--pass-pipeline=t-break", path("r.tgir"), "--crash-reproducer=none"}), 1);
}

TEST_F(DriverDeathTest, APassWithTheNameOfAFlagIsRefused) {
  EXPECT_EXIT((addPass("timing", runBreaking), std::exit(opt({path("in.tgir")}))), testing::ExitedWithCode(2),
              "tg-opt: error: --timing is a flag already: the pass that is registered by this name needs");
}

TEST_F(DriverTest, ExecEachCatchesAPassThatChangesWhatIsComputed) {
  const std::string module =
      "module @m {\n  func @f(%x: tensor<2xf32>) -> (y: tensor<2xf32>) {\n"
      "    %y = tg.add %x, %x : tensor<2xf32>\n    return %y : tensor<2xf32>\n  }\n}\n";
  ASSERT_TRUE(writeOutput(path("sum.tgir"), module));
  std::vector<std::string> args = {
      "tg-opt",         "--exec-each", "--cse",          "--t-multiply",
      path("sum.tgir"), "-o",          path("out.tgir"), "--crash-reproducer=" + path("r.tgir")};
  std::vector<char*> argv;
  for (std::string& arg : args) argv.push_back(arg.data());
  testing::internal::CaptureStderr();
  EXPECT_EQ(tgOptMain(static_cast<int>(argv.size()), argv.data()), 1);
  const std::string told = testing::internal::GetCapturedStderr();
  EXPECT_NE(told.find("pass t-multiply changed what the module computes"), std::string::npos) << told;
  EXPECT_NE(told.find("sum.tgir:2:3: note: @f: result y tensor<2xf32> differs: element"), std::string::npos)
      << told;
  EXPECT_FALSE(std::filesystem::exists(path("out.tgir")));
  EXPECT_EQ(textOf(path("r.tgir")),
            fmt::format("// Reproduce: tg-opt --pass-pipeline='t-multiply' THIS_FILE\n{}", module));
  args[3] = "--dce";
  argv[3] = args[3].data();
  EXPECT_EQ(tgOptMain(static_cast<int>(argv.size()), argv.data()), 0);
  EXPECT_EQ(opt({"--exec-each", path("sum.tgir")}), 2);  // without the hooks
}

TEST_F(DriverTest, AReproducerIsWrittenByDefaultAndCanBeRefused) {
  std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::current_path(folder_);
  auto count = [] {
    return std::distance(std::filesystem::directory_iterator("."), std::filesystem::directory_iterator());
  };
  EXPECT_EQ(opt({"--t-break", "in.tgir", "--crash-reproducer=none"}), 1);
  EXPECT_EQ(count(), 1);
  EXPECT_EQ(opt({"--t-break", "in.tgir"}), 1);
  EXPECT_EQ(count(), 2);
  std::filesystem::current_path(before);
}

// Killed by the signal; a sanitizer's own handler, which comes next, may end the process itself.
bool crashed(int status, int signal) {
  return testing::KilledBySignal(signal)(status) || (WIFEXITED(status) && WEXITSTATUS(status) != 0);
}

TEST_F(DriverDeathTest, ACrashSavesTheModuleAndStaysACrash) {
  for (auto crash : {std::pair("--t-abort", SIGABRT), std::pair("--t-fault", SIGSEGV)}) {
    const char* flag = crash.first;
    int signal = crash.second;
    EXPECT_EXIT(
        opt({flag, path("in.tgir"), "-o", path("out.tgir"), "--crash-reproducer=" + path("c.tgir")}),
        [signal](int status) { return crashed(status, signal); },
        "crashed: a bug in that pass, not in the input");
    EXPECT_FALSE(std::filesystem::exists(path("out.tgir")));
    EXPECT_EQ(textOf(path("c.tgir")),
              std::string("// Reproduce: tg-opt --pass-pipeline='") + (flag + 2) + "' THIS_FILE\n" + kModule);
    std::filesystem::remove(path("c.tgir"));
  }
}

TEST_F(DriverTest, OutputsReplaceWholeFilesAndKeepLinksAndModes) {
  ASSERT_TRUE(writeOutput(path("target"), "old"));
  std::filesystem::permissions(path("target"), std::filesystem::perms(0640));
  std::filesystem::create_symlink("target", path("link"));
  ASSERT_TRUE(writeOutput(path("link"), "new"));
  EXPECT_TRUE(std::filesystem::is_symlink(path("link")));
  EXPECT_EQ(textOf(path("target")), "new");
  EXPECT_EQ(std::filesystem::status(path("target")).permissions(), std::filesystem::perms(0640));
  EXPECT_FALSE(writeOutput(path("no/where"), "x"));
  EXPECT_FALSE(writeOutput(folder_, "x"));
}

Diagnostic at(Severity severity, uint32_t line, std::string message) {
  auto node = std::make_shared<LocNode>();
  node->file = std::make_shared<SourceFile>(SourceFile{"f", ""});
  node->line = line;
  node->col = 1;
  return {severity, node, std::move(message), {}};
}

TEST(Expected, PlacesCountFromTheExpectation) {
  std::string text =
      "// expected-error@below {{a}}\n// expected-remark@+1 {{b}}\nx // expected-warning {{c}}\ny\n"
      "// expected-error@above {{d}}\n// expected-error@unknown {{e}}\n";
  ExpectedDiagnostics expected(text, "f");
  // Line 3 holds an expectation itself, so the first one means line 4.
  expected.see(at(Severity::error, 4, "a!"));
  expected.see(at(Severity::remark, 3, "b"));
  expected.see(at(Severity::warning, 3, "c"));
  expected.see(at(Severity::error, 4, "d"));
  expected.see({Severity::error, nullptr, "e", {}});
  EXPECT_EQ(expected.mismatches(), "");
}

TEST(Expected, EachExpectationIsMetOnceAndOnlyByItsSeverityAndLine) {
  auto mismatches = [](const Diagnostic& diagnostic) {
    ExpectedDiagnostics expected("x // expected-error {{a}}\n", "f");
    expected.see(at(Severity::error, 1, "a"));
    expected.see(diagnostic);
    return expected.mismatches();
  };
  EXPECT_EQ(mismatches(at(Severity::note, 1, "a")), "");
  EXPECT_EQ(mismatches(at(Severity::error, 1, "a")), "f:1:1: error: unexpected error: a\n");
  EXPECT_EQ(mismatches(at(Severity::remark, 1, "a")), "f:1:1: error: unexpected remark: a\n");
  ExpectedDiagnostics wrong("x // expected-error {{a}}\n", "f");
  wrong.see(at(Severity::warning, 1, "a"));
  EXPECT_EQ(wrong.mismatches(), "f:1:1: error: unexpected warning: a\n"
                                "f:1: error: expected error on line 1 was not produced: a\n");
}

TEST(Expected, ProseIsNoExpectation) {
  EXPECT_EQ(ExpectedDiagnostics("// the expected-value of x\n", "f").mismatches(), "");
  EXPECT_NE(ExpectedDiagnostics("// expected-error@belo {{x}}\n", "f").mismatches(), "");
  EXPECT_NE(ExpectedDiagnostics("// expected-error {{x}\n", "f").mismatches(), "");
  EXPECT_NE(ExpectedDiagnostics("// expected-error@-5 {{x}}\n", "f").mismatches(), "");
}

TEST(UpdateOutput, LosesNoChangeOfManyAtOnce) {
  const TempFolder folder;
  const std::string path = folder.path("lines");
  constexpr int kWriters = 4, kTimes = 100;
  std::vector<std::thread> writers;
  for (int i = 0; i < kWriters; ++i)
    writers.emplace_back([&] {
      for (int k = 0; k < kTimes; ++k) {
        auto done = updateOutput(path, [](const std::optional<std::string>& held) -> Result<std::string> {
          return held.value_or("") + "x";
        });
        EXPECT_TRUE(done) << done.error().str();
      }
    });
  for (std::thread& writer : writers) writer.join();
  EXPECT_EQ(folder.slurp("lines").size(), size_t{kWriters * kTimes});
  EXPECT_EQ(folder.fileCount(), 1u);
}

TEST(UpdateOutput, LeavesTheFileWhereTheChangeFails) {
  const TempFolder folder;
  auto refuse = [](const std::optional<std::string>& held) -> Result<std::string> {
    return fail(held ? "it holds " + *held : "there is none");
  };
  EXPECT_EQ(updateOutput(folder.path("none"), refuse).error().message(), "there is none");
  EXPECT_EQ(folder.fileCount(), 0u);
  const std::string path = folder.put("some", "text");
  EXPECT_EQ(updateOutput(path, refuse).error().message(), "it holds text");
  EXPECT_EQ(folder.slurp("some"), "text");
}

TEST(BenchModels, AreModulesThatVerify) {
  for (const std::string& name : benchModelNames()) {
    auto made = benchModel(name);
    ASSERT_TRUE(made && *made) << name << ": " << (*made).error().str();
    EXPECT_TRUE(verify(***made)) << name;
  }
}

TEST(BenchModels, HaveTheParametersOfTheirShapes) {
  // By hand: a matrix for embedding, positions and each of a block's four layers, with biases; two norms.
  auto block = [](int64_t c) { return 12 * c * c + 9 * c + 2 * 2 * c; };
  const std::pair<const char*, int64_t> expected[] = {
      {"mlp", 64 + 64 + 64 * 64 + 64 + 64 + 1},
      {"cnn", 16 * 9 + 16 + 32 * 16 * 9 + 32 + 1568 * 10 + 10},
      {"gpt-nano", 65 * 64 + 64 * 64 + 2 * block(64) + 2 * 64 + 64 * 65},
      {"gpt-micro", 65 * 128 + 128 * 128 + 4 * block(128) + 2 * 128 + 128 * 65},
      {"gpt-char", 65 * 384 + 256 * 384 + 6 * block(384) + 2 * 384 + 384 * 65},
      {"gpt2-124m", 124'475'904},  // GPT-2's 124 439 808 and 47 more tokens
  };
  for (const auto& [name, parameters] : expected) {
    auto made = benchModel(name);
    ASSERT_TRUE(made && *made) << name;
    int64_t sum = 0;
    for (const Item* param : (**made)->all(ItemKind::param)) sum += param->type.elements();
    EXPECT_EQ(sum, parameters) << name;
  }
}

}  // namespace
}  // namespace tg
