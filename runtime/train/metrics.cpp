// SPDX-License-Identifier: Apache-2.0
#include "runtime/train/metrics.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <limits>

#include <fmt/format.h>

#include "ir/file_io.h"
#include "ir/find.h"
#include "ir/json_text.h"
#include "ir/stopwatch.h"
#include "ir/text.h"
#include "runtime/train/run_dir.h"
#include "runtime/train/tensorboard.h"

namespace tg {

namespace {

// A crash loses at most this many bytes that were not flushed.
constexpr size_t kBufferedBytes = 1 << 16;

std::string jsonlPath(const std::string& runDir) { return RunDir{runDir}.metrics(); }
std::string csvPath(const std::string& runDir) { return RunDir{runDir}.metricsTable(); }

/// The shortest text that reads back as the same number; null if it is not finite, which JSON cannot express.
std::string jsonNumber(double value) { return std::isfinite(value) ? fmt::format("{}", value) : "null"; }

std::string jsonString(const std::string& text) { return jsonText(Json(text)); }

std::string jsonLine(const MetricRow& row) {
  std::string line = fmt::format(R"({{"step": {}, "time": {})", row.step, jsonNumber(row.time));
  for (const auto& [name, value] : row.values)
    line += fmt::format(", {}: {}", jsonString(name), jsonNumber(value));
  return line + "}\n";
}

/// Parses a line that `jsonLine` wrote, ten times as fast as a JSON parser. False for any other spelling, which the
/// JSON parser then handles.
class OwnLine {
 public:
  explicit OwnLine(std::string_view line) : at_(line.data()), end_(line.data() + line.size()) {}

  /// Reuses the memory of the previous row in `row`.
  bool read(MetricRow& row) {
    size_t values = 0;
    std::string_view name;
    double number = 0;
    if (!take("{\"step\": ") || !integer(row.step) || !take(", \"time\": ") || !real(row.time)) return false;
    while (take(", \"")) {
      if (!text(name) || !take(": ") || !real(number)) return false;
      if (name == "step" || name == "time") return false;
      if (values == row.values.size()) row.values.emplace_back();
      row.values[values].first.assign(name);
      row.values[values++].second = number;
    }
    row.values.resize(values);
    return take("}") && at_ == end_;
  }

 private:
  bool take(std::string_view word) {
    if (!std::string_view(at_, static_cast<size_t>(end_ - at_)).starts_with(word)) return false;
    at_ += word.size();
    return true;
  }
  /// Parses up to the quote. A text with escapes is left to the JSON parser.
  bool text(std::string_view& into) {
    const char* begin = at_;
    while (at_ != end_ && *at_ != '"' && *at_ != '\\' && static_cast<unsigned char>(*at_) >= ' ') ++at_;
    into = {begin, static_cast<size_t>(at_ - begin)};
    return take("\"");
  }
  template <class Number>
  bool digits(Number& into) {
    const char* first = at_ + (at_ != end_ && *at_ == '-');
    if (first == end_ || *first < '0' || *first > '9') return false;
    auto [after, status] = std::from_chars(at_, end_, into);
    at_ = after;
    return status == std::errc();
  }
  bool integer(int64_t& into) { return digits(into); }
  bool real(double& into) {
    if (!take("null")) return digits(into);
    into = std::numeric_limits<double>::quiet_NaN();
    return true;
  }

  const char *at_, *end_;
};

/// The step, time and named values of a line; nothing if it is not a row.
std::optional<MetricRow> parseJsonRow(std::string_view line) {
  Json json = parseJson<Json>(line);
  if (!json.is_object() || !json.contains("step") || !json["step"].is_number_integer()) return {};
  MetricRow row;
  for (const auto& [name, value] : json.items()) {
    if (name == "step") {
      row.step = value.get<int64_t>();
      continue;
    }
    if (!value.is_number() && !value.is_null()) return {};
    double number = value.is_null() ? std::numeric_limits<double>::quiet_NaN() : value.get<double>();
    if (name == "time")
      row.time = number;
    else
      row.values.emplace_back(name, number);
  }
  return row;
}

/// What to do with text after the last line break: skip it (it is still being written), or read it (it was never
/// finished).
enum class Rest : uint8_t { skip, read };

/// Calls `line` for each line of a file, without its line break, until one returns an error. Keeps only a piece of the
/// file in memory.
Result<void> forEachLine(const std::string& path, Rest rest,
                         const std::function<Result<void>(std::string_view)>& line) {
  const auto failed = [&](const char* doing) {
    return fail("{}: cannot {}: {}", path, doing, std::strerror(errno));
  };
  TG_CHECK(expectFile(path));
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "re"), &std::fclose);
  if (!file) return failed("open");
  std::string held(size_t{1} << 18, '\0');
  size_t used = 0;  // bytes kept in the buffer: the beginning of a line
  while (true) {
    if (used == held.size()) held.resize(held.size() * 2);
    const size_t got = std::fread(held.data() + used, 1, held.size() - used, file.get());
    if (got == 0 && std::ferror(file.get())) return failed("read");
    if (got == 0) return rest == Rest::read && used ? line({held.data(), used}) : Result<void>();
    const std::string_view all(held.data(), used + got);
    size_t begin = 0;
    for (size_t end = all.find('\n', used); end != all.npos; end = all.find('\n', begin)) {
      TG_CHECK(line(all.substr(begin, end - begin)));
      begin = end + 1;
    }
    used = all.size() - begin;
    std::memmove(held.data(), held.data() + begin, used);
  }
}

/// Calls `visit` for each row of a file, and `broken` with the number of each line that is not a row.
Result<void> forEachRow(const std::string& path, Rest rest,
                        const std::function<void(const MetricRow&)>& visit,
                        const std::function<Result<void>(int64_t)>& broken) {
  MetricRow row;
  int64_t number = 0;
  return forEachLine(path, rest, [&](std::string_view line) -> Result<void> {
    ++number;
    if (!OwnLine(line).read(row)) {
      auto other = parseJsonRow(line);
      if (!other) return broken(number);
      row = std::move(*other);
    }
    visit(row);
    return {};
  });
}

std::string csvCell(const std::string& name) {
  if (name.find_first_of(",\"\n\r") == std::string::npos) return name;
  std::string cell = "\"";
  for (char c : name) cell += c == '"' ? "\"\"" : std::string(1, c);
  return cell + '"';
}

/// A number that is not finite is nan, as it is null in metrics.jsonl, from which rows are copied.
std::string csvNumber(double value) { return std::isfinite(value) ? fmt::format("{}", value) : "nan"; }

std::string csvLine(const MetricRow& row, const std::vector<std::string>& columns) {
  std::string line = fmt::format("{},{}", row.step, csvNumber(row.time));
  for (const std::string& column : columns) {
    line += ',';
    if (const std::optional<double> value = row.value(column)) line += csvNumber(*value);
  }
  return line + '\n';
}

double wallTime() { return inSeconds(std::chrono::system_clock::now().time_since_epoch()); }

}  // namespace

std::optional<double> MetricRow::value(std::string_view name) const {
  const double* value = secondOf(values, name);
  return value ? std::optional(*value) : std::nullopt;
}

struct MetricsWriter::Impl {
  std::string runDir;
  DamagedRows damaged;
  std::string jsonLines;  ///< not yet written
  AppendFile jsonl;

  bool wantsCsv = false;
  AppendFile csv;
  std::vector<std::string> columns;  ///< columns in the file, after step and time
  std::vector<MetricRow> csvRows;    ///< not yet written

  bool wantsEvents = false;
  AppendFile events;
  std::string eventRecords;  ///< not yet written

  Result<void> openJsonl(int64_t lastStep, bool evaluationOwed);
  Result<void> openEvents(int64_t lastStep);
  /// Rewrites metrics.csv from metrics.jsonl: at the start, and when a row has a new column.
  Result<void> rewriteCsv();
  Result<void> flushCsv();
  bool addColumns(const MetricRow& row);
};

Result<void> MetricsWriter::Impl::openJsonl(int64_t lastStep, bool evaluationOwed) {
  const std::string path = jsonlPath(runDir);
  std::string kept;
  if (lastStep > 0 && isThere(path)) {
    auto keep = [&](const MetricRow& row) {
      const bool owed = evaluationOwed && row.step == lastStep && row.value("val_loss");
      if (row.step <= lastStep && !owed) kept += jsonLine(row);
    };
    damaged.path = path;
    TG_CHECK(forEachRow(path, Rest::read, keep, [&](int64_t number) -> Result<void> {
      damaged.add(number);
      return {};
    }));
    if (damaged.count) {
      TG_TRY(damaged.aside, setAside(path));
    }
  }
  TG_CHECK(writeFile(path, kept));
  return jsonl.open(path, 0);
}

Result<void> MetricsWriter::Impl::openEvents(int64_t lastStep) {
  // Readers order the files of a folder by name.
  const double now = wallTime();
  const std::string stem = fmt::format("{}/events.out.tfevents.{:010}.tg-run", runDir, int64_t(now));
  std::string path = stem;
  for (int i = 1; isThere(path); ++i) path = fmt::format("{}.{:03}", stem, i);
  TG_CHECK(events.open(path, O_EXCL));
  eventRecords = tfRecord(versionEvent(now));
  if (lastStep > 0) eventRecords += tfRecord(sessionStartEvent(now, lastStep + 1));
  return {};
}

bool MetricsWriter::Impl::addColumns(const MetricRow& row) {
  const size_t before = columns.size();
  for (const auto& [name, value] : row.values) addOnce(columns, name);
  return columns.size() > before;
}

Result<void> MetricsWriter::Impl::rewriteCsv() {
  TG_TRY(std::vector<MetricRow> rows, readMetrics(runDir));
  columns.clear();
  for (const MetricRow& row : rows) addColumns(row);
  std::string text = "step,time";
  for (const std::string& column : columns) text += ',' + csvCell(column);
  text += '\n';
  for (const MetricRow& row : rows) text += csvLine(row, columns);
  TG_CHECK(writeFile(csvPath(runDir), text));
  return csv.open(csvPath(runDir), 0);
}

Result<void> MetricsWriter::Impl::flushCsv() {
  bool wider = false;
  for (const MetricRow& row : csvRows) wider = addColumns(row) || wider;
  if (wider) {
    if (auto done = rewriteCsv(); !done) {
      columns.clear();  // so that the next flush tries again
      return done;
    }
  } else {
    std::string lines;
    for (const MetricRow& row : csvRows) lines += csvLine(row, columns);
    TG_CHECK(csv.append(lines));
  }
  csvRows.clear();
  return {};
}

Result<std::vector<MetricsFormat>> parseMetricsFormats(const std::string& text) {
  std::vector<MetricsFormat> formats;
  for (const std::string& word : splitText(text, ',')) {
    MetricsFormat format;
    if (word == "jsonl")
      format = MetricsFormat::jsonl;
    else if (word == "csv")
      format = MetricsFormat::csv;
    else if (word == "tensorboard")
      format = MetricsFormat::tensorboard;
    else
      return fail("unknown metrics format '{}'; the formats are jsonl, csv and tensorboard", word);
    addOnce(formats, format);
  }
  return formats;
}

Result<std::unique_ptr<MetricsWriter>> MetricsWriter::open(const std::string& runDir,
                                                           const std::vector<MetricsFormat>& formats,
                                                           int64_t lastStep, bool evaluationOwed) {
  std::unique_ptr<MetricsWriter> writer(new MetricsWriter);
  writer->impl_ = std::make_unique<Impl>();
  Impl& impl = *writer->impl_;
  impl.runDir = runDir;
  auto wants = [&](MetricsFormat format) { return contains(formats, format); };
  impl.wantsCsv = wants(MetricsFormat::csv);
  impl.wantsEvents = wants(MetricsFormat::tensorboard);
  TG_CHECK(impl.openJsonl(lastStep, evaluationOwed));
  if (impl.wantsCsv) TG_CHECK(impl.rewriteCsv());
  if (impl.wantsEvents) TG_CHECK(impl.openEvents(lastStep));
  TG_CHECK(writer->flush());
  return writer;
}

const DamagedRows& MetricsWriter::damaged() const { return impl_->damaged; }

MetricsWriter::~MetricsWriter() {
  if (impl_) (void)flush();  // callers that need the error have called flush themselves
}

Result<void> MetricsWriter::add(const MetricRow& row) {
  impl_->jsonLines += jsonLine(row);
  if (impl_->wantsCsv) impl_->csvRows.push_back(row);
  if (impl_->wantsEvents) impl_->eventRecords += tfRecord(scalarsEvent(wallTime(), row.step, row.values));
  return impl_->jsonLines.size() < kBufferedBytes ? Result<void>() : flush();
}

Result<void> MetricsWriter::flush() {
  Impl& impl = *impl_;
  TG_CHECK(impl.jsonl.append(impl.jsonLines));
  impl.jsonLines.clear();
  if (impl.wantsCsv) TG_CHECK(impl.flushCsv());
  if (impl.wantsEvents) TG_CHECK(impl.events.append(impl.eventRecords));
  impl.eventRecords.clear();
  return {};
}

Result<void> forEachMetricRow(const std::string& runDir, const std::function<void(const MetricRow&)>& visit) {
  const std::string path = jsonlPath(runDir);
  if (!visit) return fail("the function that receives the rows of {} is empty", path);
  return forEachRow(path, Rest::skip, visit, [&](int64_t number) -> Result<void> {
    return fail("{}:{}: expected a row {{\"step\": …}} of numbers", path, number);
  });
}

Result<std::vector<MetricRow>> readMetrics(const std::string& runDir) {
  std::vector<MetricRow> rows;
  TG_CHECK(forEachMetricRow(runDir, [&](const MetricRow& row) { rows.push_back(row); }));
  return rows;
}

}  // namespace tg
