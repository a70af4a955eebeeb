// SPDX-License-Identifier: Apache-2.0
// Heads of attention filled up to whole matrices, for split-reductions.
#pragma once

#include <vector>

#include "passes/fuse/region_writer.h"

namespace tg::fuse {

/// Whether an attention, or a part of its gradient, takes less time with wider heads: of 16 bits if matrix units would make
/// it with heads of a multiple of 16, of f32 if scores are streamed and the width is no power of two.
bool wantsWholeHeads(const Op& op, const Target& target);

/// The results of such an op, from an attention with wider heads: its operands are stored with zeros behind each row, which
/// leave the scores as they are, and its results are sliced.
///
///   %o = attention %q, %k, %v : 8x40    %q_48 = tg.fused (q) { pad }, …   %o_48 = attention %q_48, %k_48, %v_48 : 8x48
///   %o_bf16 = cast %o                →  %o_bf16 = slice (cast %o_48)
std::vector<Value*> wholeHeads(Builder& builder, const Op& op, const StoreView& store);

}  // namespace tg::fuse
