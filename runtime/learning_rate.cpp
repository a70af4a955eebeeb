// SPDX-License-Identifier: Apache-2.0
#include "runtime/learning_rate.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <string_view>
#include <utility>

#include "ir/exceptions.h"
#include "ir/parser.h"
#include "ir/rate_schedule.h"

namespace tg {

Result<double> learningRate(const Attr& schedule, int64_t step) {
  if (schedule.isNumber()) return schedule.number();
  TG_TRY(RateKind kind, rateKind(schedule));
  auto arg = [&](size_t index) { return schedule.list[index].number(); };
  auto s = static_cast<double>(step);
  switch (kind) {
  case RateKind::constant: return arg(0);
  case RateKind::linear: return arg(0) + (arg(1) - arg(0)) * std::min(s / arg(2), 1.0);
  case RateKind::cosine:
    return arg(1) + 0.5 * (arg(0) - arg(1)) * (1 + std::cos(std::numbers::pi * std::min(s / arg(2), 1.0)));
  case RateKind::warmup: {
    const double steps = arg(schedule.list.size() - 2);
    if (s <= steps) return (schedule.list.size() == 3 ? arg(0) : peakRate(schedule)) * s / steps;
    return learningRate(schedule.list.back(), step - static_cast<int64_t>(steps));
  }
  case RateKind::staircase: return arg(0) * std::pow(arg(1), std::floor((s - 1) / arg(2)));
  case RateKind::multistep: break;
  }
  const std::vector<Attr>& marks = schedule.list[2].list;
  auto passed = std::ranges::count_if(marks, [&](const Attr& m) { return m.number() <= s; });
  return arg(0) * std::pow(arg(1), static_cast<double>(passed));
}

Result<void> LearningRate::set(std::string_view text, int64_t atStep) {
  TG_TRY(Attr schedule, parseAttr(text, "<schedule>"));
  return set(schedule, atStep);
}

Result<void> LearningRate::set(const Attr& schedule, int64_t atStep) {
  TG_CHECK(checkRateSchedule(schedule));
  if (schedule.isNumber()) return set(Attr::call("constant", {schedule}), atStep);
  // A checked schedule gives a rate at every step, so this dereference is safe.
  return set([schedule](int64_t step) { return *learningRate(schedule, step); }, atStep, schedule.str());
}

Result<void> LearningRate::set(double rate, int64_t atStep) {
  return set(Attr::call("constant", {Attr::of(rate)}), atStep);
}

Result<void> LearningRate::set(Function function, int64_t atStep, std::string name) {
  if (!function) return fail("the function of the learning rate is empty");
  if (atStep < 0) return fail("a schedule begins after step 0 or later, not after {}", atStep);
  function_ = std::move(function);
  text_ = std::move(name);
  start_ = atStep;
  return {};
}

void LearningRate::clear() { *this = LearningRate(); }

Result<double> LearningRate::at(int64_t step) const {
  if (!function_) return fail("there is no learning-rate schedule");
  if (step <= start_)
    return fail("the learning rate {} begins after step {}; it has none for step {}", text_, start_, step);
  double rate = 0;
  if (auto thrown = thrownBy([&] { rate = function_(step - start_); }))
    return fail("the learning rate {} threw at its step {}: {}", text_, step - start_, *thrown);
  if (std::isfinite(rate) && rate >= 0) return rate;
  return fail("the learning rate {} is {} at its step {}", text_, rate, step - start_);
}

}  // namespace tg
