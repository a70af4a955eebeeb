// SPDX-License-Identifier: Apache-2.0
// Rewrites kernels so that every op can be expressed in a shader.
#pragma once

#include "ir/module.h"

namespace tg {

/// Whether an op can stand in a shader as it is. Illegal are calls, and functions that Vulkan computes too loosely or
/// leaves to the compiler (sin cos tan asin acos atan sinh cosh tanh erf round).
bool isLegal(const Op& op);

/// Makes every op of a verified kernel legal: inlines calls of helper funcs, which `module` must hold, and replaces
/// those functions by the scalar table's kernel form. New values have free names and the location of the op they
/// replace. A legal kernel is unchanged.
void legalize(const Module* module, Item& kernel);

}  // namespace tg
