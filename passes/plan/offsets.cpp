// SPDX-License-Identifier: Apache-2.0
#include "passes/plan/offsets.h"

#include <algorithm>
#include <bit>
#include <numeric>
#include <set>

#include "passes/plan/occupied.h"

namespace tg::plan {

int Alloc::first() const { return std::ranges::min(pieces, {}, &Piece::first).first; }

int Alloc::last() const { return std::ranges::max(pieces, {}, &Piece::last).last; }

std::vector<int64_t> liveBytes(const std::vector<Alloc>& allocs) {
  int end = 0;
  for (const Alloc& alloc : allocs) end = std::max(end, alloc.last() + 1);
  std::vector<int64_t> change(end + 1, 0);
  for (const Alloc& alloc : allocs)
    for (const Piece& piece : alloc.pieces) {
      change[piece.first] += piece.bytes;
      change[piece.last + 1] -= piece.bytes;
    }
  std::partial_sum(change.begin(), change.end(), change.begin());
  return change;
}

int64_t lowerBound(const std::vector<Alloc>& allocs) {
  std::vector<int64_t> live = liveBytes(allocs);
  return *std::ranges::max_element(live);
}

namespace {

enum class Fit { tightest, lowest };

/// Places allocations one after the other.
///
///   bytes                      An allocation of three pieces, each alive from a later op on than the one below it,
///     │      ┌─────            leaves room above its steps for values that die before a piece is written. It may start
///     │   ┌──┘ new             anywhere except where one of its pieces would overlap a placed piece that is alive at
///     │ ──┘                    the same time: each such pair excludes one span of starts.
///     └────────── ops
class Packer {
 public:
  /// Allocations are alive at ops up to `last`.
  Packer(const Target& target, Fit fit, int last) : target_(target), fit_(fit), occupied_(last) {}

  void place(Alloc& alloc) {
    alloc.offset = start(alloc);
    for (Piece piece : alloc.pieces) {
      piece.from += alloc.offset;
      occupied_.add(piece);
    }
    total_ = std::max(total_, alloc.offset + alloc.bytes);
  }
  /// The bytes that all placed allocations need.
  int64_t total() const { return total_; }

 private:
  int64_t start(const Alloc& alloc);

  const Target& target_;
  const Fit fit_;
  Occupied occupied_;
  std::vector<Span> taken_;  ///< excluded starts: those between the two, neither included
  int64_t total_ = 0;
};

/// The start in the tightest or the lowest gap, or behind everything that is alive with the allocation.
int64_t Packer::start(const Alloc& alloc) {
  taken_.clear();
  for (const Piece& piece : alloc.pieces) {
    const size_t before = taken_.size();
    occupied_.find(piece, taken_);
    for (size_t at = before; at < taken_.size(); ++at)
      taken_[at] = {taken_[at].from - piece.from - piece.bytes, taken_[at].to - piece.from};
  }
  if (!std::ranges::is_sorted(taken_, {}, &Span::from)) std::ranges::sort(taken_, {}, &Span::from);
  int64_t end = 0, best = -1, bestGap = 0;  // end: of the spans so far
  for (const Span& span : taken_) {
    if (span.from >= end) {
      // The start in this gap, computed only here, since place() divides.
      const int64_t at = target_.place(end, alloc.bytes), gap = span.from - at;
      if (gap >= 0 && (best < 0 || (fit_ == Fit::tightest && gap < bestGap))) {
        best = at;
        bestGap = gap;
      }
    }
    end = std::max(end, span.to);
  }
  return best < 0 ? target_.place(end, alloc.bytes) : best;
}

}  // namespace

/// Places allocations in the given order; returns the bytes needed.
static int64_t pack(std::vector<Alloc>& allocs, const std::vector<int>& order, const Target& target,
                    Fit fit) {
  int last = 0;
  for (const Alloc& alloc : allocs) last = std::max(last, alloc.last());
  Packer packer(target, fit, last);
  for (int index : order) packer.place(allocs[index]);
  return packer.total();
}

static std::vector<int> bySize(const std::vector<Alloc>& allocs) {
  std::vector<int> order(allocs.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, [&](int a, int b) { return allocs[a].bytes > allocs[b].bytes; });
  return order;
}

namespace {

/// Minima over ranges of a list in constant time, by a table of the minima over all ranges of 1, 2, 4, … elements.
class RangeMinima {
 public:
  explicit RangeMinima(std::vector<int> list) : rows_{std::move(list)} {
    for (size_t width = 1; 2 * width <= rows_[0].size(); width *= 2) {
      const std::vector<int>& halves = rows_.back();
      std::vector<int> row(halves.size() - width);
      for (size_t at = 0; at < row.size(); ++at) row[at] = std::min(halves[at], halves[at + width]);
      rows_.push_back(std::move(row));
    }
  }
  /// The minimum from `first` to `last`, both included.
  int of(int first, int last) const {
    const auto power = static_cast<size_t>(std::bit_width(static_cast<unsigned>(last - first + 1))) - 1;
    return std::min(rows_[power][first], rows_[power][last + 1 - (1 << power)]);
  }

 private:
  std::vector<std::vector<int>> rows_;
};

}  // namespace

/// Greedy by breadth: visits ops by falling live bytes; at each, the allocations alive there and not placed yet, largest
/// first.
static std::vector<int> byBreadth(const std::vector<Alloc>& allocs) {
  std::vector<int64_t> live = liveBytes(allocs);
  std::vector<int> times(live.size()), turn(live.size());
  std::iota(times.begin(), times.end(), 0);
  std::ranges::stable_sort(times, [&](int a, int b) { return live[a] > live[b]; });
  for (size_t at = 0; at < times.size(); ++at) turn[times[at]] = static_cast<int>(at);
  const RangeMinima minima(std::move(turn));
  std::vector<int> first;  // for each allocation, the first visit that finds it alive
  for (const Alloc& alloc : allocs) first.push_back(minima.of(alloc.first(), alloc.last()));
  std::vector<int> order = bySize(allocs);
  std::ranges::stable_sort(order, [&](int a, int b) { return first[a] < first[b]; });
  return order;
}

static std::vector<int> byExecution(const std::vector<Alloc>& allocs) {
  std::vector<int> order = bySize(allocs), first;
  for (const Alloc& alloc : allocs) first.push_back(alloc.first());
  std::ranges::stable_sort(order, [&](int a, int b) { return first[a] < first[b]; });
  return order;
}

namespace {

/// The best layout so far.
struct Best {
  const Target& target;
  std::vector<Alloc> allocs;
  int64_t total = 0;

  void offer(const std::vector<Alloc>& from, const std::vector<int>& order, Fit fit) {
    std::vector<Alloc> attempt = from;
    int64_t needed = pack(attempt, order, target, fit);
    if (!allocs.empty() && needed >= total) return;
    take(std::move(attempt), needed);
  }
  void take(std::vector<Alloc> attempt, int64_t needed) {
    allocs = std::move(attempt);
    total = needed;
  }
};

/// Repeatedly places the allocation that ends highest first: repairs orders that place a large value too late.
void promoteHighest(Best& best, std::vector<int> order, Fit fit, int64_t bound) {
  constexpr int64_t kPairs = 5'000'000;  // pairs looked at, some ten milliseconds
  int64_t count = 0;
  for (const Alloc& alloc : best.allocs) count += static_cast<int64_t>(alloc.pieces.size());
  int64_t rounds = std::min<int64_t>(2 * count, kPairs / std::max<int64_t>(1, count * count));
  std::vector<Alloc> attempt = best.allocs;
  std::set<std::vector<int>> seen{order};
  for (int64_t round = 0; round < rounds && best.total > bound; ++round) {
    int64_t needed = pack(attempt, order, best.target, fit);
    if (needed < best.total) best.take(attempt, needed);
    auto end = [&](int index) { return attempt[index].offset + attempt[index].bytes; };
    auto highest = std::ranges::max_element(order, [&](int a, int b) { return end(a) < end(b); });
    std::rotate(order.begin(), highest, highest + 1);
    if (!seen.insert(order).second) return;  // the orders repeat from here on
  }
}

}  // namespace

int64_t assignOffsets(std::vector<Alloc>& allocs, const Target& target) {
  if (allocs.empty()) return 0;
  const int64_t bound = lowerBound(allocs);
  const auto heuristics = {bySize, byBreadth, byExecution};
  Best best{target, {}, 0};
  for (Fit fit : {Fit::tightest, Fit::lowest})
    for (auto* heuristic : heuristics)
      if (best.allocs.empty() || best.total > bound) best.offer(allocs, heuristic(allocs), fit);
  for (Fit fit : {Fit::tightest, Fit::lowest})
    for (auto* heuristic : heuristics)
      if (best.total > bound) promoteHighest(best, heuristic(allocs), fit, bound);
  allocs = std::move(best.allocs);
  return best.total;
}

}  // namespace tg::plan
