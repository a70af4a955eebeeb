// SPDX-License-Identifier: Apache-2.0
// Learning rate schedules over the steps of a session: the `schedule` attribute of a function argument, or any function
// of the step. A schedule can be replaced during training.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "ir/attr.h"
#include "ir/result.h"

namespace tg {

/// The learning rate of step `step`, which counts from 1. The forms, with N a number of steps:
///   constant(x)
///   linear(peak, final, N)            peak + (final - peak)·min(s/N, 1)
///   cosine(peak, final, N)            final + ½(peak - final)(1 + cos(π·min(s/N, 1)))
///   warmup(peak, N, after)            peak·s/N up to N, then `after` at s - N, itself a schedule
///   warmup(N, after)                  the same with the peak of `after`
///   staircase(peak, gamma, every)     peak·gamma^⌊(s-1)/every⌋
///   multistep(peak, gamma, [m, …])    peak·gamma^|{m ≤ s}|
/// A plain number is a constant. An error says which form is wrong and how it is written.
Result<double> learningRate(const Attr& schedule, int64_t step);

/// A schedule and the step from which it counts. A default-constructed one has no schedule; copies are independent.
///
///   LearningRate rate;
///   TG_CHECK(rate.set("warmup(1e-3, 100, cosine(1e-3, 0, 900))", 0));   // from the first step on
///   TG_TRY(double lr, rate.at(1));                                      // 1e-5
///   TG_CHECK(rate.set("linear(1e-3, 0, 500)", session.steps()));        // counts from here
class LearningRate {
 public:
  /// Maps a step, counted from 1 at the schedule's start, to a rate. An exception from it becomes an error of at().
  using Function = std::function<double(int64_t step)>;

  /// Replaces the schedule after `atStep` finished steps: step atStep + 1 is step 1 of the new one, regardless of the
  /// old one. On an error the old schedule stays. The text is that of a `schedule` attribute.
  Result<void> set(std::string_view text, int64_t atStep);
  Result<void> set(const Attr& schedule, int64_t atStep);
  Result<void> set(double rate, int64_t atStep);
  /// `name` is the text that text() returns.
  Result<void> set(Function function, int64_t atStep, std::string name = "a function");
  /// Keeps the schedule but counts from `atStep` on, for example from 0 after a reset.
  void rebase(int64_t atStep) { start_ = atStep; }
  /// Removes the schedule.
  void clear();

  explicit operator bool() const { return static_cast<bool>(function_); }
  /// The rate of the session's step `step`, which counts from 1. An error if there is no schedule, if `step` is not
  /// after start(), or if a function throws or returns a number that is negative or not finite.
  Result<double> at(int64_t step) const;
  /// The schedule's text, which `set` accepts unless it is a function's name. "" without a schedule.
  const std::string& text() const { return text_; }
  /// The number of finished steps at which the schedule began.
  int64_t start() const { return start_; }

 private:
  Function function_;
  std::string text_;
  int64_t start_ = 0;
};

}  // namespace tg
