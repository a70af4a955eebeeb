// SPDX-License-Identifier: Apache-2.0
// Matrices whose places are known: the ops on them, and attention by them, against formulas written here.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "codegen/glsl.h"
#include "codegen/shader.h"
#include "ir/target.h"
#include "passes/pass.h"
#include "test/unit/attention_formula.h"
#include "test/unit/halves.h"
#include "test/unit/kernel_text.h"
#include "test/unit/target_file.h"

namespace tg::test {
namespace {

// With m = x·I: z = 0.5·((m - its row's largest magnitude)·(its row's number) + v[4 + column]), plus 4 where a column's
// number is above 14 and 32 where one is above 15, and w = (column·v[row] + the sum of m's row), rounded to an operand
// A, times I.
constexpr const char* kFragmentKernel = R"(
  kernel @k(%x: buf<16x2xvec4<u32>, in>, %i: buf<16x2xvec4<u32>, in>, %v: buf<20xf32, in>,
            %z: buf<16x16xf32, out>, %w: buf<16x16xf32, out>) workgroup(32) grid(1) {
    %a = tgk.shared : buf<16x3xvec4<u32>, shared>
    %b = tgk.shared : buf<16x3xvec4<u32>, shared>
    %s = tgk.shared : buf<20xf32, shared>
    %l = tgk.local_id 0 : u32
    %r = tgk.div %l, 2 : u32
    %q = tgk.mod %l, 2 : u32
    %xv = tgk.load %x[%r, %q] : vec4<u32>
    tgk.store %xv, %a[%r, %q]
    %iv = tgk.load %i[%r, %q] : vec4<u32>
    tgk.store %iv, %b[%r, %q]
    %few = tgk.lt %l, 20 : bool
    tgk.if %few {
      %vv = tgk.load %v[%l] : f32
      tgk.store %vv, %s[%l]
    }
    tgk.barrier
    %zero = tgk.coopmat_splat 0.0 : coopmat<f32, 16x16, acc>
    %ma = tgk.coopmat_load %a[0, 0] : coopmat<REAL, 16x16, A>
    %mb = tgk.coopmat_load %b[0, 0] : coopmat<REAL, 16x16, B>
    %m = tgk.coopmat_mma %ma, %mb, %zero : coopmat<f32, 16x16, acc>
    %rows = tgk.coopmat_index : coopmat<f32, 16x16, acc>
    %columns = tgk.coopmat_repeat %s[4] {columns = true} : coopmat<f32, 16x16, acc>
    %minus = tgk.mul -1.0, %m : coopmat<f32, 16x16, acc>
    %top = tgk.coopmat_row_reduce %m, %minus {kind = max} : coopmat<f32, 16x16, acc>
    %less = tgk.sub %m, %top : coopmat<f32, 16x16, acc>
    %scaled = tgk.fma %less, %rows, %columns : coopmat<f32, 16x16, acc>
    %half = tgk.mul 0.5, %scaled : coopmat<f32, 16x16, acc>
    %first = tgk.coopmat_repeat %s[0] : coopmat<f32, 16x16, acc>
    %across = tgk.coopmat_index {columns = true} : coopmat<f32, 16x16, acc>
    %some = tgk.coopmat_any_above 14.0, %zero, %across : bool
    %none = tgk.coopmat_any_above 15.0, %across, %zero : bool
    %four = tgk.select %some, 4.0, 0.0 : f32
    %off = tgk.select %none, 32.0, %four : f32
    %moved = tgk.add %half, %off : coopmat<f32, 16x16, acc>
    tgk.coopmat_store %moved, %z[0, 0]
    %sum = tgk.coopmat_row_reduce %m, %minus, %m : coopmat<f32, 16x16, acc>
    %more = tgk.fma %across, %first, %sum : coopmat<f32, 16x16, acc>
    %mc = tgk.coopmat_convert %more : coopmat<REAL, 16x16, A>
    %n = tgk.coopmat_mma %mc, %mb, %zero : coopmat<f32, 16x16, acc>
    tgk.coopmat_store %n, %w[0, 0]
  })";

class Fragments : public ::testing::TestWithParam<DType> {
 protected:
  void moves(bool truncate);
  std::unique_ptr<Module> module(std::string text = kFragmentKernel, bool truncate = false) const {
    auto put = [&](std::string_view mark, std::string_view by) {
      for (size_t at; (at = text.find(mark)) != std::string::npos;) text.replace(at, mark.size(), by);
    };
    put("REAL", name(GetParam()));
    put("TRUNCATE", truncate ? "true" : "false");
    return kernels(text);
  }
};

TEST_P(Fragments, RowsColumnsAndConversions) {
  auto kernel = module();
  ASSERT_TRUE(kernel);
  std::vector<uint16_t> x, unit;
  std::vector<double> value;
  for (const double each : drawn({16, 16}, 3).data) {
    x.push_back(narrowBits(GetParam(), each));
    value.push_back(narrowValue(GetParam(), x.back()));
    unit.push_back(narrowBits(GetParam(), unit.size() % 17 == 0 ? 1 : 0));
  }
  const NdArray drawnColumns = drawn({20}, 4);
  const std::vector<float> v(drawnColumns.data.begin(), drawnColumns.data.end());
  const Memory memory{bytesOf(x), bytesOf(unit), bytesOf(v), bytesOf(std::vector<float>(256)),
                      bytesOf(std::vector<float>(256))};
  for (KernelRunOptions options : schedules()) {
    options.subgroupSize = 32;
    Memory copy = memory;
    const KernelCounters counters = run(verified(*kernel), copy, options);
    EXPECT_TRUE(counters.findings.empty()) << counters.findings.front();
    const std::vector<float> z = valuesOf<float>(copy[3]), w = valuesOf<float>(copy[4]);
    for (int i = 0; i < 16; ++i) {
      double top = 0, sum = 0;
      for (int j = 0; j < 16; ++j)
        top = std::max(top, std::fabs(value[16 * i + j])), sum += value[16 * i + j];
      for (int j = 0; j < 16; ++j) {
        EXPECT_NEAR(z[16 * i + j], 0.5 * ((value[16 * i + j] - top) * i + v[4 + j]) + 4, 1e-5)
            << i << ' ' << j;
        EXPECT_NEAR(w[16 * i + j], j * v[i] + sum, 8e-3 * (std::fabs(j * v[i]) + std::fabs(sum)))
            << i << ' ' << j;
        EXPECT_EQ(w[16 * i + j], rounded(GetParam(), w[16 * i + j])) << i << ' ' << j;
      }
    }
  }
}

// z = x·y + v[4 + column] of matrices out of inputs, and w = z rounded, as words.
constexpr const char* kMovingKernel = R"(
  kernel @k(%x: buf<16x2xvec4<u32>, in>, %y: buf<16x16xf32, in>, %v: buf<20xf32, in>,
            %z: buf<16x16xf32, out>, %w: buf<16x2xvec4<u32>, out>) workgroup(32) grid(1) {
    %a = tgk.coopmat_load %x[0, 0] : coopmat<REAL, 16x16, A>
    %m = tgk.coopmat_convert %a : coopmat<f32, 16x16, acc>
    %n = tgk.coopmat_load %y[0, 0] : coopmat<f32, 16x16, acc>
    %columns = tgk.coopmat_repeat %v[4] {columns = true} : coopmat<f32, 16x16, acc>
    %s = tgk.fma %m, %n, %columns : coopmat<f32, 16x16, acc>
    tgk.coopmat_store %s, %z[0, 0]
    %c = tgk.coopmat_convert %s {truncate = TRUNCATE} : coopmat<REAL, 16x16, A>
    tgk.coopmat_store %c, %w[0, 0]
  })";

TEST_P(Fragments, MoveBetweenInputsAndResults) {
  for (const bool truncate : {false, true}) moves(truncate);
}

void Fragments::moves(bool truncate) {
  if (truncate && GetParam() != DType::bf16) return;  // only a bf16 is a part of an f32's bits
  auto kernel = module(kMovingKernel, truncate);
  ASSERT_TRUE(kernel);
  std::vector<uint16_t> x;
  for (const double each : drawn({16, 16}, 5).data) x.push_back(narrowBits(GetParam(), each));
  const NdArray drawnY = drawn({16, 16}, 6), drawnV = drawn({20}, 7);
  const std::vector<float> y(drawnY.data.begin(), drawnY.data.end()),
      v(drawnV.data.begin(), drawnV.data.end());
  const Memory memory{bytesOf(x), bytesOf(y), bytesOf(v), bytesOf(std::vector<float>(256)),
                      bytesOf(std::vector<uint16_t>(256))};
  for (KernelRunOptions options : schedules()) {
    options.subgroupSize = 32;
    Memory copy = memory;
    const KernelCounters counters = run(verified(*kernel), copy, options);
    EXPECT_TRUE(counters.findings.empty()) << counters.findings.front();
    const std::vector<float> z = valuesOf<float>(copy[3]);
    const std::vector<uint16_t> w = valuesOf<uint16_t>(copy[4]);
    for (size_t i = 0; i < 256; ++i) {
      EXPECT_NEAR(z[i], narrowValue(GetParam(), x[i]) * y[i] + v[4 + i % 16], 1e-6) << i;
      EXPECT_EQ(w[i], truncate ? std::bit_cast<uint32_t>(z[i]) >> 16 : narrowBits(GetParam(), z[i])) << i;
    }
  }
  auto glsl = printGlsl(verified(*kernel), withFragments());
  ASSERT_TRUE(glsl) << glsl.error().str();
  // A device may round or truncate where it converts to bf16.
  const bool isBf16 = GetParam() == DType::bf16;
  EXPECT_EQ(glsl->text.find("float16_t(tgBf16Near(") != std::string::npos, isBf16 && !truncate) << glsl->text;
  EXPECT_EQ(glsl->text.find("float16_t(tgBf16Cut(") != std::string::npos, truncate) << glsl->text;
  auto words = compileGlsl(*glsl, "k");
  EXPECT_TRUE(words) << words.error().str();
}

TEST_P(Fragments, CompileWhereThePlacesAreKnownAlone) {
  auto kernel = module();
  ASSERT_TRUE(kernel);
  for (const char* form : {"khr", "nv"}) {
    if (form == std::string("nv") && GetParam() == DType::bf16) continue;  // which knows none
    Target target = withFragments();
    target.matrices = form;
    auto glsl = printGlsl(verified(*kernel), target);
    ASSERT_TRUE(glsl) << glsl.error().str();
    // A loop that the driver does not unroll puts the matrix in memory.
    const std::string loop = "for (int e", unrolled = "[[unroll]] ";
    size_t loops = 0;
    for (size_t at = glsl->text.find(loop); at != std::string::npos;
         at = glsl->text.find(loop, at + 1), ++loops)
      EXPECT_EQ(glsl->text.substr(at - unrolled.size(), unrolled.size()), unrolled) << glsl->text;
    EXPECT_GT(loops, 0u);
    auto words = compileGlsl(*glsl, "k");
    EXPECT_TRUE(words) << words.error().str();
  }
  auto refused = printGlsl(verified(*kernel), withBf16());
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().str().find("tgk.coopmat_index [kernel.feature]: needs `fragments`, which target "
                                       "'gpu-coopmat' lacks"),
            std::string::npos)
      << refused.error().str();
}

INSTANTIATE_TEST_SUITE_P(Types, Fragments, ::testing::Values(DType::f16, DType::bf16),
                         [](const auto& info) { return std::string(name(info.param)); });

class FragmentAttention : public ::testing::TestWithParam<AttentionCase> {};

TEST_P(FragmentAttention, MatchesItsFormula) {
  const AttentionCase& c = GetParam();
  auto tensor = parse(attentionText(c), "attention.tgir");
  ASSERT_TRUE(tensor) << tensor.error().str();
  const TargetFile target(withFragments());
  auto run = [&](std::unique_ptr<Module>& module, const std::string& pipeline) {
    auto passes = PassManager::parse(pipeline);
    ASSERT_TRUE(passes) << passes.error().str();
    auto ran = passes->run(module);
    ASSERT_TRUE(ran) << ran.error().str();
  };
  run(*tensor, fmt::format("fuse{{target={}}}", target.path()));
  if (c.schedule) {
    std::string fused = print(**tensor);
    const size_t first = fused.find("coopmat_attention{");
    ASSERT_NE(first, std::string::npos) << fused;
    const std::string chosen = fused.substr(first, fused.find('}', first) + 1 - first);
    for (size_t at; (at = fused.find(chosen)) != std::string::npos;)
      fused.replace(at, chosen.size(), c.schedule);
    tensor = parse(fused, "attention.tgir");
    ASSERT_TRUE(tensor) << tensor.error().str();
  }
  run(*tensor, "plan,spirv-emit");  // validates the words too
  EXPECT_NE(print(**tensor).find("tgk.coopmat_convert"), std::string::npos);
  const Arrays in = inputs(c);
  const AttentionFormula expected = attentionFormula(c, in);
  InterpOptions options;
  options.mode = InterpMode::exact;
  auto interp = Interpreter::create(**tensor, options);
  ASSERT_TRUE(interp) << interp.error().str();
  auto got = interp->run("f", in);
  ASSERT_TRUE(got) << got.error().str();
  for (const std::string& finding : got->counters.findings) ADD_FAILURE() << finding;
  const double digits = c.dtype == DType::f16 ? 11 : 8;
  for (const auto& [name, value] : got->results) {
    const bool statistics = name == "lse";
    const double unit = statistics ? 1e-6 : std::ldexp(1.0, -static_cast<int>(digits));
    double worst = 0;
    for (size_t i = 0; i < value.data.size(); ++i) {
      const double error =
          std::fabs(value.data[i] - expected.value.at(name)[i]) / (unit * expected.size.at(name)[i] + 1e-6);
      worst = std::isnan(error) ? INFINITY : std::max(worst, error);
    }
    EXPECT_LT(worst, 2) << name;
  }
}

/// In place of the chosen one, where rows are not too wide for one subgroup.
constexpr const char* kShared = "coopmat_attention{tile = [64, 32], warp = 32, share = 2}";

INSTANTIATE_TEST_SUITE_P(
    Shapes, FragmentAttention,
    ::testing::Values(AttentionCase{1, 200, 200, 64, 64, DType::f16, true},
                      AttentionCase{1, 33, 77, 32, 48, DType::f16, false},
                      AttentionCase{1, 100, 150, 16, 16, DType::bf16, true},
                      AttentionCase{2, 64, 66, 64, 32, DType::bf16, false},
                      AttentionCase{1, 17, 17, 96, 96, DType::f16, true},
                      AttentionCase{1, 70, 70, 128, 128, DType::f16, true},
                      AttentionCase{1, 33, 77, 144, 144, DType::bf16, false},
                      AttentionCase{1, 60, 90, 192, 192, DType::bf16, true},
                      AttentionCase{2, 70, 70, 256, 256, DType::f16, true},
                      AttentionCase{1, 40, 50, 256, 256, DType::bf16, false},
                      AttentionCase{1, 20, 35, 208, 16, DType::f16, false},
                      AttentionCase{1, 35, 35, 48, 176, DType::f16, true},
                      AttentionCase{1, 70, 90, 40, 24, DType::f16, true},
                      AttentionCase{2, 33, 77, 72, 64, DType::bf16, false},
                      AttentionCase{1, 40, 50, 250, 130, DType::bf16, false},
                      AttentionCase{1, 90, 90, 240, 256, DType::f16, true, nullptr, 0.06},
                      AttentionCase{1, 70, 90, 48, 64, DType::bf16, true, kShared},
                      AttentionCase{1, 96, 160, 32, 32, DType::f16, true,
                                    "coopmat_attention{tile = [64, 64], warp = 16}"},
                      AttentionCase{1, 40, 130, 32, 32, DType::bf16, false, nullptr, 0.06},
                      AttentionCase{1, 90, 90, 64, 64, DType::f16, true, nullptr, 0.06}),
    [](const auto& info) { return nameOf(info.param); });

/// In place of the chosen ones: larger tiles, and pairs of subgroups that share rows.
constexpr const char *kWide = "coopmat_attention{tile = [128, 64], warp = 32}",
                     *kTall = "coopmat_attention{tile = [128, 32], warp = 32}",
                     *kPairs = "coopmat_attention{tile = [32, 32], warp = 16, share = 2}";

INSTANTIATE_TEST_SUITE_P(
    BiasAndKeep, FragmentAttention,
    ::testing::Values(AttentionCase{2, 33, 77, 32, 48, DType::f16, false, nullptr, 0, BiasOf::keys},
                      AttentionCase{1, 150, 200, 64, 64, DType::bf16, false, nullptr, 0, BiasOf::keys},
                      AttentionCase{2, 40, 80, 16, 32, DType::bf16, true, nullptr, 0, BiasOf::none, 0.25},
                      AttentionCase{1, 100, 144, 64, 64, DType::f16, false, nullptr, 0, BiasOf::keys, 0.1},
                      AttentionCase{2, 70, 112, 48, 32, DType::f16, true, nullptr, 0, BiasOf::keys, 0.5},
                      AttentionCase{1, 90, 96, 64, 64, DType::bf16, false, nullptr, 0.06, BiasOf::keys, 0.1},
                      AttentionCase{1, 130, 160, 32, 32, DType::f16, false, kWide, 0, BiasOf::keys, 0.1},
                      AttentionCase{1, 60, 96, 192, 192, DType::bf16, true, nullptr, 0, BiasOf::keys, 0.1},
                      AttentionCase{1, 40, 64, 32, 32, DType::f16, false, kPairs, 0, BiasOf::keys, 0.1},
                      AttentionCase{1, 40, 64, 40, 24, DType::f16, false, nullptr, 0, BiasOf::keys, 0.1},
                      AttentionCase{1, 20, 32, 48, 32, DType::f16, false, nullptr, 0, BiasOf::keys},
                      AttentionCase{1, 70, 36, 48, 16, DType::bf16, false, nullptr, 0, BiasOf::keys},
                      AttentionCase{2, 33, 77, 32, 48, DType::f16, false, nullptr, 0, BiasOf::scores},
                      AttentionCase{1, 150, 200, 64, 64, DType::bf16, false, nullptr, 0, BiasOf::scores},
                      AttentionCase{2, 70, 70, 64, 64, DType::f16, true, nullptr, 0, BiasOf::scores},
                      AttentionCase{1, 100, 144, 64, 64, DType::f16, true, nullptr, 0, BiasOf::scores, 0.1},
                      AttentionCase{1, 130, 160, 32, 32, DType::f16, false, kTall, 0.06, BiasOf::scores},
                      AttentionCase{1, 40, 64, 32, 32, DType::f16, false, kPairs, 0, BiasOf::scores, 0.1},
                      AttentionCase{1, 60, 97, 192, 192, DType::bf16, true, nullptr, 0, BiasOf::scores}),
    [](const auto& info) { return nameOf(info.param); });

TEST(FragmentAttentionChoice, LeavesWhatItCannotDo) {
  struct Row {
    const char* attrs;
    int64_t queries, keys, width;
  };
  const TargetFile target(withFragments());
  for (const Row& row : {Row{"causal = true", 32, 32, 32},                     // f32
                         Row{"precision = f16", 32, 32, 264},                  // too wide for the registers
                         Row{"causal = true, precision = f16", 40, 32, 32},    // rows that see nothing
                         Row{"scale = -0.5, precision = f16", 32, 32, 32}}) {  // maxima would be minima
    auto module =
        parse(fmt::format("module @m {{\n  func @f(%q: tensor<{0}x{2}xf32>, %k: tensor<{1}x{2}xf32>) -> "
                          "(o: tensor<{0}x{2}xf32>) {{\n    %o = tg.attention %q, %k, %k {{{3}}} : "
                          "tensor<{0}x{2}xf32>\n    return %o : tensor<{0}x{2}xf32>\n  }}\n}}\n",
                          row.queries, row.keys, row.width, row.attrs),
              "choice.tgir");
    ASSERT_TRUE(module) << module.error().str();
    auto passes = PassManager::parse(fmt::format("fuse{{target={}}}", target.path()));
    ASSERT_TRUE(passes);
    ASSERT_TRUE(passes->run(*module));
    EXPECT_EQ(print(**module).find("coopmat_attention"), std::string::npos) << row.attrs << row.width;
  }
}

}  // namespace
}  // namespace tg::test
