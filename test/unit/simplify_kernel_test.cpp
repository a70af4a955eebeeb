// SPDX-License-Identifier: Apache-2.0
// Canonicalisation of kernels: random kernels and those of the tests' texts compute the same bits before and
// after, under several schedules, without a finding that was not there.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "ir/kernel/rewrites.h"
#include "passes/kernel/simplify.h"
#include "test/unit/kernel_text.h"
#include "test/unit/random_kernel.h"

namespace tg::test {
namespace {

Item& kernelOf(const Module& module, const std::string& name = "k") {
  return *module.find(ItemKind::kernel, name);
}

/// Bytes for each parameter: the floats and integers that matter, in turn from another one for each
/// parameter.
Memory memoryFor(const Item& kernel) {
  const std::vector<float> floats = {0.3f,  0.0f,  -0.0f,  1.0f,     -1.5f, 3.7f,
                                     -2.2f, 1e30f, 1e-30f, INFINITY, NAN,   2.0f};
  const std::vector<uint32_t> integers = {5, 0, 1, 2, 3, 7, 31, 32, 33, 2147483647, 2147483648, 4294967295};
  Memory memory;
  for (const auto& param : kernel.body.args) {
    Type type = param->type;
    for (int axis = 0; axis < type.rank(); ++axis)
      if (type.shape[axis] == Shape::kDynamic) type.shape[axis] = 16;
    std::vector<uint32_t> words(static_cast<size_t>(type.elements() * type.lanes));
    bool filled = type.mode == BufMode::in || type.mode == BufMode::inout;
    for (size_t at = 0; filled && at < words.size(); ++at)
      words[at] = isFloat(type.dtype) ? std::bit_cast<uint32_t>(floats[(at + memory.size()) % floats.size()])
                                      : integers[at % integers.size()];
    memory.push_back(bytesOf(words));
  }
  return memory;
}

/// The memory's words, all NaNs of floats alike.
std::vector<std::vector<uint32_t>> wordsOf(const Item& kernel, const Memory& memory) {
  std::vector<std::vector<uint32_t>> out;
  for (size_t at = 0; at < memory.size(); ++at) {
    const Type& type = kernel.body.args[at]->type;
    out.push_back(type.mode == BufMode::tape ? std::vector<uint32_t>() : valuesOf<uint32_t>(memory[at]));
    if (!isFloat(type.dtype)) continue;
    for (uint32_t& word : out.back())
      if (std::isnan(std::bit_cast<float>(word))) word = 0x7fc00000;
  }
  return out;
}

int64_t findings(const KernelCounters& counters) {
  return counters.outOfRange + counters.races + counters.rewrites + counters.uninitialised;
}

/// What a kernel makes of one memory under a few schedules.
struct Runs {
  std::vector<KernelRunOptions> turns = {{LaneOrder::roundRobin, true, true},
                                         {LaneOrder::wholeLane, false, true},
                                         {LaneOrder::shuffled, false, true, 7}};
  Memory memory;
  std::vector<std::vector<std::vector<uint32_t>>> results;
  bool clean = true;  ///< without findings; of others nothing is promised

  explicit Runs(const Item& kernel) : memory(memoryFor(kernel)) {
    for (const KernelRunOptions& options : turns) {
      Memory copy = memory;
      clean = clean && findings(run(kernel, copy, options)) == 0;
      results.push_back(wordsOf(kernel, copy));
    }
  }
  /// Compares another form of the kernel under the first `count` schedules.
  void expectSame(const Item& kernel, const std::string& what, size_t count) const {
    for (size_t turn = 0; clean && turn < count; ++turn) {
      Memory copy = memory;
      KernelCounters counters = run(kernel, copy, turns[turn]);
      EXPECT_EQ(findings(counters), 0) << what << counters.findings.front() << print(kernel);
      EXPECT_EQ(wordsOf(kernel, copy), results[turn]) << what << print(kernel);
    }
  }
};

/// The kernel verifies, and its text reads back as it is.
void expectSound(const Module& module, const Item& kernel, const std::string& what) {
  auto checked = verifyKernel(kernel);
  ASSERT_TRUE(checked) << what << checked.error().str() << print(kernel);
  auto again = parse(print(module), "again.tgir");
  ASSERT_TRUE(again) << what << again.error().str();
  EXPECT_EQ(print(**again), print(module)) << what;
}

/// All checks of one kernel of a module; returns whether it ran without findings.
bool check(const Module& original, const std::string& name) {
  struct Part {
    const char* name;
    void (*run)(Item&);
  };
  static const Part kParts[] = {{"fold", foldConstants},
                                {"merge", mergeEqual},
                                {"dead", dropDead},
                                {"hoist", hoistInvariants},
                                {"reductions", recogniseReductions},
                                {"unroll", [](Item& kernel) { (void)unroll(kernel, 1); }},
                                {"all", simplifyKernel}};
  Runs runs(kernelOf(original, name));
  for (const Part& part : kParts) {
    auto after = clone(original);
    Item& kernel = kernelOf(*after, name);
    part.run(kernel);
    std::string what = std::string(part.name) + ": ";
    expectSound(*after, kernel, what);
    if (::testing::Test::HasFailure()) return false;
    bool all = part.run == simplifyKernel;
    runs.expectSame(kernel, what, all ? runs.turns.size() : 1);
    if (!all) continue;
    std::string once = print(kernel);
    part.run(kernel);
    EXPECT_EQ(print(kernel), once);
  }
  return runs.clean;
}

int64_t opsOf(const Item& kernel, Opcode code) {
  int64_t count = 0;
  walk(kernel.body, [&](Op& op) { count += op.code == code; });
  return count;
}

TEST(SimplifyKernel, RandomKernelsStayTheSame) {
  uint32_t clean = 0, reduced = 0, shorter = 0;
  const uint32_t kernelsMade = 60;
  for (uint32_t seed = 0; seed < kernelsMade; ++seed) {
    std::string text = randomKernel(seed);
    auto module = kernels(text);
    ASSERT_TRUE(module);
    verified(*module);
    clean += check(*module, "k");
    ASSERT_FALSE(HasFailure()) << "seed " << seed << "\n" << text;
    Item& kernel = kernelOf(*module);
    size_t size = print(kernel).size();
    int64_t reductions = opsOf(kernel, Opcode::k_workgroup_reduce);
    simplifyKernel(kernel);
    shorter += print(kernel).size() < size;
    reduced += opsOf(kernel, Opcode::k_workgroup_reduce) > reductions;
  }
  EXPECT_EQ(clean, kernelsMade);  // the generator writes no wrong kernel
  EXPECT_GT(shorter, kernelsMade * 9 / 10);
  EXPECT_GT(reduced, kernelsMade / 10);
}

TEST(SimplifyKernel, KernelsOfTheTextsStayTheSame) {
  int ran = 0;
  for (const auto& entry : std::filesystem::directory_iterator(TG_SOURCE_DIR "/test/passes")) {
    if (entry.path().filename().string().rfind("canonicalize-kernels", 0) != 0) continue;
    std::ifstream file(entry.path());
    std::stringstream text;
    text << file.rdbuf();
    auto module = parse(text.str(), entry.path().string());
    ASSERT_TRUE(module) << module.error().str();
    for (const Item* kernel : (*module)->all(ItemKind::kernel)) {
      ran += check(**module, kernel->name);
      ASSERT_FALSE(HasFailure()) << entry.path() << " @" << kernel->name;
    }
  }
  EXPECT_GE(ran, 20);
}

/// A kernel that applies each op to every pair of a literal and a loaded value, either way round, and to
/// every pair of literals.
std::string literalKernel(const std::string& type, const std::vector<std::string>& ops,
                          const std::vector<std::string>& literals) {
  std::string body;
  int rows = 0;
  auto row = [&](const std::string& op, const std::string& a, const std::string& b) {
    body += fmt::format("    %r{0} = tgk.{1} {2}, {3} : {4}\n    tgk.store %r{0}, %o[{0}, %i]\n", rows, op, a,
                        b, type);
    ++rows;
  };
  for (const std::string& op : ops) {
    row(op, "%v", "%v");
    for (const std::string& a : literals) {
      row(op, a, "%v");
      row(op, "%v", a);
      for (const std::string& b : literals) row(op, a, b);
    }
  }
  return fmt::format("  kernel @k(%x: buf<16x{0}, in>, %o: buf<{1}x16x{0}, out>) workgroup(16) grid(1) {{\n"
                     "    %i = tgk.local_id 0 : u32\n    %v = tgk.load %x[%i] : {0}\n{2}  }}",
                     type, rows, body);
}

TEST(SimplifyKernel, EveryOpWithEveryLiteral) {
  const std::string texts[] = {
      literalKernel("f32", {"add", "sub", "mul", "div", "min", "max"},
                    {"0.0", "-0.0", "1.0", "-1.5", "inf", "1e-40", "0.1"}),
      literalKernel("u32",
                    {"add", "sub", "mul", "div", "mod", "mulhi", "min", "max", "and", "or", "xor", "shl",
                     "shr", "rotl", "rotr", "add_sat", "sub_sat", "mul_sat", "abs_diff"},
                    {"0", "1", "3", "32", "2147483648", "4294967295"}),
      literalKernel("i32",
                    {"add", "sub", "mul", "div", "mod", "min", "max", "and", "or", "xor", "shl", "shr"},
                    {"0", "1", "-1", "-7", "-2147483648", "2147483647"})};
  for (const std::string& text : texts) {
    auto module = kernels(text);
    ASSERT_TRUE(module);
    Runs runs(verified(*module));
    Item& kernel = kernelOf(*module);
    foldConstants(kernel);
    runs.expectSame(verified(*module), "fold: ", 1);
    simplifyKernel(kernel);
    runs.expectSame(verified(*module), "all: ", 1);
    EXPECT_TRUE(runs.clean);
  }
}

TEST(SimplifyKernel, UnusedParametersGo) {
  auto module =
      kernels(R"(kernel @k(%x: buf<8xf32, in>, %t: buf<8xf32, tape>, %y: buf<8xf32, in>, %o: buf<8xf32, out>)
      workgroup(8) grid(1) {
    %i = tgk.global_id 0 : u32
    %v = tgk.load %x[%i] : f32
    tgk.store %v, %t[%i]
    tgk.store %v, %o[%i]
  })");
  Item& kernel = kernelOf(*module);
  simplifyKernel(kernel);
  EXPECT_EQ(kernel.body.args.size(), 4u);
  EXPECT_EQ(dropUnusedParams(kernel, {false, false, true, false}),
            (std::vector<bool>{true, false, true, true}));
  ASSERT_EQ(kernel.body.args.size(), 3u);
  EXPECT_EQ(kernel.body.args[1]->name, "y");
  verified(*module);
}

}  // namespace
}  // namespace tg::test
