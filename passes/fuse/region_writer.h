// SPDX-License-Identifier: Apache-2.0
// The one way to make a tg.fused.
#pragma once

#include <functional>
#include <memory>
#include <unordered_map>
#include <vector>

#include "ir/builder.h"
#include "ir/module.h"
#include "ir/target.h"

namespace tg::fuse {

/// Gives what a kernel of its own stores of a view of a value that stands in memory.
using StoreView = std::function<Value*(Value* source, const Value& view)>;

/// Writes a region: bindings, a body, what it yields, results.
class RegionWriter {
 public:
  /// Arguments get names that are free in this table, or without one in the region.
  explicit RegionWriter(const Loc& loc, NameTable* names = nullptr)
      : fused_(Op::create(Opcode::fused, loc)), builder_(fused_->addRegion()->ops, names) {
    builder_.setLoc(loc);
  }

  /// Builds into the body.
  Builder& builder() { return builder_; }
  Op& op() { return *fused_; }
  /// A new argument.
  Value* bind(Operand source, const Type& type, std::string_view hint);
  /// The argument for a value outside, one for all who ask; any other source has one of its own. A new
  /// argument has the type, name and location of `like`.
  Value* bind(const Operand& source, const Value& like);
  Value* bind(Value* outside) { return bind(Operand::of(outside), *outside); }
  /// Says what a value of another region is here.
  void define(const Value* elsewhere, Value* here) { here_[elsewhere] = here; }
  /// What it is, or null.
  Value* find(const Value* elsewhere) const;
  Value* here(const Value* elsewhere) const { return here_.at(elsewhere); }
  /// Copies an op whose operands are known here.
  Op* copy(const Op& op) { return builder_.append(cloneOp(op, here_)); }
  /// Copies the body of a region whose values are known here but for its own; what it yields.
  std::vector<Value*> copyBody(const Op& fused);
  /// Ends the body.
  void yield(const std::vector<Value*>& values);
  /// A result with this value's type, name and location.
  Value* addResult(const Value& like);

  /// The tg.fused, with this schedule or with one chosen anew.
  std::unique_ptr<Op> finish(Attr schedule);
  std::unique_ptr<Op> finish(const Target& target);
  /// The same with these results, which are moved from, of values here.
  std::unique_ptr<Op> finish(const std::vector<Value*>& yielded, std::vector<std::unique_ptr<Value>> results,
                             const Target& target);

 private:
  std::unique_ptr<Op> fused_;
  Builder builder_;
  std::unordered_map<const Value*, Value*> here_, bound_;
};

}  // namespace tg::fuse
