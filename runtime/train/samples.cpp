// SPDX-License-Identifier: Apache-2.0
#include "runtime/train/samples.h"

#include <unistd.h>

#include <algorithm>
#include <span>

#include <nlohmann/json.hpp>

#include "runtime/data/file_io.h"
#include "runtime/train/run_dir.h"

namespace tg {

namespace {

using Json = nlohmann::ordered_json;

/// The lines of rows up to `lastStep`, and which lines were no rows.
Result<std::string> keptRows(const std::string& path, int64_t lastStep, DamagedRows& damaged) {
  std::string kept;
  if (lastStep <= 0 || ::access(path.c_str(), F_OK) != 0) return kept;
  TG_TRY(std::vector<std::byte> bytes, readFile(path));
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  int64_t number = 0;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    const std::string_view line = text.substr(begin, end - begin);
    ++number;
    const Json row = Json::parse(line, nullptr, false);
    const bool good = row.is_object() && row.contains("step") && row["step"].is_number_integer();
    if (good && row["step"].get<int64_t>() <= lastStep) kept.append(line) += '\n';
    if (!good) damaged.add(number);
    begin = end + 1;
  }
  return kept;
}

}  // namespace

Result<std::unique_ptr<SampleLog>> SampleLog::open(const std::string& runDir, int64_t lastStep) {
  const std::string path = RunDir{runDir}.samples();
  std::unique_ptr<SampleLog> log(new SampleLog);
  log->damaged_.path = path;
  TG_TRY(const std::string kept, keptRows(path, lastStep, log->damaged_));
  if (log->damaged_.count) {
    TG_TRY(log->damaged_.aside, setAside(path));
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
