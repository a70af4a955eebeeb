// Loops that make fewer iterations: their bodies repeated.
#pragma once

#include <cstdint>

#include "ir/module.h"
#include "ir/result.h"

namespace tg {

/// The most iterations that all loops of one invocation make together, in a verified kernel whose calls are
/// inlined. Loops whose bounds loaded data decide, or of which nothing is known, count as none.
int64_t loopIterations(const Item& kernel);

/// Repeats the bodies of loops, those that run most often first, until an invocation makes at most `most`
/// iterations; what is computed and its order stay. An error when bodies would grow without end, located at
/// the kernel: `kernel @k0: its loops make 9000000 iterations in an invocation …`.
Result<void> unroll(Item& kernel, int64_t most);

}  // namespace tg
