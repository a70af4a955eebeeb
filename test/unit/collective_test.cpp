// SPDX-License-Identifier: Apache-2.0
// Collectives between ranks that are threads: results, and errors when a rank is lost.
#include <atomic>
#include <chrono>
#include <functional>
#include <thread>

#include <gtest/gtest.h>

#include "runtime/collective/shared_memory.h"
#include "runtime/collective/worker_pool.h"
#include "test/unit/simulated_ranks.h"

namespace tg {
namespace {

using collective::Element;
using collective::Engine;
using collective::Kind;
using collective::Reduction;
using collective::SharedMemory;
using Engines = std::vector<std::shared_ptr<Engine>>;

/// Runs a function on each rank's thread, which also destroys the rank's engine.
void onEach(Engines engines, const std::function<void(Engine&)>& run) {
  std::vector<std::thread> threads;
  for (auto& engine : engines)
    threads.emplace_back([&run, own = std::move(engine)]() mutable {
      run(*own);
      own.reset();
    });
  engines.clear();
  for (std::thread& thread : threads) thread.join();
}

Engines ranks(int count, double timeout = 20) {
  auto made = collective::simulatedRanks(count, timeout);
  EXPECT_TRUE(made) << made.error().message();
  return made ? *made : Engines();
}

Result<void> reduce(Engine& engine, std::vector<float>& values, Reduction reduction) {
  TG_TRY(const int64_t ticket,
         engine.begin({values.data(), static_cast<int64_t>(values.size()), Element::f32, reduction}));
  return engine.wait(ticket);
}

float valueOf(int rank, size_t index) {
  return 1.0F / static_cast<float>(index + 3) + static_cast<float>(rank) * 1e7F;
}

/// The f32 sum in rank order.
float sumOf(int count, size_t index) {
  float sum = valueOf(0, index);
  for (int rank = 1; rank < count; ++rank) sum += valueOf(rank, index);
  return sum;
}

TEST(CollectiveTest, allReduceAddsInRankOrder) {
  for (int count : {1, 2, 3, 5})
    for (size_t elements : {size_t{0}, size_t{1}, size_t{2}, size_t{7}, size_t{1000}})
      for (Reduction reduction : {Reduction::sum, Reduction::mean})
        onEach(ranks(count), [&](Engine& engine) {
          std::vector<float> values(elements);
          for (size_t i = 0; i < elements; ++i) values[i] = valueOf(engine.rank(), i);
          auto done = reduce(engine, values, reduction);
          ASSERT_TRUE(done) << done.error().message();
          for (size_t i = 0; i < elements; ++i) {
            const float sum = sumOf(count, i);
            ASSERT_EQ(values[i], reduction == Reduction::mean ? sum / static_cast<float>(count) : sum)
                << count << " ranks, element " << i << " of " << elements;
          }
        });
}

TEST(CollectiveTest, reduceScatterThenAllGather) {
  for (int count : {1, 2, 3})
    for (size_t shard : {size_t{1}, size_t{5}, size_t{700'000}})
      onEach(ranks(count), [&](Engine& engine) {
        std::vector<float> values(shard * static_cast<size_t>(count));
        for (size_t i = 0; i < values.size(); ++i) values[i] = valueOf(engine.rank(), i);
        const auto all = static_cast<int64_t>(values.size());
        auto scattered = engine.begin({.elements = values.data(),
                                       .count = all,
                                       .reduction = Reduction::sum,
                                       .kind = Kind::reduceScatter});
        ASSERT_TRUE(scattered && engine.wait(*scattered));
        const size_t first = shard * static_cast<size_t>(engine.rank());
        for (size_t i = first; i < first + shard; ++i) ASSERT_EQ(values[i], sumOf(count, i));
        // The all-gather must overwrite the other shards.
        for (size_t i = 0; i < values.size(); ++i)
          if (i < first || i >= first + shard) values[i] = -1;
        auto gathered = engine.begin(
            {.elements = values.data(), .count = all, .reduction = Reduction::same, .kind = Kind::allGather});
        ASSERT_TRUE(gathered && engine.wait(*gathered));
        for (size_t i = 0; i < values.size(); ++i) ASSERT_EQ(values[i], sumOf(count, i));
      });
}

/// A task over shared memory from element `offset` on.
collective::Task sharedTask(const SharedMemory& memory, const Engine& engine, int64_t offset, int64_t count) {
  return {.elements = memory.of(engine.rank()) + offset * int64_t{sizeof(float)},
          .count = count,
          .reduction = Reduction::mean,
          .shared = &memory};
}

TEST(CollectiveTest, allReduceInSharedMemory) {
  for (int count : {1, 2, 3, 5})
    for (int64_t elements : {int64_t{1}, int64_t{7}, int64_t{1000}, (int64_t{1} << 20) + 9})
      onEach(ranks(count), [&](Engine& engine) {
        constexpr int64_t kOffset = 3;
        auto made = SharedMemory::create(engine, (kOffset + elements + 1) * int64_t{sizeof(float)});
        ASSERT_TRUE(made && *made);
        const SharedMemory& memory = **made;
        auto* values = reinterpret_cast<float*>(memory.of(engine.rank()));
        for (int64_t i = 0; i < elements; ++i)
          values[kOffset + i] = valueOf(engine.rank(), static_cast<size_t>(i));
        values[kOffset - 1] = values[kOffset + elements] = -1;
        auto begun = engine.begin(sharedTask(memory, engine, kOffset, elements));
        ASSERT_TRUE(begun && engine.wait(*begun));
        for (int64_t i = 0; i < elements; ++i)
          ASSERT_EQ(values[kOffset + i], sumOf(count, static_cast<size_t>(i)) / static_cast<float>(count))
              << count << " ranks, element " << i << " of " << elements;
        EXPECT_EQ(values[kOffset - 1], -1);
        EXPECT_EQ(values[kOffset + elements], -1);
      });
}

/// After `wait` a rank may overwrite its shared memory at once.
TEST(CollectiveTest, sharedMemoryIsFreeAfterWait) {
  constexpr int64_t kShard = 50'000;
  onEach(ranks(3), [&](Engine& engine) {
    auto made = SharedMemory::create(engine, 3 * kShard * int64_t{sizeof(float)});
    ASSERT_TRUE(made && *made);
    auto* values = reinterpret_cast<float*>((*made)->of(engine.rank()));
    const int64_t first = kShard * engine.rank();
    for (int round = 0; round < 50; ++round) {
      for (int64_t i = 0; i < 3 * kShard; ++i)
        values[i] = static_cast<float>(round + engine.rank()) + static_cast<float>(i % 7);
      collective::Task task = sharedTask(**made, engine, 0, 3 * kShard);
      task.kind = Kind::reduceScatter;
      auto scattered = engine.begin(task);
      ASSERT_TRUE(scattered && engine.wait(*scattered));
      for (int64_t i = 0; i < 3 * kShard; ++i) {
        if (i < first || i >= first + kShard)
          values[i] = -1;
        else
          ASSERT_EQ(values[i], static_cast<float>(round + 1) + static_cast<float>(i % 7));
      }
      task.kind = Kind::allGather;
      task.reduction = Reduction::same;
      auto gathered = engine.begin(task);
      ASSERT_TRUE(gathered && engine.wait(*gathered));
      for (int64_t i = 0; i < 3 * kShard; ++i)
        ASSERT_EQ(values[i], static_cast<float>(round + 1) + static_cast<float>(i % 7));
    }
  });
}

/// Makes every rank but the first appear to run on another host.
class OtherHosts : public Engine {
 public:
  explicit OtherHosts(Engine& others) : others_(others) {}
  int rank() const override { return others_.rank(); }
  int ranks() const override { return others_.ranks(); }
  std::string describe() const override { return others_.describe(); }
  Result<int64_t> begin(const collective::Task& task) override { return others_.begin(task); }
  Result<void> wait(int64_t ticket) override { return others_.wait(ticket); }
  collective::Traffic traffic() const override { return others_.traffic(); }
  Result<std::vector<std::string>> allGather(const std::string& own) override {
    const bool placed = own.find(" /proc/") != std::string::npos;
    return others_.allGather(placed && rank() > 0 ? "another " + own : own);
  }
  bool failed() const override { return others_.failed(); }
  bool reportsFailure() const override { return others_.reportsFailure(); }
  void abort(int code) override { others_.abort(code); }

 private:
  Engine& others_;
};

TEST(CollectiveTest, noSharedMemoryBetweenHosts) {
  onEach(ranks(3), [&](Engine& engine) {
    OtherHosts hosts(engine);
    auto made = SharedMemory::create(hosts, 1000);
    ASSERT_TRUE(made) << made.error().message();
    EXPECT_EQ(*made, nullptr);
  });
}

TEST(CollectiveTest, workerPoolRunsEachIndexOnce) {
  for (int helpers : {0, 1, 5}) {
    collective::WorkerPool pool(helpers);
    ASSERT_EQ(pool.threads(), helpers + 1);
    std::vector<int> done(static_cast<size_t>(pool.threads()));
    for (int round = 1; round <= 200; ++round) {
      pool.run([&](int index) { ++done[static_cast<size_t>(index)]; });
      EXPECT_EQ(done, std::vector<int>(done.size(), round));
    }
  }
}

TEST(CollectiveTest, unequalShardsAreRefused) {
  onEach(ranks(2), [&](Engine& engine) {
    std::vector<float> values(3);
    auto begun = engine.begin({.elements = values.data(), .count = 3, .kind = Kind::allGather});
    ASSERT_FALSE(begun);
    EXPECT_EQ(begun.error().message(), "3 elements cannot be divided into equal shards for 2 ranks");
  });
}

TEST(CollectiveTest, moreThanOneChunk) {
  constexpr size_t kElements = (size_t{1} << 24) + 5;
  onEach(ranks(2), [&](Engine& engine) {
    std::vector<float> values(kElements, static_cast<float>(engine.rank() + 1));
    values.back() = 8;
    ASSERT_TRUE(reduce(engine, values, Reduction::sum));
    EXPECT_EQ(values.front(), 3);
    EXPECT_EQ(values[kElements - 2], 3);
    EXPECT_EQ(values.back(), 16);
  });
}

TEST(CollectiveTest, tasksInFlightCompleteInOrder) {
  onEach(ranks(3), [&](Engine& engine) {
    std::vector<std::vector<double>> values;
    std::vector<int64_t> tickets;
    for (int i = 0; i < 20; ++i) values.push_back({i + engine.rank() * 0.5});
    for (auto& each : values)
      tickets.push_back(*engine.begin({each.data(), 1, Element::f64, Reduction::sum}));
    ASSERT_TRUE(engine.wait(tickets.back()));
    for (int i = 0; i < 20; ++i) EXPECT_EQ(values[static_cast<size_t>(i)][0], 3 * i + 1.5);
  });
}

TEST(CollectiveTest, aTaskIsNotReadBeforeItIsReady) {
  const auto start = collective::Interval::Clock::now();  // of all ranks
  onEach(ranks(2), [&](Engine& engine) {
    std::vector<float> values(3, -1), more(5, 1);
    std::atomic<bool> there = false;
    collective::Interval interval;
    auto first = engine.begin(
        {values.data(), 3, Element::f32, Reduction::sum, [&] { return there.load(); }, &interval});
    auto second = engine.begin({more.data(), 5, Element::f32, Reduction::sum});
    ASSERT_TRUE(first && second);
    // Rank 1 is late, and rank 0's task waits for it.
    std::this_thread::sleep_for(std::chrono::milliseconds(engine.rank() ? 60 : 10));
    values.assign(3, 7);
    there = true;
    ASSERT_TRUE(engine.wait(*second));
    EXPECT_EQ(values, std::vector<float>(3, 14));
    EXPECT_EQ(more, std::vector<float>(5, 2));
    EXPECT_GE(interval.begin - start, std::chrono::milliseconds(10));
    EXPECT_GE(interval.end - start, std::chrono::milliseconds(60));
  });
}

TEST(CollectiveTest, gathersTextsOfAnyLength) {
  onEach(ranks(3), [&](Engine& engine) {
    const std::vector<std::string> texts = {"", "one", std::string(100000, 'x')};
    auto all = engine.allGather(texts[static_cast<size_t>(engine.rank())]);
    ASSERT_TRUE(all) << all.error().message();
    EXPECT_EQ(*all, texts);
  });
}

TEST(CollectiveTest, aSilentRankIsNamed) {
  const auto begin = std::chrono::steady_clock::now();
  auto made = collective::simulatedRanks(2, 1.0, /*mute=*/1);
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().message(),
            "rank 1 has sent no heartbeat for 1 s: it is stopped, dead, or unreachable");
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10));
}

TEST(CollectiveTest, aRankThatEndsEarlyIsNamed) {
  onEach(ranks(3, 1.0), [&](Engine& engine) {
    if (engine.rank() == 1) return;
    std::vector<float> values(10);
    auto done = reduce(engine, values, Reduction::sum);
    ASSERT_FALSE(done);
    EXPECT_NE(done.error().message().find("rank 1 (process "), std::string::npos) << done.error().message();
    EXPECT_NE(done.error().message().find("has ended before the others"), std::string::npos);
    EXPECT_TRUE(engine.failed());
    EXPECT_EQ(engine.reportsFailure(), engine.rank() == 0);
    EXPECT_FALSE(reduce(engine, values, Reduction::sum));
  });
}

TEST(CollectiveTest, aBusyRankDoesNotTimeOut) {
  onEach(ranks(2, 1.0), [&](Engine& engine) {
    if (engine.rank() == 0) std::this_thread::sleep_for(std::chrono::milliseconds(2500));
    std::vector<float> values = {1};
    auto done = reduce(engine, values, Reduction::sum);
    EXPECT_TRUE(done) << done.error().message();
  });
}

}  // namespace
}  // namespace tg
