// SPDX-License-Identifier: Apache-2.0
// The dependence graph of regions while they are formed.
#pragma once

#include <vector>

namespace tg::fuse {

/// An acyclic graph of regions, which are numbers. Each has a turn, later than the turns of all regions that it reads from
/// (a topological order). A search between two regions skips all whose turns are not between theirs.
class RegionGraph {
 public:
  /// Adds a region that reads from no other; returns its number.
  int add();
  /// Records that `consumer` reads from `producer`. Requires: `producer` does not depend on `consumer`.
  void link(int producer, int consumer);
  /// Makes two regions one, `into`; `from` is left without producers and consumers. Requires: neither depends on the other.
  void merge(int into, int from);
  /// Whether region `to` is region `from` or depends on it.
  bool reaches(int from, int to) const;
  /// All regions, producers before their consumers. Of the regions whose producers are placed, the one that is due first is
  /// next. A region is due at its number in `due`, or at that of its first consumer if that is earlier. Otherwise a region
  /// with a late number would delay its early consumers, and the results of all regions placed before it would stay live.
  std::vector<int> order(std::vector<int> due) const;

 private:
  struct Node {
    std::vector<int> producers, consumers;  ///< ascending
    int turn = 0;
    mutable int seen = 0;  ///< the number of the last search that visited it
  };
  const Node& at(int region) const { return nodes_[static_cast<size_t>(region)]; }
  Node& at(int region) { return nodes_[static_cast<size_t>(region)]; }
  void orderTurns(int producer, int consumer);
  /// `start` and the regions reachable from it by `next` whose turns lie between `after` and `before`, by turn.
  std::vector<int> collect(int start, std::vector<int> Node::*next, int after, int before) const;

  std::vector<Node> nodes_;
  mutable int search_ = 0;
};

}  // namespace tg::fuse
