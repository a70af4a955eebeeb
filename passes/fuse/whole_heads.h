// SPDX-License-Identifier: Apache-2.0
// Pads the heads of attention to a width that kernels are fast with; a part of split-reductions.
#pragma once

#include <vector>

#include "passes/fuse/region_writer.h"

namespace tg::fuse {

/// Whether an attention, or a part of its gradient, is faster with wider heads: in 16 bits if matrix units would compute
/// it with heads of a multiple of 16, in f32 if scores are streamed and the width is no power of two.
bool wantsWholeHeads(const Op& op, const Target& target);

/// Computes the results of such an op by an attention with wider heads. Its operands are stored with zeros behind each row,
/// which do not change the scores, and its results are sliced.
///
///   %o = attention %q, %k, %v : 8x40    %q_48 = tg.fused (q) { pad }, …   %o_48 = attention %q_48, %k_48, %v_48 : 8x48
///   %o_bf16 = cast %o                →  %o_bf16 = slice (cast %o_48)
std::vector<Value*> wholeHeads(Builder& builder, const Op& op, const StoreView& store);

}  // namespace tg::fuse
