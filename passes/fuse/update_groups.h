// SPDX-License-Identifier: Apache-2.0
// Decides which updates of an optimizer form one flat group, in which order, and where; a part of flatten-optimizer.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <unordered_set>
#include <vector>

#include "ir/module.h"
#include "ir/target.h"
#include "passes/fuse/text_places.h"

namespace tg::fuse {

/// The operands of an optimizer's op by role. The gradient is operand 1.
struct Form {
  std::vector<int>
      kept;  ///< operands read from a parameter or state; result i is the new value of operand kept[i]
  std::vector<const char*> names;
  std::vector<int>
      shared;      ///< rank-0 operands, the rate first, that are the same value in all updates of a group
  int decay = -1;  ///< rank-0 operand; may be that of every parameter, or only of those that decay
};

/// The form of an optimizer's op; none for other ops.
std::optional<Form> formOf(const Op& op);

/// The decay operand of an update; null if there is none or it is a constant zero.
Value* decayOf(const Op& op);

struct Update {
  Op* op;
  Value* gradient;  ///< before the scalings
  std::vector<Op*>
      scalings;  ///< products with a number, from the gradient on to the value that the update reads
  std::vector<Op*> choices;  ///< by result: the tg.select that keeps it or the old value, if there is one
  Op* needs = nullptr;       ///< the last op that it must stay behind, if it may move up
  /// The value that result `which` of the group's region replaces.
  Value* result(int which) const { return choices.empty() ? op->result(which) : choices[which]->result(); }
};

/// Updates that become one region.
struct UpdateGroup {
  std::vector<Update> updates;  ///< in the order in which their tensors lie
  bool isPart = false;          ///< whether other groups hold tensors of the same optimizer
  Op* place = nullptr;          ///< the op before which the region goes
};

/// Finds the groups of a function.
class UpdateGroups {
 public:
  /// `mostBytes`: the limit on the parameters of a group that has more than one.
  UpdateGroups(Module& module, Item& func, const Target& target, int64_t mostBytes);

  /// Returns the groups. May move numbers and reads of symbols to the front of the function.
  std::vector<UpdateGroup> find();

 private:
  using Updates = std::vector<Update>;

  bool joins(const Op& update) const;
  void collect();
  bool fillsItsPlace(const Update& update) const;
  bool follows(const Update& before, const Update& after) const;
  bool fits(const Updates& updates) const;
  void moveNumbers(const Updates& updates);
  void findNeeds(Updates& updates);
  void sort(Updates& updates, bool isCut);
  std::vector<Updates> adjoining(Updates updates, bool isCut);
  Op* placeFor(const Updates& updates) const;
  Op* lastOf(const Updates& updates) const;

  Module& module_;
  Item& func_;
  const Target& target_;
  const int64_t mostBytes_;
  std::map<std::string, Updates> byKey_;  ///< updates that differ in nothing but their tensors
  const std::unordered_set<std::string> copied_;
  std::unordered_set<std::string> taken_;  ///< symbols that the updates so far read
  TextPlaces places_;
};

}  // namespace tg::fuse
