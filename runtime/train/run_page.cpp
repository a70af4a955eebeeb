// SPDX-License-Identifier: Apache-2.0
#include "runtime/train/run_page.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <string_view>
#include <system_error>

#include <fmt/chrono.h>
#include <fmt/format.h>

#include "ir/file_io.h"
#include "ir/find.h"
#include "ir/json_text.h"
#include "ir/stopwatch.h"
#include "ir/text.h"
#include "runtime/train/checkpoint.h"
#include "runtime/train/config_entries.h"
#include "runtime/train/run_dir.h"
#include "runtime/train/run_files.h"

namespace tg {

std::string checkpointOwed(int64_t step) { return fmt::format("the checkpoint of step {} is owed", step); }

namespace {

namespace fs = std::filesystem;
const std::string_view kTemplate =
#include "runtime/run_page.inc"
    ;
constexpr std::string_view kPlace = "__RUN_DATA__";

// Older samples stay in samples.jsonl.
constexpr size_t kShownSamples = 50;

/// The text of a file, or nothing if it does not exist.
Result<std::optional<std::string>> readIfThere(const std::string& path) {
  if (!isThere(path)) return std::optional<std::string>();
  TG_TRY(std::vector<std::byte> bytes, readFile(path));
  return std::optional(std::string(asText(bytes)));
}

Result<Json> readJson(const std::string& path) {
  TG_TRY(std::optional<std::string> text, readIfThere(path));
  if (!text) return Json();
  Json json = parseJson<Json>(*text);
  if (!json.is_object()) return fail("{}: expected a JSON object", path);
  return json;
}

/// The last `limit` rows of a file of JSON lines; sets `count` to the number of all rows.
Result<Json> readLines(const std::string& path, size_t limit, size_t& count) {
  count = 0;
  TG_TRY(std::optional<std::string> text, readIfThere(path));
  Json lines = Json::array();
  if (!text) return lines;
  std::vector<std::string_view> all;
  for (size_t begin = 0; begin < text->size();) {
    const size_t end = text->find('\n', begin);
    if (end == std::string::npos) break;  // an incomplete line, which is being written
    all.push_back(std::string_view(*text).substr(begin, end - begin));
    begin = end + 1;
  }
  count = all.size();
  for (size_t i = count - std::min(count, limit); i < count; ++i) {
    Json line = parseJson<Json>(all[i]);
    if (!line.is_object()) return fail("{}:{}: expected a JSON object", path, i + 1);
    lines.push_back(std::move(line));
  }
  return lines;
}

/// The options of config.toml; none if it is damaged.
std::vector<std::pair<std::string, std::string>> optionsOf(std::string_view config) {
  std::vector<std::pair<std::string, std::string>> options;
  if (auto entries = parseConfig(config, "config.toml"))
    for (const ConfigEntry& entry : *entries)
      options.emplace_back(entry.key, fmt::format("{}", fmt::join(entry.values, ", ")));
  return options;
}

/// The number of planned steps in config.toml; 0 if it does not say.
int64_t stepsOf(std::string_view config) {
  const auto options = optionsOf(config);
  const std::string* steps = secondOf(options, "steps");
  return steps ? std::max<int64_t>(numberIn<int64_t>(*steps).value_or(0), 0) : 0;
}

std::string nameOf(const std::string& runDir) {
  std::error_code error;
  const fs::path full = fs::weakly_canonical(runDir, error);
  return error || full.filename().empty() ? runDir : full.filename().string();
}

/// The summary and curves of metrics.jsonl. They are computed row by row, since a long run has millions of rows.
struct Numbers {
  RunSummarizer summary;
  std::vector<std::pair<std::string, CurveThinner>> curves;  ///< in the order of their first points

  void add(const MetricRow& row) {
    summary.add(row);
    for (const auto& [key, value] : row.values) curve(key).add(row.step, row.time, value);
  }
  CurveThinner& curve(const std::string& key) {
    CurveThinner* known = secondOf(curves, key);
    return known ? *known : curves.emplace_back(key, CurveThinner()).second;
  }
};

/// Reads the metrics of a run, which may not have any rows yet.
Result<Numbers> metricsOf(const std::string& runDir) {
  Numbers numbers;
  if (!isThere(RunDir{runDir}.metrics())) return numbers;
  TG_CHECK(forEachMetricRow(runDir, [&](const MetricRow& row) { numbers.add(row); }));
  return numbers;
}

Json seriesOf(const Numbers& all) {
  Json series = Json::object();
  for (const auto& [key, thinner] : all.curves) {
    Curve curve = thinner.finish();
    Json& one = series[key];
    one = {{"step", curve.steps}, {"time", curve.times}, {"value", curve.values}};
    if (!curve.mean.empty()) one["mean"] = curve.mean;
  }
  return series;
}

Json summaryJson(const RunSummary& summary) {
  return {{"step", summary.step},
          {"steps", summary.steps},
          {"time", summary.time},
          {"loss", orNull(summary.loss)},
          {"val_loss", orNull(summary.valLoss)},
          {"best_val_loss", orNull(summary.bestValLoss)},
          {"best_step", summary.bestStep},
          {"items_per_s", orNull(summary.itemsPerSecond)},
          {"seconds_per_step", orNull(summary.secondsPerStep)},
          {"eta", orNull(summary.eta)}};
}

/// What remains to be done in a run that has the row of its last step: the evaluation or the checkpoint after it; "" if
/// nothing does. A damaged state.json counts as done, since resuming reports it.
Result<std::string> owedBy(const std::string& runDir, int64_t steps) {
  TG_TRY(const std::optional<CheckpointEntry> newest, newestCheckpoint(runDir));
  if (!newest || newest->step < steps) return checkpointOwed(steps);
  const auto state = readState(newest->path);
  if (!state || !state->evaluationOwed) return std::string();
  return fmt::format("the evaluation of step {} is owed", state->step);
}

/// The summary of a run whose files have already been read. When a training writes its last page it still holds its
/// lock; `ending` says so, and the run then does not count as running.
Result<RunSummary> summaryOf(const std::string& runDir, const std::string& name, const Numbers& numbers,
                             const std::optional<std::string>& config, const Json& env, bool ending) {
  int64_t steps = config ? stepsOf(*config) : 0;
  if (env.contains("steps") && env["steps"].is_number_integer()) steps = env["steps"].get<int64_t>();
  RunSummary summary = numbers.summary.finish(name, steps);
  if (config) {
    summary.options = optionsOf(*config);
    if (auto hashes = configHashes(*config, RunDir{runDir}.config()); hashes && *hashes)
      summary.options.emplace_back("model.tgir", (*hashes)->model);
  }
  if (!ending && isTraining(runDir)) {
    summary.state = RunState::running;
  } else if (steps > 0 && summary.step >= steps) {
    TG_TRY(summary.owed, owedBy(runDir, steps));
    if (summary.owed.empty()) summary.state = RunState::finished;
  }
  return summary;
}

/// All data that the page shows of one run. `due` is that of writeRunPage; a page of plot is written only once, and has
/// none.
Result<Json> runJson(const std::string& runDir, const std::string& name, std::optional<double> due,
                     bool ending) {
  TG_TRY(const Numbers numbers, metricsOf(runDir));
  TG_TRY(std::optional<std::string> config, readIfThere(RunDir{runDir}.config()));
  TG_TRY(Json env, readJson(RunDir{runDir}.env()));
  TG_TRY(Json plan, readJson(RunDir{runDir}.plan()));
  size_t sampleCount = 0;
  TG_TRY(Json samples, readLines(RunDir{runDir}.samples(), kShownSamples, sampleCount));
  TG_TRY(const RunSummary summary, summaryOf(runDir, name, numbers, config, env, ending));
  std::string state(tg::name(summary.state));
  if (!summary.owed.empty()) state += ", " + summary.owed;
  Json run = {{"name", name}, {"running", due.has_value()}, {"state", state}};
  if (due) run["due_seconds"] = *due;
  run["summary"] = summaryJson(summary);
  run["series"] = seriesOf(numbers);
  run["samples"] = std::move(samples);
  run["sample_count"] = sampleCount;
  if (config) run["config"] = *config;
  if (!env.is_null()) run["env"] = std::move(env);
  TG_TRY(Json ranks, readJson(RunDir{runDir}.ranks()));
  if (ranks.contains("collectives")) run["collectives"] = std::move(ranks["collectives"]);
  for (const char* part : {"memory", "kernels"})
    if (plan.contains(part)) run[part] = std::move(plan[part]);
  return run;
}

std::string pageOf(Json runs) {
  const auto now = std::chrono::system_clock::now();
  const Json data = {{"written", fmt::format("{:%Y-%m-%d %H:%M:%S}",
                                             fmt::localtime(std::chrono::system_clock::to_time_t(now)))},
                     {"written_at", inSeconds(now.time_since_epoch())},
                     {"runs", std::move(runs)}};
  const std::string json = jsonText(data);
  const size_t place = kTemplate.find(kPlace);
  std::string page(kTemplate.substr(0, place));
  // In JSON a '<' occurs only in strings. Escaped, it can neither end the script nor open a comment.
  for (char c : json) page += c == '<' ? "\\u003c" : std::string(1, c);
  page += kTemplate.substr(place + kPlace.size());
  return page;
}

}  // namespace

std::vector<std::string> runNames(const std::vector<std::string>& runDirs) {
  std::vector<std::string> names;
  for (const std::string& dir : runDirs) names.push_back(nameOf(dir));
  std::vector<std::string> unique = names;
  for (size_t i = 0; i < names.size(); ++i)
    if (std::ranges::count(names, names[i]) > 1) unique[i] = runDirs[i];
  return unique;
}

Result<std::string> findRun(const std::string& path) {
  std::error_code error;
  if (!isThere(path)) return fail("{}: no such run", path);
  fs::path dir = fs::weakly_canonical(path, error);
  std::string given = path;
  if (!fs::is_directory(dir, error)) dir = dir.parent_path(), given = dir.string();
  if (dir.parent_path().filename() == "ckpt") dir = dir.parent_path().parent_path(), given = dir.string();
  if (!isThere(dir / "metrics.jsonl"))
    return fail("{}: not a run: {}/metrics.jsonl is not there", path, given);
  return given;
}

Result<std::vector<std::string>> findRuns(const std::string& path) {
  std::error_code error;
  std::vector<std::string> runs;
  auto one = findRun(path);
  if (one) return std::vector<std::string>{*std::move(one)};
  for (const fs::directory_entry& entry : fs::directory_iterator(path, error))
    if (isThere(entry.path() / "metrics.jsonl")) runs.push_back(entry.path().string());
  if (runs.empty()) return one.error();
  std::ranges::sort(runs);
  return runs;
}

Result<RunSummary> summarizeRun(const std::string& runDir) {
  TG_TRY(const Numbers numbers, metricsOf(runDir));
  TG_TRY(std::optional<std::string> config, readIfThere(RunDir{runDir}.config()));
  TG_TRY(Json env, readJson(RunDir{runDir}.env()));
  return summaryOf(runDir, nameOf(runDir), numbers, config, env, false);
}

Result<void> writeRunPage(const std::string& runDir, std::optional<double> dueSeconds) {
  Json runs = Json::array();
  TG_TRY(Json run, runJson(runDir, nameOf(runDir), dueSeconds, !dueSeconds));
  runs.push_back(std::move(run));
  return writeFile(runDir + "/index.html", pageOf(std::move(runs)));
}

Result<std::string> plotPage(const std::vector<std::string>& runDirs) {
  Json runs = Json::array();
  const std::vector<std::string> names = runNames(runDirs);
  for (size_t i = 0; i < runDirs.size(); ++i) {
    TG_TRY(Json run, runJson(runDirs[i], names[i], {}, false));
    if (run["series"].empty()) return fail("{}: metrics.jsonl has no rows", runDirs[i]);
    runs.push_back(std::move(run));
  }
  return pageOf(std::move(runs));
}

}  // namespace tg
