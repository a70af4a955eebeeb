#include "passes/plan/offsets.h"

#include <algorithm>
#include <numeric>

namespace tg::plan {

std::vector<int64_t> liveBytes(const std::vector<Alloc>& allocs) {
  int end = 0;
  for (const Alloc& alloc : allocs) end = std::max(end, alloc.last + 1);
  std::vector<int64_t> change(end + 1, 0);
  for (const Alloc& alloc : allocs) {
    change[alloc.first] += alloc.bytes;
    change[alloc.last + 1] -= alloc.bytes;
  }
  std::partial_sum(change.begin(), change.end(), change.begin());
  return change;
}

int64_t lowerBound(const std::vector<Alloc>& allocs) {
  std::vector<int64_t> live = liveBytes(allocs);
  return *std::max_element(live.begin(), live.end());
}

enum class Fit { tightest, lowest };

/// The start of the tightest or the lowest gap between the placed allocations that are alive together
/// with `alloc`, or the end of them.
static int64_t fitting(const Alloc& alloc, const std::vector<const Alloc*>& placed, const Target& target,
                       Fit fit) {
  int64_t cursor = 0, best = -1, bestGap = 0;  // the cursor: where it would stand
  for (const Alloc* other : placed) {
    if (other->first > alloc.last || alloc.first > other->last) continue;
    int64_t gap = other->offset - cursor;
    if (gap >= alloc.bytes && (best < 0 || (fit == Fit::tightest && gap < bestGap))) {
      best = cursor;
      bestGap = gap;
    }
    cursor = target.fit(std::max(cursor, other->offset + other->bytes), alloc.bytes);
  }
  return best < 0 ? cursor : best;
}

/// Places in the given order; returns the bytes needed.
static int64_t pack(std::vector<Alloc>& allocs, const std::vector<int>& order, const Target& target,
                    Fit fit) {
  std::vector<const Alloc*> placed;  // by offset
  placed.reserve(allocs.size());
  int64_t total = 0;
  for (int index : order) {
    Alloc& alloc = allocs[index];
    alloc.offset = fitting(alloc, placed, target, fit);
    auto below = [](const Alloc* a, const Alloc* b) { return a->offset < b->offset; };
    placed.insert(std::upper_bound(placed.begin(), placed.end(), &alloc, below), &alloc);
    total = std::max(total, alloc.offset + alloc.bytes);
  }
  return total;
}

static std::vector<int> bySize(const std::vector<Alloc>& allocs) {
  std::vector<int> order(allocs.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](int a, int b) { return allocs[a].bytes > allocs[b].bytes; });
  return order;
}

/// Ops by falling live bytes; at each, what is alive there and has no place yet, largest first.
static std::vector<int> byBreadth(const std::vector<Alloc>& allocs) {
  std::vector<int64_t> live = liveBytes(allocs);
  std::vector<std::vector<int>> alive(live.size());
  for (int index : bySize(allocs))
    for (int at = allocs[index].first; at <= allocs[index].last; ++at) alive[at].push_back(index);
  std::vector<int> times(live.size());
  std::iota(times.begin(), times.end(), 0);
  std::stable_sort(times.begin(), times.end(), [&](int a, int b) { return live[a] > live[b]; });
  std::vector<int> order;
  std::vector<bool> taken(allocs.size(), false);
  for (int time : times)
    for (int index : alive[time])
      if (!taken[index]) {
        taken[index] = true;
        order.push_back(index);
      }
  return order;
}

static std::vector<int> byExecution(const std::vector<Alloc>& allocs) {
  std::vector<int> order = bySize(allocs);
  std::stable_sort(order.begin(), order.end(),
                   [&](int a, int b) { return allocs[a].first < allocs[b].first; });
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

/// What ends highest is placed first next time: repairs orders that strand a large value late.
void promoteHighest(Best& best, std::vector<int> order, Fit fit, int64_t bound) {
  constexpr int64_t kPairs = 5'000'000;  // pairs looked at, some ten milliseconds
  int64_t count = static_cast<int64_t>(order.size());
  int64_t rounds = std::min<int64_t>(2 * count, kPairs / std::max<int64_t>(1, count * count));
  std::vector<Alloc> attempt = best.allocs;
  for (int64_t round = 0; round < rounds && best.total > bound; ++round) {
    int64_t needed = pack(attempt, order, best.target, fit);
    if (needed < best.total) best.take(attempt, needed);
    auto end = [&](int index) { return attempt[index].offset + attempt[index].bytes; };
    auto highest =
        std::max_element(order.begin(), order.end(), [&](int a, int b) { return end(a) < end(b); });
    std::rotate(order.begin(), highest, highest + 1);
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
