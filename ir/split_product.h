// SPDX-License-Identifier: Apache-2.0
// Which ops multiply f32 by products of f16 halves.
#pragma once

#include "ir/op_view.h"

namespace tg {

/// Whether an op is a product, or an attention, of precision f32x3. A target without matrix units for it multiplies
/// f32 all the same.
inline bool isSplit(const Op& op) {
  const bool multiplies = op.code == Opcode::matmul || op.info().fusion == table::Fusion::attention;
  return multiplies && as::matmul(op).precision() == "f32x3";
}

}  // namespace tg
