// SPDX-License-Identifier: Apache-2.0
// Bytes alive at steps that come between others, beside a list that is counted anew each time.
#include <gtest/gtest.h>

#include <map>
#include <random>

#include "passes/fuse/timeline.h"

namespace tg::test {
namespace {

using fuse::Timeline;

TEST(Timeline, ThePeakIsThatOfAListCountedAnew) {
  std::mt19937 random(11);
  for (const int start : {1, 40, 3000}) {
    struct Entry {
      const Timeline::Step* step;
      int64_t bytes, taken;
    };
    std::vector<Entry> list;
    std::map<const Timeline::Step*, int64_t> taken;
    Timeline timeline([&](const Timeline::Step& step) { return taken[&step]; });
    auto draw = [&] { return random() % 4 == 0 ? static_cast<int64_t>(random() % 50) : 0; };
    for (int i = 0; i < start; ++i) {
      list.push_back({timeline.append(nullptr), 0, draw()});
      taken[list.back().step] = list.back().taken;
    }
    size_t highest = 0;
    for (int round = 0; round < 3000; ++round) {
      size_t from = random() % list.size(), to = random() % list.size();
      if (random() % 2) from = highest;
      if (from > to) std::swap(from, to);
      if (random() % 8 == 0) from = 0, to = list.size() - 1;
      switch (random() % 3) {
      case 0: {  // as many bytes as at the next
        const Timeline::Step* step = timeline.insertBefore(*list[from].step, nullptr);
        list.insert(list.begin() + static_cast<std::ptrdiff_t>(from), {step, list[from].bytes, draw()});
        taken[step] = list[from].taken;
        break;
      }
      case 1: {
        const int64_t bytes = static_cast<int64_t>(random() % 200) - 80;
        timeline.add(*list[from].step, *list[to].step, bytes);
        for (size_t at = from; at <= to; ++at) list[at].bytes += bytes;
        break;
      }
      default: taken[list[from].step] = list[from].taken = draw(); timeline.forgetTaken(*list[from].step);
      }
      EXPECT_EQ(list[from].step->isBefore(*list[to].step), from < to);
      const Entry* most = nullptr;
      for (const Entry& entry : list)
        if (entry.bytes - entry.taken > (most ? most->bytes - most->taken : 0)) most = &entry;
      highest = most ? static_cast<size_t>(most - list.data()) : 0;
      ASSERT_EQ(timeline.peak(), most ? most->step : nullptr) << start << " " << round;
    }
  }
}

}  // namespace
}  // namespace tg::test
