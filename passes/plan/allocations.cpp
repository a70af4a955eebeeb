// SPDX-License-Identifier: Apache-2.0
// Turns units into allocations of the arena. The members of a group lie side by side, but each needs its bytes only from
// its own first write to its own last read. The gradients of a step are such a group: at the start of the backward pass,
// where most bytes are alive, few of them exist, and activations that die before the others are written use their bytes.
// Padding behind a member is zeroed before that member's first write, and is alive from then on with it.
#include <algorithm>

#include "passes/plan/function_plan.h"

namespace tg::plan {

namespace {

/// Appends a piece that begins where the last one ends, or within its last block of the alignment, which then belongs to
/// both live ranges. Neighbours with equal live ranges are joined.
void addPiece(std::vector<Piece>& pieces, Piece piece) {
  auto append = [&](const Piece& each) {
    if (each.bytes == 0) return;
    if (!pieces.empty() && pieces.back().first == each.first && pieces.back().last == each.last)
      pieces.back().bytes += each.bytes;
    else
      pieces.push_back(each);
  };
  if (!pieces.empty() && piece.from < pieces.back().from + pieces.back().bytes) {
    const Piece before = pieces.back();
    pieces.pop_back();
    const int64_t shared = std::min(before.from + before.bytes - piece.from, piece.bytes);
    append({before.from, piece.from - before.from, before.first, before.last});
    append({piece.from, shared, std::min(before.first, piece.first), std::max(before.last, piece.last)});
    piece.from += shared;
    piece.bytes -= shared;
  }
  append(piece);
}

/// Most pieces of an allocation, chosen: more save little memory, and placing searches for each.
constexpr size_t kMostPieces = 64;

/// Joins neighbouring pieces in pairs, over the union of their live ranges, until there are at most kMostPieces.
void limitPieces(std::vector<Piece>& pieces) {
  while (pieces.size() > kMostPieces) {
    std::vector<Piece> pairs;
    for (size_t i = 0; i < pieces.size(); i += 2) {
      pairs.push_back(pieces[i]);
      if (i + 1 == pieces.size()) break;
      pairs.back().bytes += pieces[i + 1].bytes;
      pairs.back().first = std::min(pieces[i].first, pieces[i + 1].first);
      pairs.back().last = std::max(pieces[i].last, pieces[i + 1].last);
    }
    pieces = std::move(pairs);
  }
}

}  // namespace

/// The pieces of a unit with their live ranges, by ascending bytes.
std::vector<Piece> FunctionPlan::piecesOf(const Unit& unit, bool intervals) const {
  const int64_t bytes = alignTo(unit.bytes, target_.alignment);
  if (!unit.inParts())
    return {{0, bytes, intervals ? unit.from : unit.first, intervals ? unit.to : unit.last}};
  std::vector<Piece> pieces;
  auto fill = unit.fills.begin();
  for (size_t member = 0; member < unit.members.size(); ++member) {
    const Life life = lifeOf(*unit.members[member]);
    const int64_t from = unit.offsets[member] / target_.alignment * target_.alignment;
    const int64_t end =
        std::min(alignTo(unit.offsets[member] + unit.bytesOf(member), target_.alignment), bytes);
    const int last = intervals ? intervalEnd(life.last) : life.last;
    addPiece(pieces, {from, end - from, intervals ? intervalStart(life.first) : life.first, last});
    if (fill == unit.fills.end() || fill->member != member) continue;
    // Padding is alive from its fill on. It ends where the member does, within the same block of the alignment.
    const int64_t padding = fill->from / target_.alignment * target_.alignment;
    addPiece(pieces, {padding, end - padding, fill->before, last});
    ++fill;
  }
  if (intervals) limitPieces(pieces);  // not for the lower bound, which is exact
  return pieces;
}

std::vector<Alloc> FunctionPlan::allocations(bool intervals) const {
  std::vector<Alloc> allocs;
  std::vector<int> allocOf(units_.size(), -1);
  for (size_t index = 0; index < units_.size(); ++index) {
    const Unit& unit = units_[index];
    if (unit.room != Unit::Room::arena) continue;
    // The unit it takes over is defined earlier, so its allocation exists.
    if (unit.takesOver >= 0) {
      allocOf[index] = allocOf[unit.takesOver];
      for (Piece& piece : allocs[allocOf[index]].pieces)
        piece.last = std::max(piece.last, intervals ? unit.to : unit.last);
      continue;
    }
    allocOf[index] = static_cast<int>(allocs.size());
    allocs.push_back({alignTo(unit.bytes, target_.alignment), piecesOf(unit, intervals), 0});
  }
  return allocs;
}

void FunctionPlan::pack() {
  std::vector<Alloc> allocs = allocations();
  arenaBytes_ = assignOffsets(allocs, target_);
  arenaBound_ = lowerBound(allocations(false));
  auto alloc = allocs.begin();
  for (Unit& unit : units_)
    if (unit.room == Unit::Room::arena)
      unit.offset = unit.takesOver >= 0 ? units_[unit.takesOver].offset : alloc++->offset;
}

std::vector<LiveUnit> FunctionPlan::livePeak(const Op** at) const {
  std::vector<int64_t> sums = liveBytes(allocations(false));
  int peak = static_cast<int>(std::ranges::max_element(sums) - sums.begin());
  std::vector<LiveUnit> units;
  for (const Unit& unit : units_) {
    if (unit.room != Unit::Room::arena || unit.first > peak || peak > unit.last) continue;
    LiveUnit live{&unit, unit.inParts() ? 0 : unit.bytes};
    for (size_t member = 0; unit.inParts() && member < unit.members.size(); ++member) {
      const Life life = lifeOf(*unit.members[member]);
      if (life.first <= peak && peak <= life.last) live.bytes += unit.bytesOf(member);
    }
    if (live.bytes > 0) units.push_back(live);
  }
  *at = ops_[static_cast<size_t>(peak)];
  return units;
}

}  // namespace tg::plan
