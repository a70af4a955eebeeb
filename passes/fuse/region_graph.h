// SPDX-License-Identifier: Apache-2.0
// Which regions read from which, while regions are formed.
#pragma once

#include <vector>

namespace tg::fuse {

/// Regions by number, without a cycle. Each has a turn, later than those of all that it reads from, so that a search
/// for a region leaves out what has an earlier turn: most of the function.
class RegionGraph {
 public:
  /// A region that reads from none yet; its number.
  int add();
  /// `consumer` reads from `producer`, which does not depend on it.
  void link(int producer, int consumer);
  /// Whether region `to` is region `from`, or depends on it.
  bool reaches(int from, int to) const;
  /// The regions that one reads from, ascending.
  const std::vector<int>& producers(int region) const { return at(region).producers; }

 private:
  struct Node {
    std::vector<int> producers, consumers;
    int turn = 0;
    mutable int seen = 0;  ///< the last search that came by
  };
  const Node& at(int region) const { return nodes_[static_cast<size_t>(region)]; }
  Node& at(int region) { return nodes_[static_cast<size_t>(region)]; }
  void orderTurns(int producer, int consumer);
  /// A region and those that `next` leads to from it, of turns between the two, by their turns.
  std::vector<int> collect(int start, std::vector<int> Node::*next, int after, int before) const;

  std::vector<Node> nodes_;
  mutable int search_ = 0;
};

}  // namespace tg::fuse
