// SPDX-License-Identifier: Apache-2.0
// The norm of an optimizer's gradients as sums over its flat groups: a part of flatten-optimizer.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "ir/builder.h"
#include "ir/module.h"
#include "ir/target.h"
#include "passes/fuse/region_writer.h"

namespace tg::fuse {

/// Elements of the flat tensor that a group of these is in a region.
int64_t groupElements(const std::vector<Value*>& members);
/// A rank-0 value of the function in a region: a constant repeated, else an argument.
Value* bindNumber(RegionWriter& region, Value* number);
/// A region's argument for these values, laid out one after the other.
Value* bindGroup(RegionWriter& region, std::string_view hint, const std::vector<Value*>& members);

/// Cuts flat gradients into so many rows; the sum of squares of each row.
Value* rowSums(Builder& b, Value* flat, int64_t rows);

/// The sums of squares of a function whose operands are in groups.
class FlatNorms {
 public:
  /// New ops go to the lists of `before`, by the op that they precede.
  FlatNorms(Item& func, const Target& target, Builder& build, std::unordered_map<const Op*, OpList>& before)
      : func_(func), target_(target), build_(build), before_(before) {}

  /// Operands of a sum of squares that a group has, ascending.
  struct Terms {
    Op* root;
    std::vector<int> places;
    bool isBehind;  ///< whether the sum stands behind the group's place
  };
  /// Where terms stand in a sum of squares, if anywhere. `cut` says that its other terms come of other groups.
  std::optional<Terms> find(const Op* place, const std::vector<Value*>& terms, bool cut) const;
  /// The number of rows in which the update of a flat group may sum squares in its own kernel. 0 where the sum needs
  /// another kernel: workgroups do not reduce on the target, or there are too few rows to keep the device busy.
  int64_t rowsAlong(int64_t elements) const;
  /// Records the value that holds the sums of squares of these terms, row by row.
  void take(Terms terms, Value* norms);

  /// The part that these terms have in a sum of squares becomes one two-stage sum, before `place` or, if that comes
  /// first, before the sum of squares. Each term is a member of the group, multiplied by numbers in their order.
  /// `cut` says that other terms belong to other groups.
  void add(const Op* place, const std::vector<Value*>& terms, const std::vector<Value*>& members,
           const std::vector<Value*>& numbers, bool cut);
  /// Adds the parts of each sum of squares in the order of its operands: sums over flat groups, and squares of
  /// what belongs to none. Calls `replace(sumOfSquares, total)` with each.
  void build(const std::function<void(const Op*, Value*)>& replace);

 private:
  /// Of a sum of squares, by their first operand: parts that are summed over a flat group.
  struct FlatPart {
    std::vector<int> places;  ///< operands, ascending
    Value* norms = nullptr;
  };

  Item& func_;
  const Target& target_;
  Builder& build_;
  std::unordered_map<const Op*, OpList>& before_;
  std::vector<std::pair<Op*, std::map<int, FlatPart>>> norms_;
};

}  // namespace tg::fuse
