// SPDX-License-Identifier: Apache-2.0
#include "tools/driver/bench_models.h"

#include "docs/examples/gpt_gen.h"
#include "ir/parser.h"

namespace tg {

namespace {

/// 1-64-64-1 with relu, mean squared error, batch 256.
constexpr const char* kMlp = R"(
module @mlp attributes {train_pipeline = "append-grad,append-adam{lr=1e-3}"} {
  param @l1.w : tensor<1x64xf32> {init = kaiming}
  param @l1.b : tensor<64xf32> {init = zeros}
  param @l2.w : tensor<64x64xf32> {init = kaiming}
  param @l2.b : tensor<64xf32> {init = zeros}
  param @l3.w : tensor<64x1xf32> {init = xavier}
  param @l3.b : tensor<1xf32> {init = zeros}
  func @train(%x: tensor<256x1xf32>, %y: tensor<256x1xf32>) -> (loss: tensor<f32>) {
    %w1 = tg.param @l1.w : tensor<1x64xf32>
    %b1 = tg.param @l1.b : tensor<64xf32>
    %w2 = tg.param @l2.w : tensor<64x64xf32>
    %b2 = tg.param @l2.b : tensor<64xf32>
    %w3 = tg.param @l3.w : tensor<64x1xf32>
    %b3 = tg.param @l3.b : tensor<1xf32>
    %z1 = tg.matmul %x, %w1 : tensor<256x64xf32>
    %a1 = tg.add %z1, %b1 : tensor<256x64xf32>
    %h1 = tg.relu %a1 : tensor<256x64xf32>
    %z2 = tg.matmul %h1, %w2 : tensor<256x64xf32>
    %a2 = tg.add %z2, %b2 : tensor<256x64xf32>
    %h2 = tg.relu %a2 : tensor<256x64xf32>
    %z3 = tg.matmul %h2, %w3 : tensor<256x1xf32>
    %pred = tg.add %z3, %b3 : tensor<256x1xf32>
    %d = tg.sub %pred, %y : tensor<256x1xf32>
    %sq = tg.square %d : tensor<256x1xf32>
    %loss = tg.mean %sq {axes = [0, 1]} : tensor<f32>
    return %loss : tensor<f32>
  }
}
)";

/// Two 3x3 convolutions with relu and 2x2 max pooling, 1 to 16 to 32 channels, and a linear layer to 10
/// classes; batch 64 of 28x28.
constexpr const char* kCnn = R"(
module @cnn attributes {train_pipeline = "append-grad,append-adam{lr=1e-3}"} {
  param @c1.w : tensor<16x1x3x3xf32> {init = kaiming}
  param @c1.b : tensor<16x1x1xf32> {init = zeros}
  param @c2.w : tensor<32x16x3x3xf32> {init = kaiming}
  param @c2.b : tensor<32x1x1xf32> {init = zeros}
  param @l.w : tensor<1568x10xf32> {init = xavier}
  param @l.b : tensor<10xf32> {init = zeros}
  func @train(%images: tensor<64x1x28x28xf32>, %labels: tensor<64xi32>) -> (loss: tensor<f32>) {
    %cw1 = tg.param @c1.w : tensor<16x1x3x3xf32>
    %cb1 = tg.param @c1.b : tensor<16x1x1xf32>
    %cw2 = tg.param @c2.w : tensor<32x16x3x3xf32>
    %cb2 = tg.param @c2.b : tensor<32x1x1xf32>
    %lw = tg.param @l.w : tensor<1568x10xf32>
    %lb = tg.param @l.b : tensor<10xf32>
    %z1 = tg.conv2d %images, %cw1 {padding = [1, 1]} : tensor<64x16x28x28xf32>
    %a1 = tg.add %z1, %cb1 : tensor<64x16x28x28xf32>
    %h1 = tg.relu %a1 : tensor<64x16x28x28xf32>
    %p1 = tg.max_pool2d %h1 {kernel = [2, 2]} : tensor<64x16x14x14xf32>
    %z2 = tg.conv2d %p1, %cw2 {padding = [1, 1]} : tensor<64x32x14x14xf32>
    %a2 = tg.add %z2, %cb2 : tensor<64x32x14x14xf32>
    %h2 = tg.relu %a2 : tensor<64x32x14x14xf32>
    %p2 = tg.max_pool2d %h2 {kernel = [2, 2]} : tensor<64x32x7x7xf32>
    %flat = tg.reshape %p2 {shape = [64, 1568]} : tensor<64x1568xf32>
    %z3 = tg.matmul %flat, %lw : tensor<64x10xf32>
    %logits = tg.add %z3, %lb : tensor<64x10xf32>
    %loss = tg.cross_entropy %logits, %labels : tensor<f32>
    return %loss : tensor<f32>
  }
}
)";

struct TextRow {
  const char *name, *text;
};
const TextRow kTexts[] = {{"mlp", kMlp}, {"cnn", kCnn}};

struct GptRow {
  const char* name;
  GptConfig config;
};
const GptRow kGpts[] = {
    {"gpt-nano", {.vocab = 65}},
    {"gpt-micro", {.vocab = 65, .block = 128, .layers = 4, .width = 128}},
    {"gpt-char",
     {.vocab = 65,
      .block = 256,
      .layers = 6,
      .heads = 6,
      .width = 384,
      .batch = 64,
      .activation = "gelu",
      .scaledResiduals = true}},
    // GPT-2's 50257 tokens, rounded up to a multiple of 64.
    {"gpt2-124m",
     {.vocab = 50304,
      .block = 1024,
      .layers = 12,
      .heads = 12,
      .width = 768,
      .batch = 8,
      .activation = "gelu",
      .tiedHead = true,
      .scaledResiduals = true}},
};

}  // namespace

std::vector<std::string> benchModelNames() {
  std::vector<std::string> names;
  for (const TextRow& row : kTexts) names.emplace_back(row.name);
  for (const GptRow& row : kGpts) names.emplace_back(row.name);
  return names;
}

std::optional<Result<std::unique_ptr<Module>>> benchModel(const std::string& name) {
  for (const TextRow& row : kTexts)
    if (name == row.name) return parse(row.text, name + ".tgir");
  for (const GptRow& row : kGpts)
    if (name == row.name) {
      auto built = makeGpt(row.config);
      // Parsed like the others, so that each value has a line.
      return built ? parse(print(**built), name + ".tgir") : std::move(built);
    }
  return {};
}

}  // namespace tg
