// SPDX-License-Identifier: Apache-2.0
// f32 products computed as three f16 products: mixed-precision{precision=f32x3}.
#pragma once

#include "ir/module.h"

namespace tg {

/// Gives the f32 products of a function, and attention with narrow heads, the precision f32x3, and each operand a scale:
/// a power of two that brings its largest element near the end of f16's range.
void halveProducts(Module& module, Item& func);

}  // namespace tg
