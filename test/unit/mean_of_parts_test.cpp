// SPDX-License-Identifier: Apache-2.0
// Which functions give for a batch the mean of what they give for its parts: what is said of them, and what they do.
#include <gtest/gtest.h>

#include <random>
#include <tuple>

#include <fmt/format.h>

#include "ir/dims.h"
#include "ir/parser.h"
#include "passes/mean_of_parts.h"
#include "passes/pass.h"
#include "runtime/interp_runner.h"

namespace tg::test {
namespace {

struct PartsCase {
  const char* name;
  const char* args;    ///< of @train
  const char* body;    ///< ends with %loss : tensor<f32>
  const char* reason;  ///< a piece of the refusal; "" where parts give the mean
};

// The batch is 4 rows.
const PartsCase kCases[] = {
    {"mlp", "%x: tensor<4x6xf32> {batch = 0}, %y: tensor<4xi32> {batch = 0}",
     "%w = tg.param @w : tensor<6x5xf32> %z = tg.matmul %x, %w : tensor<4x5xf32> %r = tg.gelu %z : "
     "tensor<4x5xf32> "
     "%loss = tg.cross_entropy %r, %y : tensor<f32>",
     ""},
    {"elements", "%x: tensor<4x6xf32> {batch = 0}",
     "%w = tg.param @w : tensor<6x5xf32> %z = tg.matmul %x, %w : tensor<4x5xf32> %e = tg.elu %z : "
     "tensor<4x5xf32> %loss = tg.mean %e {axes = [0, 1]} : tensor<f32>",
     ""},
    {"powers", "%n: tensor<4x6xi32> {batch = 0}",
     "%p = tg.one_minus_pow %n {base = 0.5} : tensor<4x6xf32> %loss = tg.mean %p {axes = [0, 1]} : "
     "tensor<f32>",
     ""},
    {"tokens", "%x: tensor<4x3x6xf32> {batch = 0}, %y: tensor<4x3xi32> {batch = 0}",
     "%w = tg.param @w : tensor<6x5xf32> %f = tg.reshape %x {shape = [12, 6]} : tensor<12x6xf32> "
     "%z = tg.matmul %f, %w : tensor<12x5xf32> %t = tg.reshape %y {shape = [12]} : tensor<12xi32> "
     "%loss = tg.cross_entropy %z, %t : tensor<f32>",
     ""},
    {"heads", "%x: tensor<4x3x6xf32> {batch = 0}",
     "%h = tg.reshape %x {shape = [4, 3, 2, 3]} : tensor<4x3x2x3xf32> "
     "%q = tg.transpose %h {perm = [0, 2, 1, 3]} : tensor<4x2x3x3xf32> "
     "%a = tg.attention %q, %q, %q {causal = true} : tensor<4x2x3x3xf32> "
     "%s = tg.square %a : tensor<4x2x3x3xf32> %m = tg.mean %s {axes = [1, 2, 3]} : tensor<4xf32> "
     "%n = tg.mean %m {axes = [0]} : tensor<f32> %c = tg.constant 0.5 : tensor<f32> "
     "%loss = tg.mul %n, %c : tensor<f32>",
     ""},
    {"swapped", "%x: tensor<4x3x6xf32> {batch = 0}",
     "%t = tg.swap_axes %x {axis0 = 0, axis1 = -1} : tensor<6x3x4xf32> "
     "%s = tg.swap_axes %t {axis0 = 0, axis1 = 1} : tensor<3x6x4xf32> "
     "%m = tg.max_reduce %s {axes = [0, 1]} : tensor<4xf32> %loss = tg.mean %m {axes = [0]} : tensor<f32>",
     ""},
    {"stacked", "%x: tensor<4x6xf32> {batch = 0}",
     "%q = tg.square %x : tensor<4x6xf32> %s = tg.stack %x, %q {axis = 0} : tensor<2x4x6xf32> "
     "%m = tg.max_reduce %s {axes = [0, 2]} : tensor<4xf32> %loss = tg.mean %m {axes = [0]} : tensor<f32>",
     ""},
    {"tiled", "%x: tensor<4x6xf32> {batch = 0}",
     "%t = tg.tile %x {repeats = [3, 1, 2]} : tensor<3x4x12xf32> %m = tg.max_reduce %t {axes = [0, 2]} : "
     "tensor<4xf32> %loss = tg.mean %m {axes = [0]} : tensor<f32>",
     ""},
    {"repeated", "%x: tensor<4x6xf32> {batch = 0}",
     "%t = tg.tile %x {repeats = [2, 1]} : tensor<8x6xf32> %loss = tg.mean %t {axes = [0, 1]} : tensor<f32>",
     "%t = tg.tile joins rows"},
    {"columns", "%x: tensor<6x4xf32> {batch = 1}",
     "%w = tg.param @w : tensor<6x5xf32> %z = tg.matmul %w, %x {transpose_a = true} : tensor<5x4xf32> "
     "%m = tg.max_reduce %z {axes = [0]} : tensor<4xf32> %loss = tg.mean %m {axes = [0]} : tensor<f32>",
     ""},
    {"images", "%x: tensor<4x1x4x4xf32> {batch = 0}",
     "%w = tg.param @c : tensor<2x1x3x3xf32> %z = tg.conv2d %x, %w : tensor<4x2x2x2xf32> "
     "%p = tg.max_pool2d %z {kernel = [2, 2]} : tensor<4x2x1x1xf32> %f = tg.reshape %p {shape = [4, 2]} : "
     "tensor<4x2xf32> "
     "%loss = tg.mean %f {axes = [0, 1]} : tensor<f32>",
     ""},
    {"terms", "%x: tensor<4x6xf32> {batch = 0}",
     "%w = tg.param @w : tensor<6x5xf32> %z = tg.matmul %x, %w : tensor<4x5xf32> "
     "%m = tg.mean %z {axes = [0, 1]} : tensor<f32> %q = tg.square %w : tensor<6x5xf32> "
     "%l2 = tg.sum %q {axes = [0, 1]} : tensor<f32> %loss = tg.add %m, %l2 : tensor<f32>",
     ""},
    {"token", "%x: tensor<4x2x6xf32> {batch = 0}",
     "%w = tg.param @w : tensor<6x5xf32> %r = tg.slice %w {starts = [0, 0], limits = [6, 1]} : "
     "tensor<6x1xf32> "
     "%o = tg.reshape %r {shape = [1, 1, 6]} : tensor<1x1x6xf32> "
     "%t = tg.broadcast_to %o {shape = [4, 1, 6]} : tensor<4x1x6xf32> "
     "%h = tg.concat %t, %x {axis = 1} : tensor<4x3x6xf32> %s = tg.square %h : tensor<4x3x6xf32> "
     "%m = tg.max_reduce %s {axes = [1, 2]} : tensor<4xf32> %loss = tg.mean %m {axes = [0]} : tensor<f32>",
     ""},
    {"start", "%x: tensor<4x5xf32> {batch = 0}",
     "%w = tg.param @w : tensor<6x5xf32> %o = tg.constant 0.5 : tensor<4x6xf32> "
     "%z = tg.matmul %o, %w : tensor<4x5xf32> %h = tg.add %x, %z : tensor<4x5xf32> %a = tg.tanh %h : "
     "tensor<4x5xf32> %loss = tg.mean %a {axes = [0, 1]} : tensor<f32>",
     ""},
    {"counted", "%x: tensor<4x6xf32> {batch = 0}",
     "%o = tg.constant 1.0 : tensor<4x6xf32> %k = tg.mul %x, %o : tensor<4x6xf32> "
     "%n = tg.sum %o {axes = [0, 1]} : tensor<f32> %m = tg.mean %k {axes = [0, 1]} : tensor<f32> "
     "%loss = tg.mul %m, %n : tensor<f32>",
     "%n = tg.sum joins rows of the batch"},
    {"sum", "%x: tensor<4x6xf32> {batch = 0}", "%loss = tg.sum %x {axes = [0, 1]} : tensor<f32>",
     "%loss = tg.sum joins rows of the batch"},
    {"norm", "%x: tensor<4x6xf32> {batch = 0}",
     "%m = tg.mean %x {axes = [0]} : tensor<6xf32> %c = tg.sub %x, %m : tensor<4x6xf32> "
     "%s = tg.square %c : tensor<4x6xf32> %loss = tg.mean %s {axes = [0, 1]} : tensor<f32>",
     "%c = tg.sub computes with a mean over the batch"},
    {"root", "%x: tensor<4x6xf32> {batch = 0}",
     "%s = tg.square %x : tensor<4x6xf32> %m = tg.mean %s {axes = [0, 1]} : tensor<f32> %loss = tg.sqrt %m : "
     "tensor<f32>",
     "%loss = tg.sqrt computes with a mean over the batch"},
    {"pairs", "%x: tensor<4x6xf32> {batch = 0}",
     "%p = tg.matmul %x, %x {transpose_b = true} : tensor<4x4xf32> %loss = tg.mean %p {axes = [0, 1]} : "
     "tensor<f32>",
     "%p = tg.matmul joins rows"},
    {"along", "%x: tensor<4x6xf32> {batch = 0}",
     "%s = tg.softmax %x {axis = 0} : tensor<4x6xf32> %q = tg.square %s : tensor<4x6xf32> "
     "%loss = tg.mean %q {axes = [0, 1]} : tensor<f32>",
     "%s = tg.softmax joins rows"},
    {"turned", "%x: tensor<4x6xf32> {batch = 0}",
     "%t = tg.transpose %x {perm = [1, 0]} : tensor<6x4xf32> %f = tg.reshape %t {shape = [3, 8]} : "
     "tensor<3x8xf32> "
     "%m = tg.max_reduce %f {axes = [1]} : tensor<3xf32> %loss = tg.mean %m {axes = [0]} : tensor<f32>",
     "%f = tg.reshape joins rows"},
    {"ignored", "%x: tensor<4x6xf32> {batch = 0}, %y: tensor<4xi32> {batch = 0}",
     "%loss = tg.cross_entropy %x, %y {ignore_index = 0} : tensor<f32>",
     "%loss = tg.cross_entropy joins rows"},
    {"random", "%x: tensor<4x6xf32> {batch = 0}, %rng: tensor<2xi32> {host = \"rng\"}",
     "%d = tg.dropout %x, %rng {p = 0.5, salt = 1} : tensor<4x6xf32> %loss = tg.mean %d {axes = [0, 1]} : "
     "tensor<f32>",
     "%d = tg.dropout would draw other random numbers"},
};

std::unique_ptr<Module> moduleOf(const PartsCase& each) {
  auto module =
      parse(fmt::format("module @m {{ param @w : tensor<6x5xf32> param @c : tensor<2x1x3x3xf32> "
                        "func @train({}) -> (loss: tensor<f32>) {{ {} return %loss : tensor<f32> }} }}",
                        each.args, each.body),
            each.name);
  EXPECT_TRUE(module) << (module ? "" : module.error().str());
  return module ? std::move(*module) : nullptr;
}

double lossOf(std::unique_ptr<Module> module, const tg::Inputs& inputs) {
  const NamedArrays params = {{"w", HostArray::zeros(Type::tensor(DType::f32, {6, 5}))},
                              {"c", HostArray::zeros(Type::tensor(DType::f32, {2, 1, 3, 3}))}};
  NamedArrays values = params;
  for (auto& [name, array] : values)
    for (int64_t i = 0; i < array.elements(); ++i) array.set(i, 0.1 * static_cast<double>(i % 7) - 0.2);
  auto runner = InterpRunner::create(std::shared_ptr<const Module>(std::move(module)), {}, {});
  EXPECT_TRUE(runner && (*runner)->setStorages(values));
  auto out = (*runner)->run("train", inputs, false);
  EXPECT_TRUE(out) << (out ? "" : out.error().str());
  return out ? out->results[0].second.at(0) : 0;
}

/// The rows of one half of the batch.
HostArray halfOf(const HostArray& whole, int axis, int part) {
  Type type = whole.type();
  int64_t inner = 1;
  for (int at = axis + 1; at < type.rank(); ++at) inner *= type.shape[at];
  const int64_t run = (type.shape[axis] /= 2) * inner;
  HostArray out = HostArray::zeros(type);
  for (int64_t i = 0; i < out.elements(); ++i) out.set(i, whole.at((i / run * 2 + part) * run + i % run));
  return out;
}

TEST(MeanOfParts, ResultsBesideTheLossAreNumbers) {
  for (const auto& [result, type, refused] :
       std::initializer_list<std::tuple<const char*, const char*, const char*>>{
           {"share", "tensor<f32>", ""},
           {"w", "tensor<6x5xf32>", ""},
           {"each", "tensor<4xf32>", "%each is a result, which would be of the last part alone"},
           {"row", "tensor<1xf32>", "%row is a result, which would be of the last part alone"}}) {
    SCOPED_TRACE(result);
    const auto module = parse(fmt::format(R"(
module @m {{
  param @w : tensor<6x5xf32>
  func @train(%x: tensor<4x6xf32> {{batch = 0}}) -> (loss: tensor<f32>, more: {1}) {{
    %w = tg.param @w : tensor<6x5xf32>
    %z = tg.matmul %x, %w : tensor<4x5xf32>
    %each = tg.mean %z {{axes = [1]}} : tensor<4xf32>
    %loss = tg.mean %each {{axes = [0]}} : tensor<f32>
    %zero = tg.constant 0.0 : tensor<f32>
    %above = tg.greater %each, %zero : tensor<4xi1>
    %ones = tg.cast %above : tensor<4xf32>
    %share = tg.mean %ones {{axes = [0]}} : tensor<f32>
    %row = tg.reshape %share {{shape = [1]}} : tensor<1xf32>
    return %loss, %{0} : tensor<f32>, {1}
  }}
}})",
                                          result, type),
                              "results.tgir");
    ASSERT_TRUE(module) << module.error().str();
    const auto can = checkMeanOfParts(*(*module)->func("train"));
    EXPECT_EQ(can ? "" : can.error().message(), refused);
  }
}

TEST(MeanOfParts, IsSaidWhereItHolds) {
  for (const PartsCase& each : kCases) {
    SCOPED_TRACE(each.name);
    std::unique_ptr<Module> module = moduleOf(each);
    ASSERT_TRUE(module);
    const Item& train = *module->func("train");
    auto can = checkMeanOfParts(train);
    EXPECT_EQ(static_cast<bool>(can), !*each.reason) << (can ? "" : can.error().str());
    if (!can) {
      EXPECT_NE(can.error().message().find(each.reason), std::string::npos) << can.error().message();
      continue;
    }
    std::mt19937 random(7);
    tg::Inputs inputs;
    for (const auto& arg : train.body.args) {
      HostArray value = HostArray::zeros(arg->type);
      for (int64_t i = 0; i < value.elements(); ++i)
        value.set(i, isFloat(arg->type.dtype) ? static_cast<double>(random() % 100) / 50 - 1
                                              : static_cast<double>(random() % 5));
      inputs.emplace(arg->name, std::move(value));
    }
    double mean = 0;
    for (int part = 0; part < 2; ++part) {
      std::unique_ptr<Module> half = clone(*module);
      auto passes = PassManager::parse("set-batch{n=2 func=train}");
      ASSERT_TRUE(passes && passes->run(half));
      tg::Inputs rows = inputs;
      for (const auto& arg : train.body.args)
        rows[arg->name] = halfOf(inputs.at(arg->name), batchAxis(*arg), part);
      mean += lossOf(std::move(half), rows) / 2;
    }
    EXPECT_NEAR(lossOf(clone(*module), inputs), mean, 1e-6);
  }
}

}  // namespace
}  // namespace tg::test
