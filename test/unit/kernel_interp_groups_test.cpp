// SPDX-License-Identifier: Apache-2.0
// Invocations together: reductions, ops of a subgroup, and how the schedules differ.
#include <algorithm>
#include <cmath>
#include <set>

#include <fmt/format.h>

#include "test/unit/kernel_text.h"

namespace tg::test {
namespace {

TEST(KernelInterpGroups, WorkgroupReduceOfAnySize) {
  auto module = kernels(R"(kernel @k(%x: buf<12xi32, in>, %o: buf<4x12xi32, out>) workgroup(4, 3) grid(1) {
    %c = tgk.local_id 0 : u32
    %r = tgk.local_id 1 : u32
    %r4 = tgk.mul %r, 4 : u32
    %i = tgk.add %r4, %c : u32
    %v = tgk.load %x[%i] : i32
    %sum = tgk.workgroup_reduce %v : i32
    %most = tgk.workgroup_reduce %v {kind = max} : i32
    %least = tgk.workgroup_reduce %v {kind = min} : i32
    %ones = tgk.workgroup_reduce 1 : i32
    tgk.store %sum, %o[0, %i]
    tgk.store %most, %o[1, %i]
    tgk.store %least, %o[2, %i]
    tgk.store %ones, %o[3, %i]
  })");
  std::vector<int32_t> x{5, -7, 3, 900, -2, 8, 8, -1000, 44, 6, 0, 1}, expected;
  int32_t sum = 0;
  for (int32_t v : x) sum += v;
  for (int32_t value : {sum, 900, -1000, 12})
    for (int lane = 0; lane < 12; ++lane) expected.push_back(value);
  runAll(verified(*module), {bytesOf(x), Memory::value_type(4 * 12 * 4)},
         [&](const Memory& memory) { EXPECT_EQ(valuesOf<int32_t>(memory[1]), expected); });
}

TEST(KernelInterpGroups, ReduceKeepsNanAndFixedOrder) {
  auto module = kernels(R"(kernel @k(%x: buf<6xf32, in>, %o: buf<2xf32, out>) workgroup(6) grid(1) {
    %l = tgk.local_id 0 : u32
    %v = tgk.load %x[%l] : f32
    %sum = tgk.workgroup_reduce %v : f32
    %inv = tgk.div 0.0, %v : f32
    %most = tgk.workgroup_reduce %inv {kind = max} : f32
    %z = tgk.eq %l, 3 : bool
    tgk.if %z {
      tgk.store %sum, %o[0]
      tgk.store %most, %o[1]
    }
  })");
  std::vector<float> x{1e8f, 1.25f, -1e8f, 0.0f, 3.5f, 7.1f};
  float pairs = (x[0] + x[4]) + x[2], rest = (x[1] + x[5]) + x[3];  // halves of 8: 0+4 1+5, 0+2 1+3, 0+1
  runAll(verified(*module), {bytesOf(x), Memory::value_type(8)}, [&](const Memory& memory) {
    auto o = valuesOf<float>(memory[1]);
    EXPECT_EQ(o[0], pairs + rest);
    EXPECT_TRUE(std::isnan(o[1]));  // 0/0 of one invocation
  });
}

TEST(KernelInterpGroups, EveryKindOfReduction) {
  auto module =
      kernels(R"(kernel @k(%x: buf<6xi32, in>, %o: buf<6xi32, out>, %u: buf<2xu32, out>, %f: buf<2xf32, out>)
      workgroup(6) grid(1) {
    %l = tgk.local_id 0 : u32
    %v = tgk.load %x[%l] : i32
    %w = tgk.bitcast %v : u32
    %r = tgk.cast %v : f32
    %a = tgk.workgroup_reduce %v {kind = mul} : i32
    %b = tgk.workgroup_reduce %v {kind = and} : i32
    %c = tgk.workgroup_reduce %v {kind = or} : i32
    %d = tgk.workgroup_reduce %v {kind = xor} : i32
    %e = tgk.workgroup_reduce %v {kind = min} : i32
    %g = tgk.workgroup_reduce %v {kind = max} : i32
    %h = tgk.workgroup_reduce %w {kind = min} : u32
    %i = tgk.workgroup_reduce %w {kind = max} : u32
    %j = tgk.workgroup_reduce %r {kind = mul} : f32
    %k = tgk.workgroup_reduce %r {kind = min} : f32
    %z = tgk.eq %l, 5 : bool
    tgk.if %z {
      tgk.store %a, %o[0]
      tgk.store %b, %o[1]
      tgk.store %c, %o[2]
      tgk.store %d, %o[3]
      tgk.store %e, %o[4]
      tgk.store %g, %o[5]
      tgk.store %h, %u[0]
      tgk.store %i, %u[1]
      tgk.store %j, %f[0]
      tgk.store %k, %f[1]
    }
  })");
  std::vector<int32_t> x{3, 7, 11, -1, 2, 6};  // and: 0b0010 of -1, 2 and 6, but 11 has it and 3, 7 too
  Memory memory{bytesOf(x), Memory::value_type(24), Memory::value_type(8), Memory::value_type(8)};
  runAll(verified(*module), memory, [](const Memory& after) {
    EXPECT_EQ(valuesOf<int32_t>(after[1]),
              (std::vector<int32_t>{-2772, 2, -1, ~(3 ^ 7 ^ 11 ^ 2 ^ 6), -1, 11}));
    EXPECT_EQ(valuesOf<uint32_t>(after[2]), (std::vector<uint32_t>{2, 0xffffffff}));
    EXPECT_EQ(valuesOf<float>(after[3]), (std::vector<float>{-2772, -1}));
  });
}

/// Runs under every schedule with subgroups of `size` and expects no finding and these words in the last
/// buffer.
void expectTogether(const std::string& text, const Memory& memory, uint32_t size,
                    const std::vector<uint32_t>& expected) {
  auto module = kernels(text);
  for (KernelRunOptions options : schedules()) {
    options.subgroupSize = size;
    Memory copy = memory;
    KernelCounters counters = run(verified(*module), copy, options);
    EXPECT_TRUE(counters.findings.empty()) << counters.findings.front();
    EXPECT_EQ(valuesOf<uint32_t>(copy.back()), expected) << "subgroups of " << size;
  }
}

TEST(KernelInterpGroups, SubgroupsAreRunsOfInvocations) {
  const char* text = R"(kernel @k(%o: buf<3x6xu32, out>) workgroup(3, 2) grid(1) {
    %x = tgk.local_id 0 : u32
    %y = tgk.local_id 1 : u32
    %row = tgk.mul %y, 3 : u32
    %i = tgk.add %row, %x : u32
    %s = tgk.subgroup_size : u32
    %g = tgk.subgroup_id : u32
    %l = tgk.subgroup_lane : u32
    tgk.store %s, %o[0, %i]
    tgk.store %g, %o[1, %i]
    tgk.store %l, %o[2, %i]
  })";
  Memory memory{Memory::value_type(72)};
  expectTogether(text, memory, 4, {4, 4, 4, 4, 4, 4, 0, 0, 0, 0, 1, 1, 0, 1, 2, 3, 0, 1});
  expectTogether(text, memory, 2, {2, 2, 2, 2, 2, 2, 0, 0, 1, 1, 2, 2, 0, 1, 0, 1, 0, 1});
}

/// `body` computes %r from %l, the invocation of six.
std::string ofSix(const std::string& body) {
  return "kernel @k(%o: buf<6xu32, out>) workgroup(6) grid(1) {\n%l = tgk.local_id 0 : u32\n" + body +
         "\ntgk.store %r, %o[%l]\n}";
}

TEST(KernelInterpGroups, SubgroupReductions) {
  Memory memory{Memory::value_type(24)};
  auto reduce = [](const std::string& kind) {
    return ofSix("%p = tgk.add %l, 1 : u32\n%r = tgk.subgroup_reduce %p {kind = " + kind + "} : u32");
  };
  expectTogether(reduce("add"), memory, 4, {10, 10, 10, 10, 11, 11});
  expectTogether(reduce("mul"), memory, 4, {24, 24, 24, 24, 30, 30});
  expectTogether(reduce("min"), memory, 4, {1, 1, 1, 1, 5, 5});
  expectTogether(reduce("max"), memory, 2, {2, 2, 4, 4, 6, 6});
  expectTogether(reduce("and"), memory, 2, {0, 0, 0, 0, 4, 4});
  expectTogether(reduce("or"), memory, 2, {3, 3, 7, 7, 7, 7});
  expectTogether(reduce("xor"), memory, 8, {7, 7, 7, 7, 7, 7});
  expectTogether(reduce("add"), memory, 1, {1, 2, 3, 4, 5, 6});
}

TEST(KernelInterpGroups, OnlyThoseThatArriveMeet) {
  Memory memory{Memory::value_type(24)};
  expectTogether(ofSix(R"(%b = tgk.and %l, 1 : u32
    %odd = tgk.cast %b : bool
    %r = tgk.if %odd : u32 {
      %n = tgk.subgroup_reduce 1 : u32
      tgk.yield %n : u32
    } else {
      %n = tgk.subgroup_reduce 100 : u32
      tgk.yield %n : u32
    })"),
                 memory, 4, {200, 2, 200, 2, 100, 1});
  // Invocation l makes l iterations: in iteration k those with l > k are active.
  expectTogether(ofSix(R"(%r = tgk.for %k = 0 to(%l) iter_args(%s = 0) : u32 {
      %n = tgk.subgroup_reduce 1 : u32
      %t = tgk.add %s, %n : u32
      tgk.yield %t : u32
    })"),
                 memory, 4, {0, 3, 5, 6, 8, 9});
}

TEST(KernelInterpGroups, TurnsOfALoopKeepApart) {
  Memory memory{Memory::value_type(24)};
  // The even ones come to the reduction in turn 0, the odd ones in turn 1: never both.
  std::string once = R"(%b = tgk.and %l, 1 : u32
    %r = tgk.for %k = 0 to(2) iter_args(%s = 0) : u32 {
      %mine = tgk.eq %k, %b : bool
      %n = tgk.if %mine : u32 {
        %m = tgk.subgroup_reduce 1 : u32
        tgk.yield %m : u32
      } else {
        tgk.yield 0 : u32
      }
      AFTER
      %t = tgk.add %s, %q : u32
      tgk.yield %t : u32
    })";
  auto after = [&](const std::string& text) {
    std::string out = once;
    return ofSix(out.replace(out.find("AFTER"), 5, text));
  };
  expectTogether(after("%q = tgk.add %n, 0 : u32"), memory, 4, {2, 2, 2, 2, 1, 1});
  // All are active behind that in each iteration: twice the sum of that iteration's reduction.
  expectTogether(after("%q = tgk.subgroup_reduce %n : u32"), memory, 4, {8, 8, 8, 8, 2, 2});
}

/// Races of eight invocations, in subgroups of four, whose element of the result is %r of the body.
int64_t racesOf(const std::string& body) {
  auto module = kernels(R"(kernel @k(%x: buf<8xu32, inout>, %o: buf<8xu32, out>) workgroup(8) grid(1) {
    %l = tgk.local_id 0 : u32
    %first = tgk.eq %l, 0 : bool
    %other = tgk.eq %l, 4 : bool
    %few = tgk.lt %l, 2 : bool
    %own = tgk.lt %l, 4 : bool
)" + body + "\ntgk.store %r, %o[%l]\n}");
  Memory memory{Memory::value_type(32), Memory::value_type(32)};
  return run(verified(*module), memory, {}).races;
}

/// The u32 of a body where a condition holds, else 0.
std::string valueIf(const std::string& name, const std::string& condition, const std::string& body) {
  return fmt::format(
      "%{} = tgk.if %{} : u32 {{\n%w = {} : u32\ntgk.yield %w : u32\n}} else {{\ntgk.yield 0 : u32\n}}\n",
      name, condition, body);
}

TEST(KernelInterpGroups, ASubgroupOpOrdersLoadsBeforeStores) {
  const std::string load = valueIf("v", "own", "tgk.load %x[0]"),
                    reduce = "%r = tgk.subgroup_reduce %v : u32\n";
  auto store = [](const std::string& who) {
    return "tgk.if %" + who + " {\ntgk.store 1, %x[0]\ntgk.yield\n}\n";
  };
  EXPECT_EQ(racesOf(load + reduce + store("first")), 0);
  const std::string again = valueIf("y", "first", "tgk.load %x[0]");
  EXPECT_EQ(racesOf(load + reduce + again + store("first")), 0) << "the one that stores loads once more";
  EXPECT_GE(racesOf(load + "%r = tgk.add %v, 0 : u32\n" + store("first")), 1) << "no op between";
  EXPECT_GE(racesOf(load + reduce + store("other")), 1) << "another subgroup";
  EXPECT_GE(racesOf(load + valueIf("r", "few", "tgk.subgroup_reduce %v") + store("first")), 1)
      << "only some arrive";
  EXPECT_GE(
      racesOf("%v = tgk.add %l, 0 : u32\n" + store("first") + reduce + valueIf("y", "own", "tgk.load %x[0]")),
      1)
      << "a store before loads";
}

TEST(KernelInterpGroups, ShufflesAndBallots) {
  Memory memory{Memory::value_type(24)};
  expectTogether(ofSix(R"(%g = tgk.subgroup_lane : u32
    %j = tgk.xor %g, 1 : u32
    %v = tgk.mul %l, 10 : u32
    %r = tgk.subgroup_shuffle %v, %j : u32)"),
                 memory, 4, {10, 0, 30, 20, 50, 40});
  expectTogether(ofSix("%r = tgk.subgroup_shuffle %l, 1 : u32"), memory, 2, {1, 1, 3, 3, 5, 5});
  expectTogether(ofSix(R"(%b = tgk.ne %l, 2 : bool
    %v = tgk.subgroup_ballot %b : vec4<u32>
    %r = tgk.extract %v, 0 : u32)"),
                 memory, 4, {11, 11, 11, 11, 3, 3});
  // Lane 37 is bit 5 of the second word.
  auto module = kernels(R"(kernel @k(%o: buf<70xvec4<u32>, out>) workgroup(70) grid(1) {
    %l = tgk.local_id 0 : u32
    %b = tgk.eq %l, 37 : bool
    %v = tgk.subgroup_ballot %b : vec4<u32>
    tgk.store %v, %o[%l]
  })");
  KernelRunOptions options;
  options.subgroupSize = 128;
  Memory wide{Memory::value_type(70 * 16)};
  run(verified(*module), wide, options);
  auto words = valuesOf<uint32_t>(wide[0]);
  EXPECT_EQ((std::vector<uint32_t>{words.end() - 4, words.end()}), (std::vector<uint32_t>{0, 32, 0, 0}));
}

TEST(KernelInterpGroups, AShuffleFromNobodyIsFound) {
  auto module = kernels(ofSix(R"(%b = tgk.lt %l, 2 : bool
    %r = tgk.if %b : u32 {
      %v = tgk.subgroup_shuffle %l, %l : u32
      tgk.yield %v : u32
    } else {
      %v = tgk.subgroup_shuffle %l, 1 : u32
      tgk.yield %v : u32
    })"));
  for (const KernelRunOptions& options : schedules()) {
    Memory memory{Memory::value_type(24)};
    KernelCounters counters = run(verified(*module), memory, options);
    EXPECT_EQ(counters.uninitialised, 2);  // lanes 2 and 3; in the second subgroup lane 1 is there
    ASSERT_FALSE(counters.findings.empty());
    EXPECT_NE(counters.findings[0].find("tgk.subgroup_shuffle: lane 1 of the subgroup has not arrived"),
              std::string::npos)
        << counters.findings[0];
    EXPECT_EQ(valuesOf<uint32_t>(memory[0])[5], 5u);
  }
}

/// The result of a racy kernel on eight words of 0.
std::vector<uint32_t> racy(const std::string& body, KernelRunOptions options, const std::string& launch) {
  auto module =
      kernels("kernel @k(%x: buf<8xu32, inout>, %f: buf<1xf32, inout>) " + launch + " {\n" + body + "\n}");
  Memory memory{Memory::value_type(32), Memory::value_type(4)};
  const KernelCounters counters = run(verified(*module), memory, options);
  EXPECT_EQ(counters.races > 0, options.checks);
  auto out = valuesOf<uint32_t>(memory[0]);
  out.push_back(static_cast<uint32_t>(valuesOf<float>(memory[1])[0]));
  return out;
}

TEST(KernelInterpGroups, SchedulesDiffer) {
  const std::string one = "workgroup(8) grid(1)";
  auto order = [](LaneOrder order, bool reversed = false, uint64_t seed = 0) {
    return KernelRunOptions{order, reversed, true, seed};
  };
  // Each stores its number, then what stands there once others may have stored theirs.
  const std::string last = R"(%l = tgk.local_id 0 : u32
    %i = tgk.or %l, 1 : u32
    tgk.store %l, %x[0]
    %v = tgk.load %x[0] : u32
    tgk.store %v, %x[%i])";
  EXPECT_EQ(racy(last, order(LaneOrder::wholeLane), one)[5], 5u);
  EXPECT_EQ(racy(last, order(LaneOrder::wholeLane, true), one)[5], 4u);
  EXPECT_EQ(racy(last, order(LaneOrder::roundRobin), one)[5], 7u);
  EXPECT_EQ(racy(last, order(LaneOrder::roundRobin, true), one)[5], 0u);
  // An accumulation of all into one element loses updates where others come between its parts.
  const std::string sum = "tgk.accumulate 1.0, %f[0]";
  EXPECT_EQ(racy(sum, order(LaneOrder::roundRobin), one)[8], 8u);
  EXPECT_EQ(racy(sum, order(LaneOrder::lockstep), one)[8], 1u);
  // The last workgroup of an order has its number kept.
  const std::string group = "%w = tgk.workgroup_id 0 : u32\ntgk.store %w, %x[0]";
  const std::string many = "workgroup(1) grid(50)";  // more races than a run that looks for them lists
  auto lastGroup = [&](KernelRunOptions options) {
    options.checks = false;
    return racy(group, options, many)[0];
  };
  EXPECT_EQ(lastGroup(order(LaneOrder::lockstep)), 49u);
  EXPECT_EQ(lastGroup(order(LaneOrder::lockstep, true)), 0u);
  std::set<uint32_t> groups;
  std::set<std::vector<uint32_t>> results;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    KernelRunOptions options = order(LaneOrder::shuffled, false, seed);
    groups.insert(lastGroup(options));
    results.insert(racy(last, options, one));
    EXPECT_EQ(racy(last, options, one), racy(last, options, one));  // a seed says it all
  }
  EXPECT_GT(groups.size(), 10u);
  EXPECT_GT(results.size(), 10u);
}

}  // namespace
}  // namespace tg::test
