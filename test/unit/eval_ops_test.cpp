// SPDX-License-Identifier: Apache-2.0
// Every op's value against a computation made here, and the evaluation room as a table.
#include "runtime/interp/eval_ops.h"

#include <cmath>
#include <functional>
#include <numbers>

#include "test/unit/interp_test_support.h"
#include "test/unit/op_tolerance.h"

namespace tg::test {
namespace {

TEST(EvalRoom, EntriesFollowTheRows) {
  for (int i = 0; i < kOpcodeCount; ++i) {
    const OpInfo& row = info(static_cast<Opcode>(i));
    const EvalEntry& entry = evalEntry(row.code);
    if (row.mayStand(table::inKernel)) {
      EXPECT_EQ(entry.kind, EvalKind::notInStage) << row.name;
      continue;
    }
    EXPECT_EQ(entry.kind == EvalKind::byScalar, row.scalar != Scalar::none) << row.name;
    EXPECT_EQ(entry.kind == EvalKind::decomposes, row.has(table::composite)) << row.name;
    // What a region may hold, a region can compute; a kernel of the module's own is run, not evaluated.
    if (row.mayStand(table::inRegion) && !row.has(table::terminator) && row.code != Opcode::custom) {
      EXPECT_NE(entry.kind, EvalKind::notInStage) << row.name;
    }
    EXPECT_EQ(entry.kind == EvalKind::notInStage, !entry.reason.empty()) << row.name;
  }
}

/// The function around an example of the op table.
std::string aroundExample(const OpInfo& row) {
  return "module @m {\n param @p : tensor<4x3xf32>\n state @q : tensor<f32>\n"
         " func @f(%x: tensor<2x4xf32>, %y: tensor<2x4xf32>, %w: tensor<4x3xf32>, %b: tensor<4xf32>, "
         "%i: tensor<2xi32>, %c: tensor<2x4xi1>, %s: tensor<f32>, %t: tensor<8x4xf32>, %p0: tensor<4x3xf32>) "
         "-> (r: tensor<f32>) {\n" +
         std::string(row.example) + "\n return %s : tensor<f32>\n }\n}\n";
}

TEST(EvalRoom, ExamplesEvaluate) {
  const Inputs inputs{{"x", scattered({2, 4})},    {"y", scattered({2, 4})},
                      {"w", scattered({4, 3})},    {"b", f32({4}, {1, -2, 3, 0.5})},
                      {"i", i32({2}, {1, 3})},     {"c", array(DType::i1, {2, 4}, {1, 0, 0, 1, 1, 1, 0, 0})},
                      {"s", NdArray::scalar(0.5)}, {"t", scattered({8, 4})},
                      {"p0", scattered({4, 3})}};
  int evaluated = 0;
  for (int i = 0; i < kOpcodeCount; ++i) {
    const OpInfo& row = info(static_cast<Opcode>(i));
    // Parts of several ranks: interp_ranks_test.cpp.
    const bool ofRanks = row.code == Opcode::reduce_scatter || row.code == Opcode::all_gather;
    if (row.example.empty() || ofRanks) continue;
    auto module = verified(aroundExample(row));
    ASSERT_TRUE(module) << row.name;
    auto run = Interpreter::create(*module)->run("f", inputs);
    if (row.code == Opcode::grad) {
      ASSERT_FALSE(run);
      EXPECT_NE(run.error().message().find("run append-grad first"), std::string::npos) << run.error().str();
      continue;
    }
    EXPECT_TRUE(run) << row.name << ": " << (run ? "" : run.error().str());
    ++evaluated;
  }
  EXPECT_GT(evaluated, 50);
}

TEST(Elementwise, BroadcastsByTheNumPyRules) {
  const NdArray x = scattered({2, 3}), column = scattered({2, 1}), row = f32({3}, {10, 20, 30});
  std::vector<double> sums, outer;
  for (int i = 0; i < 2; ++i)
    for (int j = 0; j < 3; ++j) {
      sums.push_back(x.data[i * 3 + j] + row.data[j]);
      outer.push_back(column.data[i] - row.data[j]);
    }
  expectNear(evaluate("%r = tg.add %x, %v : tensor<2x3xf32>", "tensor<2x3xf32>", {{"x", x}, {"v", row}}),
             sums);
  expectNear(evaluate("%r = tg.sub %c, %v : tensor<2x3xf32>", "tensor<2x3xf32>", {{"c", column}, {"v", row}}),
             outer);
  expectNear(evaluate("%r = tg.mul %v, %s : tensor<3xf32>", "tensor<3xf32>",
                      {{"v", row}, {"s", NdArray::scalar(3)}}),
             {30, 60, 90});
}

TEST(Elementwise, ScalarRowsHaveTheirMeaning) {
  const double x = 0.75, y = 1.5;
  double erf = 0, term = x;  // the Maclaurin series
  for (int n = 0; n < 30; ++n) {
    erf += term / (2 * n + 1);
    term *= -x * x / (n + 1);
  }
  erf *= 2 / std::sqrt(std::numbers::pi);
  double below = 0;  // Φ(x) = 1/2 + φ(x)·(x + x³/3 + x⁵/(3·5) + …)
  term = x;
  for (int n = 1; n < 60; n += 2) {
    below += term;
    term *= x * x / (n + 2);
  }
  below = 0.5 + below * std::exp(-x * x / 2) / std::sqrt(2 * std::numbers::pi);
  double sine = 0;
  term = x;
  for (int n = 1; n < 30; n += 2) {
    sine += term;
    term *= -x * x / ((n + 1) * (n + 2));
  }
  const double e2 = std::exp(2 * x);
  const std::map<std::string, double> expected{{"add", 2.25},
                                               {"sub", -0.75},
                                               {"mul", 1.125},
                                               {"div", 0.5},
                                               {"min", 0.75},
                                               {"max", 1.5},
                                               {"pow", std::sqrt(0.421875)},
                                               {"neg", -0.75},
                                               {"abs", 0.75},
                                               {"sign", 1},
                                               {"sqrt", std::sqrt(3) / 2},
                                               {"rsqrt", 2 / std::sqrt(3)},
                                               {"exp", std::pow(std::numbers::e, 0.75)},
                                               {"log", -std::log1p(1.0 / 3)},
                                               {"tanh", (e2 - 1) / (e2 + 1)},
                                               {"sigmoid", std::exp(x) / (std::exp(x) + 1)},
                                               {"erf", erf},
                                               {"normal_cdf", below},
                                               {"relu", 0.75},
                                               {"square", 0.5625},
                                               {"less", 1},
                                               {"less_equal", 1},
                                               {"greater", 0},
                                               {"greater_equal", 0},
                                               {"equal", 0},
                                               {"stop_gradient", 0.75},
                                               {"not_equal", 1},
                                               {"floor", 0},
                                               {"trunc", 0},
                                               {"exp2", std::sqrt(std::sqrt(8))},
                                               {"log2", std::log(3) / std::numbers::ln2 - 2},
                                               {"log1p", std::log(7.0 / 4)},
                                               {"expm1", std::pow(std::numbers::e, 0.75) - 1},
                                               {"atan2", std::atan(0.5)},
                                               {"asin", std::atan2(3, std::sqrt(7))},
                                               {"acos", std::atan2(std::sqrt(7), 3)},
                                               {"atan", 2 * std::atan2(1, 3)},
                                               {"sinh", (e2 - 1) / (2 * std::exp(x))},
                                               {"cosh", (e2 + 1) / (2 * std::exp(x))},
                                               {"ceil", 1},
                                               {"round", 1},
                                               {"reciprocal", 4.0 / 3},
                                               {"sin", sine},
                                               {"cos", std::sqrt(1 - sine * sine)},
                                               {"tan", sine / std::sqrt(1 - sine * sine)},
                                               {"silu", 0.75 - 0.75 / (std::exp(x) + 1)},
                                               {"softplus", std::log(1 + std::exp(x))},
                                               {"mish", 0.75 - 1.5 / (std::pow(1 + std::exp(x), 2) + 1)}};
  for (int i = 0; i < kOpcodeCount; ++i) {
    const OpInfo& row = info(static_cast<Opcode>(i));
    if (row.scalar == Scalar::none || row.mayStand(table::inKernel) ||
        row.slots[0].type == table::TypeClass::boolean)
      continue;
    const std::string name(row.name.substr(3));
    if (!expected.contains(name)) {
      ADD_FAILURE() << "no expected value for " << name;
      continue;
    }
    const bool compares = givesCondition(row.scalar);
    const std::string type = compares ? "tensor<i1>" : "tensor<f32>";
    const std::string operands = info(row.scalar).arity == 2 ? "%x, %y" : "%x";
    expectNear(evaluate("%r = tg." + name + " " + operands + " : " + type, type,
                        {{"x", NdArray::scalar(x)}, {"y", NdArray::scalar(y)}}),
               {expected.at(name)});
  }
}

TEST(Elementwise, EdgesOfScalarRows) {
  const double inf = std::numeric_limits<double>::infinity();
  const NdArray x = f32({4}, {-800, 800, -0.5, 0});
  expectNear(evaluate("%r = tg.sigmoid %x : tensor<4xf32>", "tensor<4xf32>", {{"x", x}}),
             {0, 1, 1 / (1 + std::exp(0.5)), 0.5});
  expectNear(evaluate("%r = tg.sign %x : tensor<4xf32>", "tensor<4xf32>", {{"x", x}}), {-1, 1, -1, 0});
  expectNear(evaluate("%r = tg.relu %x : tensor<4xf32>", "tensor<4xf32>", {{"x", x}}), {0, 800, 0, 0});
  // A branch not taken leaves no trace, not even as 0 times infinity.
  const NdArray cond = array(DType::i1, {4}, {0, 1, 1, 0});
  expectNear(evaluate("%r = tg.select %c, %x, %y : tensor<4xf32>", "tensor<4xf32>",
                      {{"c", cond}, {"x", f32({4}, {inf, 1, 2, inf})}, {"y", f32({4}, {3, inf, inf, 4})}}),
             {3, 1, 2, 4});
}

TEST(Elementwise, IntegersWrapAt32Bits) {
  const NdArray a = i32({4}, {2147483647, 123456789, -2147483648.0, 65537});
  const NdArray b = i32({4}, {1, 987654321, -1, 65536});
  auto wrapped = [&](const std::function<uint32_t(uint32_t, uint32_t)>& op) {
    std::vector<double> out;
    for (size_t i = 0; i < 4; ++i)
      out.push_back(static_cast<int32_t>(op(static_cast<uint32_t>(static_cast<int32_t>(a.data[i])),
                                            static_cast<uint32_t>(static_cast<int32_t>(b.data[i])))));
    return out;
  };
  const Inputs inputs{{"a", a}, {"b", b}};
  auto run = [&](const std::string& op) {
    return evaluate("%r = tg." + op + " : tensor<4xi32>", "tensor<4xi32>", inputs);
  };
  EXPECT_EQ(run("add %a, %b").data, wrapped([](uint32_t x, uint32_t y) { return x + y; }));
  EXPECT_EQ(run("sub %a, %b").data, wrapped([](uint32_t x, uint32_t y) { return x - y; }));
  EXPECT_EQ(run("mul %a, %b").data, wrapped([](uint32_t x, uint32_t y) { return x * y; }));
  EXPECT_EQ(run("neg %a").data, wrapped([](uint32_t x, uint32_t) { return 0u - x; }));
  EXPECT_EQ(run("square %b").data, wrapped([](uint32_t, uint32_t y) { return y * y; }));
  const NdArray total = evaluate("%r = tg.sum %a {axes = [0]} : tensor<i32>", "tensor<i32>", inputs);
  EXPECT_EQ(total.data[0],
            static_cast<double>(static_cast<int32_t>(2147483647u + 123456789u + 2147483648u + 65537u)));
}

TEST(Elementwise, CastTruncatesAndClamps) {
  const NdArray x = f32({6}, {2.9, -2.9, 3e9, -3e9, std::nan(""), 0});
  EXPECT_EQ(evaluate("%r = tg.cast %x : tensor<6xi32>", "tensor<6xi32>", {{"x", x}}).data,
            (std::vector<double>{2, -2, 2147483647, -2147483648.0, 0, 0}));
  EXPECT_EQ(evaluate("%r = tg.cast %x : tensor<6xi1>", "tensor<6xi1>", {{"x", x}}).data,
            (std::vector<double>{1, 1, 1, 1, 1, 0}));
  const NdArray big = i32({1}, {16777217});  // 2^24 + 1 has no f32
  EXPECT_EQ(evaluate("%r = tg.cast %x : tensor<1xf32>", "tensor<1xf32>", {{"x", big}}).data[0], 16777217);
  EXPECT_EQ(
      evaluate("%r = tg.cast %x : tensor<1xf32>", "tensor<1xf32>", {{"x", big}}, InterpMode::exact).data[0],
      16777216);
}

TEST(Elementwise, OneMinusPowLosesNoDigits) {
  // 1 - b^3 = (1-b)(1+b+b^2), where 1-b is exact for b = 1 - 2^-40.
  const NdArray r =
      evaluate("%r = tg.one_minus_pow %t {base = 0.99999999999909050529822707176208496} : tensor<1xf32>",
               "tensor<1xf32>", {{"t", f32({1}, {3})}});
  const double b = 1 - 0x1p-40;
  EXPECT_NEAR(r.data[0] / (0x1p-40 * (1 + b + b * b)), 1, 1e-15);
}

TEST(Leaves, ConstantsAndIota) {
  EXPECT_EQ(evaluate("%r = tg.constant 0.5 : tensor<2x2xf32>", "tensor<2x2xf32>", {}).data,
            std::vector<double>(4, 0.5));
  EXPECT_EQ(evaluate("%r = tg.constant dense(1, -2, 3, 4) : tensor<2x2xi32>", "tensor<2x2xi32>", {}).data,
            (std::vector<double>{1, -2, 3, 4}));
  EXPECT_EQ(evaluate("%r = tg.iota {axis = 1} : tensor<2x3x2xi32>", "tensor<2x3x2xi32>", {}).data,
            (std::vector<double>{0, 0, 1, 1, 2, 2, 0, 0, 1, 1, 2, 2}));
  EXPECT_EQ(evaluate("%r = tg.iota {axis = -1} : tensor<2x2xf32>", "tensor<2x2xf32>", {}).data,
            (std::vector<double>{0, 1, 0, 1}));
}

TEST(Leaves, CausalMaskEndsInTheCorner) {
  EXPECT_EQ(evaluate("%r = tg.causal_mask : tensor<2x2x3xi1>", "tensor<2x2x3xi1>", {}).data,
            (std::vector<double>{1, 1, 0, 1, 1, 1, 1, 1, 0, 1, 1, 1}));
  EXPECT_EQ(evaluate("%r = tg.causal_mask : tensor<3x2xi1>", "tensor<3x2xi1>", {}).data,
            (std::vector<double>{0, 0, 1, 0, 1, 1}));
}

TEST(Reductions, OverAnyAxes) {
  const NdArray x = scattered({2, 3, 4});
  auto at = [&](int i, int j, int k) { return x.data[(i * 3 + j) * 4 + k]; };
  std::vector<double> middle(8, 0), outer(3, 0), most(6, -1e9);
  double all = 0;
  for (int i = 0; i < 2; ++i)
    for (int j = 0; j < 3; ++j)
      for (int k = 0; k < 4; ++k) {
        middle[i * 4 + k] += at(i, j, k);
        outer[j] += at(i, j, k) / 8;
        most[i * 3 + j] = std::max(most[i * 3 + j], at(i, j, k));
        all += at(i, j, k);
      }
  expectNear(evaluate("%r = tg.sum %x {axes = [1]} : tensor<2x4xf32>", "tensor<2x4xf32>", {{"x", x}}),
             middle);
  expectNear(evaluate("%r = tg.sum %x {axes = [0, -1, 1]} : tensor<f32>", "tensor<f32>", {{"x", x}}), {all});
  expectNear(evaluate("%r = tg.mean %x {axes = [2, 0], keepdims = true} : tensor<1x3x1xf32>",
                      "tensor<1x3x1xf32>", {{"x", x}}),
             outer);
  expectNear(evaluate("%r = tg.max_reduce %x {axes = [-1]} : tensor<2x3xf32>", "tensor<2x3xf32>", {{"x", x}}),
             most);
}

TEST(Reductions, MaximumOfNegatives) {
  EXPECT_EQ(evaluate("%r = tg.max_reduce %x {axes = [0]} : tensor<f32>", "tensor<f32>",
                     {{"x", f32({3}, {-5, -2, -9})}})
                .data[0],
            -2);
}

TEST(Reductions, IntegerSumsWrapPastWhatF64Holds) {
  // 2^22 + 1 terms of 2^31 - 1 pass 2^53, where f64 loses the odd numbers.
  constexpr int64_t kCount = (1 << 22) + 1;
  const NdArray x = NdArray::filled(Type::tensor(DType::i32, {kCount}), 2147483647);
  const uint32_t expected = static_cast<uint32_t>(kCount) * 2147483647u;
  EXPECT_EQ(evaluate("%r = tg.sum %x {axes = [0]} : tensor<i32>", "tensor<i32>", {{"x", x}}).data[0],
            static_cast<double>(static_cast<int32_t>(expected)));
}

TEST(Reductions, ArgmaxTakesTheFirst) {
  const NdArray x = f32({2, 4}, {1, 7, 7, 2, -1, -3, -1, -2});
  EXPECT_EQ(evaluate("%r = tg.argmax %x {axis = 1} : tensor<2xi32>", "tensor<2xi32>", {{"x", x}}).data,
            (std::vector<double>{1, 0}));
  EXPECT_EQ(evaluate("%r = tg.argmax %x {axis = 0, keepdims = true} : tensor<1x4xi32>", "tensor<1x4xi32>",
                     {{"x", x}})
                .data,
            (std::vector<double>{0, 0, 0, 0}));
  const NdArray up = f32({2, 2}, {0, 5, 1, 5});
  EXPECT_EQ(evaluate("%r = tg.argmax %x {axis = -2} : tensor<2xi32>", "tensor<2xi32>", {{"x", up}}).data,
            (std::vector<double>{1, 0}));
}

TEST(Views, MoveElements) {
  const NdArray x = scattered({2, 3, 4});
  auto at = [&](int i, int j, int k) { return x.data[(i * 3 + j) * 4 + k]; };
  const Inputs inputs{{"x", x}};
  std::vector<double> turned, cut;
  for (int k = 0; k < 4; ++k)
    for (int i = 0; i < 2; ++i)
      for (int j = 0; j < 3; ++j) turned.push_back(at(i, j, k));
  for (int i = 1; i < 2; ++i)
    for (int j = 0; j < 3; j += 2)
      for (int k = 1; k < 4; k += 2) cut.push_back(at(i, j, k));
  EXPECT_EQ(
      evaluate("%r = tg.transpose %x {perm = [2, 0, 1]} : tensor<4x2x3xf32>", "tensor<4x2x3xf32>", inputs)
          .data,
      turned);
  EXPECT_EQ(evaluate("%r = tg.slice %x {starts = [1, 0, 1], limits = [2, 3, 4], strides = [1, 2, 2]} : "
                     "tensor<1x2x2xf32>",
                     "tensor<1x2x2xf32>", inputs)
                .data,
            cut);
  EXPECT_EQ(evaluate("%r = tg.slice %x {starts = [1, 1, 3], limits = [2, 3, 4]} : tensor<1x2x1xf32>",
                     "tensor<1x2x1xf32>", inputs)
                .data,
            (std::vector<double>{at(1, 1, 3), at(1, 2, 3)}));
  EXPECT_EQ(
      evaluate("%r = tg.reshape %x {shape = [6, -1]} : tensor<6x4xf32>", "tensor<6x4xf32>", inputs).data,
      x.data);
}

TEST(Views, PadConcatBroadcast) {
  const NdArray x = f32({2, 2}, {1, 2, 3, 4}), y = f32({2, 1}, {5, 6});
  EXPECT_EQ(evaluate("%r = tg.pad %x {low = [1, 0], high = [0, 2], value = -7.0} : tensor<3x4xf32>",
                     "tensor<3x4xf32>", {{"x", x}})
                .data,
            (std::vector<double>{-7, -7, -7, -7, 1, 2, -7, -7, 3, 4, -7, -7}));
  EXPECT_EQ(evaluate("%r = tg.concat %x, %y, %x {axis = 1} : tensor<2x5xf32>", "tensor<2x5xf32>",
                     {{"x", x}, {"y", y}})
                .data,
            (std::vector<double>{1, 2, 5, 1, 2, 3, 4, 6, 3, 4}));
  EXPECT_EQ(evaluate("%r = tg.broadcast_to %y {shape = [2, 2, 2]} : tensor<2x2x2xf32>", "tensor<2x2x2xf32>",
                     {{"y", y}})
                .data,
            (std::vector<double>{5, 5, 6, 6, 5, 5, 6, 6}));
}

TEST(Matmul, FourTransposesAndBroadcastBatches) {
  // a[n, m] is [2 or 1 batches, 3, 5], b is [4, 1, ...]: the batch of the product is [4, 2].
  for (bool transposeA : {false, true})
    for (bool transposeB : {false, true}) {
      const NdArray a = scattered(transposeA ? Shape{2, 5, 3} : Shape{2, 3, 5});
      const NdArray b = scattered(transposeB ? Shape{4, 1, 2, 5} : Shape{4, 1, 5, 2});
      std::vector<double> expected;
      for (int p = 0; p < 4; ++p)
        for (int q = 0; q < 2; ++q)
          for (int i = 0; i < 3; ++i)
            for (int j = 0; j < 2; ++j) {
              double total = 0;
              for (int k = 0; k < 5; ++k)
                total += a.data[q * 15 + (transposeA ? k * 3 + i : i * 5 + k)] *
                         b.data[p * 10 + (transposeB ? j * 5 + k : k * 2 + j)];
              expected.push_back(total);
            }
      std::string flags;
      if (transposeA) flags += "transpose_a = true";
      if (transposeB) flags += (flags.empty() ? "" : ", ") + std::string("transpose_b = true");
      if (!flags.empty()) flags = " {" + flags + "}";
      expectNear(evaluate("%r = tg.matmul %a, %b" + flags + " : tensor<4x2x3x2xf32>", "tensor<4x2x3x2xf32>",
                          {{"a", a}, {"b", b}}),
                 expected);
    }
}

TEST(Indexing, OutOfRangeReadsZeroAndCounts) {
  RunCounters counters;
  const NdArray table = f32({3, 2}, {1, 2, 3, 4, 5, 6}), ids = i32({2, 2}, {2, -1, 3, 0});
  const NdArray rows = evaluate("%r = tg.gather %t, %i : tensor<2x2x2xf32>", "tensor<2x2x2xf32>",
                                {{"t", table}, {"i", ids}}, InterpMode::automatic, &counters);
  EXPECT_EQ(rows.data, (std::vector<double>{5, 6, 0, 0, 0, 0, 1, 2}));
  EXPECT_EQ(counters.outOfRange, 2);
  EXPECT_EQ(
      evaluate("%r = tg.one_hot %i {depth = 3} : tensor<2x2x3xf32>", "tensor<2x2x3xf32>", {{"i", ids}}).data,
      (std::vector<double>{0, 0, 1, 0, 0, 0, 0, 0, 0, 1, 0, 0}));
  const NdArray updates = f32({4, 2}, {1, 10, 2, 20, 3, 30, 4, 40});
  EXPECT_EQ(evaluate("%r = tg.scatter_add %i, %u {rows = 3} : tensor<3x2xf32>", "tensor<3x2xf32>",
                     {{"i", i32({4}, {1, 5, 1, 0})}, {"u", updates}}, InterpMode::automatic, &counters)
                .data,
            (std::vector<double>{4, 40, 4, 40, 0, 0}));
  EXPECT_EQ(counters.outOfRange, 1);
}

TEST(Composites, CausalSoftmaxHasItsMask) {
  const NdArray x = scattered({2, 3});  // columns - rows = 1: row i sees columns 0 .. i+1
  std::vector<double> expected;
  for (int i = 0; i < 2; ++i) {
    double total = 0;
    for (int j = 0; j <= i + 1; ++j) total += std::exp(x.data[i * 3 + j]);
    for (int j = 0; j < 3; ++j) expected.push_back(j <= i + 1 ? std::exp(x.data[i * 3 + j]) / total : 0);
  }
  expectNear(evaluate("%r = tg.softmax %x {causal = true} : tensor<2x3xf32>", "tensor<2x3xf32>", {{"x", x}}),
             expected);
}

TEST(Composites, CrossEntropyAndItsCount) {
  const NdArray logits = scattered({3, 4});
  double total = 0;
  const int targets[] = {2, 0};
  for (int row = 0; row < 2; ++row) {
    double sum = 0;
    for (int j = 0; j < 4; ++j) sum += std::exp(logits.data[row * 4 + j]);
    total += std::log(sum) - logits.data[row * 4 + targets[row]];
  }
  RunCounters counters;
  expectNear(evaluate("%r = tg.cross_entropy %x, %i : tensor<f32>", "tensor<f32>",
                      {{"x", logits}, {"i", i32({3}, {2, 0, 4})}}, InterpMode::automatic, &counters),
             {total / 3});
  EXPECT_EQ(counters.outOfRange, 1);
}

TEST(Composites, LayerNormAndGelu) {
  const NdArray x = scattered({2, 4}), gain = f32({4}, {1, 2, 3, 4}), bias = f32({4}, {0.5, 0, -1, 2});
  std::vector<double> normal, bell;
  for (int i = 0; i < 2; ++i) {
    double mean = 0, variance = 0;
    for (int j = 0; j < 4; ++j) mean += x.data[i * 4 + j] / 4;
    for (int j = 0; j < 4; ++j) variance += std::pow(x.data[i * 4 + j] - mean, 2) / 4;
    for (int j = 0; j < 4; ++j)
      normal.push_back((x.data[i * 4 + j] - mean) / std::sqrt(variance + 0.125) * gain.data[j] +
                       bias.data[j]);
    for (int j = 0; j < 4; ++j)
      bell.push_back(x.data[i * 4 + j] / 2 * std::erfc(-x.data[i * 4 + j] / std::sqrt(2.0)));
  }
  expectNear(evaluate("%r = tg.layer_norm %x, %g, %b {eps = 0.125} : tensor<2x4xf32>", "tensor<2x4xf32>",
                      {{"x", x}, {"g", gain}, {"b", bias}}),
             normal);
  // The decomposition's constant 1/√2 is an f32.
  const NdArray gelu = evaluate("%r = tg.gelu %x : tensor<2x4xf32>", "tensor<2x4xf32>", {{"x", x}});
  for (size_t i = 0; i < bell.size(); ++i) EXPECT_NEAR(gelu.data[i], bell[i], 4e-8);
}

/// Σ weight · (the op's value), the scalar whose gradient a *_grad row gives for dy = weight.
double weighted(const std::string& line, const std::string& type, const Inputs& inputs,
                const NdArray& weight) {
  const NdArray value = evaluate("%r = " + line + " : " + type, type, inputs);
  double total = 0;
  for (size_t i = 0; i < weight.data.size(); ++i) total += weight.data[i] * value.data[i];
  return total;
}

TEST(Composites, GradientRowsAreDerivatives) {
  const std::string square = "tensor<3x4xf32>";
  const NdArray x = scattered({3, 4});
  NdArray dy = scattered({3, 4});
  for (double& value : dy.data) value = std::cos(value);
  const Inputs fixed{{"g", f32({4}, {1, -2, 0.5, 3})},
                     {"b", f32({4}, {1, 2, 3, 4})},
                     {"i", i32({3}, {2, 0, 7})},
                     {"dy", dy}};
  struct Pair {
    std::string forward, gradient;
  };
  const Pair pairs[] = {
      {"tg.softmax %x {axis = 0}",
       "%y = tg.softmax %x {axis = 0} : T\n%r = tg.softmax_grad %y, %dy {axis = 0} : T"},
      {"tg.softmax %x", "%y = tg.softmax %x : T\n%r = tg.softmax_grad %y, %dy : T"},
      {"tg.log_softmax %x", "%y = tg.log_softmax %x : T\n%r = tg.log_softmax_grad %y, %dy : T"},
      {"tg.gelu %x", "%r = tg.gelu_grad %x, %dy : T"},
      {"tg.gelu %x {approximate = tanh}", "%r = tg.gelu_grad %x, %dy {approximate = tanh} : T"},
      {"tg.layer_norm %x, %g, %b",
       "%r, %mu, %rs = tg.layer_norm_grad %x, %g, %dy : T, tensor<3x1xf32>, tensor<3x1xf32>"},
  };
  for (const Pair& pair : pairs) {
    std::string lines = pair.gradient;
    for (size_t at; (at = lines.find(": T")) != std::string::npos;) lines.replace(at, 3, ": " + square);
    for (size_t at; (at = lines.find(", T,")) != std::string::npos;) lines.replace(at, 3, ", " + square);
    Inputs inputs = fixed;
    inputs["x"] = x;
    const NdArray gradient = evaluate(lines, square, inputs);
    for (size_t i = 0; i < x.data.size(); ++i) {
      constexpr double kStep = 0x1p-14;
      Inputs up = inputs, down = inputs;
      up["x"].data[i] += kStep, down["x"].data[i] -= kStep;
      const double slope =
          (weighted(pair.forward, square, up, dy) - weighted(pair.forward, square, down, dy)) / (2 * kStep);
      // f32 constants in the decompositions, and the differences' own error.
      EXPECT_NEAR(gradient.data[i], slope, 1e-6) << pair.forward << " element " << i;
    }
  }
}

TEST(Composites, CrossEntropyGradient) {
  const NdArray x = scattered({3, 4}), ids = i32({3}, {2, 0, 7});
  std::vector<double> expected;
  for (int row = 0; row < 3; ++row) {
    double sum = 0;
    for (int j = 0; j < 4; ++j) sum += std::exp(x.data[row * 4 + j]);
    for (int j = 0; j < 4; ++j)
      expected.push_back(
          ids.data[row] > 3 ? 0 : 2 * (std::exp(x.data[row * 4 + j]) / sum - (ids.data[row] == j)));
  }
  expectNear(evaluate("%r = tg.cross_entropy_grad %x, %i, %s : tensor<3x4xf32>", "tensor<3x4xf32>",
                      {{"x", x}, {"i", ids}, {"s", NdArray::scalar(2)}}),
             expected);
}

TEST(Composites, CrossEntropyReductions) {
  const NdArray x = scattered({2, 3}), ids = i32({2}, {1, 2});
  std::vector<double> rows;
  for (int row = 0; row < 2; ++row) {
    double sum = 0;
    for (int j = 0; j < 3; ++j) sum += std::exp(x.data[row * 3 + j]);
    rows.push_back(std::log(sum) - x.data[row * 3 + static_cast<int>(ids.data[row])]);
  }
  const Inputs inputs{{"x", x}, {"i", ids}};
  expectNear(
      evaluate("%r = tg.cross_entropy %x, %i {reduction = none} : tensor<2xf32>", "tensor<2xf32>", inputs),
      rows);
  expectNear(evaluate("%r = tg.cross_entropy %x, %i {reduction = sum} : tensor<f32>", "tensor<f32>", inputs),
             {rows[0] + rows[1]});
}

TEST(Composites, AdamFollowsItsFormula) {
  const double p = 2, g = -0.5, m = 0.25, v = 0.125, rate = 0.01, shrink = 0.1;
  const Inputs inputs{{"p", NdArray::scalar(p)},     {"g", NdArray::scalar(g)},
                      {"m", NdArray::scalar(m)},     {"v", NdArray::scalar(v)},
                      {"lr", NdArray::scalar(rate)}, {"k", NdArray::scalar(shrink)}};
  const std::string line =
      "%p2, %m2, %v2 = tg.adam_update %p, %g, %m, %v, %lr, %k {beta1 = 0.75, beta2 = 0.5, eps = 0.25} "
      ": tensor<f32>, tensor<f32>, tensor<f32>\n";
  const double m2 = 0.75 * m + 0.25 * g, v2 = 0.5 * v + 0.5 * g * g;
  auto result = [&](const std::string& name) {
    return evaluate(line + "%r = tg.stop_gradient %" + name + " : tensor<f32>", "tensor<f32>", inputs)
        .data[0];
  };
  EXPECT_NEAR(result("m2"), m2, 1e-15);
  EXPECT_NEAR(result("v2"), v2, 1e-15);
  EXPECT_NEAR(result("p2"), (1 - shrink) * p - rate * m2 / (std::sqrt(v2) + 0.25), 1e-15);
}

TEST(Rounding, ExactRoundsEveryResultWideNone) {
  const Inputs inputs{{"x", NdArray::scalar(1e8)}, {"y", NdArray::scalar(1)}};
  const std::string lines = "%a = tg.add %x, %y : tensor<f32>\n%r = tg.sub %a, %x : tensor<f32>";
  EXPECT_EQ(evaluate(lines, "tensor<f32>", inputs).data[0], 1);
  EXPECT_EQ(evaluate(lines, "tensor<f32>", inputs, InterpMode::exact).data[0], 0);
}

TEST(Rounding, ToEachType) {
  EXPECT_EQ(roundTo(DType::f32, 0.1), 13421773.0 / 134217728);
  EXPECT_EQ(roundTo(DType::f16, 2049), 2048);
  EXPECT_EQ(roundTo(DType::i32, 4294967296.0 * 3 + 5), 5);
  EXPECT_EQ(roundTo(DType::i32, 2147483648.0), -2147483648.0);
  EXPECT_EQ(roundTo(DType::u32, -1), 4294967295.0);
  EXPECT_EQ(roundTo(DType::i1, -0.5), 1);
}

TEST(Magnitude, IsTheSumOfAbsoluteTerms) {
  auto module = verified(
      "module @m {\n func @f(%x: tensor<2x2xf32>, %i: tensor<2xi32>) -> (r: tensor<2xf32>) {\n"
      "  %s = tg.sum %x {axes = [1]} : tensor<2xf32>\n  %m = tg.matmul %x, %x : tensor<2x2xf32>\n"
      "  %a = tg.scatter_add %i, %x {rows = 2} : tensor<2x2xf32>\n  %e = tg.exp %x : tensor<2x2xf32>\n"
      "  return %s : tensor<2xf32>\n }\n}\n");
  ASSERT_TRUE(module);
  const std::vector<Op*> ops = module->func("f")->body.ops.all();
  const NdArray x = f32({2, 2}, {1, -2, -3, 4}), ids = i32({2}, {1, 1});
  const NdArray* one[] = {&x};
  const NdArray* two[] = {&x, &x};
  const NdArray* scatter[] = {&ids, &x};
  EXPECT_EQ(evalMagnitude(*ops[0], one)->data, (std::vector<double>{3, 7}));
  EXPECT_EQ(evalMagnitude(*ops[1], two)->data, (std::vector<double>{7, 10, 15, 22}));
  EXPECT_EQ(evalMagnitude(*ops[2], scatter)->data, (std::vector<double>{0, 0, 4, 6}));
  EXPECT_FALSE(evalMagnitude(*ops[3], one));
}

}  // namespace
}  // namespace tg::test
