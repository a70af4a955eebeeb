// SPDX-License-Identifier: Apache-2.0
#include "ir/rate_schedule.h"

#include <algorithm>
#include <cmath>
#include <string_view>

#include <fmt/format.h>

namespace tg {

namespace {

/// One form: the type of each argument in order. 'r' is a rate or factor, 's' a count of steps, 'l' a list of step
/// counts, 'a' a schedule.
struct Form {
  std::string_view name, usage, args;
  RateKind kind;
};
constexpr Form kForms[] = {
    {"constant", "constant(rate)", "r", RateKind::constant},
    {"linear", "linear(peak, final, steps)", "rrs", RateKind::linear},
    {"cosine", "cosine(peak, final, steps)", "rrs", RateKind::cosine},
    {"warmup", "warmup(steps, after)", "sa", RateKind::warmup},
    {"warmup", "warmup(peak, steps, after)", "rsa", RateKind::warmup},
    {"staircase", "staircase(peak, gamma, every)", "rrs", RateKind::staircase},
    {"multistep", "multistep(peak, gamma, [steps])", "rrl", RateKind::multistep},
};

Result<void> checkRate(const Attr& schedule, const Attr& rate) {
  if (!std::isfinite(static_cast<float>(rate.number())))
    return fail("rate schedule {}: {} is not finite as an f32", schedule.str(), rate.str());
  if (rate.number() >= 0) return {};
  return fail("rate schedule {}: {} is negative", schedule.str(), rate.str());
}

/// Checks a count of steps; it may be written as a real without a fraction, such as 1e4.
Result<void> checkSteps(const Attr& schedule, const Attr& steps) {
  double count = steps.number();
  if (count >= 1 && count <= 9e15 && count == std::floor(count)) return {};
  return fail("rate schedule {}: {} is not a positive number of steps", schedule.str(), steps.str());
}

bool fits(const Form& form, const Attr& schedule) {
  if (schedule.kind != Attr::Kind::call || schedule.list.size() != form.args.size() || !schedule.dict.empty())
    return false;
  for (size_t i = 0; i < form.args.size(); ++i) {
    const Attr& arg = schedule.list[i];
    if (form.args[i] == 'l') {
      auto isNumber = [](const Attr& step) { return step.isNumber(); };
      if (arg.kind != Attr::Kind::array || !std::ranges::all_of(arg.list, isNumber)) return false;
    } else if (form.args[i] != 'a' && !arg.isNumber()) {
      return false;
    }
  }
  return true;
}

}  // namespace

Result<RateKind> rateKind(const Attr& schedule) {
  if (schedule.isNumber()) {
    TG_CHECK(checkRate(schedule, schedule));
    return RateKind::constant;
  }
  std::string known, usages;
  for (const Form& form : kForms) {
    known += fmt::format("{}{}", known.empty() ? "" : ", ", form.usage);
    bool named = schedule.kind == Attr::Kind::call || schedule.kind == Attr::Kind::word;
    if (!named || schedule.text != form.name) continue;
    usages += fmt::format("{}{}", usages.empty() ? "" : " or ", form.usage);
    if (!fits(form, schedule)) continue;
    for (size_t i = 0; i < form.args.size(); ++i) {
      const Attr& arg = schedule.list[i];
      if (form.args[i] == 'r') TG_CHECK(checkRate(schedule, arg));
      if (form.args[i] == 's') TG_CHECK(checkSteps(schedule, arg));
      if (form.args[i] == 'l')
        for (const Attr& step : arg.list) TG_CHECK(checkSteps(schedule, step));
    }
    return form.kind;
  }
  if (!usages.empty()) return fail("rate schedule {} is not {}", schedule.str(), usages);
  return fail("unknown rate schedule {}; there are {}", schedule.str(), known);
}

double peakRate(const Attr& schedule) {
  const Attr* at = &schedule;
  // A warmup without its own peak rises to the rate of the schedule that follows.
  while (at->kind == Attr::Kind::call && at->list.size() == 2 && at->text == "warmup") at = &at->list.back();
  return at->isNumber() ? at->number() : at->list.front().number();
}

Result<void> checkRateSchedule(const Attr& schedule) {
  TG_TRY(RateKind kind, rateKind(schedule));
  if (kind == RateKind::warmup) return checkRateSchedule(schedule.list.back());
  return {};
}

}  // namespace tg
