// SPDX-License-Identifier: Apache-2.0
#include "runtime/train/samples.h"

#include <unistd.h>

#include <span>

#include <nlohmann/json.hpp>

#include "runtime/data/file_io.h"
#include "runtime/train/run_dir.h"

namespace tg {

namespace {

using Json = nlohmann::ordered_json;

/// The lines of rows up to `lastStep`, and whether others than rows were among them.
Result<std::string> keptRows(const std::string& path, int64_t lastStep, bool& damaged) {
  std::string kept;
  if (lastStep <= 0 || ::access(path.c_str(), F_OK) != 0) return kept;
  TG_TRY(std::vector<std::byte> bytes, readFile(path));
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  size_t begin = 0;
  while (begin < text.size()) {
    const size_t end = text.find('\n', begin);
    if (end == std::string_view::npos) break;
    const std::string_view line = text.substr(begin, end + 1 - begin);
    const Json row = Json::parse(line, nullptr, false);
    const bool good = row.is_object() && row.contains("step") && row["step"].is_number_integer();
    if (good && row["step"].get<int64_t>() <= lastStep) kept += line;
    damaged = damaged || !good;
    begin = end + 1;
  }
  return kept;
}

}  // namespace

Result<std::unique_ptr<SampleLog>> SampleLog::open(const std::string& runDir, int64_t lastStep) {
  const std::string path = RunDir{runDir}.samples();
  std::unique_ptr<SampleLog> log(new SampleLog);
  bool damaged = false;
  TG_TRY(const std::string kept, keptRows(path, lastStep, damaged));
  if (damaged) {
    TG_TRY(log->damaged_, setAside(path));
  }
  TG_CHECK(writeFile(path, std::as_bytes(std::span(kept))));
  TG_CHECK(log->file_.open(path, 0));
  return log;
}

Result<void> SampleLog::add(int64_t step, const std::string& prompt, const std::string& text) {
  const Json row = {{"step", step}, {"prompt", prompt}, {"text", text}};
  return file_.append(row.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n");
}

}  // namespace tg
