// SPDX-License-Identifier: Apache-2.0
// What depends on what, beside a search of all that is read.
#include <gtest/gtest.h>

#include <random>

#include "passes/fuse/region_graph.h"

namespace tg::test {
namespace {

TEST(RegionGraph, ReachesAsASearchOfAllThatIsReadDoes) {
  std::mt19937 random(5);
  for (int round = 0; round < 200; ++round) {
    fuse::RegionGraph graph;
    std::vector<std::vector<bool>> reaches;  // [to][from], from what is linked, by closing it each time
    int reordered = 0;
    for (int step = 0; step < 120; ++step) {
      const auto count = static_cast<int>(reaches.size());
      if (count < 2 || random() % 3 == 0) {
        EXPECT_EQ(graph.add(), count);
        for (std::vector<bool>& row : reaches) row.push_back(false);
        reaches.emplace_back(count + 1, false).back() = true;
        continue;
      }
      const auto producer = static_cast<int>(random() % count), consumer = static_cast<int>(random() % count);
      ASSERT_EQ(graph.reaches(consumer, producer), reaches[producer][consumer]);
      if (reaches[producer][consumer]) continue;  // a cycle
      reordered += producer > consumer;
      graph.link(producer, consumer);
      for (std::vector<bool>& row : reaches)
        for (int from = 0; row[consumer] && from < count; ++from)
          row[from] = row[from] || reaches[producer][from];
    }
    EXPECT_GT(reordered, 0);
    for (int to = 0; to < static_cast<int>(reaches.size()); ++to)
      for (int from = 0; from < static_cast<int>(reaches.size()); ++from)
        ASSERT_EQ(graph.reaches(from, to), reaches[to][from]) << from << " " << to;
  }
}

}  // namespace
}  // namespace tg::test
