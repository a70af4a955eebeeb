// SPDX-License-Identifier: Apache-2.0
// A transformer adds two numbers of two digits, written as text: 47+85=231, the sum with its last digit
// first. Only the sum's digits count in the loss. The figure is the share of the digits that it gets right on
// problems of which most were never shown.
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <vector>

#include "docs/examples/example.h"
#include "ir/trace/trace.h"
#include "runtime/session.h"

using namespace tg::nn;

constexpr int64_t kTokens = 12, kPlus = 10, kEquals = 11;  // the ten digits, + and =
constexpr int64_t kLength = 8;                             // what the model reads: all but the last digit
constexpr int64_t kAsked = 3, kFirst = 5;                  // digits of the sum, read from position 5 on
constexpr int64_t kBatch = 64, kWidth = 48, kHeads = 4;

struct Attention : Module {
  Linear qkv = child("qkv", Linear(kWidth, 3 * kWidth, {.init = Init::xavier()}));
  Linear proj = child("proj", Linear(kWidth, kWidth, {.init = Init::xavier()}));

  Tensor operator()(const Tensor& x) const {
    Tensor joint = qkv(x);
    Tensor q = splitHeads(sliceLastRange(joint, 0, kWidth), kHeads);
    Tensor k = splitHeads(sliceLastRange(joint, kWidth, 2 * kWidth), kHeads);
    Tensor v = splitHeads(sliceLastRange(joint, 2 * kWidth, 3 * kWidth), kHeads);
    Tensor scores = matmul(q, k, {.transposeB = true}) / std::sqrt(static_cast<double>(kWidth / kHeads));
    return proj(mergeHeads(matmul(softmaxCausalLast(scores), v)));
  }
};

struct Block : Module {
  LayerNorm before = child("before", LayerNorm(kWidth)), between = child("between", LayerNorm(kWidth));
  Attention attention = child("attention", Attention());
  Linear in = child("in", Linear(kWidth, 4 * kWidth, {.init = Init::kaiming()}));
  Linear out = child("out", Linear(4 * kWidth, kWidth, {.init = Init::xavier()}));

  Tensor operator()(const Tensor& x) const {
    Tensor mixed = x + attention(before(x));
    return mixed + out(relu(in(between(mixed))));
  }
};

struct Adder : Module {
  Embedding tokens = child("tokens", Embedding(kTokens, kWidth, {.init = Init::randn(0.3)}));
  Param positions = param("positions", {kLength, kWidth}, {.init = Init::randn(0.3)});
  std::vector<Block> blocks = children("blocks", 2, [](int64_t) { return Block(); });
  LayerNorm norm = child("norm", LayerNorm(kWidth));
  Linear head = child("head", Linear(kWidth, kTokens, {.bias = false, .init = Init::xavier()}));

  Tensor operator()(const Tensor& ids) const {
    Tensor x = tokens(ids) + positions;
    for (const Block& block : blocks) x = block(x);
    return head(norm(x));
  }
};

static tg::Result<std::unique_ptr<tg::Module>> adderModule() {
  Adder model;
  auto train = [&](const Inputs& in) {
    Tensor each = crossEntropyLast(model(in["text"]), in["next"]);
    Tensor counts = constant({0, 0, 0, 0, 0, 1, 1, 1}, {kLength});
    return sum(each * counts) / static_cast<double>(kBatch * kAsked);
  };
  auto predict = [&](const Inputs& in) { return Outputs{{"next", argmax(model(in["text"]))}}; };
  return trace(model,
               {{"train",
                 {{"text", {kBatch, kLength}, tg::DType::i32}, {"next", {kBatch, kLength}, tg::DType::i32}},
                 train},
                {"predict", {{"text", {kBatch, kLength}, tg::DType::i32}}, predict}},
               {.name = "addition"});
}

/// Problems as the model reads them, and the token that follows each.
struct Problems {
  tg::HostArray text = tg::HostArray::zeros(tg::DType::i32, {kBatch, kLength});
  tg::HostArray next = tg::HostArray::zeros(tg::DType::i32, {kBatch, kLength});
};
/// Drawn from those that are shown, or from those that are not.
static Problems problems(uint32_t& random, bool shown) {
  Problems out;
  for (int64_t row = 0; row < kBatch;) {
    random = random * 1664525U + 1013904223U;
    int64_t problem = random / (1U << 16) % 10000, a = problem / 100, b = problem % 100, c = a + b;
    bool everyFifth = problem * 7919 % 10007 % 5 == 0;  // scattered over all digits
    if (everyFifth == shown) continue;
    const std::array<int64_t, kLength + 1> line{a / 10,  a % 10, kPlus,       b / 10, b % 10,
                                                kEquals, c % 10, c / 10 % 10, c / 100};
    for (int64_t i = 0; i < kLength; ++i) {
      out.text.set(row * kLength + i, static_cast<double>(line[static_cast<size_t>(i)]));
      out.next.set(row * kLength + i, static_cast<double>(line[static_cast<size_t>(i) + 1]));
    }
    ++row;
  }
  return out;
}

int main(int argc, char** argv) {
  tg::example::Call call = tg::example::parseCall(argc, argv);
  if (call.wrong) return tg::example::misused();
  auto module = adderModule();
  if (!module) return tg::example::failed(module.error());
  if (call.text) return tg::example::printed(**module, "addition.tgir: what addition.cpp traces.");

  tg::SessionOptions options;
  options.device = call.device;
  options.trainPipeline = "append-grad,append-adam{lr=3e-3}";
  options.seed = 1;
  auto session = tg::Session::create(*std::move(module), options);
  if (!session) return tg::example::failed(session.error());

  constexpr int kSteps = 1000;
  auto falling = (*session)->setLearningRate(
      [](int64_t step) { return 3e-3 * (1 - static_cast<double>(step - 1) / kSteps) + 1e-4; });
  if (!falling) return tg::example::failed(falling.error());
  uint32_t random = 1;
  for (int step = 0; step < kSteps; ++step) {
    Problems shown = problems(random, true);
    auto done = (*session)->step({{"text", shown.text}, {"next", shown.next}});
    if (!done) return tg::example::failed(done.error());
    if (step % 200 == 0) std::printf("step %d: loss %.3f\n", step, done->loss);
  }

  int right = 0, asked = 0;
  for (int round = 0; round < 4; ++round) {
    Problems fresh = problems(random, false);
    auto answer = (*session)->run("predict", {{"text", fresh.text}});
    if (!answer) return tg::example::failed(answer.error());
    for (int64_t row = 0; row < kBatch; ++row)
      for (int64_t i = kFirst; i < kLength; ++i, ++asked)
        right += answer->result("next")->at(row * kLength + i) == fresh.next.at(row * kLength + i);
  }
  return tg::example::judged("digits right", static_cast<double>(right) / asked, 0.97, false);
}
