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

/// The lowest offset of the tightest gap between the placed allocations that are alive together
/// with `alloc`, or the end of them.
static int64_t bestFit(const Alloc& alloc, const std::vector<const Alloc*>& placed) {
  int64_t cursor = 0, best = -1, bestGap = 0;
  for (const Alloc* other : placed) {
    if (other->first > alloc.last || alloc.first > other->last) continue;
    int64_t gap = other->offset - cursor;
    if (gap >= alloc.bytes && (best < 0 || gap < bestGap)) {
      best = cursor;
      bestGap = gap;
    }
    cursor = std::max(cursor, other->offset + other->bytes);
  }
  return best < 0 ? cursor : best;
}

/// Places in the given order; returns the bytes needed.
static int64_t pack(std::vector<Alloc>& allocs, const std::vector<int>& order) {
  std::vector<const Alloc*> placed;   // by offset
  placed.reserve(allocs.size());
  int64_t total = 0;
  for (int index : order) {
    Alloc& alloc = allocs[index];
    alloc.offset = bestFit(alloc, placed);
    auto below = [](const Alloc* a, const Alloc* b) { return a->offset < b->offset; };
    placed.insert(std::upper_bound(placed.begin(), placed.end(), &alloc, below), &alloc);
    total = std::max(total, alloc.offset + alloc.bytes);
  }
  return total;
}

static std::vector<int> bySize(const std::vector<Alloc>& allocs) {
  std::vector<int> order(allocs.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return allocs[a].bytes > allocs[b].bytes; });
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
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return allocs[a].first < allocs[b].first; });
  return order;
}

int64_t assignOffsets(std::vector<Alloc>& allocs) {
  if (allocs.empty()) return 0;
  const int64_t bound = lowerBound(allocs);
  std::vector<Alloc> best;
  int64_t bestTotal = 0;
  for (auto* heuristic : {bySize, byBreadth, byExecution}) {
    std::vector<Alloc> attempt = allocs;
    int64_t total = pack(attempt, heuristic(attempt));
    if (best.empty() || total < bestTotal) {
      best = std::move(attempt);
      bestTotal = total;
    }
    if (bestTotal == bound) break;
  }
  allocs = std::move(best);
  return bestTotal;
}

}  // namespace tg::plan
