// SPDX-License-Identifier: Apache-2.0
// split-rows computes what the whole does: results, parameters and states after a step, in the interpreter.
#include <cmath>
#include <optional>

#include <gtest/gtest.h>

#include "ir/builder.h"
#include "ir/parser.h"
#include "ir/verify.h"
#include "runtime/check/random_point.h"
#include "runtime/interp/interp.h"
#include "test/unit/plan_support.h"
#include "test/unit/run_passes.h"
#include "test/unit/temp_folder.h"

namespace tg::test {
namespace {

// Everything that has rows: a table, a product with a bias, an activation, a normalisation, and a head that is
// the table again with a mean loss that leaves out targets. The host reads large values too.
const char* const kModel = R"(module @m {
  param @table : tensor<96x16xf32> {init = randn(0.1)}
  param @fc : tensor<16x48xf32> {init = randn(0.1)}
  param @bias : tensor<48xf32> {init = randn(0.1)}
  param @out : tensor<48x16xf32> {init = randn(0.1)}
  param @gain : tensor<16xf32> {init = ones}
  param @shift : tensor<16xf32> {init = zeros}
  func @train(%ids: tensor<4x32xi32>, %targets: tensor<4x32xi32>) -> (loss: tensor<f32>, peak: tensor<4x32xf32>, scores: tensor<128x96xf32>) {
    %table = tg.param @table : tensor<96x16xf32>
    %fc = tg.param @fc : tensor<16x48xf32>
    %bias = tg.param @bias : tensor<48xf32>
    %out = tg.param @out : tensor<48x16xf32>
    %gain = tg.param @gain : tensor<16xf32>
    %shift = tg.param @shift : tensor<16xf32>
    %x = tg.embedding %table, %ids : tensor<4x32x16xf32>
    %h = tg.matmul %x, %fc : tensor<4x32x48xf32>
    %hb = tg.add %h, %bias : tensor<4x32x48xf32>
    %a = tg.gelu %hb : tensor<4x32x48xf32>
    %y = tg.matmul %a, %out : tensor<4x32x16xf32>
    %r = tg.add %x, %y : tensor<4x32x16xf32>
    %n = tg.layer_norm %r, %gain, %shift : tensor<4x32x16xf32>
    %logits = tg.matmul %n, %table {transpose_b = true} : tensor<4x32x96xf32>
    %loss = tg.cross_entropy %logits, %targets {ignore_index = 3, label_smoothing = 0.1} : tensor<f32>
    %peak = tg.max_reduce %logits {axes = [2]} : tensor<4x32xf32>
    %scores = tg.reshape %logits {shape = [128, 96]} : tensor<128x96xf32>
    tg.capture %hb {name = "hidden"}
    return %loss, %peak, %scores : tensor<f32>, tensor<4x32xf32>, tensor<128x96xf32>
  }
}
)";

/// The model behind a pipeline, with one random point in its parameters.
struct StepRun {
  std::unique_ptr<Module> module;
  std::optional<Interpreter> interpreter;
  std::vector<RunResult> results;
};

StepRun runModel(const std::string& pipeline) {
  StepRun run;
  auto made = runPasses(parsed(kModel), pipeline);
  EXPECT_TRUE(made) << (made ? "" : made.error().str());
  if (!made) return run;
  run.module = std::move(made->module);
  InterpOptions options;  // wide, but of a plan, whose bytes round
  options.mode = run.module->stage == Stage::planned ? InterpMode::automatic : InterpMode::wide;
  auto interpreter = Interpreter::create(*run.module, options);
  EXPECT_TRUE(interpreter);
  if (!interpreter) return run;
  run.interpreter.emplace(std::move(*interpreter));
  uint32_t salt = 0;
  for (const Item* param : run.module->all(ItemKind::param))
    EXPECT_TRUE(run.interpreter->setStorage(param->name, randomNormal(param->type, 7, ++salt)));
  if (const Item* scale = run.module->storage("loss_scale")) {
    EXPECT_TRUE(run.interpreter->setStorage("loss_scale", NdArray::filled(scale->type, 8)));
  }
  for (const char* name : {"train", "train", "apply"}) {
    const Item* func = run.module->func(name);
    if (!func) continue;
    std::map<std::string, NdArray> inputs;
    for (const auto& arg : func->body.args) {
      NdArray value = NdArray::filled(arg->type, 0.01);
      for (size_t i = 0; i < value.data.size() && arg->type.dtype == DType::i32; ++i)
        value.data[i] = static_cast<double>((i * 37 + arg->name.size()) % 97);  // 96 is outside of the table
      inputs[arg->name] = std::move(value);
    }
    auto result = run.interpreter->run(name, inputs);
    EXPECT_TRUE(result) << (result ? "" : result.error().str());
    if (result) run.results.push_back(std::move(*result));
  }
  return run;
}

void expectClose(const NdArray& got, const NdArray& wanted, const std::string& what, double tolerance) {
  ASSERT_EQ(got.data.size(), wanted.data.size()) << what;
  double largest = 0;
  for (double value : wanted.data) largest = std::max(largest, std::abs(value));
  for (size_t i = 0; i < got.data.size(); ++i)
    ASSERT_NEAR(got.data[i], wanted.data[i], tolerance * largest + 1e-15) << what << " at " << i;
}

/// Two steps behind each pipeline leave the same.
void expectSame(const std::string& first, const std::string& second, double tolerance) {
  const StepRun whole = runModel(first), pieces = runModel(second);
  ASSERT_TRUE(whole.interpreter && pieces.interpreter);
  EXPECT_NE(print(*whole.module), print(*pieces.module));
  ASSERT_EQ(whole.results.size(), pieces.results.size());
  for (size_t call = 0; call < whole.results.size(); ++call) {
    for (size_t i = 0; i < whole.results[call].results.size(); ++i)
      expectClose(pieces.results[call].results[i].second, whole.results[call].results[i].second,
                  whole.results[call].results[i].first, tolerance);
    for (const auto& [name, value] : whole.results[call].captures)
      expectClose(pieces.results[call].captures.at(name), value, name, tolerance);
  }
  for (const auto& item : whole.module->items)
    if (isStorage(item->kind))
      expectClose(*pieces.interpreter->storage(item->name), *whole.interpreter->storage(item->name),
                  item->name, tolerance);
}

/// A device with bindings of 4096 bytes, less than the table has.
std::string smallTarget(const TempFolder& folder) {
  return folder.put("small.json", R"({"name": "small", "storage_range": 4096, "alignment": 16})");
}

class SplitRows : public ::testing::TestWithParam<std::tuple<const char*, const char*>> {};

TEST_P(SplitRows, ComputesTheSame) {
  const std::string before = std::get<0>(GetParam()), split = std::get<1>(GetParam());
  const TempFolder folder;
  const std::string rest =
      split == "small" ? "set-target{target=" + smallTarget(folder) + "},expand-views,split-rows" : split;
  expectSame(before, before + "," + rest, 1e-9);
}

INSTANTIATE_TEST_SUITE_P(
    All, SplitRows,
    ::testing::Combine(
        ::testing::Values("append-grad,append-adam{weight-decay=0.1 clip-norm=0.5}",
                          "append-grad{accumulate=2},append-adam",
                          "append-grad,mixed-precision{loss-scale=8},append-sgd{lr=0.1}",
                          "append-grad,mixed-precision{precision=bf16},append-adam{normalize-grads=table}"),
        ::testing::Values("split-rows{limit=16384}", "split-rows{limit=4096}", "small")));

TEST(SplitRowsPlanned, UpdatesTheRowsWhereTheyAre) {
  // All of the tied table: 6144 bytes in bindings of 4096.
  const TempFolder folder;
  const std::string rest = ",fuse{target=" + smallTarget(folder) + "},plan";
  for (const std::string before :
       {"append-grad,append-sgd{lr=0.1 momentum=0.9}", "append-grad{accumulate=2},append-adam"})
    expectSame(before, before + rest, 2e-4);
}

TEST(SplitRowsWhole, IsLeftWhereAllFits) {
  auto before = runPasses(parsed(kModel), "append-grad,append-adam");
  auto after = runPasses(parsed(kModel), "append-grad,append-adam,split-rows{limit=1000000}");
  ASSERT_TRUE(before && after);
  EXPECT_EQ(print(*before->module), print(*after->module));
}

}  // namespace
}  // namespace tg::test
