// SPDX-License-Identifier: Apache-2.0
// A character model of first names: the next letter from the three before it, by an embedding and two layers.
// The figure is the mean loss over all letters of the list; knowing nothing gives log 27 = 3.3.
#include <cstdint>
#include <cstdio>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "docs/examples/example.h"
#include "ir/trace/trace.h"
#include "runtime/session.h"

using namespace tg::nn;

constexpr int64_t kBefore = 3, kLetters = 27, kBatch = 128;

constexpr const char* kNames =
    "olivia emma amelia sophia charlotte isabella ava mia ellie luna harper aurora evelyn eliana aria violet "
    "nora hazel camila penelope scarlett layla gianna eleanor lily emily avery sofia mila abigail ella nova "
    "elena ivy grace stella willow zoe riley victoria naomi maya lucy leah delilah ruby alice hannah madelyn "
    "noah liam oliver elijah mateo lucas levi ezra asher leo james luca henry hudson ethan muhammad maverick "
    "theodore grayson daniel michael jack benjamin gabriel miles owen samuel joseph david julian wyatt "
    "thomas "
    "isaac jacob aiden mason william caleb adam aaron robert peter walter martin simon oscar felix hugo";

struct CharMlp : Module {
  Embedding letters = child("letters", Embedding(kLetters, 10, {.init = Init::randn(1)}));
  Linear hidden = child("hidden", Linear(kBefore * 10, 100, {.init = Init::kaiming(5.0 / 3)}));
  Linear out = child("out", Linear(100, kLetters, {.init = Init::xavier(0.1)}));

  Tensor operator()(const Tensor& before) const {
    Tensor x = flatten(letters(before), 1);
    return out(tanh(hidden(x)));
  }
};

static tg::Result<std::unique_ptr<tg::Module>> charModule() {
  CharMlp model;
  auto train = [&](const Inputs& in) { return crossEntropy(model(in["before"]), in["next"]); };
  auto predict = [&](const Inputs& in) { return Outputs{{"probabilities", softmax(model(in["before"]))}}; };
  return trace(
      model,
      {{"train", {{"before", {kBatch, kBefore}, tg::DType::i32}, {"next", {kBatch}, tg::DType::i32}}, train},
       {"predict", {{"before", {1, kBefore}, tg::DType::i32}}, predict}},
      {.name = "char_mlp"});
}

/// Every letter of the names with the three before it; 0 stands before a name and ends it.
struct Windows {
  std::vector<int32_t> before, next;
};
static Windows windows() {
  Windows out;
  std::vector<int32_t> last(kBefore, 0);
  for (char c : std::string(kNames) + " ") {
    int32_t letter = c == ' ' ? 0 : c - 'a' + 1;
    out.before.insert(out.before.end(), last.begin(), last.end());
    out.next.push_back(letter);
    last.erase(last.begin());
    last.push_back(letter);
    if (letter == 0) last.assign(kBefore, 0);
  }
  return out;
}

/// The windows number `first`, `first` + `step`, …, around the list.
static std::map<std::string, tg::HostArray> batch(const Windows& all, size_t first, size_t step) {
  std::map<std::string, tg::HostArray> inputs{
      {"before", tg::HostArray::zeros(tg::DType::i32, {kBatch, kBefore})},
      {"next", tg::HostArray::zeros(tg::DType::i32, {kBatch})}};
  for (int64_t row = 0; row < kBatch; ++row) {
    size_t at = (first + static_cast<size_t>(row) * step) % all.next.size();
    inputs["next"].set(row, all.next[at]);
    for (int64_t i = 0; i < kBefore; ++i)
      inputs["before"].set(row * kBefore + i, all.before[at * kBefore + static_cast<size_t>(i)]);
  }
  return inputs;
}

/// A name, each letter the one whose share of the probabilities a number of a fixed sequence falls into.
static tg::Result<std::string> sampled(tg::Session& session, uint32_t& random) {
  std::string name;
  tg::HostArray before = tg::HostArray::zeros(tg::DType::i32, {1, kBefore});
  while (name.size() < 12) {
    TG_TRY(tg::CallOutputs got, session.run("predict", {{"before", before}}));
    random = random * 1664525U + 1013904223U;
    double left = static_cast<double>(random >> 8) / (1 << 24);
    int32_t letter = 0;
    while (letter + 1 < kLetters && left >= got.result("probabilities")->at(letter))
      left -= got.result("probabilities")->at(letter++);
    if (letter == 0) break;
    name += static_cast<char>('a' + letter - 1);
    for (int64_t i = 0; i + 1 < kBefore; ++i) before.set(i, before.at(i + 1));
    before.set(kBefore - 1, letter);
  }
  return name;
}

int main(int argc, char** argv) {
  tg::example::Call call = tg::example::parseCall(argc, argv);
  if (call.wrong) return tg::example::misused();
  auto module = charModule();
  if (!module) return tg::example::failed(module.error());
  if (call.text) return tg::example::printed(**module, "char_mlp.tgir: what char_mlp.cpp traces.");

  tg::SessionOptions options;
  options.device = call.device;
  options.trainPipeline = "append-grad,append-adam{lr=1e-2}";
  options.seed = 1;
  auto session = tg::Session::create(*std::move(module), options);
  if (!session) return tg::example::failed(session.error());

  Windows all = windows();
  size_t passes = (all.next.size() + kBatch - 1) / kBatch;  // steps that see every window about once
  double total = 0;
  for (size_t step = 0; step < 100 * passes; ++step) {
    // Strides that are coprime to the list's length mix its letters.
    auto done = (*session)->step(batch(all, step * 7919, 101));
    if (!done) return tg::example::failed(done.error());
    bool last = step >= 99 * passes;
    if (last) total += done->loss;
    if (step % (20 * passes) == 0) std::printf("step %zu: loss %.3f\n", step, done->loss);
  }
  uint32_t random = 1;
  for (int i = 0; i < 5; ++i) {
    auto name = sampled(**session, random);
    if (!name) return tg::example::failed(name.error());
    std::printf("%s\n", name->c_str());
  }
  return tg::example::judged("mean loss", total / static_cast<double>(passes), 1.2, true);
}
