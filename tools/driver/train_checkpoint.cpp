#include "tools/driver/train_checkpoint.h"

#include <algorithm>
#include <charconv>

#include <fmt/format.h>

#include "runtime/data/safetensors.h"

namespace tg {
inline namespace single_file {

namespace {

constexpr const char *kStep = "tensorgrad.step", *kSeed = "tensorgrad.seed",
                     *kVocabulary = "tensorgrad.vocabulary";

Result<uint64_t> integer(const Safetensors& file, const char* key, const std::string& path) {
  auto found = file.metadata.find(key);
  if (found == file.metadata.end()) return uint64_t{0};
  uint64_t value = 0;
  const char* end = found->second.data() + found->second.size();
  if (std::from_chars(found->second.data(), end, value).ptr != end)
    return fail(fmt::format("{}: metadata {} is '{}', not a number", path, key, found->second));
  return value;
}

}  // namespace

Result<void> saveCheckpoint(const std::string& path, Session& session, uint64_t seed,
                            const Vocabulary* vocabulary) {
  Safetensors file;
  TG_TRY(file.tensors, session.downloadParams());
  TG_TRY(NamedArrays states, session.downloadStates());
  for (auto& state : states) file.tensors.push_back(std::move(state));
  file.metadata = {{kStep, fmt::format("{}", session.steps())}, {kSeed, fmt::format("{}", seed)}};
  if (vocabulary) file.metadata[kVocabulary] = vocabulary->printable();
  return writeSafetensors(path, file);
}

Result<Checkpoint> readCheckpoint(const std::string& path) {
  TG_TRY(Safetensors file, readSafetensors(path));
  Checkpoint out;
  TG_TRY(uint64_t step, integer(file, kStep, path));
  TG_TRY(out.seed, integer(file, kSeed, path));
  out.step = static_cast<int64_t>(step);
  if (auto found = file.metadata.find(kVocabulary); found != file.metadata.end()) {
    TG_TRY(out.vocabulary, Vocabulary::parse(found->second));
  }
  out.tensors = std::move(file.tensors);
  return out;
}

Result<void> restore(Session& session, const Checkpoint& checkpoint, const std::string& path) {
  auto pick = [&](ItemKind kind) -> Result<NamedArrays> {
    NamedArrays out;
    for (const Item* item : session.module()->all(kind)) {
      auto found = std::find_if(checkpoint.tensors.begin(), checkpoint.tensors.end(),
                                [&](const auto& tensor) { return tensor.first == item->name; });
      if (found == checkpoint.tensors.end())
        return fail(fmt::format("{} has no tensor '{}'", path, item->name));
      out.push_back(*found);
    }
    return out;
  };
  TG_TRY(NamedArrays params, pick(ItemKind::param));
  TG_TRY(NamedArrays states, pick(ItemKind::state));
  TG_CHECK(session.uploadParams(params));
  TG_CHECK(session.uploadStates(states));
  return session.setSteps(checkpoint.step);
}

}  // namespace single_file
}  // namespace tg
