// SPDX-License-Identifier: Apache-2.0
// Collectives between ranks, and sharded values: each rank holds one of equal shards, in rank order.
#pragma once

#include <cstdint>
#include <optional>

#include "ir/module.h"
#include "ir/result.h"

namespace tg {

/// tg.all_reduce, tg.reduce_scatter or tg.all_gather.
bool isCollective(const Op& op);

/// The tg.param or tg.state that gives this value, directly or as this rank's shard; else null.
const Op* readOf(const Value& value);

/// The type of a sharded state before sharding; none if the state is not sharded or its `part_of` is malformed.
std::optional<Type> wholeOf(const Item& state);

/// The error of running a module sharded for `shards` ranks with another number of ranks.
Error otherRanks(const Loc& loc, int64_t shards, int64_t ranks);

}  // namespace tg
