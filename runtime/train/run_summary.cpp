// SPDX-License-Identifier: Apache-2.0
// Computes the summary and the curves of a run.
#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "ir/stopwatch.h"
#include "runtime/train/run_page.h"

namespace tg {

namespace {

// The number of recent rows: enough to average over single steps, few enough to follow changes.
constexpr size_t kRecentRows = 100;

}  // namespace

std::string_view name(RunState state) {
  switch (state) {
  case RunState::running: return "running";
  case RunState::finished: return "finished";
  case RunState::stopped: break;
  }
  return "stopped";
}

void RunSummarizer::add(const MetricRow& row) {
  summary_.step = std::max(summary_.step, row.step);
  summary_.time = std::max(summary_.time, row.time);
  if (auto loss = row.value("loss")) summary_.loss = loss;
  if (auto rate = row.value("items_per_s"); rate && std::isfinite(*rate)) rates_.push_back(*rate);
  recent_.emplace_back(row.step, row.time);
  if (rates_.size() > kRecentRows) rates_.pop_front();
  if (recent_.size() > kRecentRows) recent_.pop_front();
  auto val = row.value("val_loss");
  if (!val) return;
  summary_.valLoss = val;
  // A loss that is not finite is never the best.
  if (std::isfinite(*val) && (!summary_.bestValLoss || *val < *summary_.bestValLoss)) {
    summary_.bestValLoss = val;
    summary_.bestStep = row.step;
  }
}

RunSummary RunSummarizer::finish(const std::string& name, int64_t steps) const {
  RunSummary summary = summary_;
  summary.name = name;
  summary.steps = steps;
  if (!rates_.empty()) summary.itemsPerSecond = median({rates_.begin(), rates_.end()});
  if (!recent_.empty()) {
    const int64_t done = recent_.back().first - recent_.front().first;
    const double seconds = recent_.back().second - recent_.front().second;
    if (done > 0) summary.secondsPerStep = seconds / static_cast<double>(done);
  }
  if (summary.secondsPerStep && steps > summary.step)
    summary.eta = *summary.secondsPerStep * static_cast<double>(steps - summary.step);
  return summary;
}

std::vector<std::string> differingOptions(const std::vector<RunSummary>& runs) {
  std::map<std::string, std::set<std::string>> values;
  std::map<std::string, size_t> given;
  for (const RunSummary& run : runs)
    for (const auto& [option, value] : run.options) values[option].insert(value), ++given[option];
  std::vector<std::string> out;
  for (const auto& [option, all] : values)
    if ((all.size() > 1 || given[option] < runs.size()) && option != "run-dir" && option != "out")
      out.push_back(option);
  return out;
}

void CurveThinner::Bucket::add(const Point& point) {
  ++count;
  if (!std::isfinite(point.value)) {
    if (!broken) broken = point;
    return;
  }
  if (!low || point.value < low->value) low = point;
  if (!high || point.value > high->value) high = point;
  sum += point.value;
  ++finite;
}

void CurveThinner::Bucket::add(const Bucket& next) {
  if (next.low && (!low || next.low->value < low->value)) low = next.low;
  if (next.high && (!high || next.high->value > high->value)) high = next.high;
  if (!broken) broken = next.broken;
  sum += next.sum;
  finite += next.finite;
  count += next.count;
}

void CurveThinner::add(int64_t step, double time, double value) {
  last_ = {step, time, value};
  if (all_.size() < kCurvePoints + 1) all_.push_back(last_);
  if (buckets_.empty() || buckets_.back().count == each_) {
    // Keep twice as many as are shown, so that all shown points stand for nearly the same number of values.
    if (buckets_.size() == 2 * kCurvePoints) {
      for (size_t i = 0; i < kCurvePoints; ++i) {
        if (i > 0) buckets_[i] = buckets_[2 * i];
        buckets_[i].add(buckets_[2 * i + 1]);
      }
      buckets_.resize(kCurvePoints);
      each_ *= 2;
    }
    buckets_.emplace_back();
  }
  buckets_.back().add(last_);
}

/// Adds the points of a bucket in their order.
void CurveThinner::put(Curve& curve, const Bucket& bucket) {
  std::vector<Point> points;
  for (const auto* point : {&bucket.low, &bucket.high, &bucket.broken})
    if (*point) points.push_back(**point);
  std::ranges::sort(points, {}, &Point::step);
  for (size_t i = 0; i < points.size(); ++i) {
    if (i > 0 && points[i].step == points[i - 1].step) continue;
    curve.steps.push_back(points[i].step);
    curve.times.push_back(points[i].time);
    curve.values.push_back(points[i].value);
    const double mean = bucket.sum / static_cast<double>(bucket.finite);
    curve.mean.push_back(std::isfinite(points[i].value) ? mean : NAN);
  }
}

Curve CurveThinner::finish() const {
  Curve curve;
  if (all_.size() <= kCurvePoints) {
    for (const Point& point : all_) {
      curve.steps.push_back(point.step);
      curve.times.push_back(point.time);
      curve.values.push_back(point.value);
    }
    return curve;
  }
  // Each shown bucket gives two points, or three if some value is not finite. The last point is added separately, so
  // that the curve ends where the run is.
  const bool broken = std::ranges::any_of(buckets_, [](auto& each) { return !!each.broken; });
  const size_t shown = kCurvePoints / (broken ? 3 : 2) - 1, count = buckets_.size();
  for (size_t i = 0; i < shown; ++i) {
    Bucket bucket;
    for (size_t at = count * i / shown; at < count * (i + 1) / shown; ++at) bucket.add(buckets_[at]);
    put(curve, bucket);
  }
  if (curve.steps.back() == last_.step) return curve;
  Bucket end;
  end.add(last_);
  put(curve, end);
  return curve;
}

}  // namespace tg
