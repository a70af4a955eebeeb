// SPDX-License-Identifier: Apache-2.0
// Heads of attention filled up to whole matrices, for split-reductions.
#pragma once

#include <functional>
#include <vector>

#include "ir/builder.h"
#include "ir/target.h"

namespace tg::fuse {

/// Whether an attention, or a part of its gradient, takes less time with wider heads: of 16 bits if matrix units would make
/// it with heads of a multiple of 16, of f32 if scores are streamed and the width is no power of two.
bool wantsWholeHeads(const Op& op, const Target& target);

/// The results of such an op: of one whose operands are stored with zeros behind each row, which add nothing to scores, and
/// whose results are cut. `store` gives what a kernel of its own stores of a view of a value that stands in memory.
///
///   %o = attention %q, %k, %v : 8x40    %q_48 = tg.fused (q) { pad }, …   %o_48 = attention %q_48, %k_48, %v_48 : 8x48
///   %o_bf16 = cast %o                →  %o_bf16 = slice (cast %o_48)
std::vector<Value*> wholeHeads(Builder& builder, const Op& op,
                               const std::function<Value*(Value* source, const Value& view)>& store);

}  // namespace tg::fuse
