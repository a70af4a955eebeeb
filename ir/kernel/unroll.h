// SPDX-License-Identifier: Apache-2.0
// Loops that make fewer iterations: their bodies repeated.
#pragma once

#include <cstdint>
#include <optional>

#include "ir/module.h"
#include "ir/result.h"

namespace tg {

/// The most iterations that all loops of one invocation make together, in a verified kernel whose calls are
/// inlined; nullopt where loaded data decide, or nothing is known. Each time that a loop is entered counts
/// one more: the look at its limit that ends it is an iteration to a device that counts.
std::optional<int64_t> loopIterations(const Item& kernel);

/// Repeats the bodies of loops, those that run most often first, until an invocation makes at most `most`
/// iterations; what is computed and its order stay. False where that is not certain in the end: where data,
/// or the place of the invocation, decide how often a loop runs. An error when the bodies of loops that run a
/// known number of times would grow without end, located at the kernel: `kernel @k0: its loops make 9000000
/// iterations in an invocation …`.
Result<bool> unroll(Item& kernel, int64_t most);

}  // namespace tg
