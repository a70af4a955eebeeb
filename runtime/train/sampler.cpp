// SPDX-License-Identifier: Apache-2.0
#include "runtime/train/sampler.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <utility>

#include "ir/philox.h"

namespace tg {

namespace {

constexpr const char* kPredict = "predict";

/// Draws the index of a logit with probability proportional to e^(logit/temperature); the largest logit at 0.
int32_t draw(std::span<const float> logits, double temperature, float uniform) {
  auto largest = std::ranges::max_element(logits);
  if (temperature <= 0) return static_cast<int32_t>(largest - logits.begin());
  std::vector<double> sums;
  double total = 0;
  for (float logit : logits)
    sums.push_back(total += std::exp((static_cast<double>(logit) - *largest) / temperature));
  auto found = std::ranges::upper_bound(sums, static_cast<double>(uniform) * total);
  return static_cast<int32_t>(std::min(found - sums.begin(), static_cast<std::ptrdiff_t>(logits.size()) - 1));
}

}  // namespace

/// Whether a distribution follows from logits: a logit may be -inf, but not all.
static bool isDistribution(std::span<const float> logits) {
  const bool known = std::ranges::none_of(
      logits, [](float logit) { return std::isnan(logit) || (std::isinf(logit) && logit > 0); });
  return known && std::ranges::any_of(logits, [](float logit) { return std::isfinite(logit); });
}

Result<const Item*> predictor(const Module& module) {
  const Item* func = module.func(kPredict);
  bool fits = func && func->body.args.size() == 1 && func->results.size() == 1;
  if (fits) {
    const Type& ids = func->body.args[0]->type;
    const Type& logits = func->results[0].type;
    fits = ids.dtype == DType::i32 && ids.rank() == 2 && ids.shape[0] == 1 && logits.dtype == DType::f32 &&
           logits.rank() == 3 && logits.shape[0] == 1 && logits.shape[1] == ids.shape[1];
  }
  if (fits) return func;
  return fail("sampling calls @predict(%tokens: tensor<1xTxi32>) -> tensor<1xTxVxf32>, which the module does "
              "not have");
}

Sampler::Sampler(Session& session, const Item& predict, const Vocabulary& vocabulary, SampleOptions options)
    : session_(session), vocabulary_(vocabulary), options_(std::move(options)),
      argument_(predict.body.args[0]->name), ids_(predict.body.args[0]->type),
      classes_(predict.results[0].type.shape.back()) {}

Result<void> Sampler::run(const std::function<bool(const std::string&)>& sink) {
  if (!sink) return fail("the function that receives the sampled text is empty");
  if (std::isnan(options_.temperature)) return fail("the temperature is NaN");
  TG_TRY(std::vector<int32_t> ids, vocabulary_.encode(options_.prompt));
  if (ids.empty()) return fail("the prompt is empty");
  for (int64_t i = 0; i < options_.tokens; ++i) {
    TG_TRY(int32_t id, next(ids, i));
    ids.push_back(id);
    TG_TRY(std::string text, vocabulary_.decode({&id, 1}));
    if (!sink(text)) break;
  }
  return {};
}

// The window has the last T ids at its beginning. Positions after them do not matter, as a causal model cannot see
// them.
Result<int32_t> Sampler::next(const std::vector<int32_t>& ids, int64_t index) {
  HostArray window = HostArray::zeros(ids_);
  auto length = static_cast<size_t>(ids_.shape[1]), count = std::min(ids.size(), length);
  std::copy(ids.end() - static_cast<std::ptrdiff_t>(count), ids.end(), window.i32().begin());
  Inputs inputs;
  inputs.emplace(argument_, std::move(window));
  TG_TRY(CallOutputs out, session_.run(kPredict, inputs));
  auto classes = static_cast<size_t>(std::min<int64_t>(classes_, vocabulary_.size()));
  auto logits = std::as_const(out.results[0].second)
                    .f32()
                    .subspan((count - 1) * static_cast<size_t>(classes_), classes);
  if (!isDistribution(logits))
    return fail("@predict gives no distribution for token {}: a logit is NaN or infinite, or all are -inf",
                index + 1);
  auto i = static_cast<uint64_t>(index);
  auto words =
      philox({lowWord(i), highWord(i), 0x73616d70u, 0}, {lowWord(options_.seed), highWord(options_.seed)});
  return draw(logits, options_.temperature, philoxUniform(words[0]));
}

}  // namespace tg
