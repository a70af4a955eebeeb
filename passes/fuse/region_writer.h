// SPDX-License-Identifier: Apache-2.0
// Builds a tg.fused; the passes of fuse make them in no other way.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "ir/builder.h"
#include "ir/module.h"
#include "ir/op_bytes.h"
#include "ir/target.h"

namespace tg::fuse {

/// Stores a view of a value in memory by a kernel of its own; returns the stored value.
using StoreView = std::function<Value*(Value* source, const Value& view)>;

/// Writes a region: bindings, a body, what it yields, results.
class RegionWriter {
 public:
  /// Names of arguments are made unique in this table; without one, within the region.
  explicit RegionWriter(const Loc& loc, NameTable* names = nullptr)
      : fused_(Op::create(Opcode::fused, loc)), builder_(fused_->addRegion()->ops, names) {
    builder_.setLoc(loc);
  }

  /// Builds into the body.
  Builder& builder() { return builder_; }
  Op& op() { return *fused_; }
  /// A new argument.
  Value* bind(Operand source, const Type& type, std::string_view hint);
  /// The argument bound to a source. A value is bound once, and later calls return the same argument; any other source gets
  /// an argument on each call. A new argument takes the type, name and location of `like`.
  Value* bind(const Operand& source, const Value& like);
  Value* bind(Value* outside) { return bind(Operand::of(outside), *outside); }
  /// Maps a value of another region, or of the function, to a value here.
  void define(const Value* elsewhere, Value* here) { here_[elsewhere] = here; }
  /// The value that `elsewhere` is mapped to, or null.
  Value* find(const Value* elsewhere) const;
  Value* here(const Value* elsewhere) const { return here_.at(elsewhere); }
  /// Copies an op whose operands are all mapped. A map or constant that a copied op computes already is not copied: its
  /// results are mapped to that op's. Returns the op that computes them.
  Op* copy(const Op& op);
  /// Copies the body of a region whose arguments are mapped; returns the values that it yields, here.
  std::vector<Value*> copyBody(const Op& fused);
  /// Ends the body.
  void yield(const std::vector<Value*>& values);
  /// Adds a result with this value's type, name and location.
  Value* addResult(const Value& like);

  /// Returns the tg.fused, with the given schedule or with one that is chosen for the target.
  std::unique_ptr<Op> finish(Attr schedule);
  std::unique_ptr<Op> finish(const Target& target);
  /// The same, after yielding these values; `results` are the values of the function that they define.
  std::unique_ptr<Op> finish(const std::vector<Value*>& yielded, std::vector<std::unique_ptr<Value>> results,
                             const Target& target);

 private:
  std::unique_ptr<Op> fused_;
  Builder builder_;
  std::unordered_map<const Value*, Value*> here_, bound_;
  ValueNumbering numbers_;
  std::unordered_map<std::string, Op*> copied_;  ///< maps and constants, by what they compute
};

}  // namespace tg::fuse
