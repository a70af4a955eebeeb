// Numbers about a run: its summary and its curves.
#include <algorithm>
#include <cmath>

#include "runtime/train/run_page.h"

namespace tg {

namespace {

// What is recent: enough rows to even out single steps, few enough to follow a change.
constexpr size_t kRecentRows = 100;

std::optional<double> valueOf(const MetricRow& row, const std::string& key) {
  for (const auto& [name, value] : row.values)
    if (name == key) return value;
  return {};
}

std::optional<double> recentMedian(const std::vector<MetricRow>& rows, const std::string& key) {
  std::vector<double> values;
  for (auto row = rows.rbegin(); row != rows.rend() && values.size() < kRecentRows; ++row)
    if (auto value = valueOf(*row, key); value && std::isfinite(*value)) values.push_back(*value);
  if (values.empty()) return {};
  auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

struct Point {
  int64_t step;
  double time, value;
};

void put(Curve& curve, const Point& point) {
  curve.steps.push_back(point.step);
  curve.times.push_back(point.time);
  curve.values.push_back(point.value);
}

/// The smallest and the largest of points [begin, end), and the first that is not finite, in their order.
void putBucket(Curve& curve, const std::vector<Point>& points, size_t begin, size_t end) {
  const size_t none = points.size();
  size_t low = none, high = none, broken = none;
  double sum = 0;
  size_t count = 0;
  for (size_t i = begin; i < end; ++i) {
    const double value = points[i].value;
    if (!std::isfinite(value)) {
      broken = std::min(broken, i);
      continue;
    }
    if (low == none || value < points[low].value) low = i;
    if (high == none || value > points[high].value) high = i;
    sum += value;
    ++count;
  }
  std::vector<size_t> chosen{low, high, broken};
  std::sort(chosen.begin(), chosen.end());
  chosen.erase(std::unique(chosen.begin(), chosen.end()), chosen.end());
  for (size_t i : chosen) {
    if (i == none) continue;
    put(curve, points[i]);
    curve.mean.push_back(std::isfinite(points[i].value) ? sum / static_cast<double>(count) : NAN);
  }
}

}  // namespace

std::string_view name(RunState state) {
  switch (state) {
  case RunState::running: return "running";
  case RunState::finished: return "finished";
  case RunState::stopped: break;
  }
  return "stopped";
}

RunSummary summarizeRun(const std::string& name, const std::vector<MetricRow>& rows, int64_t steps) {
  RunSummary summary;
  summary.name = name;
  summary.steps = steps;
  for (const MetricRow& row : rows) {
    summary.step = std::max(summary.step, row.step);
    summary.time = std::max(summary.time, row.time);
    if (auto loss = valueOf(row, "loss")) summary.loss = loss;
    auto val = valueOf(row, "val_loss");
    if (!val) continue;
    summary.valLoss = val;
    // A loss that is no number is never the best.
    if (std::isfinite(*val) && (!summary.bestValLoss || *val < *summary.bestValLoss)) {
      summary.bestValLoss = val;
      summary.bestStep = row.step;
    }
  }
  summary.itemsPerSecond = recentMedian(rows, "items_per_s");
  if (!rows.empty()) {
    const MetricRow& first = rows[rows.size() - std::min(rows.size(), kRecentRows)];
    const int64_t done = rows.back().step - first.step;
    if (done > 0) summary.secondsPerStep = (rows.back().time - first.time) / static_cast<double>(done);
  }
  if (summary.secondsPerStep && steps > summary.step)
    summary.eta = *summary.secondsPerStep * static_cast<double>(steps - summary.step);
  return summary;
}

Curve curveOf(const std::vector<MetricRow>& rows, const std::string& key) {
  std::vector<Point> points;
  bool broken = false;
  for (const MetricRow& row : rows) {
    auto value = valueOf(row, key);
    if (!value) continue;
    points.push_back({row.step, row.time, *value});
    broken = broken || !std::isfinite(*value);
  }
  Curve curve;
  if (points.size() <= kCurvePoints) {
    for (const Point& point : points) put(curve, point);
    return curve;
  }
  // Each bucket gives two points, or three where some value is not finite; the last point is a bucket of
  // its own, so that the curve ends where the run is.
  const size_t buckets = kCurvePoints / (broken ? 3 : 2) - 1, rest = points.size() - 1;
  for (size_t i = 0; i < buckets; ++i) putBucket(curve, points, rest * i / buckets, rest * (i + 1) / buckets);
  putBucket(curve, points, rest, points.size());
  return curve;
}

}  // namespace tg
