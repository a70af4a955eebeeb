// SPDX-License-Identifier: Apache-2.0
// Estimates how much a module computes.
#pragma once

#include "ir/module.h"

namespace tg {

/// Multiplications and additions of the matrix products in an op and its regions, plus one operation for each element
/// of other ops; from stage kernel on, one for each invocation and what its kernel's text computes (kernelCost);
/// infinite if strip-kernels has removed that text.
double workOf(const Op& op, const Module& module);
/// The same for a function.
double workOf(const Item& func, const Module& module);

/// Whether every function computes so little that giving kernels to other threads costs more than it saves: a
/// dispatch through a pool takes some 30 µs, in which one core does about 600 000 operations.
bool isTiny(const Module& module);

}  // namespace tg
