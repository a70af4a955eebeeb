// SPDX-License-Identifier: Apache-2.0
#include "runtime/train/run_files.h"

#include <fmt/format.h>

#include "ir/file_io.h"
#include "ir/text.h"
#include "runtime/train/run_dir.h"

namespace tg {

namespace {

constexpr std::string_view kBegin = "# xxh3 ";
constexpr std::string_view kModel = " model.tgir ", kModule = " module.spirv.tgir ";
constexpr size_t kDigits = 16;

Result<std::string> readText(const std::string& path) {
  TG_TRY(const std::vector<std::byte> bytes, readFile(path));
  return std::string(asText(bytes));
}

/// Parses `before` and the digits of a hash at the front.
bool takeHash(std::string_view& text, std::string_view before, std::string& hash) {
  if (!text.starts_with(before) || text.size() < before.size() + kDigits) return false;
  hash = text.substr(before.size(), kDigits);
  text.remove_prefix(before.size() + kDigits);
  return true;
}

Result<void> checkFile(const std::string& path, const std::string& hash, const char* says) {
  if (hash.empty()) return {};
  TG_TRY(const std::string text, readText(path));
  if (textHash(text) == hash) return {};
  return fail("{} was changed since the run wrote it: its XXH3 is not that of {}", path, says);
}

}  // namespace

std::string formatConfig(const RunHashes& hashes, const std::string& options) {
  const std::string rest = fmt::format("{}{}{}{}\n{}", kModel, hashes.model, kModule, hashes.module, options);
  return fmt::format("{}{}{}", kBegin, textHash(rest), rest);
}

Result<std::optional<RunHashes>> configHashes(std::string_view text, const std::string& where) {
  const bool none = !text.empty() && !text.starts_with(kBegin) && !kBegin.starts_with(text);
  if (none) return std::optional<RunHashes>();
  std::string own;
  RunHashes hashes;
  std::string_view rest = text;
  if (!takeHash(rest, kBegin, own)) return fail("{} is {}", where, text.empty() ? "empty" : "cut off");
  if (textHash(rest) != own)
    return fail("{} was changed since the run wrote it; if that is meant, remove its first line", where);
  if (!takeHash(rest, kModel, hashes.model) || !takeHash(rest, kModule, hashes.module))
    return fail("{}:1: expected the hashes of the run's files", where);
  return std::optional(std::move(hashes));
}

Result<void> checkRunKinds(const std::string& run) {
  const RunDir dir{run};
  for (const std::string& file : {dir.config(), dir.model(), dir.finalModule(), dir.metrics()})
    TG_CHECK(expectFile(file));
  return {};
}

Result<void> checkRunFiles(const std::string& run, const TrainState* state) {
  const RunDir dir{run};
  TG_CHECK(checkRunKinds(run));
  std::optional<RunHashes> hashes;
  if (isThere(dir.config())) {
    TG_TRY(const std::string config, readText(dir.config()));
    TG_TRY(hashes, configHashes(config, dir.config()));
  }
  if (hashes) {
    TG_CHECK(checkFile(dir.model(), hashes->model, "config.toml"));
    TG_CHECK(checkFile(dir.finalModule(), hashes->module, "config.toml"));
  }
  if (!state) return {};
  TG_CHECK(checkFile(dir.model(), state->moduleHash, "the checkpoint"));
  return checkFile(dir.finalModule(), state->finalHash, "the checkpoint");
}

}  // namespace tg
