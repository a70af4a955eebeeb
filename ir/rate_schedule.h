// SPDX-License-Identifier: Apache-2.0
// The grammar of learning-rate schedules, the `schedule` attribute of a host's `lr` argument. Their
// values are computed by runtime/schedule.h.
#pragma once

#include <cstdint>

#include "ir/attr.h"
#include "ir/result.h"

namespace tg {

enum class RateKind : uint8_t { constant, linear, cosine, warmup, staircase, multistep };

/// The kind of a schedule whose own arguments are well formed: rates are finite and not negative, step
/// counts integers from 1 on. A number alone is a constant. An error has no place and says how the form is
/// written or which forms there are. What follows a warmup is not looked at.
Result<RateKind> rateKind(const Attr& schedule);

/// The highest rate of a checked schedule: that of a constant, or the peak it rises to or begins with.
double peakRate(const Attr& schedule);

/// rateKind() for the whole tree.
Result<void> checkRateSchedule(const Attr& schedule);

}  // namespace tg
