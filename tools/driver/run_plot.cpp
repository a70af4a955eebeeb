// SPDX-License-Identifier: Apache-2.0
// tg-run plot: compares runs, on a page with curves and in a table.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "ir/file_io.h"
#include "ir/json_text.h"
#include "runtime/train/run_page.h"
#include "tools/driver/io.h"
#include "tools/driver/run_setup.h"

namespace tg {

namespace {

namespace fs = std::filesystem;

std::string cell(const std::optional<double>& value, const char* format) {
  return value ? fmt::format(fmt::runtime(format), *value) : "-";
}

// Longer values of options are cut in the table; --json has them in full.
constexpr size_t kShownValue = 40;

std::string optionOf(const RunSummary& run, const std::string& option) {
  for (const auto& [name, value] : run.options)
    if (name == option) return value.size() > kShownValue ? value.substr(0, kShownValue - 3) + "..." : value;
  return "-";
}

/// Prints the results of each run, and the options in which the runs differ.
void printTable(std::FILE* out, const std::vector<RunSummary>& runs) {
  const std::vector<std::string> options = differingOptions(runs);
  std::vector<size_t> widths;
  size_t width = 3;
  for (const RunSummary& run : runs) width = std::max(width, run.name.size());
  for (const std::string& option : options) {
    widths.push_back(option.size());
    for (const RunSummary& run : runs) widths.back() = std::max(widths.back(), optionOf(run, option).size());
  }
  auto line = [&](auto more, const auto&... cells) {
    std::string text = fmt::format("{:<{}}  {:<8}  {:>9}  {:>12}  {:>24}  {:>9}", cells...);
    for (size_t i = 0; i < options.size(); ++i) text += fmt::format("  {:<{}}", more(options[i]), widths[i]);
    fmt::print(out, "{}\n", text.substr(0, text.find_last_not_of(' ') + 1));
  };
  line([](const std::string& option) { return option; }, "run", width, "state", "steps", "last loss",
       "best val loss", "items/s");
  for (const RunSummary& run : runs) {
    std::string best = "-";
    if (run.bestValLoss) best = fmt::format("{:.6g} @{}", *run.bestValLoss, run.bestStep);
    line([&](const std::string& option) { return optionOf(run, option); }, run.name, width, name(run.state),
         run.step, cell(run.loss, "{:.6g}"), best, cell(run.itemsPerSecond, "{:.0f}"));
  }
  for (const RunSummary& run : runs)
    if (!run.owed.empty()) fmt::print(out, "{}: {}\n", run.name, run.owed);
}

void printJson(const std::vector<RunSummary>& runs) {
  Json all = Json::array();
  for (const RunSummary& run : runs) {
    Json options = Json::object();
    for (const auto& [option, value] : run.options) options[option] = value;
    all.push_back({{"run", run.name},
                   {"state", name(run.state)},
                   {"owed", run.owed},
                   {"steps", run.step},
                   {"seconds", run.time},
                   {"loss", orNull(run.loss)},
                   {"best_val_loss", orNull(run.bestValLoss)},
                   {"best_step", run.bestValLoss ? Json(run.bestStep) : Json()},
                   {"items_per_s", orNull(run.itemsPerSecond)},
                   {"options", options}});
  }
  fmt::print("{}\n", jsonText(Json{{"runs", all}}, 2));
}

bool isSame(const std::string& a, const std::string& b) {
  std::error_code error;
  return fs::equivalent(a, b, error);
}

/// The run whose own page this file is, or "".
std::string runOfPage(const std::string& page) {
  std::error_code error;
  const fs::path file = fs::weakly_canonical(fs::absolute(page, error), error);
  const bool own = file.filename() == "index.html" && isThere(file.parent_path() / "metrics.jsonl");
  return own ? file.parent_path().string() : "";
}

struct Plot : Verb {
  std::vector<std::string> runs;
  std::string output;
  bool json = false;

  void describe(CLI::App& app) override {
    app.description("Compares runs: prints a table and writes a page with their curves.");
    addValue(app, "RUN", "...", runs, "directories of runs, checkpoints in them, or a folder of runs")
        ->required();
    addValue(app, "-o,--output", "FILE", output,
             "the page (default: plot.html, none with --json); - is standard output");
    app.add_flag("--json", json, "print the table as JSON");
  }
  Result<int> run(CLI::App&, const Arguments&) override {
    std::vector<std::string> dirs;
    std::vector<RunSummary> summaries;
    for (const std::string& path : runs) {
      TG_TRY(const std::vector<std::string> found, findRuns(path));
      for (const std::string& dir : found) {
        if (std::ranges::any_of(dirs, [&](const std::string& known) { return isSame(known, dir); })) continue;
        TG_TRY(RunSummary summary, summarizeRun(dir));
        // Skip a run that has only just begun, if there are others in the folder.
        if (summary.step == 0 && found.size() > 1) continue;
        if (summary.step == 0) return fail(dir + ": metrics.jsonl has no rows");
        dirs.push_back(dir);
        summaries.push_back(std::move(summary));
      }
    }
    if (dirs.empty()) return fail("no run has rows in its metrics.jsonl");
    const std::vector<std::string> names = runNames(dirs);
    for (size_t i = 0; i < names.size(); ++i) summaries[i].name = names[i];
    const std::string page = output.empty() && !json ? "plot.html" : output;
    if (page != "-") TG_CHECK(withCode(exitUsage, mayReplace("--output", page, beginsPage, {})));
    if (const std::string owner = runOfPage(page);
        !owner.empty() && (dirs.size() > 1 || !isSame(owner, dirs[0])))
      return usageError("--output={} would replace the run's own page: choose another name", page);
    if (!page.empty()) {
      TG_TRY(const std::string text, plotPage(dirs));
      TG_CHECK(writeOutput(page, text));
    }
    if (json) {
      printJson(summaries);
      return exitOk;
    }
    // If the page is written to standard output, print the table on standard error.
    printTable(page == "-" ? stderr : stdout, summaries);
    if (page != "-") fmt::print("wrote {}\n", page);
    return exitOk;
  }
};

}  // namespace

std::unique_ptr<Verb> makePlot() { return std::make_unique<Plot>(); }

}  // namespace tg
