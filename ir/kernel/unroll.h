// SPDX-License-Identifier: Apache-2.0
// Unrolls loops so that an invocation makes fewer iterations, for devices that limit their number.
#pragma once

#include <cstdint>
#include <optional>

#include "ir/module.h"
#include "ir/result.h"

namespace tg {

/// An upper bound of the iterations that all loops of one invocation make together, in a verified kernel whose calls
/// are inlined; nullopt if it depends on loaded data or is not known. Each entry into a loop counts one more: the
/// final check of the limit is an iteration to a device that counts.
std::optional<int64_t> loopIterations(const Item& kernel);

/// Unrolls loops, those with the most iterations first, until an invocation makes at most `most` iterations. The
/// computations and their order do not change. Returns whether the limit is certainly kept; false where trip counts
/// depend on data or on the invocation. An error, located at the kernel, if the loops with known trip counts would
/// have to be unrolled beyond all limits of size: `kernel @k0: its loops make 9000000 iterations in an invocation …`.
Result<bool> unroll(Item& kernel, int64_t most);

}  // namespace tg
