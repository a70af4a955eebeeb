// SPDX-License-Identifier: Apache-2.0
// Each function of the front end: that it appends its op, and that what it makes of several ops computes
// what it says, by the interpreter against a formula written here.
#include <cmath>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "ir/trace/trace.h"
#include "runtime/interp/interp.h"
#include "test/unit/trace_support.h"

namespace trace_user {

using namespace tg::nn;
using tg::DType;
using tg::Opcode;

// Operands of the cases.
Tensor x() { return tensorInput("x", {2, 4}); }
Tensor ids() { return tensorInput("ids", {2}, DType::i32); }
Tensor image() { return reshape(x(), {1, 1, 2, 4}); }
/// An operand that the op's first slot admits.
Tensor operandOf(Opcode code) {
  switch (tg::info(code).slots[0].type) {
  case tg::table::TypeClass::boolean: return x() > 0;
  case tg::table::TypeClass::integer: return ids();
  default: return x();
  }
}

/// One call for each op that is not a row of its own in ops.def.
const std::map<Opcode, std::function<Tensor()>>& calls() {
  static const std::map<Opcode, std::function<Tensor()>> all{
      {Opcode::param, [] { return paramInput("p", {2}); }},
      {Opcode::state, [] { return stateInput("s", {2}); }},
      {Opcode::constant, [] { return constant(3, {2}); }},
      {Opcode::iota,
       [] {
         return iota({2, 3}, -1);
       }},
      {Opcode::causal_mask,
       [] {
         return causalMask({2, 3});
       }},
      {Opcode::update,
       [] {
         Tensor s = stateInput("s", {});
         update(s, sum(x()));
         return s;
       }},
      {Opcode::capture, [] { return capture("kept", x()); }},
      {Opcode::grad,
       [] {
         Tensor a = x();
         return grad(sum(square(a)), {a}).front();
       }},
      {Opcode::select,
       [] {
         Tensor a = x();
         return where(a > 0, a, 0);
       }},
      {Opcode::cast, [] { return cast(x(), DType::i32); }},
      {Opcode::sum, [] { return sum(x(), 0); }},
      {Opcode::mean,
       [] {
         return mean(x(), {0, -1});
       }},
      {Opcode::max_reduce, [] { return maxReduce(x(), -1, true); }},
      {Opcode::argmax, [] { return argmax(x()); }},
      {Opcode::reshape,
       [] {
         return reshape(x(), {-1, 2});
       }},
      {Opcode::transpose,
       [] {
         return transpose(x(), {-1, 0});
       }},
      {Opcode::slice,
       [] {
         return slice(x(), {0, 1}, {2, 4}, {1, 2});
       }},
      {Opcode::pad,
       [] {
         return pad(x(), {0, 1}, {1, 0}, 2.5);
       }},
      {Opcode::concat,
       [] {
         Tensor a = x();
         return concat({a, a}, -1);
       }},
      {Opcode::broadcast_to,
       [] {
         return broadcastTo(x(), {3, 2, 4});
       }},
      {Opcode::matmul,
       [] {
         Tensor a = x();
         return matmul(a, a, {.transposeB = true});
       }},
      {Opcode::gather, [] { return gather(x(), ids()); }},
      {Opcode::scatter_add, [] { return scatterAdd(ids(), x(), 5); }},
      {Opcode::one_hot, [] { return oneHot(ids(), 3); }},
      {Opcode::softmax, [] { return softmax(x(), 0); }},
      {Opcode::log_softmax, [] { return logSoftmax(x()); }},
      {Opcode::cross_entropy, [] { return crossEntropy(x(), ids(), {.reduction = Reduction::sum}); }},
      {Opcode::layer_norm, [] { return layerNorm(x(), ones({4}), zeros({4})); }},
      {Opcode::gelu, [] { return gelu(x(), Gelu::tanh); }},
      {Opcode::embedding, [] { return embedding(x(), ids()); }},
      {Opcode::clamp, [] { return clamp(x(), -1, 1); }},
      {Opcode::elu, [] { return elu(x(), 0.5); }},
      {Opcode::leaky_relu, [] { return leakyRelu(x(), 0.2); }},
      {Opcode::min_reduce, [] { return minReduce(x(), -1); }},
      {Opcode::logsumexp, [] { return logsumexp(x(), -1); }},
      {Opcode::argmin, [] { return argmin(x(), 0); }},
      {Opcode::cumsum, [] { return cumsum(x(), -1, {.reverse = true}); }},
      {Opcode::swap_axes, [] { return swapAxes(x(), 0, -1); }},
      {Opcode::flip, [] { return flip(x(), -1); }},
      {Opcode::tile,
       [] {
         return tile(x(), {2, 1});
       }},
      {Opcode::stack,
       [] {
         Tensor a = x();
         return stack({a, a}, -1);
       }},
      {Opcode::split, [] { return split(x(), 2, -1)[1]; }},
      {Opcode::unfold, [] { return unfold(x(), -1, 3); }},
      {Opcode::fold, [] { return fold(unfold(x(), -1, 3), -1, 4); }},
      {Opcode::conv2d,
       [] {
         return conv2d(image(), ones({2, 1, 2, 2}), {.padding = {1, 0}});
       }},
      {Opcode::conv_transpose2d,
       [] {
         return convTranspose2d(image(), ones({1, 2, 2, 2}), {.stride = {2, 2}});
       }},
      {Opcode::max_pool2d,
       [] {
         return maxPool2d(image(), {2, 2});
       }},
      {Opcode::avg_pool2d,
       [] {
         return avgPool2d(image(), {2, 2}, {.padding = {1, 1}, .countIncludePad = false});
       }},
      {Opcode::upsample_nearest2d, [] { return upsampleNearest2d(image()); }},
      {Opcode::random_uniform,
       [] {
         return randomUniform({2, 3}, -1, 1);
       }},
      {Opcode::random_normal,
       [] {
         return randomNormal({2, 3});
       }},
      {Opcode::dropout, [] { return dropout(x(), 0.5); }},
      {Opcode::categorical, [] { return categorical(x()); }},
      {Opcode::where_causal, [] { return whereCausal(x(), -5); }},
      {Opcode::take_along_axis,
       [] {
         Tensor a = x();
         return takeAlongAxis(a, argmax(a, -1, true), -1);
       }},
      {Opcode::rms_norm, [] { return rmsNorm(x(), ones({4})); }},
      {Opcode::rope,
       [] {
         Tensor a = x();
         return rope(a, a, {.offset = 3}).second;
       }},
      {Opcode::attention,
       [] {
         Tensor a = x();
         return attention(a, a, a, {.causal = true});
       }},
  };
  return all;
}

std::set<Opcode> opsOf(const tg::Module& module) {
  std::set<Opcode> seen;
  for (tg::Op* op : module.func("train")->body.ops) seen.insert(op->code);
  return seen;
}

TEST(TraceOps, EveryOpOfTheTensorStageHasAFunction) {
  std::set<Opcode> known;
  for (const Spelling& row : spellings())
    EXPECT_TRUE(known.insert(row.op).second) << tg::info(row.op).name << " has two rows in ir/trace/ops.def";
  for (int i = 0; i < tg::kOpcodeCount; ++i) {
    auto code = static_cast<Opcode>(i);
    bool inTensor = tg::info(code).mayStand(tg::table::inTensor);
    EXPECT_TRUE(!inTensor || known.count(code)) << tg::info(code).name << " has no row in ir/trace/ops.def";
  }
}

TEST(TraceOps, EachFunctionAppendsItsOp) {
  std::map<Opcode, std::function<Tensor()>> all = calls();
#define UNARY(op, function) all[Opcode::op] = [] { return function(operandOf(Opcode::op)); };
#define BINARY(op, function)          \
  all[Opcode::op] = [] {              \
    Tensor a = operandOf(Opcode::op); \
    return function(a, a);            \
  };
#define CALL(...)
#define FN(op, call)
#define INTERNAL(op, why)
#include "ir/trace/ops.def"
  for (const Spelling& row : spellings()) {
    if (row.call.empty()) continue;
    ASSERT_TRUE(all.count(row.op)) << tg::info(row.op).name << " has no case here";
    auto module = traced(trace([&] { return all[row.op](); }));
    ASSERT_TRUE(module) << tg::info(row.op).name;
    EXPECT_TRUE(opsOf(*module).count(row.op)) << tg::print(*module);
  }
}

const std::map<std::string, tg::NdArray> kRamp{{"x", ramp({2, 4}, -1, 0.5)}};  // -1 … 2.5

TEST(TraceValues, NumbersOnEitherSide) {
  expectClose(evaluate([] { return 1 - x() / 2; }, kRamp, {2, 4}), {1.5, 1.25, 1, 0.75, 0.5, 0.25, 0, -0.25});
  expectClose(evaluate([] { return 2.0F / (x() + 2); }, kRamp, {2, 4}),
              {2, 2 / 1.5, 1, 2 / 2.5, 2 / 3.0, 2 / 3.5, 0.5, 2 / 4.5});
  expectClose(evaluate([] { return max(0.5, -x()); }, kRamp, {2, 4}), {1, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5});
  expectClose(evaluate([] { return pow(2, cast(iota({3}, 0), DType::f32)); }, {}, {3}), {1, 2, 4});
  expectClose(evaluate([] { return where(x() >= 1, 1, 0); }, kRamp, {2, 4}), {0, 0, 0, 0, 1, 1, 1, 1});
}

TEST(TraceValues, LastAxis) {
  expectClose(evaluate([] { return meanLast(x()); }, kRamp, {2, 1}), {-0.25, 1.75});
  expectClose(evaluate([] { return sumLast(x()); }, kRamp, {2}), {-1, 7});
  expectClose(evaluate([] { return sumAll(x()); }, kRamp, {}), {6});
  expectClose(evaluate([] { return sliceLastRange(x(), 1, 3); }, kRamp, {2, 2}), {-0.5, 0, 1.5, 2});
  expectClose(evaluate([] { return slice(x(), -1, -3, -1, 2); }, kRamp, {2, 1}), {-0.5, 1.5});
  expectClose(evaluate([] { return slice(x(), 0, -1, 2); }, kRamp, {1, 4}), {1, 1.5, 2, 2.5});
  expectClose(evaluate([] { return flatten(x()); }, kRamp, {8}), kRamp.at("x").data);
}

TEST(TraceValues, Heads) {
  // [T = 2, D = 4] as 2 heads: element (h, t, d) is x(t, 2h + d).
  expectClose(evaluate([] { return splitHeads(x(), 2); }, kRamp, {2, 2, 2}),
              {-1, -0.5, 1, 1.5, 0, 0.5, 2, 2.5});
  expectClose(evaluate([] { return mergeHeads(splitHeads(x(), 2)); }, kRamp, {2, 4}), kRamp.at("x").data);
  expectClose(evaluate([] { return swapAxes(x(), -1, -2); }, kRamp, {4, 2}),
              {-1, 1, -0.5, 1.5, 0, 2, 0.5, 2.5});
}

TEST(TraceValues, CausalMask) {
  // Two rows of four columns: row i sees the columns up to i + 2.
  expectClose(evaluate([] { return whereCausal(x(), 9); }, kRamp, {2, 4}), {-1, -0.5, 0, 9, 1, 1.5, 2, 2.5});
  Values probabilities = evaluate([] { return softmaxCausalLast(x()); }, kRamp, {2, 4});
  double total = std::exp(-1.0) + std::exp(-0.5) + 1;
  expectClose(Values(probabilities.begin(), probabilities.begin() + 4),
              {std::exp(-1.0) / total, std::exp(-0.5) / total, 1 / total, 0});
}

TEST(TraceValues, Losses) {
  std::map<std::string, tg::NdArray> inputs = kRamp;
  inputs["ids"] = {tg::Type::tensor(DType::i32, {2}), {3, 0}};
  auto logSum = [](double a) {  // of a, a + 0.5, a + 1, a + 1.5
    return a + std::log(1 + std::exp(0.5) + std::exp(1.0) + std::exp(1.5));
  };
  Values rows{logSum(-1) - 0.5, logSum(1) - 1};
  expectClose(evaluate([] { return crossEntropyLast(x(), ids()); }, inputs, {2}), rows);
  expectClose(evaluate([] { return crossEntropy(x(), ids()); }, inputs, {}), {(rows[0] + rows[1]) / 2});
  expectClose(evaluate([] { return nllLoss(logSoftmaxLast(x()), ids()); }, inputs, {}),
              {(rows[0] + rows[1]) / 2});
  expectClose(evaluate([] { return nllLoss(logSoftmaxLast(x()), ids(), Reduction::none); }, inputs, {2}),
              rows);
  expectClose(evaluate([] { return oneHot(ids(), 4, DType::i32); }, inputs, {2, 4}),
              {0, 0, 0, 1, 1, 0, 0, 0});
}

TEST(TraceValues, RmsNorm) {
  double first = std::sqrt((1 + 0.25 + 0 + 0.25) / 4 + 1e-6),
         second = std::sqrt((1 + 2.25 + 4 + 6.25) / 4 + 1e-6);
  // The epsilon is a constant of the module, an f32.
  Values got = evaluate([] { return rmsNorm(x(), constant({1, 2, 3, 4}, {4})); }, kRamp, {2, 4});
  Values expected{-1 / first, -1 / first, 0, 2 / first, 1 / second, 3 / second, 6 / second, 10 / second};
  ASSERT_EQ(got.size(), expected.size());
  for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], expected[i], 1e-9) << i;
}

TEST(TraceErrors, OfFunctionsMadeOfOthers) {
  auto message = [](const std::function<Tensor()>& body) {
    auto result = trace([&] { return Outputs(body()); });
    if (result) return std::string("no error");
    EXPECT_EQ(result.error().diagnostics().size(), 1U) << result.error().str();
    EXPECT_NE(result.error().str().find("trace_ops_test.cpp"), std::string::npos) << result.error().str();
    return result.error().message();
  };
  EXPECT_EQ(message([] { return splitHeads(x(), 3); }),
            "splitHeads: tensor<2x4xf32> does not split into 3 heads");
  EXPECT_EQ(message([] { return mergeHeads(x()); }), "mergeHeads: the operand needs rank 3 or more");
  EXPECT_EQ(message([] { return swapAxes(x(), 0, 2); }),
            "tg.swap_axes [swap_axes.c1]: axis 2 is out of range for rank 2");
  EXPECT_EQ(message([] { return flatten(x(), -3); }), "flatten: axis -3 is out of range for tensor<2x4xf32>");
  EXPECT_EQ(message([] { return slice(x(), 2, 0, 1); }), "slice: axis 2 is out of range for tensor<2x4xf32>");
  EXPECT_EQ(message([] { return whereCausal(sum(x(), 0), 0); }),
            "tg.where_causal [where_causal.c1]: x is tensor<4xf32>, of rank under 2");
  EXPECT_EQ(message([] { return nllLoss(sum(x()), ids()); }), "nllLoss: log-probabilities of rank 0");
  EXPECT_EQ(message([] { return sum(x(), 2); }), "tg.sum [sum.c1]: axis 2 is out of range for rank 2");
  EXPECT_EQ(message([] { return concat(std::vector<Tensor>{}); }),
            "tg.concat [concat.c1]: there is no operand to join");
  EXPECT_EQ(message([] { return arange(0); }),
            "tg.iota: the extents [0] are not positive or too many elements");
  EXPECT_EQ(message([] { return add(1, 2); }), "tg.add: one operand must be a tensor");
  EXPECT_EQ(message([] { return named("a b", x()); }), "'a b' is not a valid name of a value");
  // Every function is silent about an invalid operand.
  EXPECT_EQ(message([] {
              Tensor good = x(), bad = sum(good, 2);
              return mergeHeads(splitHeads(nllLoss(whereCausal(flatten(swapAxes(bad, 0, 1)), 0), ids()), 2)) +
                     slice(rmsNorm(bad, bad), 7, 0, 1) + where(bad, 1, 2) + cast(bad, DType::i32) +
                     oneHot(bad, 2) + concat({bad, good}) + capture("c", bad) + named("n", bad);
            }),
            "tg.sum [sum.c1]: axis 2 is out of range for rank 2");
}

}  // namespace trace_user
