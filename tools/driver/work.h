// SPDX-License-Identifier: Apache-2.0
// How much a module computes, roughly.
#pragma once

#include "ir/module.h"

namespace tg {

/// Multiplications and additions of a function's matrix products plus an element's worth for every other
/// op; from stage kernel on, the invocations of its dispatches.
double workOf(const Item& func, const Module& module);

/// Whether every function computes so little that handing kernels to threads costs more than it saves: a
/// dispatch through a pool takes some 30 µs, in which one core does about 600 000 operations.
bool isTiny(const Module& module);

}  // namespace tg
