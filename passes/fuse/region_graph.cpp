// SPDX-License-Identifier: Apache-2.0
#include "passes/fuse/region_graph.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <queue>
#include <utility>

namespace tg::fuse {

int RegionGraph::add() {
  const auto region = static_cast<int>(nodes_.size());
  nodes_.emplace_back().turn = region;
  return region;
}

void RegionGraph::link(int producer, int consumer) {
  std::vector<int>& producers = at(consumer).producers;
  auto place = std::ranges::lower_bound(producers, producer);
  if (place != producers.end() && *place == producer) return;
  producers.insert(place, producer);
  at(producer).consumers.push_back(consumer);
  if (at(producer).turn > at(consumer).turn) orderTurns(producer, consumer);
}

void RegionGraph::merge(int into, int from) {
  for (int producer : std::exchange(at(from).producers, {})) {
    std::erase(at(producer).consumers, from);
    link(producer, into);
  }
  for (int consumer : std::exchange(at(from).consumers, {})) {
    std::erase(at(consumer).producers, from);
    link(into, consumer);
  }
}

std::vector<int> RegionGraph::collect(int start, std::vector<int> Node::*next, int after, int before) const {
  std::vector<int> found{start};
  at(start).seen = ++search_;
  for (size_t i = 0; i < found.size(); ++i)
    for (int other : at(found[i]).*next) {
      if (at(other).turn <= after || at(other).turn >= before || at(other).seen == search_) continue;
      at(other).seen = search_;
      found.push_back(other);
    }
  std::ranges::sort(found, [&](int a, int b) { return at(a).turn < at(b).turn; });
  return found;
}

/// Restores the order of turns when the consumer's turn comes first. Only regions with turns between the two are
/// reordered: the producer and those that it depends on get the earlier of their turns, the consumer and those that depend
/// on it the later (Pearce and Kelly, A dynamic topological sort algorithm for directed acyclic graphs, 2006).
void RegionGraph::orderTurns(int producer, int consumer) {
  const int first = at(consumer).turn, last = at(producer).turn;
  std::vector<int> moved = collect(producer, &Node::producers, first, std::numeric_limits<int>::max());
  const std::vector<int> behind = collect(consumer, &Node::consumers, -1, last);
  moved.insert(moved.end(), behind.begin(), behind.end());
  std::vector<int> turns;
  for (int region : moved) turns.push_back(at(region).turn);
  std::ranges::sort(turns);
  for (size_t i = 0; i < moved.size(); ++i) at(moved[i]).turn = turns[i];
}

/// Searches from both regions, always where fewer edges were followed. What joins them is mostly near, though much of the
/// function may lie between their turns: the gradients of a layer read its values, and depend on all later layers too.
bool RegionGraph::reaches(int from, int to) const {
  if (from == to) return true;
  const int first = at(from).turn, last = at(to).turn;
  struct Side {
    std::vector<int> Node::*next;
    std::vector<int> found;
    int mark = 0;
    size_t done = 0, edges = 0;
  };
  Side ahead{&Node::consumers, {from}, ++search_}, back{&Node::producers, {to}, ++search_};
  at(from).seen = ahead.mark;
  at(to).seen = back.mark;
  const auto cost = [&](const Side& side) {
    return side.edges + (at(side.found[side.done]).*side.next).size();
  };
  while (first < last && ahead.done < ahead.found.size() && back.done < back.found.size()) {
    const bool isAhead = cost(ahead) <= cost(back);
    Side &side = isAhead ? ahead : back, &other = isAhead ? back : ahead;
    side.edges = cost(side);
    for (int region : at(side.found[side.done++]).*side.next) {
      const Node& node = at(region);
      if (node.seen == other.mark) return true;
      if (node.seen == side.mark || node.turn < first || node.turn > last) continue;
      node.seen = side.mark;
      side.found.push_back(region);
    }
  }
  return false;
}

std::vector<int> RegionGraph::order(std::vector<int> due) const {
  const size_t count = nodes_.size();
  std::vector<size_t> byTurn(count), waiting(count);
  for (size_t r = 0; r < count; ++r) {
    byTurn[static_cast<size_t>(nodes_[r].turn)] = r;
    waiting[r] = nodes_[r].producers.size();
  }
  for (size_t turn = count; turn-- > 0;)  // consumers before their producers
    for (int producer : nodes_[byTurn[turn]].producers) {
      int& needed = due[static_cast<size_t>(producer)];
      needed = std::min(needed, due[byTurn[turn]]);
    }
  std::priority_queue<std::pair<int, int>, std::vector<std::pair<int, int>>, std::greater<>> ready;
  auto offer = [&](size_t r) {
    if (waiting[r] == 0) ready.emplace(due[r], static_cast<int>(r));
  };
  for (size_t r = 0; r < count; ++r) offer(r);
  std::vector<int> out;
  while (!ready.empty()) {
    out.push_back(ready.top().second);
    ready.pop();
    for (int number : at(out.back()).consumers) {
      const auto consumer = static_cast<size_t>(number);
      --waiting[consumer];
      offer(consumer);
    }
  }
  return out;
}

}  // namespace tg::fuse
