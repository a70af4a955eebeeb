// Learning-rate schedules, as a function argument's `schedule` attribute spells them.
#pragma once

#include <cstdint>

#include "ir/attr.h"
#include "ir/result.h"

namespace tg {

/// The learning rate of step `step`, counted from 1. Forms, N in steps:
///   constant(x)
///   linear(peak, final, N)            peak + (final - peak)·min(s/N, 1)
///   cosine(peak, final, N)            final + ½(peak - final)(1 + cos(π·min(s/N, 1)))
///   warmup(peak, N, after)            peak·s/N up to N, then `after` at s - N, itself a schedule
///   staircase(peak, gamma, every)     peak·gamma^⌊(s-1)/every⌋
///   multistep(peak, gamma, [m, …])    peak·gamma^|{m ≤ s}|
/// A number alone is a constant. Errors say which form is wrong and how it is written.
Result<double> learningRate(const Attr& schedule, int64_t step);

}  // namespace tg
