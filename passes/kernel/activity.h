// SPDX-License-Identifier: Apache-2.0
// Activity analysis: the values and buffers of a kernel through which a gradient passes.
#pragma once

#include <unordered_set>
#include <vector>

#include "ir/module.h"

namespace tg {

/// Finds the values that depend on `wrt` (varied) and those on which `of` depends (useful), both through ops that have a
/// derivative. A buffer counts as one value: an element stored once may be anywhere in it.
class Activity {
 public:
  Activity(const Item& kernel, const std::vector<const Value*>& wrt, const std::vector<const Value*>& of);

  /// Whether a value or buffer is varied and useful.
  bool active(const Value* value) const { return varied_.contains(value) && useful_.contains(value); }
  bool active(const Operand& operand) const {
    return operand.kind == Operand::Kind::value && active(operand.value);
  }
  /// Whether a value or buffer depends on `wrt`.
  bool varied(const Value* value) const { return varied_.contains(value); }
  /// Whether the backward sweep has to reverse the op: it has an active result, or accesses an element of an active buffer.
  /// For if and for: whether that holds for an op inside or a result.
  bool active(const Op& op) const;
  /// Whether a value may be infinite or NaN although the kernel's inputs are finite: results of functions with poles or
  /// overflow, and values that depend on them.
  bool singular(const Value* value) const { return singular_.contains(value); }

 private:
  void forward(const Block& block);
  void backward(const Block& block);
  void spread(const Operand& from, const Value* to);
  void want(const Operand& from);
  bool mark(std::unordered_set<const Value*>& set, const Value* value);

  std::unordered_set<const Value*> varied_, useful_, singular_;
  bool changed_ = false;
};

/// Whether an op's result has a derivative in its float operands that is not zero everywhere.
bool carriesGradient(const Op& op);

}  // namespace tg
