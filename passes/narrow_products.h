// SPDX-License-Identifier: Apache-2.0
// Products of 16-bit values, which mixed-precision makes of those of f32.
#pragma once

#include <string>

#include "ir/module.h"

namespace tg {

/// The name of the type in which a product, a convolution or an attention multiplies: its operands' where that is narrow,
/// maybe cast back to f32, else its precision. "" for other ops.
std::string multipliedAs(const Op& op);

/// Makes every tg.matmul, convolution and tg.attention of f32 in a function one of `dtype`, f16 or bf16. Operands are cast to it, once
/// for all products that read a value, and so is the result, behind the bias if it has one; other ops read the cast back
/// to f32. Memory then holds the 16 bits. A result that goes nowhere but into gradients of parameters or out of the
/// function stays f32, as a sum of exact products: the product has f32 operands cast back from 16 bits, and
/// a tg.matmul `precision = dtype`.
void narrowProducts(Module& module, Item& func, DType dtype);

}  // namespace tg
