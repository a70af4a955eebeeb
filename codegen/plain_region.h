// SPDX-License-Identifier: Apache-2.0
// Regions as lowering reads them: primitives only.
#pragma once

#include <memory>
#include <span>
#include <unordered_set>
#include <vector>

#include "ir/builder.h"
#include "ir/module.h"

namespace tg {

/// A region whose composites are expanded, but for those that the schedule computes as a whole.
struct PlainRegion {
  Block body;
  std::vector<Value*> bindings;  ///< block arguments, by binding
  std::vector<Value*> yields;    ///< by result slot
};
std::unique_ptr<PlainRegion> plainRegion(const Op& fused);

/// The ops of a region that some of its values are computed by.
std::unordered_set<const Op*> opsBehind(std::span<Value* const> values);

}  // namespace tg
