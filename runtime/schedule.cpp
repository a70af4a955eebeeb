#include "runtime/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <string_view>

#include <fmt/format.h>

namespace tg {

namespace {

struct Form {
  std::string_view name, usage;
  size_t numbers;  ///< leading arguments that are numbers
  size_t args;
};
constexpr Form kForms[] = {
    {"constant", "constant(x)", 1, 1},
    {"linear", "linear(peak, final, steps)", 3, 3},
    {"cosine", "cosine(peak, final, steps)", 3, 3},
    {"warmup", "warmup(peak, steps, after)", 2, 3},
    {"staircase", "staircase(peak, gamma, every)", 3, 3},
    {"multistep", "multistep(peak, gamma, [steps])", 2, 3},
};

Result<const Form*> formOf(const Attr& schedule) {
  std::string known;
  for (const Form& form : kForms) {
    known += fmt::format("{}{}", known.empty() ? "" : ", ", form.usage);
    if (schedule.text != form.name) continue;
    bool fits = schedule.kind == Attr::Kind::call && schedule.list.size() == form.args;
    for (size_t i = 0; fits && i < form.numbers; ++i) fits = schedule.list[i].isNumber();
    if (!fits) return fail(fmt::format("schedule {} is not {}", schedule.str(), form.usage));
    return &form;
  }
  return fail(fmt::format("unknown schedule {}; there are {}", schedule.str(), known));
}

}  // namespace

Result<double> learningRate(const Attr& schedule, int64_t step) {
  if (schedule.isNumber()) return schedule.number();
  TG_TRY(const Form* form, formOf(schedule));
  auto at = [&](size_t index) { return schedule.list[index].number(); };
  auto s = static_cast<double>(step);
  auto positive = [&](size_t index) -> Result<double> {
    if (at(index) > 0) return at(index);
    return fail(fmt::format("schedule {}: {} must be positive", schedule.str(), schedule.list[index].str()));
  };
  if (form->name == "constant") return at(0);
  if (form->name == "linear" || form->name == "cosine") {
    TG_TRY(double steps, positive(2));
    double part = std::min(s / steps, 1.0);
    if (form->name == "linear") return at(0) + (at(1) - at(0)) * part;
    return at(1) + 0.5 * (at(0) - at(1)) * (1 + std::cos(std::numbers::pi * part));
  }
  if (form->name == "warmup") {
    TG_TRY(double steps, positive(1));
    if (s <= steps) return at(0) * s / steps;
    return learningRate(schedule.list[2], step - static_cast<int64_t>(steps));
  }
  if (form->name == "staircase") {
    TG_TRY(double every, positive(2));
    return at(0) * std::pow(at(1), std::floor((s - 1) / every));
  }
  const Attr& steps = schedule.list[2];
  auto passed =
      std::count_if(steps.list.begin(), steps.list.end(), [&](const Attr& m) { return m.number() <= s; });
  return at(0) * std::pow(at(1), static_cast<double>(passed));
}

}  // namespace tg
