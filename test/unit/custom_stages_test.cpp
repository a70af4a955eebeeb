// SPDX-License-Identifier: Apache-2.0
// tg.custom at every stage, on the interpreter and on a device: equal results, and those that C++ computes.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "ir/parser.h"
#include "ir/verify.h"
#include "runtime/compile.h"
#include "test/unit/run_passes.h"
#include "test/unit/sweep_runs.h"

namespace tg::test {
namespace {

std::unique_ptr<Module> moduleOf(const std::string& text) {
  auto module = parse(text, "custom_test.tgir");
  if (!module) {
    ADD_FAILURE() << module.error().str();
    return nullptr;
  }
  auto checked = verify(**module);
  EXPECT_TRUE(checked) << checked.error().str();
  return *std::move(module);
}

std::unique_ptr<Module> passed(const Module& module, const std::string& pipeline) {
  auto done = runPasses(clone(module), pipeline);
  if (done) return std::move(done->module);
  ADD_FAILURE() << done.error().str();
  return nullptr;
}

/// A module at every stage, in order, for a target.
std::vector<std::unique_ptr<Module>> everyStage(const Module& tensor, const std::string& fuse) {
  std::vector<std::unique_ptr<Module>> stages;
  stages.push_back(passed(tensor, fuse));
  for (const char* pass : {"plan", "lower-kernels", "spirv-emit"})
    if (stages.back()) stages.push_back(passed(*stages.back(), pass));
  std::erase(stages, nullptr);
  EXPECT_EQ(stages.size(), 4u);
  return stages;
}

void expectSame(const Results& got, const Results& expected, const std::string& where) {
  ASSERT_EQ(got.size(), expected.size()) << where;
  for (const auto& [name, value] : expected) {
    ASSERT_TRUE(got.contains(name)) << where << " " << name;
    EXPECT_EQ(got.at(name).type, value.type) << where << " " << name;
    EXPECT_EQ(got.at(name).data, value.data) << where << " " << name;
  }
}

/// Runs a function at every stage under every schedule, and on the device.
void runEverywhere(Gpu& gpu, const Module& module, const std::string& fuse, const Arrays& inputs,
                   const Results& expected) {
  expectSame(interpret(module, "f", inputs), expected, "tensor");
  auto stages = everyStage(module, fuse);
  for (const auto& stage : stages)
    for (int order = 0; order < 6; ++order) {
      InterpOptions options;
      options.kernel = laneOrder(order);
      expectSame(interpret(*stage, "f", inputs, {}, options), expected,
                 std::string(name(stage->stage)) + " order " + std::to_string(order));
    }
  if (stages.empty() || stages.back()->stage != Stage::spirv) return;
  std::vector<Results> run = gpu.run(*stages.back(), {"f", "f"}, {inputs, inputs});
  ASSERT_EQ(run.size(), 2u);
  expectSame(run[0], expected, "device");
  expectSame(run[1], expected, "device again");
}

// Every mode, element type and open extent: s steps on twice, in place the second time.
constexpr const char* kMix = R"(
module @mix {
  kernel @mix(%x: buf<?x4xf32, in>, %mask: buf<?xu32, in>, %id: buf<?xi32, in>, %a: buf<1xf32, in>,
      %s: buf<?xf32, inout>, %g: buf<8xf32, accum>, %n: buf<8xu32, accum>, %t: buf<?x?xf32, tape>,
      %o: buf<?xvec4<f32>, out>) workgroup(16) grid(ceildiv(dim(%x, 0), 16)) {
    %i = tgk.global_id 0 : u32
    %d = tgk.dim %x, 0 : u32
    %in = tgk.lt %i, %d : bool
    tgk.if %in {
      %row = tgk.load %id[%i] : i32
      %x2 = tgk.load %x[%i, 2] : f32
      %av = tgk.load %a[0] : f32
      %old = tgk.load %s[%i] : f32
      %new = tgk.fma %x2, %av, %old : f32
      tgk.store %new, %s[%i]
      tgk.store %new, %t[%i, 1]
      %back = tgk.load %t[%i, 1] : f32
      tgk.atomic_add %back, %g[%row]
      tgk.atomic_add 1, %n[%row]
      %m = tgk.load %mask[%i] : u32
      %on = tgk.ne %m, 0 : bool
      %w = tgk.select %on, %back, 0.5 : f32
      %v = tgk.vec %w : vec4<f32>
      tgk.store %v, %o[%i]
    }
  }
  func @f(%x: tensor<4x20xf32>, %id: tensor<20xi32>, %a: tensor<f32>, %s: tensor<4x5xf32>)
      -> (s: tensor<20xf32>, g: tensor<8xf32>, n: tensor<8xi32>, o: tensor<80xf32>, first: tensor<8xf32>) {
    %xt = tg.transpose %x {perm = [1, 0]} : tensor<20x4xf32>
    %sf = tg.reshape %s {shape = [20]} : tensor<20xf32>
    %zero = tg.constant 0.0 : tensor<f32>
    %mask = tg.greater %sf, %zero : tensor<20xi1>
    %s1, %g1, %n1, %t1, %o1 = tg.custom @mix(%xt, %mask, %id, %a, %sf) : tensor<20xf32>, tensor<8xf32>, tensor<8xi32>, tensor<20x3xf32>, tensor<80xf32>
    %s2, %g2, %n2, %t2, %o2 = tg.custom @mix(%xt, %mask, %id, %a, %s1) : tensor<20xf32>, tensor<8xf32>, tensor<8xi32>, tensor<20x3xf32>, tensor<80xf32>
    %n = tg.add %n1, %n2 : tensor<8xi32>
    %o = tg.add %o1, %o2 : tensor<80xf32>
    return %s2, %g2, %n, %o, %g1 : tensor<20xf32>, tensor<8xf32>, tensor<8xi32>, tensor<80xf32>, tensor<8xf32>
  }
}
)";

struct Mix {
  Arrays inputs;
  Results expected;
};

/// Small multiples of 1/4, so that no sum rounds in any order.
Mix mix() {
  Mix mix;
  NdArray x = NdArray::zeros(Type::tensor(DType::f32, {4, 20})),
          s = NdArray::zeros(Type::tensor(DType::f32, {4, 5}));
  NdArray id = NdArray::zeros(Type::tensor(DType::i32, {20}));
  for (size_t i = 0; i < x.data.size(); ++i) x.data[i] = static_cast<double>(i * 7 % 23) / 4 - 2;
  for (size_t i = 0; i < 20; ++i) {
    s.data[i] = static_cast<double>(i * 5 % 11) / 2 - 2;
    id.data[i] = static_cast<double>(i * i % 8);
  }
  auto vector = [](DType dtype, int64_t count) { return NdArray::zeros(Type::tensor(dtype, {count})); };
  NdArray end = vector(DType::f32, 20), sums = vector(DType::f32, 8), first = sums,
          count = vector(DType::i32, 8);
  NdArray out = vector(DType::f32, 80);
  for (size_t i = 0; i < 20; ++i) {
    double step = x.data[40 + i] * 1.5, row = id.data[i];
    end.data[i] = s.data[i] + 2 * step;
    first.data[static_cast<size_t>(row)] += s.data[i] + step;
    sums.data[static_cast<size_t>(row)] += end.data[i];
    count.data[static_cast<size_t>(row)] += 2;
    for (size_t lane = 0; lane < 4; ++lane)
      out.data[4 * i + lane] = s.data[i] > 0 ? 2 * s.data[i] + 3 * step : 1.0;
  }
  mix.inputs = {{"x", x}, {"id", id}, {"a", NdArray::scalar(1.5)}, {"s", s}};
  mix.expected = {{"s", end}, {"g", sums}, {"n", count}, {"o", out}, {"first", first}};
  return mix;
}

TEST(CustomStages, EveryModeAtEveryStageWithAtomics) {
  Gpu gpu;
  Mix given = mix();
  auto module = moduleOf(kMix);
  ASSERT_TRUE(module);
  Target nine;  // vulkan-min, which reads storage, with a binding more
  nine.bindings = 9;
  runEverywhere(gpu, *module, "fuse{deterministic=false target=" + targetOption(nine) + "}", given.inputs,
                given.expected);
  runEverywhere(gpu, *module, "fuse{target=lavapipe,deterministic=false}", given.inputs, given.expected);
}

TEST(CustomStages, EveryModeAtEveryStageWithExactSums) {
  Gpu gpu;
  Mix given = mix();
  auto module = moduleOf(kMix);
  ASSERT_TRUE(module);
  runEverywhere(gpu, *module, "fuse{target=lavapipe}", given.inputs, given.expected);
}

// A gradient-like scatter: many invocations add to few rows, through shared memory and straight, and to an
// inout that holds something already.
constexpr const char* kScatter = R"(
module @scatter {
  kernel @scatter(%x: buf<?xf32, in>, %id: buf<?xi32, in>, %s: buf<5xf32, inout>, %g: buf<5x2xf32, accum>)
      workgroup(32) grid(ceildiv(dim(%x, 0), 32)) {
    %h = tgk.shared : buf<5xf32, shared>
    %l = tgk.local_id 0 : u32
    %first = tgk.lt %l, 5 : bool
    tgk.if %first {
      tgk.store 0.0, %h[%l]
    }
    tgk.barrier
    %i = tgk.global_id 0 : u32
    %d = tgk.dim %x, 0 : u32
    %in = tgk.lt %i, %d : bool
    tgk.if %in {
      %v = tgk.load %x[%i] : f32
      %row = tgk.load %id[%i] : i32
      tgk.atomic_add %v, %h[%row]
      tgk.atomic_add %v, %g[%row, 1]
      tgk.atomic_add %v, %s[%row]
    }
    tgk.barrier
    tgk.if %first {
      %w = tgk.load %h[%l] : f32
      tgk.atomic_add %w, %g[%l, 0]
    }
  }
  func @f(%x: tensor<300xf32>, %id: tensor<300xi32>, %s: tensor<5xf32>) -> (s: tensor<5xf32>, g: tensor<5x2xf32>) {
    %s2, %g = tg.custom @scatter(%x, %id, %s) : tensor<5xf32>, tensor<5x2xf32>
    return %s2, %g : tensor<5xf32>, tensor<5x2xf32>
  }
}
)";

/// The f32 nearest to a sum of multiples of 2^-60 below 2^60, which 128-bit integers add exactly.
double rounded(const std::vector<double>& terms) {
  __int128 sum = 0;
  for (double term : terms) sum += static_cast<__int128>(std::ldexp(term, 60));
  // A double has 53 bits: what is cut off below is or-ed into the lowest, so that rounding twice is rounding
  // once.
  bool negative = sum < 0;
  unsigned __int128 magnitude =
      negative ? -static_cast<unsigned __int128>(sum) : static_cast<unsigned __int128>(sum);
  int shift = 0;
  bool sticky = false;
  while (magnitude >> 52) sticky = sticky || (magnitude & 1), magnitude >>= 1, ++shift;
  double value = std::ldexp(static_cast<double>(static_cast<uint64_t>(magnitude) | sticky), shift - 60);
  return static_cast<double>(static_cast<float>(negative ? -value : value));
}

TEST(CustomStages, ExactSumsAreThoseOfExactArithmetic) {
  Gpu gpu;
  auto module = moduleOf(kScatter);
  ASSERT_TRUE(module);
  std::mt19937 random(7);
  NdArray x = NdArray::zeros(Type::tensor(DType::f32, {300})),
          id = NdArray::zeros(Type::tensor(DType::i32, {300}));
  NdArray s = NdArray::zeros(Type::tensor(DType::f32, {5})),
          g = NdArray::zeros(Type::tensor(DType::f32, {5, 2}));
  std::vector<std::vector<double>> rows(5), groups(50);  // by row; by workgroup and row
  for (size_t row = 0; row < 5; ++row)
    s.data[row] = static_cast<double>(static_cast<float>(1 / (1.0 + static_cast<double>(row))));
  for (size_t i = 0; i < 300; ++i) {
    // 24 bits between 2^-36 and 2^24 of either sign: orders of magnitude that no f32 sum keeps.
    double mantissa = static_cast<double>(random() >> 8) - 0x1p23;
    x.data[i] = std::ldexp(mantissa, -static_cast<int>(random() % 37));
    id.data[i] = static_cast<double>(random() % 5);
    auto row = static_cast<size_t>(id.data[i]);
    rows[row].push_back(x.data[i]);
    groups[i / 32 * 5 + row].push_back(x.data[i]);
  }
  NdArray sums = s;
  for (size_t row = 0; row < 5; ++row) {
    std::vector<double> partial;
    for (size_t group = 0; group < 10; ++group) partial.push_back(rounded(groups[group * 5 + row]));
    g.data[2 * row] = rounded(partial);
    g.data[2 * row + 1] = rounded(rows[row]);
    rows[row].push_back(s.data[row]);
    sums.data[row] = rounded(rows[row]);
  }
  Arrays inputs = {{"x", x}, {"id", id}, {"s", s}};
  Results expected = {{"s", sums}, {"g", g}};
  auto stages = everyStage(*module, "fuse{target=lavapipe}");
  ASSERT_EQ(stages.size(), 4u);
  for (const auto& stage : stages)
    for (int order = 0; order < 6; ++order) {
      InterpOptions options;
      options.mode = InterpMode::exact;
      options.kernel = laneOrder(order);
      expectSame(interpret(*stage, "f", inputs, {}, options), expected,
                 std::string(name(stage->stage)) + " order " + std::to_string(order));
    }
  std::vector<Results> run = gpu.run(*stages.back(), {"f", "f"}, {inputs, inputs});
  ASSERT_EQ(run.size(), 2u);
  expectSame(run[0], expected, "device");
  expectSame(run[1], expected, "device again");
  // Without exact sums the orders differ: the test would see it.
  auto atomic = everyStage(*module, "fuse{target=lavapipe,deterministic=false}");
  InterpOptions reversed;
  reversed.kernel = laneOrder(3);
  Results one = interpret(*atomic.back(), "f", inputs),
          other = interpret(*atomic.back(), "f", inputs, {}, reversed);
  EXPECT_NE(one.at("g").data, other.at("g").data);
}

// What a kernel does wrong is an error of the run that says which op did it.
TEST(CustomStages, FindingsAreErrorsOfTheRun) {
  const std::string text = R"(
module @bad {
  kernel @past(%x: buf<?xf32, in>, %o: buf<?xf32, out>) workgroup(4) grid(1) {
    %i = tgk.global_id 0 : u32
    %j = tgk.add %i, 2 : u32
    %v = tgk.load %x[%j] : f32
    tgk.store %v, %o[%i]
  }
  kernel @twice(%x: buf<?xf32, in>, %o: buf<?xf32, out>) workgroup(4) grid(1) {
    %v = tgk.load %x[0] : f32
    %one = tgk.cast %v : u32
    tgk.store %v, %o[%one]
  }
  func @past(%x: tensor<4xf32>) -> (y: tensor<4xf32>) {
    %y = tg.custom @past(%x) : tensor<4xf32>
    return %y : tensor<4xf32>
  }
  func @twice(%x: tensor<4xf32>) -> (y: tensor<4xf32>) {
    %y = tg.custom @twice(%x) : tensor<4xf32>
    return %y : tensor<4xf32>
  }
}
)";
  auto module = moduleOf(text);
  ASSERT_TRUE(module);
  std::vector<std::unique_ptr<Module>> stages;
  stages.push_back(clone(*module));
  stages.push_back(passed(*module, "fuse"));
  stages.push_back(passed(*module, "fuse,plan"));
  for (const auto& stage : stages) {
    auto interp = Interpreter::create(*stage);
    ASSERT_TRUE(interp);
    for (const std::string function : {"past", "twice"}) {
      auto run = interp->run(function, {{"x", NdArray::zeros(Type::tensor(DType::f32, {4}))}});
      ASSERT_FALSE(run) << function;
      EXPECT_NE(run.error().message().find("tg.custom: @" + function), std::string::npos)
          << run.error().message();
    }
  }
}

}  // namespace
}  // namespace tg::test
