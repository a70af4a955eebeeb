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

struct GptRow {
  const char* name;
  GptConfig config;
};
const GptRow kGpts[] = {
    {"gpt-nano", {.vocab = 65}},
    {"gpt-micro", {.vocab = 65, .block = 128, .layers = 4, .width = 128}},
    {"gpt-char",
     {.vocab = 65, .block = 256, .layers = 6, .heads = 6, .width = 384, .batch = 64, .activation = "gelu"}},
};

}  // namespace

std::vector<std::string> benchModelNames() {
  std::vector<std::string> names = {"mlp"};
  for (const GptRow& row : kGpts) names.emplace_back(row.name);
  return names;
}

std::optional<Result<std::unique_ptr<Module>>> benchModel(const std::string& name) {
  if (name == "mlp") return parse(kMlp, "mlp.tgir");
  for (const GptRow& row : kGpts)
    if (name == row.name) return makeGpt(row.config);
  return {};
}

}  // namespace tg
