// SPDX-License-Identifier: Apache-2.0
// What depends on what, beside a search of all that is read, and the order that follows.
#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "passes/fuse/region_graph.h"

namespace tg::test {
namespace {

TEST(RegionGraph, ReachesAsASearchOfAllThatIsReadDoes) {
  std::mt19937 random(5);
  for (int round = 0; round < 200; ++round) {
    fuse::RegionGraph graph;
    std::vector<std::vector<bool>> reaches;  // [to][from], from what is linked, by closing it each time
    int reordered = 0, merged = 0;
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
      if (!reaches[consumer][producer] && random() % 8 == 0) {
        graph.merge(consumer, producer);
        for (int from = 0; from < count; ++from)
          reaches[consumer][from] = reaches[consumer][from] || (from != producer && reaches[producer][from]);
        for (std::vector<bool>& row : reaches)
          for (int from = 0; (row[producer] || row[consumer]) && from < count; ++from)
            row[from] = row[from] || reaches[consumer][from];
        for (int other = 0; other < count; ++other)
          reaches[producer][other] = reaches[other][producer] = other == producer;
        ++merged;
        continue;
      }
      reordered += producer > consumer;
      graph.link(producer, consumer);
      for (std::vector<bool>& row : reaches)
        for (int from = 0; row[consumer] && from < count; ++from)
          row[from] = row[from] || reaches[producer][from];
    }
    EXPECT_GT(reordered, 0);
    EXPECT_GT(merged, 0);
    for (int to = 0; to < static_cast<int>(reaches.size()); ++to)
      for (int from = 0; from < static_cast<int>(reaches.size()); ++from)
        ASSERT_EQ(graph.reaches(from, to), reaches[to][from]) << from << " " << to;
    std::vector<int> due, place(reaches.size(), -1);
    for (size_t region = 0; region < reaches.size(); ++region)
      due.push_back(static_cast<int>(random() % 100));
    const std::vector<int> order = graph.order(due);
    ASSERT_EQ(order.size(), reaches.size());
    for (size_t at = 0; at < order.size(); ++at) place[order[at]] = static_cast<int>(at);
    for (size_t to = 0; to < reaches.size(); ++to)
      for (size_t from = 0; from < reaches.size(); ++from)
        EXPECT_TRUE(from == to || !reaches[to][from] || place[from] < place[to]) << from << " " << to;
  }
}

// Region 0 is due late by itself and feeds region 1, which is due early; region 2 is due between them.
TEST(RegionGraph, ARegionIsDueWithItsConsumers) {
  fuse::RegionGraph graph;
  for (int region = 0; region < 3; ++region) graph.add();
  EXPECT_EQ(graph.order({9, 2, 5}), (std::vector<int>{1, 2, 0}));
  graph.link(0, 1);
  EXPECT_EQ(graph.order({9, 2, 5}), (std::vector<int>{0, 1, 2}));
}

}  // namespace
}  // namespace tg::test
