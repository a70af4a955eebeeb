// SPDX-License-Identifier: Apache-2.0
// Values that ranks have in parts: each rank one, of equal length, in the order of the ranks.
#pragma once

#include <cstdint>
#include <optional>

#include "ir/module.h"
#include "ir/result.h"

namespace tg {

/// Whether the op brings ranks together before the kernel stage: tg.all_reduce, tg.reduce_scatter, tg.all_gather.
bool isCollective(const Op& op);

/// The tg.param or tg.state which this value is, or of which it is this rank's part; null: neither.
const Op* readOf(const Value& value);

/// The type of what the ranks' parts of a state make together; none where each rank has the whole state.
/// A malformed `part_of` is none.
std::optional<Type> wholeOf(const Item& state);

/// Why a module with so many parts of a value cannot run on other ranks.
Error otherRanks(const Loc& loc, int64_t parts, int64_t ranks);

}  // namespace tg
