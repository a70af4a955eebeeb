// Training saved to one safetensors file: params and states by name, the rest as metadata.
#pragma once

#include <optional>
#include <string>

#include "runtime/data/text_data.h"
#include "runtime/session.h"

namespace tg {
inline namespace single_file {

struct Checkpoint {
  int64_t step = 0;
  uint64_t seed = 0;
  std::optional<Vocabulary> vocabulary;  ///< of a model of text
  NamedArrays tensors;
};

/// Replaces the file whole or not at all.
Result<void> saveCheckpoint(const std::string& path, Session& session, uint64_t seed,
                            const Vocabulary* vocabulary);
Result<Checkpoint> readCheckpoint(const std::string& path);
/// Params, states and the step count; a missing tensor is an error that names it.
Result<void> restore(Session& session, const Checkpoint& checkpoint, const std::string& path);

}  // namespace single_file
}  // namespace tg
