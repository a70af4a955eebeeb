// SPDX-License-Identifier: Apache-2.0
// Which values and buffers of a kernel a gradient passes through.
#pragma once

#include <unordered_set>
#include <vector>

#include "ir/module.h"

namespace tg {

/// The values that depend on `wrt` (varied) and on which `of` depends (useful), both through operations that
/// have a derivative. A buffer is one thing: what was stored to it once may be anywhere in it.
class Activity {
 public:
  Activity(const Item& kernel, const std::vector<const Value*>& wrt, const std::vector<const Value*>& of);

  /// Of a value or a buffer.
  bool active(const Value* value) const { return varied_.contains(value) && useful_.contains(value); }
  bool active(const Operand& operand) const {
    return operand.kind == Operand::Kind::value && active(operand.value);
  }
  /// Whether a value or buffer depends on `wrt`.
  bool varied(const Value* value) const { return varied_.contains(value); }
  /// Whether reversing the op has something to do: an active result, or an element of an active buffer.
  /// Of if and for: whether that holds anywhere inside, or of a result.
  bool active(const Op& op) const;
  /// Whether a value may be infinite or NaN although what it was made from is not: results of functions with
  /// poles or overflow, and what depends on them.
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
