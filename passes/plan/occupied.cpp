// SPDX-License-Identifier: Apache-2.0
#include "passes/plan/occupied.h"

#include <algorithm>
#include <utility>

namespace tg::plan {

/// Most pieces in a list. Chosen: visiting as many in order takes about as long as a search of the tree below.
static constexpr size_t kMostListed = 512;

void Spans::add(Span span) {
  const auto first = std::ranges::lower_bound(spans_, span.from, {}, &Span::to);
  auto last = first;  // those that overlap or touch the new one become part of it
  for (; last != spans_.end() && last->from <= span.to; ++last)
    span = {std::min(span.from, last->from), std::max(span.to, last->to)};
  if (first == last) {
    spans_.insert(first, span);
    return;
  }
  *first = span;
  spans_.erase(first + 1, last);
}

void Occupied::add(int index, const Piece& piece) {
  Node& node = nodes_[index];
  if (piece.last < node.first || node.last < piece.first) return;
  const Span span{piece.from, piece.from + piece.bytes};
  if (piece.first <= node.first && node.last <= piece.last) return node.always.add(span);
  node.sometimes.add(span);
  if (const int child = node.children) {
    add(child, piece);
    add(child + 1, piece);
    return;
  }
  node.pieces.insert(std::ranges::upper_bound(node.pieces, piece.from, {}, &Piece::from), piece);
  if (node.pieces.size() > kMostListed) split(index);
}

/// Gives a node children, which get its pieces. A node of one op has no pieces.
void Occupied::split(int index) {
  const std::vector<Piece> pieces = std::exchange(nodes_[index].pieces, {});
  const int first = nodes_[index].first, last = nodes_[index].last, middle = first + (last - first) / 2;
  const int child = nodes_[index].children = static_cast<int>(nodes_.size());
  nodes_.push_back({.first = first, .last = middle});
  nodes_.push_back({.first = middle + 1, .last = last});
  for (const Piece& piece : pieces) {
    add(child, piece);
    add(child + 1, piece);
  }
}

void Occupied::find(int index, const Piece& piece, std::vector<Span>& found) const {
  const Node& node = nodes_[index];
  if (piece.last < node.first || node.last < piece.first) return;
  const auto append = [&](const Spans& spans) {
    found.insert(found.end(), spans.all().begin(), spans.all().end());
  };
  append(node.always);
  if (piece.first <= node.first && node.last <= piece.last) return append(node.sometimes);
  if (node.children) {
    find(node.children, piece, found);
    find(node.children + 1, piece, found);
    return;
  }
  const size_t before = found.size();
  for (const Piece& other : node.pieces) {
    if (other.last < piece.first || piece.last < other.first) continue;
    const int64_t to = other.from + other.bytes;
    if (found.size() > before && other.from <= found.back().to)
      found.back().to = std::max(found.back().to, to);
    else
      found.push_back({other.from, to});
  }
}

}  // namespace tg::plan
