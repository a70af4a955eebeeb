// SPDX-License-Identifier: Apache-2.0
// Text generation: a language model continues a text, token by token.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "ir/module.h"
#include "ir/result.h"
#include "runtime/data/text_data.h"
#include "runtime/session.h"

namespace tg {

struct SampleOptions {
  std::string prompt = "\n";
  int64_t tokens = 500;
  double temperature = 0.8;  ///< 0 takes the most likely token; 1 uses the model's own probabilities
  uint64_t seed = 0;
};

/// The function @predict(%tokens: 1xT i32) -> 1xTxV f32, which sampling calls. An error if the module lacks it.
Result<const Item*> predictor(const Module& module);

/// Draws tokens from @predict of a session. The calls change neither parameters nor steps, and the sampler has its own
/// random numbers, so sampling during a training does not change the training.
class Sampler {
 public:
  /// `predict` comes from `predictor`. Session and vocabulary must outlive the sampler.
  Sampler(Session& session, const Item& predict, const Vocabulary& vocabulary, SampleOptions options);

  /// Passes the text of each token after the prompt to `sink`, until that returns false. Errors: an empty prompt or
  /// sink, a byte of the prompt that is not in the vocabulary, a temperature that is NaN, errors of the device.
  Result<void> run(const std::function<bool(const std::string&)>& sink);

  const SampleOptions& options() const { return options_; }

 private:
  Result<int32_t> next(const std::vector<int32_t>& ids, int64_t index);

  Session& session_;
  const Vocabulary& vocabulary_;
  SampleOptions options_;
  std::string argument_;
  Type ids_;
  int64_t classes_;
};

}  // namespace tg
