// Regions as lowering reads them: primitives only.
#pragma once

#include <memory>
#include <vector>

#include "ir/builder.h"
#include "ir/module.h"

namespace tg {

/// A region whose composites are expanded, but for those that the schedule computes as a whole.
struct PlainRegion {
  Module scratch;  ///< owns the ops
  Block* body = nullptr;
  std::vector<Value*> bindings;  ///< block arguments, by binding
  std::vector<Value*> yields;    ///< by result slot
};
std::unique_ptr<PlainRegion> plainRegion(const Op& fused);

}  // namespace tg
