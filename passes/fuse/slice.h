// SPDX-License-Identifier: Apache-2.0
// Slices of regions: the ops that one value depends on.
#pragma once

#include <functional>
#include <optional>
#include <unordered_map>
#include <vector>

#include "ir/module.h"

namespace tg::fuse {

/// Maps values inside a tg.fused to the values outside that they equal: an argument to its source, a yielded value to its
/// result. Members of groups are left out.
std::unordered_map<const Value*, Value*> outsideOf(const Op& fused);

/// The number of this result among those of its op.
int slotOf(const Value& result);
/// The value inside a tg.fused that becomes this result.
const Value* innerOf(const Value& result);

/// The ops of a region, in its order, that one value inside depends on.
struct Slice {
  std::vector<const Op*> ops;
  std::vector<const Value*> leaves;  ///< values inside at which the slice ends; each exists outside as well
};

/// The ops that `value` depends on, back to leaves: values that exist outside and for which `stands(outside value)` is
/// true. Nothing if the slice would need an argument for which it is false, or an op that `allows` rejects.
std::optional<Slice> sliceTo(const Op& fused, const Value* value,
                             const std::unordered_map<const Value*, Value*>& outside,
                             const std::function<bool(const Value&)>& stands,
                             const std::function<bool(const Op&)>& allows);

}  // namespace tg::fuse
