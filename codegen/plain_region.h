// SPDX-License-Identifier: Apache-2.0
// The form of a fused region that lowering works on: primitives only.
#pragma once

#include <memory>
#include <span>
#include <unordered_set>
#include <vector>

#include "ir/builder.h"
#include "ir/module.h"

namespace tg {

/// A copy of a region with its composites expanded, except an attention that the schedule computes as a whole, and
/// with equal pure ops merged.
struct PlainRegion {
  Block body;
  std::vector<Value*> bindings;  ///< block arguments, by binding
  std::vector<Value*> yields;    ///< by result slot
};
std::unique_ptr<PlainRegion> plainRegion(const Op& fused);

/// The ops of a region that the given values depend on.
std::unordered_set<const Op*> opsBehind(std::span<Value* const> values);

}  // namespace tg
