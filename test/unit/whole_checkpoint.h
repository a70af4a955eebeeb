// SPDX-License-Identifier: Apache-2.0
// Checkpoints whose tensors are all in memory.
#pragma once

#include <string>

#include "runtime/train/checkpoint.h"

namespace tg {

inline Result<std::string> saveCheckpoint(const std::string& runDir, const Checkpoint& checkpoint) {
  return saveCheckpoint(runDir, checkpoint.state, sourceOf(checkpoint.params), sourceOf(checkpoint.states));
}

/// What a checkpoint of these tensors says of them.
inline std::string stateHash(const NamedArrays& params, const NamedArrays& states) {
  TensorHash hash;
  for (const NamedArrays* arrays : {&params, &states})
    (void)eachPieceOf(hash.hashed(sourceOf(*arrays)),
                      [](size_t, int64_t, std::span<const std::byte>) { return Result<void>(); });
  return hash.digest();
}

}  // namespace tg
