// SPDX-License-Identifier: Apache-2.0
#include "runtime/train/samples.h"

#include <algorithm>
#include <utility>

#include "ir/file_io.h"
#include "ir/json_text.h"
#include "runtime/train/run_dir.h"

namespace tg {

namespace {

constexpr const char* kBrokenOff = "broken_off";

/// The rows of a file up to a step, as lines. If the text of the last one was interrupted, it is kept separately.
struct KeptRows {
  std::string rows, brokenOff;
  int64_t owed = 0;
};

/// The rows up to `lastStep`; reports lines that are not rows in `damaged`.
Result<KeptRows> keptRows(const std::string& path, int64_t lastStep, DamagedRows& damaged) {
  KeptRows kept;
  if (lastStep <= 0 || !isThere(path)) return kept;
  TG_TRY(std::vector<std::byte> bytes, readFile(path));
  const std::string_view text = asText(bytes);
  int64_t number = 0;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    const std::string_view line = text.substr(begin, end - begin);
    ++number;
    const Json row = parseJson<Json>(line);
    const bool good = row.is_object() && row.contains("step") && row["step"].is_number_integer();
    if (!good) damaged.add(number);
    if (good && row["step"].get<int64_t>() <= lastStep) {
      kept.rows += std::exchange(kept.brokenOff, "");
      const bool whole = !row.contains(kBrokenOff);
      kept.owed = whole ? 0 : row["step"].get<int64_t>();
      (whole ? kept.rows : kept.brokenOff).append(line) += '\n';
    }
    begin = end + 1;
  }
  return kept;
}

}  // namespace

Result<std::unique_ptr<SampleLog>> SampleLog::open(const std::string& runDir, int64_t lastStep) {
  const std::string path = RunDir{runDir}.samples();
  std::unique_ptr<SampleLog> log(new SampleLog);
  log->damaged_.path = path;
  TG_TRY(KeptRows kept, keptRows(path, lastStep, log->damaged_));
  if (log->damaged_.count) {
    TG_TRY(log->damaged_.aside, setAside(path));
  }
  const std::string rows = kept.rows + kept.brokenOff;
  TG_CHECK(writeFile(path, rows));
  TG_CHECK(log->file_.open(path, 0));
  log->owed_ = kept.owed;
  if (kept.owed) log->before_ = std::move(kept.rows);
  return log;
}

Result<void> SampleLog::add(int64_t step, const std::string& prompt, const std::string& text, bool whole) {
  Json row = {{"step", step}, {"prompt", prompt}, {"text", text}};
  if (!whole) row[kBrokenOff] = true;
  const std::string line = jsonText(row) + "\n";
  if (!owed_) return file_.append(line);
  // The new text replaces the interrupted one in a single write, so that no crash can lose both.
  const std::string rows = std::exchange(before_, "") + line;
  owed_ = 0;
  TG_CHECK(writeFile(damaged_.path, rows));
  return file_.open(damaged_.path, 0);
}

}  // namespace tg
