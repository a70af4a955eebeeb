// SPDX-License-Identifier: Apache-2.0
// Long and doubling programs: every stage takes time in proportion, without recursion over their length, or
// refuses them by the limit they pass. Lengths are those at which a stack of 8 MiB once was too short.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <ctime>
#include <functional>
#include <string>
#include <vector>

#include "passes/fuse/region_graph.h"
#include "passes/pass.h"
#include "passes/plan/offsets.h"
#include "test/unit/module_text.h"

namespace tg::test {
namespace {

#ifdef __SANITIZE_ADDRESS__
constexpr int kLength = 2000;
#else
constexpr int kLength = 20000;
#endif

/// The pipeline's error, "" without one.
std::string errorOf(const std::string& text, const std::string& pipeline) {
  auto module = parse(text, "long.tgir");
  if (!module) return module.error().str();
  auto passes = PassManager::parse(pipeline);
  EXPECT_TRUE(passes) << passes.error().str();
  auto ran = passes->reproducer("").verifyEach(VerifyEach::on).run(*module);
  return ran ? "" : ran.error().str();
}

constexpr const char* kForward = "canonicalize,cse,dce,fuse,plan,spirv-emit{emit=kernel}";

/// A function of one op after the other; `op(i)` follows `%vI = `, where %vI-1 is before it.
std::string chain(int length, const std::function<std::string(int)>& op) {
  std::string text = "module @m {\n  func @f(%x: tensor<4x4xf32>) -> (y: tensor<4x4xf32>) {\n"
                     "    %v0 = tg.exp %x : tensor<4x4xf32>\n";
  for (int i = 1; i < length; ++i) text += fmt::format("    %v{} = {} : tensor<4x4xf32>\n", i, op(i));
  return text + fmt::format("    return %v{} : tensor<4x4xf32>\n  }}\n}}\n", length - 1);
}

TEST(LongPrograms, ElementwiseOpsGoThroughEveryStage) {
  EXPECT_EQ(errorOf(chain(kLength, [](int i) { return fmt::format("tg.sin %v{}", i - 1); }), kForward), "");
}

/// The time that `work` takes. It is the process's, which other work on the machine disturbs little.
double secondsOf(const std::function<void()>& work) {
  const std::clock_t begin = std::clock();
  work();
  return static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
}

/// Expects that sixteen times the length takes sixteen times as long, and somewhat more where the work leaves the caches.
/// What looks at all ops for each is told from that by far.
void expectProportion(int length, const std::function<double(int)>& seconds) {
  const double once = std::min(seconds(length), seconds(length));
  EXPECT_LT(seconds(16 * length), 4 * 16 * once);
}

TEST(LongPrograms, TimeIsInProportionToTheOps) {
  expectProportion(kLength / 50, [](int length) {
    const std::string type = "tensor<64xf32>";
    std::string text =
        fmt::format("module @m {{\n  param @w : {0}\n  func @train(%x: {0}) -> (loss: tensor<f32>) "
                    "{{\n    %w = tg.param @w : {0}\n    %v0 = tg.mul %x, %w : {0}\n",
                    type);
    for (int i = 1; i < length; ++i) {
      const std::string ops[] = {"tanh %v{}", "mul %v{}, %x", "sigmoid %v{}", "add %v{}, %x"};
      text += fmt::format("    %v{} = tg.{} : {}\n", i, fmt::format(fmt::runtime(ops[i % 4]), i - 1), type);
    }
    text +=
        fmt::format("    %loss = tg.mean %v{} {{axes = [0]}} : tensor<f32>\n    return %loss : tensor<f32>\n"
                    "  }}\n}}\n",
                    length - 1);
    return secondsOf([&] { EXPECT_EQ(errorOf(text, "append-grad,append-adam,fuse{target=gpu},plan"), ""); });
  });
}

// Values of a training step: one of each layer stays until its gradient is computed, another dies at once.
TEST(LongPrograms, PlacingTakesTimeInProportionToTheValues) {
  expectProportion(kLength / 8, [](int layers) {
    std::vector<plan::Alloc> allocs;
    const auto add = [&](int64_t bytes, int first, int last) {
      allocs.push_back({bytes, {{0, bytes, first, last}}, 0});
    };
    for (int layer = 0; layer < layers; ++layer) {
      add(64, layer, 2 * layers - layer);
      add(16, layer, layer + 1);
    }
    return secondsOf([&] { plan::assignOffsets(allocs, Target{}); });
  });
}

// The gradient of each layer reads the layer's values and the gradient of the next layer, which depends on them.
TEST(LongPrograms, SearchesOfRegionsTakeTimeInProportion) {
  expectProportion(kLength / 10, [](int layers) {
    fuse::RegionGraph graph;
    for (int region = 0; region < 2 * layers; ++region) {
      graph.add();
      if (region > 0) graph.link(region - 1, region);
      if (region >= layers) graph.link(2 * layers - 1 - region, region);
    }
    return secondsOf([&] {
      for (int layer = 0; layer + 1 < layers; ++layer)
        EXPECT_TRUE(graph.reaches(layer, 2 * layers - 2 - layer));
    });
  });
}

TEST(LongPrograms, CompositesGoThroughEveryStage) {
  EXPECT_EQ(errorOf(chain(kLength / 4, [](int i) { return fmt::format("tg.gelu %v{}", i - 1); }), kForward),
            "");
}

TEST(LongPrograms, ViewsGoThroughEveryStage) {
  auto view = [](int i) {
    return i % 2 ? fmt::format("tg.transpose %v{} {{perm = [1, 0]}}", i - 1)
                 : fmt::format("tg.flip %v{} {{axes = [0]}}", i - 1);
  };
  EXPECT_EQ(errorOf(chain(kLength, view), kForward), "");
}

TEST(LongPrograms, GradientsGoThroughEveryStage) {
  std::string text = "module @m {\n  param @w : tensor<4x3xf32>\n"
                     "  func @train(%x: tensor<4x3xf32>) -> (loss: tensor<f32>) {\n"
                     "    %w = tg.param @w : tensor<4x3xf32>\n    %v0 = tg.mul %x, %w : tensor<4x3xf32>\n";
  for (int i = 1; i < kLength / 10; ++i)
    text += fmt::format("    %v{} = tg.sin %v{} : tensor<4x3xf32>\n", i, i - 1);
  text += fmt::format("    %loss = tg.mean %v{} {{axes = [0, 1]}} : tensor<f32>\n"
                      "    return %loss : tensor<f32>\n  }}\n}}\n",
                      kLength / 10 - 1);
  EXPECT_EQ(errorOf(text, "append-grad,append-adam,fuse,plan,spirv-emit{emit=kernel}"), "");
}

TEST(LongPrograms, ARegionLongerThanAKernelIsRefused) {
  std::string text = "module @m stage(fused) {\n  func @f(%x: tensor<4xf32>) -> (y: tensor<4xf32>) {\n"
                     "    %y = tg.fused (%v0 = %x) {schedule = map} : tensor<4xf32> {\n";
  for (int i = 1; i < kLength; ++i)
    text += fmt::format("      %v{} = tg.sin %v{} : tensor<4xf32>\n", i, i - 1);
  text += fmt::format(
      "      tg.yield %v{} : tensor<4xf32>\n    }}\n    return %y : tensor<4xf32>\n  }}\n}}\n", kLength - 1);
  const std::string error = errorOf(text, "plan,spirv-emit{emit=kernel}");
#ifdef __SANITIZE_ADDRESS__
  EXPECT_EQ(error, "");
#else
  EXPECT_NE(error.find("a chain of more than 2000 ops in one kernel"), std::string::npos) << error;
#endif
}

TEST(LongPrograms, JoinsThatDoubleAreRefused) {
  std::string text = "module @m stage(fused) {\n  func @f(%x: tensor<1xf32>) -> (y: tensor<1048576xf32>) {\n"
                     "    %y = tg.fused (%v0 = %x) {schedule = map} : tensor<1048576xf32> {\n";
  for (int i = 1; i <= 20; ++i)
    text += fmt::format("      %v{0} = tg.concat %v{1}, %v{1} {{axis = 0}} : tensor<{2}xf32>\n", i, i - 1,
                        1 << i);
  text += "      tg.yield %v20 : tensor<1048576xf32>\n    }\n    return %y : tensor<1048576xf32>\n  }\n}\n";
  const std::string error = errorOf(text, "plan,spirv-emit{emit=kernel}");
  EXPECT_NE(error.find("a kernel that computes more than 16384 elements for one result"), std::string::npos)
      << error;
}

/// A kernel that calls @g0; `body(i)` is the func @gI, which gives %y.
std::string calls(int length, const std::function<std::string(int)>& body) {
  std::string text = "module @m {\n";
  for (int i = 0; i < length; ++i)
    text += fmt::format("  func @g{}(%a: f32) -> (y: f32) {{\n{}    return %y : f32\n  }}\n", i, body(i));
  return text + fmt::format(R"(  func @g{}(%a: f32) -> (y: f32) {{
    %y = tgk.exp %a : f32
    return %y : f32
  }}
  kernel @k(%i: buf<4xf32, in>, %o: buf<4xf32, out>) workgroup(4) grid(1) {{
    %t = tgk.global_id 0 : u32
    %l = tgk.load %i[%t] : f32
    %r = tgk.call @g0(%l) : f32
    tgk.store %r, %o[%t]
  }}
  func @f(%x: tensor<4xf32>) -> (y: tensor<4xf32>) {{
    %y = tg.custom @k(%x) : tensor<4xf32>
    return %y : tensor<4xf32>
  }}
}}
)",
                            length);
}

TEST(LongPrograms, CallsOfCallsAreInlined) {
  auto next = [](int i) { return fmt::format("    %y = tgk.call @g{}(%a) : f32\n", i + 1); };
  EXPECT_EQ(errorOf(calls(kLength, next), kForward), "");
}

TEST(LongPrograms, CallsThatDoubleAreRefused) {
  auto twice = [](int i) {
    return fmt::format("    %p = tgk.call @g{0}(%a) : f32\n    %y = tgk.call @g{0}(%p) : f32\n", i + 1);
  };
  const std::string error = errorOf(calls(60, twice), "");
  EXPECT_NE(error.find("kernel @k [kernel.inline]: it has more than 65536 ops where its calls are inlined"),
            std::string::npos)
      << error;
  EXPECT_EQ(errorOf(calls(13, twice), ""), "");
}

TEST(LongPrograms, CallsInBranchesOfCallsAreRefused) {
  auto inside = [](int i) {
    return fmt::format("    %c = tgk.lt %a, 0.5 : bool\n    %y = tgk.if %c : f32 {{\n"
                       "      %p = tgk.call @g{}(%a) : f32\n      tgk.yield %p : f32\n    }} else {{\n"
                       "      tgk.yield %a : f32\n    }}\n",
                       i + 1);
  };
  const std::string error = errorOf(calls(200, inside), "");
  EXPECT_NE(error.find("kernel @k [kernel.inline]: regions are nested deeper than 64"), std::string::npos)
      << error;
  EXPECT_EQ(errorOf(calls(60, inside), ""), "");
}

/// A kernel of indices, one made of those before it, and a load at the last; `op(i)` defines %cI.
std::string indices(int length, const std::function<std::string(int)>& op) {
  std::string text = "module @m {\n  kernel @k(%x: buf<?xf32, in>, %y: buf<?xf32, out>) workgroup(64) "
                     "grid(ceildiv(dim(%y, 0), 64)) {\n    %i = tgk.global_id 0 : u32\n"
                     "    %n = tgk.dim %x, 0 : u32\n    %in = tgk.lt %i, %n : bool\n    tgk.if %in {\n"
                     "      %c0 = tgk.add %i, 1 : u32\n      %c1 = tgk.add %i, 2 : u32\n"
                     "      %a1 = tgk.lt %c1, %n : bool\n";
  for (int i = 2; i < length; ++i) text += "      " + op(i) + "\n";
  return text +
         fmt::format("      %e = tgk.mod %c{}, %n : u32\n      %v = tgk.load %x[%e] : f32\n"
                     "      tgk.store %v, %y[%i]\n    }}\n  }}\n  func @f(%x: tensor<100xf32>) -> (y: "
                     "tensor<100xf32>) {{\n    %y = tg.custom @k(%x) : tensor<100xf32>\n    return %y : "
                     "tensor<100xf32>\n  }}\n}}\n",
                     length - 1);
}

// What is known of an index follows from those it is made of, and from the conditions around. The number of ways to
// combine these grows with a power of their number, or doubles with each.
TEST(LongPrograms, IndicesOfIndicesAreAnalysed) {
  const std::string pipeline = "fuse{target=lavapipe},plan,lower-kernels";
  auto check = [&](int length, const std::function<std::string(int)>& op) {
    EXPECT_EQ(errorOf(indices(length, op), pipeline), "");
  };
  check(kLength / 2, [](int i) { return fmt::format("%c{} = tgk.mul %c{}, %c{} : u32", i, i - 1, i - 2); });
  check(kLength / 8, [](int i) {
    return fmt::format("%b{0} = tgk.add %i, {0} : u32 %c{0} = tgk.mod %b{0}, 5000 : u32", i);
  });
  check(kLength / 8, [](int i) {
    return fmt::format("%b{0} = tgk.add %c{1}, 3 : u32 %c{0} = tgk.min %b{0}, %n : u32", i, i - 1);
  });
  check(kLength / 200, [](int i) {
    return fmt::format("%b{0} = tgk.add %c{1}, 3 : u32 %c{0} = tgk.mod %b{0}, {0} : u32", i, i - 1);
  });
  check(kLength / 200, [](int i) {
    return fmt::format("%b{0} = tgk.lt %c{1}, %n : bool %c{0} = tgk.select %b{0}, %c{1}, %c{2} : u32", i,
                       i - 1, i - 2);
  });
  check(kLength / 200, [](int i) {
    return fmt::format("%b{0} = tgk.add %i, {0} : u32 %g{0} = tgk.lt %b{0}, %n : bool %a{0} = tgk.and %a{1}, "
                       "%g{0} : bool %c{0} = tgk.select %a{0}, %b{0}, %i : u32",
                       i, i - 1);
  });
  check(kLength / 2, [](int i) {
    return fmt::format("%a{0} = tgk.and %a{1}, %a{1} : bool %c{0} = tgk.add %i, 1 : u32", i, i - 1);
  });
  // Two ways, each of two ways.
  check(kLength / 200, [](int i) {
    return fmt::format("%a{0} = tgk.and %a{1}, %a{1} : bool %c{0} = tgk.select %a{0}, %i, 0 : u32", i, i - 1);
  });
}

TEST(LongPrograms, NestingHasALimit) {
  const std::string open(100000, '['), close(100000, ']'),
      call = "module @m {\n  func @f() {\n    tg.fill args";
  EXPECT_NE(errorOf("module @m attributes {plan = " + open + close + "} {}", "").find("nested too deeply"),
            std::string::npos);
  EXPECT_NE(errorOf(call + "(" + open + close + ")\n    return\n  }\n}\n", "").find("nested too deeply"),
            std::string::npos);
  std::string ifs = "module @m {\n  kernel @k(%o: buf<4xf32, out>) workgroup(4) grid(1) {\n";
  for (int i = 0; i < 100000; ++i) ifs += "tgk.if true {\n";
  EXPECT_NE(errorOf(ifs, "").find("regions are nested too deeply"), std::string::npos);
}

TEST(LongPrograms, AMessageHasALimit) {
  const std::string error =
      errorOf("module @m {\n  func @f() {\n    %y = tg.exp %" + std::string(1000000, 'z') + " : f32\n", "");
  EXPECT_LT(error.size(), 2500u);
  EXPECT_NE(error.find("long.tgir:3:17: error: %zzz"), std::string::npos) << error;
  EXPECT_NE(error.find("zzz is not defined here"), std::string::npos) << error;
}

}  // namespace
}  // namespace tg::test
