// SPDX-License-Identifier: Apache-2.0
// Which updates of an optimizer are one flat group, in which order, and where: a part of flatten-optimizer.
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

/// Where an optimizer's op has what. The gradient is operand 1.
struct Form {
  std::vector<int> kept;  ///< operands read from a parameter or state; result i is the next kept[i]
  std::vector<const char*> names;
  std::vector<int> shared;  ///< rank 0, first the rate: one value for all that join
  int decay = -1;           ///< rank 0 here; an operand of every parameter, or only of those that decay
};

/// That of an optimizer's op; none for other ops.
std::optional<Form> formOf(const Op& op);

/// The decay of an update, or null: none, or a constant zero.
Value* decayOf(const Op& op);

struct Update {
  Op* op;
  Value* gradient;            ///< before the scalings
  std::vector<Op*> scalings;  ///< by numbers, from the gradient on to what the update reads
  std::vector<Op*> choices;   ///< by result, if it is kept only where a number says so
  Op* needs = nullptr;        ///< the last op that it has to stand behind, if it may move up
  /// What becomes a result of the group.
  Value* result(int which) const { return choices.empty() ? op->result(which) : choices[which]->result(); }
};

/// Updates that become one region.
struct UpdateGroup {
  std::vector<Update> updates;  ///< in the order in which their tensors lie
  bool isPart = false;          ///< whether other groups have tensors of the same optimizer
  Op* place = nullptr;          ///< the region stands before it
};

/// Finds the groups of a function.
class UpdateGroups {
 public:
  /// `mostBytes`: of a group's parameters, where it has more than one.
  UpdateGroups(Module& module, Item& func, const Target& target, int64_t mostBytes);

  /// May move numbers and what reads symbols to the front of the function.
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
  std::optional<TextPlaces> places_;       ///< where there are more bytes than in one group
};

}  // namespace tg::fuse
