// SPDX-License-Identifier: Apache-2.0
// The forms of learning-rate schedules: the `schedule` attribute of a host's `lr` argument. runtime/learning_rate.h
// computes their values.
#pragma once

#include <cstdint>

#include "ir/attr.h"
#include "ir/result.h"

namespace tg {

enum class RateKind : uint8_t { constant, linear, cosine, warmup, staircase, multistep };

/// The kind of a schedule, whose own arguments are checked: rates are finite and not negative, step counts are
/// integers from 1 on. A number by itself is a constant. An error has no location; it says how the form is written,
/// or which forms there are. Does not check the schedule that follows a warmup.
Result<RateKind> rateKind(const Attr& schedule);

/// The highest rate of a checked schedule: the constant, or the peak that it rises to or starts with.
double peakRate(const Attr& schedule);

/// Checks the whole tree like rateKind().
Result<void> checkRateSchedule(const Attr& schedule);

}  // namespace tg
