// SPDX-License-Identifier: Apache-2.0
// Values that ranks have in parts: each rank one, of equal length, in the order of the ranks.
#pragma once

#include <cstdint>
#include <optional>

#include "ir/module.h"

namespace tg {

/// Whether the op brings ranks together before the kernel stage: tg.all_reduce, tg.reduce_scatter, tg.all_gather.
bool isCollective(const Op& op);

/// The tg.param or tg.state which this value is, or of which it is this rank's part; null: neither.
const Op* readOf(const Value& value);

/// The type of what the ranks' parts of a state make together; none where each rank has the whole state.
/// A malformed `part_of` is none.
std::optional<Type> wholeOf(const Item& state);

/// The number of ranks that the module's parts are for; 1 where it has none.
int64_t ranksOf(const Module& module);

}  // namespace tg
