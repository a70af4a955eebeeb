// SPDX-License-Identifier: Apache-2.0
// The bytes that placed allocations occupy at each time.
#pragma once

#include <cstdint>
#include <vector>

#include "passes/plan/offsets.h"

namespace tg::plan {

/// Offsets from one up to another.
struct Span {
  int64_t from = 0, to = 0;
};

/// Occupied offsets, as spans by offset with room between any two.
class Spans {
 public:
  void add(Span span);
  const std::vector<Span>& all() const { return spans_; }

 private:
  std::vector<Span> spans_;
};

/// Placed pieces, as a tree over time: a node has a range of ops, each of its two children one half. A node knows the bytes
/// of pieces that are alive at all of its ops, and those of pieces alive at some. Values that stay in memory for long lie
/// side by side and make few spans, so that a search for the bytes in use does not visit each value. A node with few pieces
/// keeps them in a list and has no children.
class Occupied {
 public:
  /// Pieces are alive at ops up to `last`.
  explicit Occupied(int last) { nodes_.push_back({.first = 0, .last = last}); }
  /// Adds a piece; `from` is its offset.
  void add(const Piece& piece) { add(0, piece); }
  /// Appends spans that together are the bytes in use while a piece is alive.
  void find(const Piece& piece, std::vector<Span>& found) const { find(0, piece, found); }

 private:
  struct Node {
    int first = 0, last = 0;            ///< its ops
    int children = 0;                   ///< the index of the first child, the second one follows; 0 for none
    Spans always = {}, sometimes = {};  ///< in use at all of its ops; at some
    std::vector<Piece> pieces = {};     ///< those alive at some, by offset; unless it has children
  };
  void add(int node, const Piece& piece);
  void split(int node);
  void find(int node, const Piece& piece, std::vector<Span>& found) const;

  std::vector<Node> nodes_;
};

}  // namespace tg::plan
