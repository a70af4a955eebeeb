// SPDX-License-Identifier: Apache-2.0
// Learning rates over the steps of a session: as a function argument's `schedule` attribute spells them,
// or any function of the step; replaced while training goes on.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "ir/attr.h"
#include "ir/result.h"

namespace tg {

/// The learning rate of step `step`, counted from 1. Forms, N in steps:
///   constant(x)
///   linear(peak, final, N)            peak + (final - peak)·min(s/N, 1)
///   cosine(peak, final, N)            final + ½(peak - final)(1 + cos(π·min(s/N, 1)))
///   warmup(peak, N, after)            peak·s/N up to N, then `after` at s - N, itself a schedule
///   warmup(N, after)                  the same with the peak of `after`
///   staircase(peak, gamma, every)     peak·gamma^⌊(s-1)/every⌋
///   multistep(peak, gamma, [m, …])    peak·gamma^|{m ≤ s}|
/// A number alone is a constant. Errors say which form is wrong and how it is written.
Result<double> learningRate(const Attr& schedule, int64_t step);

/// A schedule and the step it counts from. A fresh one has no schedule; copies are independent.
///
///   LearningRate rate;
///   TG_CHECK(rate.set("warmup(1e-3, 100, cosine(1e-3, 0, 900))", 0));   // from the first step on
///   TG_TRY(double lr, rate.at(1));                                      // 1e-5
///   TG_CHECK(rate.set("linear(1e-3, 0, 500)", session.steps()));        // counts from here
class LearningRate {
 public:
  /// A rate by the step, counted from 1 at the schedule's start. What it throws is an error of at().
  using Function = std::function<double(int64_t step)>;

  /// Replaces the schedule after `atStep` finished steps: step atStep + 1 is the new one's step 1, whatever
  /// the old one had reached. On an error the old schedule stays. The text is a schedule attribute's.
  Result<void> set(std::string_view text, int64_t atStep);
  Result<void> set(const Attr& schedule, int64_t atStep);
  Result<void> set(double rate, int64_t atStep);
  /// `name` is what text() says of it.
  Result<void> set(Function function, int64_t atStep, std::string name = "a function");
  /// Keeps the schedule and counts from `atStep` on, such as from 0 after a reset.
  void rebase(int64_t atStep) { start_ = atStep; }
  /// Forgets the schedule.
  void clear();

  explicit operator bool() const { return static_cast<bool>(function_); }
  /// The rate of the session's step `step`, counted from 1. An error when there is no schedule, when
  /// `step` is not after start(), or when a function throws or gives no finite number.
  Result<double> at(int64_t step) const;
  /// How the schedule is written; parses back unless it is a function. "" without one.
  const std::string& text() const { return text_; }
  /// The finished steps when the schedule began.
  int64_t start() const { return start_; }
  /// Whether the schedule has a text that `set` takes, which a checkpoint can hold.
  bool isText() const { return isText_; }

 private:
  Function function_;
  std::string text_;
  int64_t start_ = 0;
  bool isText_ = false;
};

}  // namespace tg
