// SPDX-License-Identifier: Apache-2.0
// Convolutions as modules, and the interpreter of their kernels against that of tensors.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <string>

#include "ir/parser.h"
#include "ir/target.h"
#include "passes/pass.h"
#include "test/unit/halves.h"
#include "test/unit/target_file.h"

namespace tg::test {

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

inline std::string tensor(DType dtype, const Shape& shape) { return Type::tensor(dtype, shape).str(); }

/// The convolution, its gradients, those of kernels in f32, and a transposed convolution of the same operands.
inline std::string textOf(const ConvolutionCase& c) {
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

/// Compiles the functions of a case for a target, and compares the kernels' results with those of the tensor ops. The
/// kernels' text contains `mark`.
inline void expectKernelsGiveWhatTensorsGive(const ConvolutionCase& c, const Target& target,
                                             const std::string& mark) {
  auto plain = parse(textOf(c), "convolution.tgir"), kernels = parse(textOf(c), "convolution.tgir");
  ASSERT_TRUE(plain) << plain.error().str() << textOf(c);
  const TargetFile file(target);
  auto passes = PassManager::parse(fmt::format("fuse{{target={}}},plan,lower-kernels", file.path()));
  ASSERT_TRUE(passes) << passes.error().str();
  auto ran = passes->run(*kernels);
  ASSERT_TRUE(ran) << ran.error().str();
  const std::string text = print(**kernels);
  EXPECT_NE(text.find(mark), std::string::npos);

  auto narrow = [&](const Shape& shape, uint32_t seed) {
    NdArray array = drawn(shape, seed);
    array.type.dtype = c.dtype;
    if (c.dtype != DType::f32)
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

}  // namespace tg::test
