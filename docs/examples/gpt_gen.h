// SPDX-License-Identifier: Apache-2.0
// A GPT as a module, built with tg::Builder: nanoGPT's shape, at any size.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "ir/module.h"
#include "ir/result.h"

namespace tg {

struct GptConfig {
  int64_t vocab = 96;  ///< token ids are 0 … vocab-1
  int64_t block = 64;  ///< T, the tokens a prediction sees
  int64_t layers = 2;
  int64_t heads = 4;
  int64_t width = 64;               ///< C, a multiple of heads
  int64_t batch = 16;               ///< B, sequences in a training step
  std::string activation = "relu";  ///< of the feed-forward layers: relu or gelu (tanh form)
  /// How heads mix: attention (the op tg.attention, which keeps no scores for its gradient) or softmax
  /// (matmul, softmax, matmul).
  std::string mixing = "attention";
  bool tiedHead = false;  ///< the head is the embedding, transposed
  bool scaledResiduals =
      false;  ///< what adds to the residual stream starts 1/√(2·layers) smaller, as in GPT-2
  /// Written on the module, so that `tg-run train` knows what to append.
  std::string trainPipeline = "append-grad,append-adam{lr=1e-3}";
};

/// @train(%tokens: BxT i32, %targets: BxT i32) -> (loss) and @predict(%tokens: 1xT i32) -> (logits: 1xTxV)
/// over the same parameters: pre-norm blocks, learned positions, biases everywhere but in the head.
/// Matrices start as randn(0.02).
Result<std::unique_ptr<Module>> makeGpt(const GptConfig& config);

}  // namespace tg
