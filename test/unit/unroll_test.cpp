// SPDX-License-Identifier: Apache-2.0
// Loops that drivers end too soon: how often they run, and the same results with longer bodies. Random
// kernels are unrolled in simplify_kernel_test.cpp.
#include "ir/kernel/rewrites.h"

#include <algorithm>
#include <functional>

#include <fmt/format.h>

#include "test/unit/kernel_text.h"

namespace tg::test {
namespace {

constexpr const char* kFrame = R"(
  kernel @k(%x: buf<16xu32, in>, %o: buf<16xu32, out>) workgroup(16) grid(1) {{
    %i = tgk.global_id 0 : u32
    %v = tgk.load %x[%i] : u32
{}
    tgk.store %r, %o[%i]
  }}
)";

struct Case {
  const char* name;
  const char* body;
  int64_t iterations;
};

// Iterations counted by hand, and one for the end of each loop.
const Case kCases[] = {
    {"one", R"(
    %r = tgk.for %k = 0 to(1000) iter_args(%acc = 0) : u32 {
      %s = tgk.mul %acc, 3 : u32
      %t = tgk.add %s, %k : u32
      tgk.yield %t : u32
    })",
     1000 + 1},
    {"steps", R"(
    %r = tgk.for %k = 7 to(1000) step(3) iter_args(%acc = %v) : u32 {
      %s = tgk.mul %acc, 5 : u32
      %t = tgk.add %s, %k : u32
      tgk.yield %t : u32
    })",
     331 + 1},
    {"nested", R"(
    %r = tgk.for %k = 0 to(17) iter_args(%acc = %v) : u32 {
      %u = tgk.for %j = 2 to(13) iter_args(%inner = %acc) : u32 {
        %s = tgk.mul %inner, 7 : u32
        %t = tgk.add %s, %j : u32
        tgk.yield %t : u32
      }
      %w = tgk.add %u, %k : u32
      tgk.yield %w : u32
    })",
     17 * (1 + 11 + 1) + 1},
    {"neighbours, one of them in a branch", R"(
    %c = tgk.lt %v, 5 : bool
    %a = tgk.if %c : u32 {
      %b = tgk.for %k = 0 to(50) iter_args(%acc = 1) : u32 {
        %s = tgk.mul %acc, 3 : u32
        tgk.yield %s : u32
      }
      tgk.yield %b : u32
    } else {
      tgk.yield %v : u32
    }
    %r = tgk.for %k = 0 to(60) iter_args(%acc = %a) : u32 {
      %s = tgk.add %acc, %k : u32
      tgk.yield %s : u32
    })",
     50 + 1 + 60 + 1},
    {"two values that change places, one a literal", R"(
    %p, %r = tgk.for %k = 0 to(101) iter_args(%a = 0, %b = %v) : u32, u32 {
      %s = tgk.add %a, %k : u32
      tgk.yield %b, %s : u32, u32
    })",
     101 + 1},
    {"yields a literal", R"(
    %r = tgk.for %k = 0 to(9) iter_args(%a = %v) : u32 {
      %s = tgk.add %a, %k : u32
      tgk.store %s, %o[%i]
      tgk.yield 4 : u32
    })",
     9 + 1},
    {"none", R"(
    %r = tgk.for %k = 8 to(8) iter_args(%a = %v) : u32 {
      tgk.yield %k : u32
    })",
     1},
    {"to the place of the invocation", R"(
    %e = tgk.mul %i, 4 : u32
    %r = tgk.for %k = 0 to(%e) iter_args(%a = %v) : u32 {
      %b = tgk.for %j = 0 to(10) iter_args(%c = %a) : u32 {
        %s = tgk.add %c, %j : u32
        tgk.yield %s : u32
      }
      tgk.yield %b : u32
    })",
     60 * (1 + 10 + 1) + 1},
};

class Unroll : public ::testing::TestWithParam<Case> {};

TEST_P(Unroll, LeavesTheResults) {
  const Case& test = GetParam();
  auto module = kernels(fmt::format(kFrame, test.body));
  ASSERT_TRUE(module);
  EXPECT_EQ(loopIterations(verified(*module)), test.iterations);
  Memory memory{bytesOf(std::vector<uint32_t>{5, 0, 1, 2, 3, 7, 31, 32, 33, 9, 8, 4294967295, 4, 11, 12, 13}),
                bytesOf(std::vector<uint32_t>(16))};
  Memory expected = memory;
  run(verified(*module), expected, {.checks = false});
  for (const int64_t most : {int64_t{100}, int64_t{70}, int64_t{7}}) {
    auto copy = clone(*module);
    Item& kernel = *copy->find(ItemKind::kernel, "k");
    auto done = unroll(kernel, most);
    // The loop that ends at an invocation's place keeps its 60 iterations.
    const bool possible = test.iterations < 600 || most > 60 || test.iterations == 1001;
    ASSERT_TRUE(done) << test.name << " " << most;
    EXPECT_EQ(*done, possible) << test.name << " " << most;
    EXPECT_EQ(loopIterations(kernel) <= most, possible) << test.name << " " << most;
    verified(*copy);
    Memory got = memory;
    run(kernel, got, {.checks = false});
    EXPECT_EQ(got, expected) << test.name << " " << most << print(kernel);
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, Unroll, ::testing::ValuesIn(kCases),
                         [](const auto& info) { return std::to_string(info.index); });

// The loops of 20 invocations, each with its number of trips. The four lanes that fill up the last vector of 8 are run as
// invocations of a larger workgroup: they make no more trips than the others.
TEST(ClampLoops, EndsLanesWithoutAnInvocation) {
  struct Loop {
    const char* range;
    std::function<int64_t(int64_t)> trips;
  };
  const Loop loops[] = {
      {"0 to(%to)", [](int64_t i) { return 20 - i; }},
      {"%i to(20)", [](int64_t i) { return 20 - i; }},
      {"%i to(%to) step(3)", [](int64_t i) { return i < 10 ? (20 - 2 * i + 2) / 3 : 0; }},
      {"%top to(4294967295)", [](int64_t i) { return i; }},
      {"%i to(30) step(%next)", [](int64_t i) { return 30 / (i + 1); }},
  };
  for (const Loop& loop : loops) {
    auto module = kernels(fmt::format(R"(
  kernel @k(%o: buf<24xu32, out>) workgroup(20) grid(1) {{
    %i = tgk.local_id 0 : u32
    %to = 20 - %i : u32
    %top = 4294967295 - %i : u32
    %next = %i + 1 : u32
    %r = tgk.for %k = {} iter_args(%n = 0) : u32 {{
      tgk.yield %n + 1 : u32
    }}
    tgk.store %r, %o[%i]
  }})",
                                      loop.range));
    ASSERT_TRUE(module);
    Item& kernel = *module->find(ItemKind::kernel, "k");
    const std::string before = print(kernel);
    clampLoops(kernel, 4);
    EXPECT_EQ(print(kernel), before) << "no lane is without an invocation";
    clampLoops(kernel, 8);
    EXPECT_NE(print(kernel), before);
    verified(*module);
    kernel.workgroup[0] = 24;
    Memory memory{bytesOf(std::vector<uint32_t>(24))};
    run(kernel, memory, {.checks = false});
    const auto got = valuesOf<uint32_t>(memory[0]);
    int64_t most = 0;
    for (int64_t i = 0; i < 20; ++i) {
      EXPECT_EQ(got[i], loop.trips(i)) << loop.range << " " << i;
      most = std::max(most, loop.trips(i));
    }
    for (int64_t i = 20; i < 24; ++i) EXPECT_LE(got[i], most) << loop.range << " " << i;
  }
}

TEST(ClampLoops, LeavesEqualAndUnknownBounds) {
  auto module = kernels(fmt::format(kFrame, R"(
    %g = tgk.workgroup_id 0 : u32
    tgk.for %j = 0 to(%g + 5) {
    }
    %r = tgk.for %k = 0 to(%v) iter_args(%a = 0) : u32 {
      tgk.yield %k : u32
    })"));
  Item& kernel = *module->find(ItemKind::kernel, "k");
  const std::string before = print(kernel);
  clampLoops(kernel, 32);
  EXPECT_EQ(print(kernel), before);
}

TEST(UnrollLimits, AKernelThatFitsStaysAsItIs) {
  auto module = kernels(fmt::format(kFrame, kCases[0].body));
  Item& kernel = *module->find(ItemKind::kernel, "k");
  const std::string before = print(kernel);
  ASSERT_TRUE(unroll(kernel, 1001));
  EXPECT_EQ(print(kernel), before);
}

TEST(UnrollLimits, DataMayDecide) {
  auto module = kernels(fmt::format(kFrame, R"(
    %r = tgk.for %k = 0 to(%v) iter_args(%a = 0) : u32 {
      tgk.yield %k : u32
    })"));
  EXPECT_EQ(loopIterations(verified(*module)), std::nullopt);
  auto bounded = unroll(*module->find(ItemKind::kernel, "k"), 65535);
  ASSERT_TRUE(bounded);
  EXPECT_FALSE(*bounded);
}

TEST(UnrollLimits, WhereThePlaceDecidesNothingIsRepeated) {
  auto module = kernels(fmt::format(kFrame, R"(
    tgk.for %e = %i to(4294967295) step(64) {
      tgk.store %e, %o[%i]
    }
    %r = tgk.for %k = 0 to(5000) iter_args(%a = 0) : u32 {
      %s = tgk.mod %k, 7 : u32
      tgk.yield %s : u32
    })"));
  Item& kernel = *module->find(ItemKind::kernel, "k");
  const size_t ops = kernel.body.ops.size();
  auto bounded = unroll(kernel, 65535);
  ASSERT_TRUE(bounded);
  EXPECT_TRUE(*bounded == false && kernel.body.ops.size() == ops);
}

TEST(UnrollLimits, ManyLoopsAreAnError) {
  std::string loops, last = "%v";
  for (int i = 0; i < 3000; ++i) {
    loops += fmt::format("    %s{} = tgk.for %k = 0 to(5000) iter_args(%a = {}) : u32 {{\n"
                         "      %t = tgk.add %a, %k : u32\n      tgk.yield %t : u32\n    }}\n",
                         i, last);
    last = fmt::format("%s{}", i);
  }
  auto module = kernels(fmt::format(kFrame, loops + "    %r = tgk.add " + last + ", 1 : u32"));
  auto done = unroll(*module->find(ItemKind::kernel, "k"), 65535);
  ASSERT_FALSE(done);
  EXPECT_NE(done.error().str().find("its loops make 15003000 iterations"), std::string::npos)
      << done.error().str();
}

TEST(UnrollLimits, TooManyAreAnError) {
  auto module = kernels(fmt::format(kFrame, R"(
    %r = tgk.for %k = 0 to(4000000000) iter_args(%a = 0) : u32 {
      %s = tgk.add %a, 1 : u32
      tgk.yield %s : u32
    })"));
  auto done = unroll(*module->find(ItemKind::kernel, "k"), 65535);
  ASSERT_FALSE(done);
  EXPECT_NE(done.error().str().find("kernel @k: its loops make 4000000001 iterations in an invocation, and "
                                    "repeating their bodies does not bring these to 65535"),
            std::string::npos)
      << done.error().str();
}

}  // namespace
}  // namespace tg::test
