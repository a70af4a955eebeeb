// SPDX-License-Identifier: Apache-2.0
// The norm of an optimizer's gradients, computed as sums over its flat groups; a part of flatten-optimizer.
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

/// Elements of the flat tensor that these members, laid out as a group, are inside a region.
int64_t groupElements(const std::vector<Value*>& members);
/// A rank-0 value of the function inside a region: a constant is repeated there, any other value becomes an argument.
Value* bindNumber(RegionWriter& region, Value* number);
/// Adds an argument to a region that is bound to these values, laid out one after the other.
Value* bindGroup(RegionWriter& region, std::string_view hint, const std::vector<Value*>& members);

/// Cuts flat gradients into `rows` rows and returns the sum of squares of each row.
Value* rowSums(Builder& b, Value* flat, int64_t rows);

/// Rewrites the sums of squares of a function whose operands lie in groups.
class FlatNorms {
 public:
  /// New ops are put into `before`, under the op that they precede.
  FlatNorms(Item& func, const Target& target, Builder& build, std::unordered_map<const Op*, OpList>& before);

  /// The operands of a sum of squares that one group holds, by ascending position.
  struct Terms {
    Op* root;
    std::vector<int> places;
    bool isBehind;  ///< whether the sum stands behind the op before which the group's region goes
  };
  /// Finds the sum of squares that has these terms, if there is one. `cut`: its other terms belong to other groups.
  std::optional<Terms> find(const Op* place, const std::vector<Value*>& terms, bool cut) const;
  /// The number of rows in which the update of a flat group may sum squares in its own kernel. 0 where the sum needs
  /// another kernel: workgroups do not reduce on the target, or there are too few rows to keep the device busy.
  int64_t rowsAlong(int64_t elements) const;
  /// Records the value that holds the sums of squares of these terms, row by row.
  void take(Terms terms, Value* norms);

  /// Computes these terms' part of a sum of squares as one two-stage sum, before `place` or, if that comes first, before the
  /// sum of squares. Term i is member i of the group multiplied by all of `numbers`, in their order. `cut`: the sum's other
  /// terms belong to other groups.
  void add(const Op* place, const std::vector<Value*>& terms, const std::vector<Value*>& members,
           const std::vector<Value*>& numbers, bool cut);
  /// Adds the parts of each sum of squares in the order of its operands: sums over flat groups, and the squares of operands
  /// in no group. Calls `replace(sumOfSquares, total)` for each.
  void build(const std::function<void(const Op*, Value*)>& replace);

 private:
  /// A part of a sum of squares that is summed over a flat group; keyed by its first operand.
  struct FlatPart {
    std::vector<int> places;  ///< operands, ascending
    Value* norms = nullptr;
  };

  const Target& target_;
  Builder& build_;
  std::unordered_map<const Op*, OpList>& before_;
  std::vector<Op*> roots_;                           ///< the sums of squares, in order
  std::unordered_map<const Op*, size_t> positions_;  ///< of the function's ops
  std::vector<std::pair<Op*, std::map<int, FlatPart>>> norms_;
};

}  // namespace tg::fuse
