// SPDX-License-Identifier: Apache-2.0
// A language model continues a text, token by token.
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
  double temperature = 0.8;  ///< 0 takes the likeliest token, 1 the model's own odds
  uint64_t seed = 0;
};

/// @predict(%tokens: 1xT i32) -> 1xTxV f32, which sampling calls. An error says that the module lacks it.
Result<const Item*> predictor(const Module& module);

/// Draws from @predict of a session. Calls change neither its parameters nor its steps, and the randomness
/// is the sampler's own: a run that samples trains as one that does not.
class Sampler {
 public:
  /// `predict` is what `predictor` gave; session and vocabulary outlive the sampler.
  Sampler(Session& session, const Item& predict, const Vocabulary& vocabulary, SampleOptions options);

  /// Gives `sink` the text of each token that follows the prompt until it says false. Errors: an empty
  /// prompt or sink, a byte of the prompt that the vocabulary lacks, a temperature that is no number, the device's.
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
