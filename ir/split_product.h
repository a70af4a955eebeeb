// SPDX-License-Identifier: Apache-2.0
// Which ops compute f32 products from products of f16 halves.
#pragma once

#include "ir/op_view.h"

namespace tg {

/// Whether an op is a product, or an attention, of precision f32x3. A target without matrix units for it multiplies
/// in f32 instead.
inline bool isSplit(const Op& op) {
  const bool multiplies = op.code == Opcode::matmul || op.info().fusion == table::Fusion::attention;
  return multiplies && as::matmul(op).precision() == "f32x3";
}

}  // namespace tg
