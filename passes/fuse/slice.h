// SPDX-License-Identifier: Apache-2.0
// Parts of regions.
#pragma once

#include <functional>
#include <optional>
#include <unordered_map>
#include <vector>

#include "ir/module.h"

namespace tg::fuse {

/// Values inside a tg.fused and what they are outside: an argument's source, a yielded value's result.
/// Members of groups are left out.
std::unordered_map<const Value*, Value*> outsideOf(const Op& fused);

/// The ops of a region, in its order, that lead to a value inside.
struct Slice {
  std::vector<const Op*> ops;
  std::vector<const Value*> leaves;  ///< inside; each is a value outside as well
};

/// The ops that lead to `value`, back to arguments and other values for which `stands` holds of what they are
/// outside. Nothing where an argument does not stand, or an op is not one that `allows`.
std::optional<Slice> sliceTo(const Op& fused, const Value* value,
                             const std::unordered_map<const Value*, Value*>& outside,
                             const std::function<bool(const Value&)>& stands,
                             const std::function<bool(const Op&)>& allows);

}  // namespace tg::fuse
