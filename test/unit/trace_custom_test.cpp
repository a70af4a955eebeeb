// SPDX-License-Identifier: Apache-2.0
// Kernels of the user's own in the C++ front end.
#include <gtest/gtest.h>

#include "ir/kernel/builder.h"
#include "ir/parser.h"
#include "ir/trace/trace.h"
#include "test/unit/trace_support.h"

namespace trace_user {

using namespace tg::nn;
using tg::DType;

constexpr const char* kScale =
    R"(kernel @scale(%x: buf<?xf32, in>, %s: buf<?xf32, inout>, %o: buf<?xf32, out>)
    workgroup(64) grid(ceildiv(dim(%x, 0), 64)) {
  %i = tgk.global_id 0 : u32
  %n = tgk.dim %x, 0 : u32
  %in = tgk.lt %i, %n : bool
  tgk.if %in {
    %v = tgk.load %x[%i] : f32
    %w = tgk.load %s[%i] : f32
    %y = tgk.mul %v, %w : f32
    tgk.store %y, %o[%i]
    tgk.store %v, %s[%i]
  }
})";

std::string failure(const std::function<Outputs()>& body) {
  auto module = trace(body);
  return module ? std::string("traced") : module.error().str();
}

TEST(TraceCustom, AKernelIsAddedOnceAndCalled) {
  Kernel scale(kScale);
  EXPECT_EQ(scale.name(), "scale");
  auto module = traced(trace([&]() -> Outputs {
    Tensor x = tensorInput("x", {70}), s = tensorInput("s", {70});
    std::vector<Tensor> first = custom(scale, {x, s}, {{{70}}, {{70}}});
    std::vector<Tensor> second =
        custom(Kernel(kScale), {first[1], first[0]}, {{{70}}, {{70}, DType::f32, 0}});
    return {{"s", second[0]}, {"o", second[1]}};
  }));
  ASSERT_TRUE(module);
  EXPECT_EQ(module->all(tg::ItemKind::kernel).size(), 1u);
  std::string text = tg::print(*module);
  EXPECT_NE(text.find("%scale, %scale_2 = tg.custom @scale(%x, %s) : tensor<70xf32>, tensor<70xf32>"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("%s_2, %o = tg.custom @scale(%scale_2, %scale) {batch = [-1, 0]} :"), std::string::npos)
      << text;
}

TEST(TraceCustom, AKernelOfABuilder) {
  tg::Item item;
  item.kind = tg::ItemKind::kernel;
  item.name = "double";
  item.workgroup = {64, 1, 1};
  tg::KernelBuilder builder(&item);
  tg::Value* x = builder.parameter(tg::Type::buffer(DType::f32, 1, {64}, tg::BufMode::in), "x");
  tg::Value* y = builder.parameter(tg::Type::buffer(DType::f32, 1, {64}, tg::BufMode::out), "y");
  item.grid = {tg::Operand::literal(int64_t{1})};
  tg::KV i = builder.id(tg::Opcode::k_global_id, 0);
  tg::KV v = builder.load(x, i);
  builder.store(builder.add(v, v), y, i);
  Kernel twice(item);
  auto module = traced(trace([&] { return custom(twice, {tensorInput("x", {64})}, KernelResult{{64}}); }));
  ASSERT_TRUE(module);
  EXPECT_NE(tg::print(*module).find("tg.custom @double(%x) : tensor<64xf32>"), std::string::npos);
}

TEST(TraceCustom, TheTour) {
  auto module = traced(trace([&] {
    Tensor x = tensorInput("x", {128});
    // clang-format off
    static const Kernel square(R"(
      kernel @square(%x: buf<?xf32, in>, %y: buf<?xf32, out>) workgroup(64) grid(ceildiv(dim(%x, 0), 64)) {
        %i = tgk.global_id 0 : u32
        %n = tgk.dim %x, 0 : u32
        %in = tgk.lt %i, %n : bool
        tgk.if %in {
          %v = tgk.load %x[%i] : f32
          %r = tgk.mul %v, %v : f32
          tgk.store %r, %y[%i]
        }
      })");
    Tensor y = custom(square, {x}, KernelResult{.shape = {128}, .batch = 0});
    // clang-format on
    return y;
  }));
  ASSERT_TRUE(module);
  EXPECT_NE(tg::print(*module).find("tg.custom @square(%x) {batch = [0]} : tensor<128xf32>"),
            std::string::npos);
}

TEST(TraceCustom, WhatIsWrongStandsAtTheAuthorsLine) {
  EXPECT_NE(failure([] {
              Tensor x = tensorInput("x", {4});
              return custom(Kernel(kScale), {x}, KernelResult{{4}});
            }).find("tg.custom [custom.c2]: @scale has 2 in and inout parameters, 1 input is given"),
            std::string::npos);
  std::string other = failure([] {
    Tensor x = tensorInput("x", {4});
    custom(Kernel(kScale), {x, x}, {{{4}}, {{4}}});
    std::string text = kScale;
    text.replace(text.find("tgk.mul"), 7, "tgk.add");
    return custom(Kernel(text), {x, x}, {{{4}}, {{4}}})[0];
  });
  EXPECT_NE(other.find("the module has another kernel @scale"), std::string::npos) << other;
  EXPECT_NE(other.find("trace_custom_test.cpp"), std::string::npos) << other;
  std::string text =
      failure([] { return custom(Kernel("kernel @k("), {tensorInput("x", {4})}, KernelResult{{4}}); });
  EXPECT_NE(text.find("the kernel's text at "), std::string::npos) << text;
  EXPECT_NE(failure([] {
              return custom(Kernel("param @w : tensor<4xf32>"), {tensorInput("x", {4})}, KernelResult{{4}});
            }).find("a kernel's text begins with 'kernel @name(…)'"),
            std::string::npos);
  EXPECT_NE(failure([] {
              return custom(Kernel(kScale), {tensorInput("x", {4})}, KernelResult{{0}});
            }).find("the extents [0] are not positive"),
            std::string::npos);
  Tensor outside = custom(Kernel(kScale), Args(std::vector<Tensor>{}), KernelResult{{4}});
  ASSERT_NE(outside.error(), nullptr);
  EXPECT_NE(outside.error()->str().find("operations need a trace"), std::string::npos);
}

}  // namespace trace_user
