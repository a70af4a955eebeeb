// tg-run plot: compares runs, as a page with curves and as a table.
#include <algorithm>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "runtime/train/run_page.h"
#include "tools/driver/run_setup.h"

namespace tg {

namespace {

std::string cell(const std::optional<double>& value, const char* format) {
  return value ? fmt::format(fmt::runtime(format), *value) : "-";
}

void printTable(const std::vector<RunSummary>& runs) {
  size_t width = 3;
  for (const RunSummary& run : runs) width = std::max(width, run.name.size());
  auto line = [&](const auto&... cells) {
    fmt::print("{:<{}}  {:<8}  {:>9}  {:>10}  {:>20}  {:>9}\n", cells...);
  };
  line("run", width, "state", "steps", "last loss", "best val loss", "items/s");
  for (const RunSummary& run : runs) {
    std::string best = "-";
    if (run.bestValLoss) best = fmt::format("{:.6g} @{}", *run.bestValLoss, run.bestStep);
    line(run.name, width, name(run.state), run.step, cell(run.loss, "{:.6g}"), best,
         cell(run.itemsPerSecond, "{:.0f}"));
  }
}

void printJson(const std::vector<RunSummary>& runs) {
  using Json = nlohmann::ordered_json;
  Json all = Json::array();
  auto number = [](const std::optional<double>& value) { return value ? Json(*value) : Json(); };
  for (const RunSummary& run : runs)
    all.push_back({{"run", run.name},
                   {"state", name(run.state)},
                   {"steps", run.step},
                   {"seconds", run.time},
                   {"loss", number(run.loss)},
                   {"best_val_loss", number(run.bestValLoss)},
                   {"best_step", run.bestValLoss ? Json(run.bestStep) : Json()},
                   {"items_per_s", number(run.itemsPerSecond)}});
  fmt::print("{}\n", Json{{"runs", all}}.dump(2, ' ', false, Json::error_handler_t::replace));
}

struct Plot : Verb {
  std::vector<std::string> runs;
  std::string output;
  bool json = false;

  void describe(CLI::App& app) override {
    app.description("Compares runs: prints a table and writes a page with their curves.");
    app.add_option("RUN", runs, "directories of runs, or checkpoints in them")
        ->option_text("...")
        ->required();
    app.add_option("-o,--output", output, "the page; plot.html by default, none with --json")
        ->option_text("FILE");
    app.add_flag("--json", json, "print the table as JSON");
  }
  int run(CLI::App& app, const Arguments&) override {
    std::vector<std::string> dirs;
    std::vector<RunSummary> summaries;
    for (const std::string& path : runs) {
      auto dir = findRun(path);
      if (!dir) return report(app, exitInput, dir.error());
      auto summary = summarizeRun(*dir);
      if (!summary) return report(app, exitInput, summary.error());
      if (summary->step == 0) return report(app, exitInput, *dir + ": metrics.jsonl has no rows");
      dirs.push_back(*dir);
      summaries.push_back(*std::move(summary));
    }
    const std::string page = output.empty() && !json ? "plot.html" : output;
    if (auto may = mayReplace("--output", page, beginsPage, {}); !may)
      return report(app, exitUsage, may.error());
    if (!page.empty())
      if (auto written = writePlotPage(page, dirs); !written) return report(app, exitInput, written.error());
    if (json) {
      printJson(summaries);
      return exitOk;
    }
    printTable(summaries);
    fmt::print("wrote {}\n", page);
    return exitOk;
  }
};

}  // namespace

std::unique_ptr<Verb> makePlot() { return std::make_unique<Plot>(); }

}  // namespace tg
