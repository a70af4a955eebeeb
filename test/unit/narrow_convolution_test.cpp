// SPDX-License-Identifier: Apache-2.0
// Convolutions of 16 bits by matrix units, from images with channels last: by the interpreter of kernels, against that of
// tensors.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <memory>
#include <string>

#include "ir/parser.h"
#include "ir/target.h"
#include "passes/pass.h"
#include "test/unit/halves.h"
#include "test/unit/target_file.h"

namespace tg::test {
namespace {

struct ConvolutionCase {
  const char* label;
  Shape x, w;
  int64_t stride = 1, padding = 0, dilation = 1, groups = 1;
  DType dtype = DType::bf16;
  bool last = true;  ///< whether the image is stored with channels last

  int64_t count(int axis) const {
    return (x[axis] + 2 * padding - dilation * (w[axis] - 1) - 1) / stride + 1;
  }
  Shape y() const { return {x[0], w[0], count(2), count(3)}; }
  /// Of a transposed convolution of y.
  Shape back() const {
    auto extent = [&](int axis) {
      return (count(axis) - 1) * stride - 2 * padding + dilation * (w[axis] - 1) + 1;
    };
    return {x[0], w[1] * groups, extent(2), extent(3)};
  }
  std::string attrs() const {
    return fmt::format("stride = [{0}, {0}], padding = [{1}, {1}], dilation = [{2}, {2}], groups = {3}",
                       stride, padding, dilation, groups);
  }
};

std::string tensor(DType dtype, const Shape& shape) { return Type::tensor(dtype, shape).str(); }

/// The convolution, its gradients, those of kernels in f32, and a transposed convolution of the same operands.
std::string textOf(const ConvolutionCase& c) {
  const std::string x = tensor(c.dtype, c.x), w = tensor(c.dtype, c.w), y = tensor(c.dtype, c.y()),
                    wide = tensor(DType::f32, c.w), attrs = c.attrs();
  return fmt::format(R"(module @m {{
  func @forward(%x: {0}, %w: {1}) -> (r: {2}) {{
    %r = tg.conv2d %x, %w {{{6}}} : {2}
    return %r : {2}
  }}
  func @input(%w: {1}, %dy: {2}) -> (r: {0}) {{
    %r = tg.conv2d_grad_input %w, %dy {{input_size = [{7}, {8}], {6}}} : {0}
    return %r : {0}
  }}
  func @weight(%x: {0}, %dy: {2}) -> (r: {3}) {{
    %xw = tg.cast %x : {4}
    %dw = tg.cast %dy : {5}
    %r = tg.conv2d_grad_weight %xw, %dw {{kernel_size = [{9}, {10}], {6}}} : {3}
    return %r : {3}
  }}
  func @transposed(%dy: {2}, %w: {1}) -> (r: {11}) {{
    %r = tg.conv_transpose2d %dy, %w {{{6}}} : {11}
    return %r : {11}
  }}
  func @both(%x: {0}, %w: {1}, %dy: {2}) -> (r: {2}, d: {3}) {{
    %r = tg.conv2d %x, %w {{{6}}} : {2}
    %xw = tg.cast %x : {4}
    %dw = tg.cast %dy : {5}
    %d = tg.conv2d_grad_weight %xw, %dw {{kernel_size = [{9}, {10}], {6}}} : {3}
    return %r, %d : {2}, {3}
  }}
}}
)",
                     x, w, y, wide, tensor(DType::f32, c.x), tensor(DType::f32, c.y()), attrs, c.x[2], c.x[3],
                     c.w[2], c.w[3], tensor(c.dtype, c.back()));
}

class NarrowConvolution : public ::testing::TestWithParam<ConvolutionCase> {};

TEST_P(NarrowConvolution, GivesWhatTensorsGive) {
  const ConvolutionCase& c = GetParam();
  auto plain = parse(textOf(c), "convolution.tgir"), kernels = parse(textOf(c), "convolution.tgir");
  ASSERT_TRUE(plain) << plain.error().str() << textOf(c);
  const TargetFile file(withFragments());
  auto passes = PassManager::parse(fmt::format("fuse{{target={}}},plan,lower-kernels", file.path()));
  ASSERT_TRUE(passes) << passes.error().str();
  auto ran = passes->run(*kernels);
  ASSERT_TRUE(ran) << ran.error().str();
  const std::string text = print(**kernels);
  EXPECT_NE(text.find("tgk.coopmat_mma"), std::string::npos);

  auto narrow = [&](const Shape& shape, uint32_t seed) {
    NdArray array = drawn(shape, seed);
    array.type.dtype = c.dtype;
    for (double& each : array.data) each = narrowValue(c.dtype, narrowBits(c.dtype, each));
    return array;
  };
  const std::map<std::string, NdArray> all{
      {"x", narrow(c.x, 1)}, {"w", narrow(c.w, 2)}, {"dy", narrow(c.y(), 3)}};
  InterpOptions options;
  options.mode = InterpMode::exact;
  auto results = [&](const Module& module, const Item& func) {
    std::map<std::string, NdArray> in;
    for (const auto& arg : func.body.args) in.emplace(arg->name, all.at(arg->name));
    auto interp = Interpreter::create(module, options);
    EXPECT_TRUE(interp) << interp.error().str();
    auto got = interp->run(func.name, in);
    EXPECT_TRUE(got) << got.error().str();
    if (!got) return std::map<std::string, NdArray>{};
    for (const std::string& finding : got->counters.findings) ADD_FAILURE() << finding;
    return std::map<std::string, NdArray>(got->results.begin(), got->results.end());
  };
  // A rounding behind the sum may go the other way where the sum itself is rounded.
  const double unit = std::ldexp(1.0, c.dtype == DType::f16 ? -10 : -7);
  for (const Item* func : (*plain)->all(ItemKind::func)) {
    const auto expected = results(**plain, *func), got = results(**kernels, *func);
    ASSERT_EQ(got.size(), expected.size());
    for (const auto& [name, value] : got) {
      const bool wide = value.type.dtype == DType::f32;
      ASSERT_EQ(value.data.size(), expected.at(name).data.size());
      for (size_t i = 0; i < value.data.size(); ++i) {
        const double want = expected.at(name).data[i];
        ASSERT_NEAR(value.data[i], want, (wide ? 1e-4 : 2 * unit) * (std::fabs(want) + 1))
            << func->name << " " << name << " " << i;
      }
    }
  }
}

TEST_P(NarrowConvolution, StoresTheImageOnce) {
  const ConvolutionCase& c = GetParam();
  auto module = parse(textOf(c), "convolution.tgir");
  ASSERT_TRUE(module) << module.error().str();
  const TargetFile file(withFragments());
  ASSERT_TRUE(PassManager::parse(fmt::format("fuse{{target={}}}", file.path()))->run(*module));
  int copies = 0;
  const Shape last{c.x[0], c.x[2] + 2 * c.padding, c.x[3] + 2 * c.padding, c.x[1]};
  for (const Op* op : (*module)->func("both")->body.ops)
    for (const auto& result : op->results) copies += result->type.shape == last;
  EXPECT_EQ(copies, c.last ? 1 : 0) << print(**module);
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, NarrowConvolution,
    ::testing::Values(
        ConvolutionCase{"plain", {2, 16, 8, 8}, {16, 16, 3, 3}, 1, 1},
        ConvolutionCase{"half", {2, 16, 8, 8}, {24, 16, 3, 3}, 1, 1, 1, 1, DType::f16},
        ConvolutionCase{"odd", {1, 24, 9, 7}, {40, 24, 3, 2}, 1, 1},
        ConvolutionCase{"strided", {2, 8, 13, 11}, {16, 8, 3, 3}, 2, 1},
        ConvolutionCase{"dilated", {1, 8, 12, 12}, {16, 8, 3, 3}, 1, 2, 2},
        ConvolutionCase{"unpadded", {1, 32, 8, 9}, {16, 32, 2, 2}},
        ConvolutionCase{"strided1", {1, 16, 16, 16}, {16, 16, 1, 1}, 2},
        ConvolutionCase{"single", {1, 16, 8, 8}, {16, 16, 1, 1}, 1, 0, 1, 1, DType::bf16, false},
        ConvolutionCase{"channels3", {1, 3, 12, 12}, {16, 3, 3, 3}, 1, 1, 1, 1, DType::bf16, false},
        ConvolutionCase{"groups", {1, 32, 8, 8}, {32, 16, 3, 3}, 1, 1, 1, 2, DType::bf16, false}),
    [](const auto& param) { return std::string(param.param.label); });

}  // namespace
}  // namespace tg::test
