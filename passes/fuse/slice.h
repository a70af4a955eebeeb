// SPDX-License-Identifier: Apache-2.0
// Parts of regions, and regions made of them.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "ir/builder.h"
#include "ir/module.h"
#include "ir/target.h"

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

/// Writes a region op by op.
class RegionWriter {
 public:
  RegionWriter(Module& module, Loc loc);

  /// The argument for a value outside; one for all who ask.
  Value* bind(Value* outside);
  /// Says what a value of another region is here.
  void define(const Value* elsewhere, Value* here) { here_[elsewhere] = here; }
  Value* here(const Value* elsewhere) const { return here_.at(elsewhere); }
  /// Copies an op whose operands are known here.
  void copy(const Op& op);
  /// The tg.fused with these results, which are moved from, of values here; its schedule is chosen anew.
  std::unique_ptr<Op> finish(const std::vector<Value*>& yielded, std::vector<std::unique_ptr<Value>> results,
                             const Target& target);

 private:
  std::unique_ptr<Op> fused_;
  Item holder_;
  Builder builder_;
  std::unordered_map<const Value*, Value*> here_, bound_;
};

}  // namespace tg::fuse
