// SPDX-License-Identifier: Apache-2.0
// How much a module computes, roughly.
#pragma once

#include "ir/module.h"

namespace tg {

/// Multiplications and additions of the matrix products of an op and of its regions, plus an element's worth
/// for every other op; from stage kernel on, the invocations of dispatches.
double workOf(const Op& op, const Module& module);
/// The same of a function.
double workOf(const Item& func, const Module& module);

/// Whether every function computes so little that handing kernels to threads costs more than it saves: a
/// dispatch through a pool takes some 30 µs, in which one core does about 600 000 operations.
bool isTiny(const Module& module);

}  // namespace tg
