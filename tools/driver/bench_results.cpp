// SPDX-License-Identifier: Apache-2.0
#include "tools/driver/bench_models.h"

#include <algorithm>
#include <cmath>
#include <filesystem>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "ir/json_text.h"
#include "tools/driver/io.h"

namespace tg {

namespace {

constexpr const char* kNone = "–";
constexpr const char* kSplit[] = {"parse", "passes", "glsl", "shaderc", "pipelines", "all", "cpu"};

/// A figure of a row: the path of its members, and its format.
struct Column {
  const char* title;
  const char* path;
  double unit;  ///< the figure is divided by it
  int digits;   ///< significant digits; 0 shows an integer
};
const Column kColumns[] = {
    {"ms/step", "/ms_median", 1, 4},
    {"min", "/ms_min", 1, 4},
    {"kernels", "/kernels", 1, 0},
    {"memory MB", "/arena_bytes", 1e6, 4},
    {"arena MB", "/transient_bytes", 1e6, 4},
    {"lower bound", "/transient_lower_bound_bytes", 1e6, 4},
    {"cold ms", "/compile_cold_ms/all", 1, 4},
    {"warm ms", "/compile_warm_ms/all", 1, 4},
    {"items/s", "/items_per_second", 1, 0},
    {"GFLOP/s", "/gflops", 1, 4},
    {"GB/s", "/gbytes", 1, 4},
};

std::optional<double> figure(const Json& row, const std::string& path) {
  Json::json_pointer at(path);
  if (!row.contains(at) || !row[at].is_number()) return {};
  return row[at].get<double>();
}

/// Formats with significant digits and without an exponent.
std::string shown(std::optional<double> value, int digits) {
  if (!value) return kNone;
  int whole = 1;
  for (double rest = std::abs(*value); rest >= 10; rest /= 10) ++whole;
  return fmt::format("{:.{}f}", *value, std::max(0, digits - whole));
}

std::string line(const std::vector<std::string>& cells) {
  return fmt::format("| {} |\n", fmt::join(cells, " | "));
}

/// The head of a table: names are aligned left, figures right.
std::string head(const std::vector<std::string>& titles) {
  std::string rule = "|---|";
  for (size_t i = 1; i < titles.size(); ++i) rule += "---:|";
  return line(titles) + rule + "\n";
}

std::vector<std::string> columnTitles() {
  std::vector<std::string> titles = {"workload"};
  for (const Column& column : kColumns) titles.emplace_back(column.title);
  return titles;
}

std::string devices(const Json& rows) {
  std::vector<std::string> names;
  for (const Json& row : rows) {
    std::string name = row.value("device", "") + ", " + row.value("driver", "");
    addOnce(names, name);
  }
  return fmt::format("{}\n", fmt::join(names, "; "));
}

std::string compileTable(const Json& rows) {
  std::string out;
  for (const Json& row : rows) {
    for (const char* state : {"cold", "warm"}) {
      std::string path = fmt::format("/compile_{}_ms", state);
      if (!row.contains(Json::json_pointer(path))) continue;
      std::vector<std::string> cells = {row["model"].get<std::string>(), state};
      for (const char* part : kSplit) cells.push_back(shown(figure(row, path + "/" + part), 4));
      out += line(cells);
    }
  }
  if (out.empty()) return "";
  return "\n" +
         head({"ms to compile", "caches", "parse", "passes", "GLSL", "shaderc", "pipelines", "all", "CPU"}) +
         out;
}

const Json* rowOf(const Json& rows, const Json& model) {
  for (const Json& row : rows)
    if (row["model"] == model) return &row;
  return nullptr;
}

}  // namespace

Json compileSplit(double parse, const std::vector<std::pair<std::string, double>>& phases) {
  Json split = {{"parse", parse}, {"passes", 0.0}, {"glsl", 0.0}, {"shaderc", 0.0}, {"pipelines", 0.0}};
  double all = parse;
  for (const auto& [phase, ms] : phases) {
    Json& part = split[split.contains(phase) ? phase : "passes"];
    part = part.get<double>() + ms;
    all += ms;
  }
  split["all"] = all;
  return split;
}

static Result<Json> parseResults(const std::string& text, const std::string& path) {
  Json rows = parseJson<Json>(text);
  auto isText = [](const Json& row, const char* key) { return !row.contains(key) || row[key].is_string(); };
  bool good = rows.is_array() && !rows.empty() && std::ranges::all_of(rows, [&](const Json& row) {
                return row.is_object() && row.contains("model") && isText(row, "model") &&
                       isText(row, "device") && isText(row, "driver");
              });
  if (!good) return fail("{} holds no results of tg-run bench --results", path);
  return rows;
}

Result<Json> readResults(const std::string& path) {
  TG_TRY(const std::string text, readInput(path));
  return parseResults(text, path);
}

Result<Json> resultsBefore(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) return Json::array();
  return readResults(path);
}

Result<void> addResult(const std::string& path, const Json& row) {
  return updateOutput(path, [&](const std::optional<std::string>& held) -> Result<std::string> {
    Json rows = Json::array();
    if (held) {
      TG_TRY(rows, parseResults(*held, path));
    }
    const Json kept = Json::parse(jsonText(row));  // with the name as the file has it, in UTF-8
    auto same = std::ranges::find_if(rows, [&](const Json& each) { return each["model"] == kept["model"]; });
    if (same == rows.end())
      rows.push_back(kept);
    else
      *same = kept;
    return jsonText(rows, 2) + "\n";
  });
}

std::string resultsTable(const Json& rows) {
  std::string out = devices(rows) + "\n" + head(columnTitles());
  for (const Json& row : rows) {
    std::vector<std::string> cells = {row["model"].get<std::string>()};
    for (const Column& column : kColumns) {
      std::optional<double> value = figure(row, column.path);
      if (value) *value /= column.unit;
      cells.push_back(shown(value, column.digits));
    }
    out += line(cells);
  }
  return out + compileTable(rows);
}

std::string ratiosTable(const Json& rows, const Json& old) {
  std::string out = head(columnTitles());
  for (const Json& row : rows) {
    const Json* before = rowOf(old, row["model"]);
    if (!before) continue;
    std::vector<std::string> cells = {row["model"].get<std::string>()};
    for (const Column& column : kColumns) {
      std::optional<double> now = figure(row, column.path), then = figure(*before, column.path);
      bool comparable = now && then && *then != 0;
      cells.push_back(comparable ? fmt::format("{:.3f}", *now / *then) : kNone);
    }
    out += line(cells);
  }
  return out;
}

}  // namespace tg
