// SPDX-License-Identifier: Apache-2.0
// Damaged modules: whatever is done to a text of any stage, reading it gives a module or located errors, and
// a module that verifies goes through the passes of its stage without breaking them. Seeded, so that a
// failure repeats.
#include <fstream>
#include <iterator>

#include <gtest/gtest.h>

#include "ir/parser.h"
#include "ir/verify.h"
#include "passes/pass.h"
#include "test/fuzz/mutator.h"

namespace tg {
namespace {

/// A small model with everything a stage's text can hold, so that thousands of them take seconds.
constexpr const char* kModel = R"(
module @m attributes {train_pipeline = "append-grad"} {
  param @l.w : tensor<4x3xf32> {init = kaiming}
  param @l.b : tensor<3xf32> {init = dense<0.5, -0.0, inf>, decay = false}
  state @seen : tensor<i32> {init = constant(1)}
  func @train(%x: tensor<2x4xf32> {batch = 0}, %ids: tensor<2xi32>) -> (loss: tensor<f32>, out: tensor<2x3xf32>) {
    %w = tg.param @l.w : tensor<4x3xf32>
    %b = tg.param @l.b : tensor<3xf32>
    %z = tg.matmul %x, %w : tensor<2x3xf32>
    %a = tg.add %z, %b : tensor<2x3xf32>
    %s = tg.softmax %a {axis = 1} : tensor<2x3xf32>
    %t = tg.transpose %s {perm = [1, 0]} : tensor<3x2xf32>
    %r = tg.reshape %t {shape = [-1]} : tensor<6xf32>
    %c = tg.slice %r {starts = [1], limits = [6], strides = [2]} : tensor<3xf32>
    %p = tg.pad %c {low = [1], high = [0], value = -1.5} : tensor<4xf32>
    %m = tg.mean %p {axes = [0]} : tensor<f32>
    %e = tg.cross_entropy %a, %ids {reduction = sum} : tensor<f32>
    %loss = tg.add %m, %e : tensor<f32>
    %n = tg.state @seen : tensor<i32>
    %one = tg.constant 1 : tensor<i32>
    %next = tg.add %n, %one : tensor<i32>
    tg.update @seen, %next
    tg.capture %a {name = "a \"b\""}
    return %loss, %a : tensor<f32>, tensor<2x3xf32>
  }
}
)";

/// The passes that follow a stage, short of the ones that need a shader compiler.
const char* restFrom(Stage stage) {
  switch (stage) {
  case Stage::tensor: return "append-grad,append-adam,fuse,plan";
  case Stage::fused: return "plan";
  default: return "";
  }
}

std::string throughPasses(std::string_view text, const char* pipeline) {
  auto module = parse(text, "seed.tgir");
  EXPECT_TRUE(module) << module.error().str();
  auto passes = PassManager::parse(pipeline);
  EXPECT_TRUE(passes) << passes.error().str();
  auto ran = passes->reproducer("").run(*module);
  EXPECT_TRUE(ran) << ran.error().str();
  return print(**module);
}

struct Counts {
  int cases = 0, parsed = 0, verified = 0, passed = 0;
};

/// Every error says where. The one exception is the end of an empty text.
void expectLocated(const Error& error, const std::string& text) {
  ASSERT_FALSE(error.diagnostics().empty());
  for (const Diagnostic& diagnostic : error.diagnostics()) {
    EXPECT_FALSE(diagnostic.message.empty());
    EXPECT_NE(placeOf(diagnostic.loc), nullptr) << diagnostic.message << "\n" << text;
  }
}

void tryText(const std::string& text, Counts& counts) {
  ++counts.cases;
  auto module = parse(text, "fuzz.tgir");
  if (!module) return expectLocated(module.error(), text);
  ++counts.parsed;
  auto verified = verify(**module);
  if (!verified) return expectLocated(verified.error(), text);
  ++counts.verified;

  std::string printed = print(**module);
  auto again = parse(printed, "printed.tgir");
  ASSERT_TRUE(again) << again.error().str() << text;
  EXPECT_EQ(print(**again), printed) << text;

  auto passes = PassManager::parse(restFrom((*module)->stage));
  ASSERT_TRUE(passes) << passes.error().str();
  // fuzz_modules also prints and parses between passes, which takes most of the time.
  auto ran = passes->reproducer("").verifyEach(VerifyEach::on).run(*module);
  if (ran)
    ++counts.passed;
  else
    for (const Diagnostic& diagnostic : ran.error().diagnostics())
      EXPECT_EQ(diagnostic.message.find("bug"), std::string::npos) << ran.error().str() << text;
}

/// A case costs several times as much under a sanitizer, which therefore sees the first third of them.
#ifdef __SANITIZE_ADDRESS__
constexpr int kShare = 3;
#else
constexpr int kShare = 1;
#endif

void tryMutants(const std::string& text, uint64_t seed, int cases, Counts& counts) {
  const std::vector<std::string> none;
  fuzz::Mutator mutator(seed, none);
  cases /= kShare;
  for (int index = 0; index < cases && !testing::Test::HasFailure(); ++index) {
    SCOPED_TRACE(testing::Message() << "seed " << seed << ", case " << index);
    tryText(mutator.mutate(text), counts);
  }
}

/// A run whose every case is refused at once would test the first line alone.
void expectDepth(const Counts& counts) {
  EXPECT_GT(counts.parsed, counts.cases / 10);
  EXPECT_GT(counts.verified, counts.cases / 20);
  EXPECT_LT(counts.verified, counts.cases);
}

TEST(ParserFuzz, tensorStage) {
  Counts counts;
  tryMutants(throughPasses(kModel, ""), 1, 2000, counts);
  expectDepth(counts);
  EXPECT_GT(counts.passed, 0);
}

TEST(ParserFuzz, gradientsAndAdam) {
  Counts counts;
  tryMutants(throughPasses(kModel, "append-grad,append-adam"), 2, 1500, counts);
  expectDepth(counts);
}

TEST(ParserFuzz, fusedStage) {
  Counts counts;
  tryMutants(throughPasses(kModel, "append-grad,append-adam,fuse"), 3, 1500, counts);
  expectDepth(counts);
  EXPECT_GT(counts.passed, 0);
}

TEST(ParserFuzz, plannedStage) {
  Counts counts;
  tryMutants(throughPasses(kModel, "append-grad,append-adam,fuse,plan"), 4, 1500, counts);
  expectDepth(counts);
}

TEST(ParserFuzz, kernelStage) {
  Counts counts;
  tryMutants(R"(
module @m stage(kernel) {
  buffer @io : 4096
  kernel @k(%a: buf<4x8xf32, in>, %v: buf<?xvec4<f32>, in, texel>, %n: buf<4xi32, inout>, %o: buf<4xvec4<f32>, out>) workgroup(4, 2, 1) grid(2, 1) {
    %i = tgk.global_id 0 : u32
    %m = tgk.shared : buf<16xf32, shared>
    %e = tgk.load %a[%i, 0] : f32
    %w = tgk.load %v[%i] : vec4<f32>
    %acc, %count = tgk.for %k = 0 to(8) step(2) iter_args(%s = %e, %c = 0) {unroll = true} : f32, i32 {
      %x = tgk.load %a[%i, %k] : f32
      %s2 = tgk.fma %x, %x, %s : f32
      %c2 = tgk.add %c, 1 : i32
      tgk.yield %s2, %c2 : f32, i32
    }
    tgk.barrier
    %t = tgk.gt %acc, 0.0 : bool
    %r = tgk.if %t : f32 {
      %x = tgk.exp %acc : f32
      tgk.yield %x : f32
    } else {
      tgk.yield 1.0
    }
    tgk.atomic_add %count, %n[%i]
    %q = tgk.vec %r, 0.0, %r, 1.0 : vec4<f32>
    tgk.store %q, %o[%i]
  }
  func @f(%x: tensor<4xf32> -> @io[0]) -> (out: tensor<4xf32>) {
    tg.fill args(out(@io[2048:16]))
    tg.barrier
    tg.dispatch @k grid(2, 1, 1) args(in(@io[0:128]), texel(@io[1024:64]), inout(@io[2048:16]), out(@io[3072:64])) {label = "k"}
    %y = tg.home : tensor<4xf32> -> @io[16]
    return %y : tensor<4xf32>
  }
}
)",
             5, 3000, counts);
  expectDepth(counts);
}

TEST(ParserFuzz, kernelsOfAUser) {
  Counts counts;
  tryMutants(R"(
module @m {
  func @norm(%x: f32, %s: vec2<f32>) -> (y: f32, big: bool) attributes {vjp = @norm_vjp} {
    %e = tgk.extract %s, 1 : f32
    %y = tgk.call @half(%e) : f32
    %big = tgk.isfinite %x : bool
    return %y, %big : f32, bool
  }
  func @norm_vjp(%x: f32, %s: vec2<f32>, %d_y: f32) -> (d_x: f32, d_s: vec2<f32>) {
    %d_s = tgk.vec %d_y, 0.0 : vec2<f32>
    return %d_y, %d_s : f32, vec2<f32>
  }
  func @half(%x: f32) -> (y: f32) {
    %y = tgk.mul %x, 0.5 : f32
    return %y : f32
  }
  kernel @k(%x: buf<?x4xf16, in>, %n: buf<?xu32, inout>, %q: buf<11xi32, accum>, %e: buf<2x11xi32, tape>, %y: buf<?x4xf32, out>) workgroup(4, 1, 1) grid(ceildiv(dim(%x, 0), 4), 1) vjp(@k_vjp) {
    %i = tgk.global_id 0 : u32
    %l = tgk.local : buf<4x2xf32, local>
    %v = tgk.load %x[%i, 3] : f32
    %w = tgk.vec %v : vec2<f32>
    %r, %b = tgk.call @norm(%v, %w) : f32, bool
    %old = tgk.atomic_compare_exchange 0, %i, %n[%i] : u32
    tgk.atomic_max %old, %n[%i]
    tgk.accumulate %r, %l[%i, 0]
    %m = tgk.subgroup_ballot %b : vec4<u32>
    %t = tgk.subgroup_shuffle %r, 0 : f32
    %u = tgk.subgroup_reduce %t {kind = min} : f32
    tgk.exact_store %u, %e[1]
    %z = tgk.exact_load %e[1] : f32
    %s = tgk.if %b : f32 {
      tgk.yield %z : f32
    } else {
      tgk.yield 1.0
    }
    tgk.store %s, %y[%i, 3]
  }
  kernel @k_vjp(%x: buf<?x4xf16, in>, %d_y: buf<?x4xf32, in>, %d_x: buf<?x4xf32, accum>) workgroup(4, 1, 1) grid(1) {
    %i = tgk.global_id 0 : u32
    %g = tgk.load %d_y[%i, 0] : f32
    tgk.atomic_add %g, %d_x[%i, 0]
  }
}
)",
             7, 2000, counts);
  expectDepth(counts);
}

TEST(ParserFuzz, sinExample) {
  std::ifstream in(TG_SOURCE_DIR "/docs/examples/sin.tgir");
  std::string text(std::istreambuf_iterator<char>(in), {});
  ASSERT_FALSE(text.empty());
  Counts counts;
  tryMutants(text, 6, 500, counts);
  expectDepth(counts);
}

/// Every prefix of the model, one byte at a time.
TEST(ParserFuzz, truncations) {
  std::string text = throughPasses(kModel, "");
  for (size_t length = 0; length + 2 < text.size(); ++length) {  // without "}\n" at least
    auto module = parse(text.substr(0, length), "cut.tgir");
    ASSERT_FALSE(module) << length;
    expectLocated(module.error(), text.substr(0, length));
  }
}

}  // namespace
}  // namespace tg
