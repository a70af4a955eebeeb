// SPDX-License-Identifier: Apache-2.0
// Kernels as shaders can express them.
#pragma once

#include "ir/module.h"

namespace tg {

/// Whether an op stands in a shader as it is: not a call, nor a function that Vulkan computes too loosely
/// or leaves to the compiler (sin cos tan asin acos atan sinh cosh tanh erf round).
bool isLegal(const Op& op);

/// Makes every op of a verified kernel legal: calls of helper funcs are inlined, which needs the module that
/// holds them, and those functions become the scalar table's kernel form, in place. New values have free
/// names and the location of the op they stand for. A legal kernel stays as it is.
void legalize(const Module* module, Item& kernel);

}  // namespace tg
