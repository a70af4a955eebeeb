// SPDX-License-Identifier: Apache-2.0
// A small GPT of today's parts: rotary positions, RMS normalisation without biases, gated SiLU, and one table
// for the tokens that go in and those that come out. It learns to count aloud: "...ninety-eight, ninety-nine,
// one, two...".

#include <random>
#include <string>
#include <vector>

#include "docs/examples/example.h"
#include "ir/trace/trace.h"
#include "runtime/session.h"

using namespace tg::nn;

namespace {

constexpr int64_t kVocab = 29, kBlock = 48, kWidth = 48, kHeads = 4, kLayers = 2, kBatch = 12, kTests = 8;

struct Block : Module {
  RMSNorm before = child("before", RMSNorm(kWidth)), middle = child("middle", RMSNorm(kWidth));
  Linear q = child("q", Linear(kWidth, kWidth, {.bias = false})),
         k = child("k", Linear(kWidth, kWidth, {.bias = false})),
         v = child("v", Linear(kWidth, kWidth, {.bias = false})),
         o = child("o", Linear(kWidth, kWidth, {.bias = false}));
  Linear gate = child("gate", Linear(kWidth, 2 * kWidth, {.bias = false})),
         up = child("up", Linear(kWidth, 2 * kWidth, {.bias = false})),
         down = child("down", Linear(2 * kWidth, kWidth, {.bias = false}));
  Tensor operator()(Tensor x) const {
    Tensor h = before(x);
    auto [queries, keys] = rope(splitHeads(q(h), kHeads), splitHeads(k(h), kHeads));
    Tensor seen = attention(queries, keys, splitHeads(v(h), kHeads), {.causal = true});
    x = x + o(mergeHeads(seen));
    h = middle(x);
    return x + down(silu(gate(h)) * up(h));
  }
};

struct Gpt : Module {
  Embedding tokens =
      child("tokens", Embedding(kVocab, kWidth, {.init = Init::randn(0.05), .dims = {"vocab", "_"}}));
  std::vector<Block> blocks = children("blocks", kLayers, [](int64_t) { return Block(); });
  RMSNorm last = child("last", RMSNorm(kWidth));
  /// Logits by the rows of the token table: tied weights.
  Tensor operator()(const Tensor& ids) const {
    Tensor x = tokens(ids);
    for (const Block& block : blocks) x = block(x);
    return matmul(last(x), tokens.w, {.transposeB = true});
  }
};

/// "one, two, … ninety-nine, " over and over, as classes: a to z, then ' ', ',' and '-'.
std::vector<int32_t> corpus() {
  const char* small[] = {"",         "one",     "two",     "three",     "four",     "five",    "six",
                         "seven",    "eight",   "nine",    "ten",       "eleven",   "twelve",  "thirteen",
                         "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen"};
  const char* tens[] = {"", "", "twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"};
  std::string text;
  for (int round = 0; round < 3; ++round)
    for (int n = 1; n < 100; ++n) {
      if (n < 20)
        text += small[n];
      else
        text += std::string(tens[n / 10]) + (n % 10 ? "-" : "") + small[n % 10];
      text += ", ";
    }
  std::vector<int32_t> ids;
  for (char c : text) ids.push_back(c == ' ' ? 26 : c == ',' ? 27 : c == '-' ? 28 : c - 'a');
  return ids;
}

tg::Inputs windows(std::mt19937& random, const std::vector<int32_t>& text, int64_t rows) {
  std::uniform_int_distribution<size_t> start(0, text.size() - kBlock - 1);
  std::vector<int32_t> ids, targets;
  for (int64_t row = 0; row < rows; ++row) {
    size_t at = start(random);
    ids.insert(ids.end(), text.begin() + at, text.begin() + at + kBlock);
    targets.insert(targets.end(), text.begin() + at + 1, text.begin() + at + 1 + kBlock);
  }
  return {{"ids", tg::example::integers({rows, kBlock}, ids)},
          {"targets", tg::example::integers({rows, kBlock}, targets)}};
}

tg::Result<std::unique_ptr<tg::Module>> gptModule() {
  Gpt model;
  auto loss = [&](const Inputs& in) { return crossEntropy(model(in["ids"]), in["targets"]); };
  auto inputs = [](int64_t rows) {
    Input ids{"ids", {rows, kBlock}, tg::DType::i32}, targets{"targets", {rows, kBlock}, tg::DType::i32};
    ids.dims = targets.dims = {"batch", "time"};  // tg-run takes other extents of these: --set-dim=time=64
    return std::vector<Input>{ids, targets};
  };
  return trace(model, {{"train", inputs(kBatch), loss}, {"eval", inputs(kTests), loss}}, {.name = "gpt"});
}

}  // namespace

int main(int argc, char** argv) {
  tg::example::Call call = tg::example::parseCall(argc, argv);
  if (call.wrong) return tg::example::misused();
  auto module = gptModule();
  if (!module) return tg::example::failed(module.error());
  if (call.text) return tg::example::printed(**module, "gpt.tgir: what gpt.cpp traces.");

  tg::SessionOptions options;
  options.device = call.device;
  options.seed = 1;
  options.trainPipeline = "append-grad,append-adam{kind=adamw,lr=3e-3,weight-decay=0.01,clip-norm=1}";
  auto session = tg::Session::create(*std::move(module), options);
  if (!session) return tg::example::failed(session.error());
  std::mt19937 random(1);
  const std::vector<int32_t> text = corpus();
  auto trained = tg::example::train(**session, 200, [&] { return windows(random, text, kBatch); });
  if (!trained) return tg::example::failed(trained.error());

  auto loss = (*session)->run("eval", windows(random, text, kTests));
  if (!loss) return tg::example::failed(loss.error());
  return tg::example::judged("nats a character of other windows", loss->results[0].second.at(0), 0.4, true);
}
