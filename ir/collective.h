// SPDX-License-Identifier: Apache-2.0
// Collectives between ranks, and values that are sharded: each rank has one of equally long shards, in rank order.
#pragma once

#include <cstdint>
#include <optional>

#include "ir/module.h"
#include "ir/result.h"

namespace tg {

/// tg.all_reduce, tg.reduce_scatter or tg.all_gather.
bool isCollective(const Op& op);

/// The tg.param or tg.state that this value reads, or of which it is this rank's shard; else null.
const Op* readOf(const Value& value);

/// The type of a sharded state's whole; none if the state is not sharded or its `part_of` is malformed.
std::optional<Type> wholeOf(const Item& state);

/// The error of running a module that is sharded for `shards` ranks on `ranks`.
Error otherRanks(const Loc& loc, int64_t shards, int64_t ranks);

}  // namespace tg
