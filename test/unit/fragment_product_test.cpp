// SPDX-License-Identifier: Apache-2.0
// What follows a product, computed on the matrices of its sums: by the interpreter of kernels, against that of
// tensors.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "ir/target.h"
#include "passes/pass.h"
#include "test/unit/halves.h"
#include "test/unit/kernel_text.h"
#include "test/unit/target_file.h"

namespace tg::test {
namespace {

struct ProductCase {
  const char* label;
  int64_t m, n, k;
  DType dtype;
  const char* behind;              ///< ops behind %y, the product, that end with %r
  const char* result = "N";        ///< N: the product's type in 16 bits, W: in f32
  bool fragments = true;           ///< whether matrices suffice
  const char* also = nullptr;      ///< another result of the same type
  const char* schedule = nullptr;  ///< in place of the one chosen
};

/// W, N, V and B stand for the types of f32, of 16 bits, of a row, and of conditions.
std::string textOf(const ProductCase& c) {
  const std::string wide = fmt::format("tensor<{}x{}xf32>", c.m, c.n),
                    narrow = fmt::format("tensor<{}x{}x{}>", c.m, c.n, name(c.dtype)),
                    mask = fmt::format("tensor<{}x{}xi1>", c.m, c.n),
                    row = fmt::format("tensor<{}xf32>", c.n), result = c.result[0] == 'N' ? narrow : wide;
  std::string body;
  for (const char* at = c.behind; *at; ++at) {
    const bool alone = at[1] == '\0' || at[1] == '\n' || at[1] == ' ' || at[1] == ',';
    if (alone && at > c.behind && at[-1] == ' ' && std::string("WNVB").find(*at) != std::string::npos)
      body += *at == 'W' ? wide : *at == 'N' ? narrow : *at == 'V' ? row : mask;
    else
      body += *at;
  }
  return fmt::format(
      "module @m {{\n  func @f(%a: tensor<{0}x{2}x{3}>, %w: tensor<{2}x{1}x{3}>, %b: {4}, %g: {5}, %x: {6}, "
      "%c: tensor<1xf32>) -> (r: {7}{9}) {{\n"
      "    %aw = tg.cast %a : tensor<{0}x{2}xf32>\n    %ww = tg.cast %w : tensor<{2}x{1}xf32>\n"
      "    %y = tg.matmul %aw, %ww {{precision = {3}}} : {6}\n{8}\n    return %r{10} : {7}{11}\n  }}\n}}\n",
      c.m, c.n, c.k, name(c.dtype), row, narrow, wide, result, body,
      c.also ? fmt::format(", {}: {}", c.also, result) : "", c.also ? fmt::format(", %{}", c.also) : "",
      c.also ? fmt::format(", {}", result) : "");
}

class FragmentProduct : public ::testing::TestWithParam<ProductCase> {};

TEST_P(FragmentProduct, GivesWhatTensorsGive) {
  const ProductCase& c = GetParam();
  auto tensor = parse(textOf(c), "product.tgir");
  ASSERT_TRUE(tensor) << tensor.error().str() << textOf(c);
  Target target = withBf16();
  target.name = "quads";
  target.fragments = "quads";
  const TargetFile file(target);
  auto kernelModule = parse(textOf(c), "product.tgir");
  auto run = [&](const std::string& pipeline) {
    auto passes = PassManager::parse(pipeline);
    ASSERT_TRUE(passes) << passes.error().str();
    auto ran = passes->run(*kernelModule);
    ASSERT_TRUE(ran) << ran.error().str();
  };
  run(fmt::format("fuse{{target={}}}", file.path()));
  if (c.schedule)
    for (Op* op : (*kernelModule)->func("f")->body.ops)
      if (op->code == Opcode::fused) set(op->attrs, "schedule", *parseAttr(c.schedule));
  run("plan,spirv-emit");
  const std::string text = print(**kernelModule);
  ASSERT_NE(text.find("tgk.coopmat_mma"), std::string::npos);
  // Sums that go back through shared memory lie there as f32.
  EXPECT_EQ(text.find("xf32, shared>") == std::string::npos, c.fragments) << text;

  auto narrow = [&](NdArray array) {
    array.type.dtype = c.dtype;
    for (double& each : array.data) each = narrowValue(c.dtype, narrowBits(c.dtype, each));
    return array;
  };
  const std::map<std::string, NdArray> in{
      {"a", narrow(drawn({c.m, c.k}, 1))}, {"w", narrow(drawn({c.k, c.n}, 2))}, {"b", drawn({c.n}, 3)},
      {"g", narrow(drawn({c.m, c.n}, 4))}, {"x", drawn({c.m, c.n}, 5)},         {"c", drawn({1}, 6)}};
  InterpOptions options;
  options.mode = InterpMode::exact;
  auto results = [&](const Module& module) {
    auto interp = Interpreter::create(module, options);
    EXPECT_TRUE(interp) << interp.error().str();
    auto got = interp->run("f", in);
    EXPECT_TRUE(got) << got.error().str();
    if (!got) return std::map<std::string, NdArray>{};
    for (const std::string& finding : got->counters.findings) ADD_FAILURE() << finding;
    return std::map<std::string, NdArray>(got->results.begin(), got->results.end());
  };
  const auto expected = results(**tensor), got = results(**kernelModule);
  // A rounding behind the sum may go the other way where the sum itself is rounded.
  const double unit = std::ldexp(1.0, c.dtype == DType::f16 ? -10 : -7);
  ASSERT_EQ(got.size(), expected.size());
  for (const auto& [name, value] : got) {
    ASSERT_EQ(value.data.size(), expected.at(name).data.size());
    int64_t apart = 0;
    for (size_t i = 0; i < value.data.size(); ++i) {
      const double want = expected.at(name).data[i], off = std::fabs(value.data[i] - want);
      ASSERT_LE(off, 4 * unit * (std::fabs(want) + 1)) << name << " " << i;
      apart += off > 1e-5 * (std::fabs(want) + 1);
    }
    EXPECT_LE(apart * 100, static_cast<int64_t>(value.data.size())) << name;
  }
}

constexpr const char* kCast = "    %r = tg.cast %y : N";
constexpr const char* kBias = R"(    %z = tg.add %y, %b : W
    %r = tg.cast %z : N)";
constexpr const char* kResidual = R"(    %z = tg.add %y, %b : W
    %h = tg.cast %z : N
    %s = tg.cast %h : W
    %r = tg.add %x, %s : W)";
constexpr const char* kGelu = R"(    %z = tg.add %y, %b : W
    %h = tg.cast %z : N
    %s = tg.cast %h : W
    %t = tg.gelu %s {approximate = tanh} : W
    %r = tg.cast %t : N)";
constexpr const char* kGeluGrad = R"(    %h = tg.cast %y : N
    %s = tg.cast %h : W
    %e = tg.cast %g : W
    %t = tg.gelu_grad %e, %s {approximate = tanh} : W
    %r = tg.cast %t : N)";
constexpr const char* kScaled = R"(    %v = tg.mul %b, %c : V
    %t = tg.mul %y, %c : W
    %r = tg.sub %t, %v : W)";
constexpr const char* kErf = R"(    %t = tg.gelu %y : W
    %r = tg.cast %t : N)";
constexpr const char* kErfGrad = R"(    %e = tg.cast %g : W
    %t = tg.gelu_grad %e, %y : W
    %r = tg.cast %t : N)";
constexpr const char* kReluGrad = R"(    %e = tg.cast %g : W
    %o = tg.constant 0.0 : W
    %k = tg.greater %e, %o : B
    %j = tg.less %e, %c : B
    %l = tg.and %k, %j : B
    %t = tg.select %l, %y, %o : W
    %r = tg.cast %t : N)";
constexpr const char* kElu = R"(    %t = tg.elu %y {alpha = 0.5} : W
    %u = tg.leaky_relu %t {slope = 0.1} : W
    %r = tg.cast %u : N)";

/// The tiles of the table. Their patches of 16-bit results lie in the tile of an operand, those of the last one do not.
INSTANTIATE_TEST_SUITE_P(
    Tiles, FragmentProduct,
    ::testing::Values(ProductCase{"long", 144, 272, 136, DType::bf16, kGelu, "N", true, "h",
                                  "coopmat{tile = [128, 128, 64], warp = [64, 32]}"},
                      ProductCase{"longWide", 144, 208, 136, DType::f16, kGeluGrad, "N", true, nullptr,
                                  "coopmat{tile = [128, 192, 64], warp = [64, 48]}"},
                      ProductCase{"longHigh", 208, 144, 136, DType::bf16, kResidual, "W", true, nullptr,
                                  "coopmat{tile = [192, 128, 64], warp = [48, 64]}"},
                      ProductCase{"longHighBias", 208, 144, 136, DType::bf16, kBias, "N", true, nullptr,
                                  "coopmat{tile = [192, 128, 64], warp = [48, 64]}"},
                      ProductCase{"ofItsOwn", 144, 272, 72, DType::bf16, kBias, "N", true, nullptr,
                                  "coopmat{tile = [128, 256, 32], warp = [64, 64], patch = 32}"}),
    [](const auto& info) { return std::string(info.param.label); });

INSTANTIATE_TEST_SUITE_P(Epilogues, FragmentProduct,
                         ::testing::Values(ProductCase{"cast", 64, 64, 32, DType::f16, kCast},
                                           ProductCase{"ragged", 80, 112, 48, DType::bf16, kCast},
                                           ProductCase{"bias", 64, 128, 32, DType::bf16, kBias},
                                           ProductCase{"residual", 48, 64, 40, DType::bf16, kResidual, "W"},
                                           ProductCase{"gelu", 64, 64, 32, DType::f16, kGelu, "N", true, "h"},
                                           ProductCase{"geluGrad", 64, 80, 32, DType::bf16, kGeluGrad},
                                           ProductCase{"scaled", 64, 64, 32, DType::f16, kScaled, "W"},
                                           ProductCase{"erf", 64, 64, 32, DType::f16, kErf},
                                           ProductCase{"erfGrad", 64, 64, 32, DType::bf16, kErfGrad},
                                           ProductCase{"reluGrad", 64, 80, 32, DType::bf16, kReluGrad},
                                           ProductCase{"elu", 48, 64, 32, DType::f16, kElu},
                                           ProductCase{"odd", 40, 64, 32, DType::f16, kCast, "N", false}),
                         [](const auto& info) {
                           return std::string(info.param.label) + std::string(name(info.param.dtype));
                         });

}  // namespace
}  // namespace tg::test
