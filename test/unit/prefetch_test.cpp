// SPDX-License-Identifier: Apache-2.0
// Batches made ahead: their order, how far ahead, errors, and an end before the last.
#include <pthread.h>

#include <atomic>
#include <chrono>
#include <new>
#include <optional>
#include <stdexcept>
#include <thread>

#include "runtime/train/feed.h"
#include "runtime/train/prefetch.h"
#include "test/unit/data_test_support.h"

namespace tg {
namespace {

/// Batches that hold their step; counts how many were made.
class Counter : public Feed {
 public:
  int64_t fails = 0, throws = 0;  ///< at this step
  bool tooLong = false;           ///< throws what a container beyond any memory throws
  int sleepMs = 0;
  mutable std::atomic<int64_t> made = 0;

  Result<Inputs> batch(int64_t step, Inputs) const override {
    ++made;
    if (sleepMs) std::this_thread::sleep_for(std::chrono::milliseconds(sleepMs));
    if (step == throws && tooLong) throw std::length_error("vector");
    if (step == throws) throw std::bad_alloc();
    if (step == fails) return fail("no rows at step " + std::to_string(step));
    Inputs out;
    out.emplace("x", arrayOf(DType::f32, {}, {static_cast<double>(step)}));
    return out;
  }
  int64_t itemsPerStep() const override { return 1; }
  std::string unit() const override { return "rows"; }
  int64_t stepsIn(int64_t) const override { return 0; }
  int64_t evalBatches() const override { return 0; }
  Result<Inputs> evalBatch(int64_t, Inputs) const override { return fail("none"); }
  const Vocabulary* vocabulary() const override { return nullptr; }
  std::string fingerprint() const override { return ""; }
  std::vector<std::string> describe() const override { return {}; }
};

Prefetcher ahead(const Feed& feed, int64_t first, int64_t last, size_t workers = 1) {
  return {"batch", [&feed](int64_t step, Inputs used) { return feed.batch(step, std::move(used)); }, first,
          last, workers};
}

TEST(Prefetcher, GivesEveryStepInOrder) {
  const Counter feed;
  Prefetcher prefetcher = ahead(feed, 7, 500);
  for (int64_t step = 7; step <= 500; ++step) {
    const auto inputs = prefetcher.next();
    ASSERT_OK(inputs);
    ASSERT_EQ(inputs->at("x").at(0), static_cast<double>(step));
    ASSERT_LE(feed.made, step - 6 + 2) << "two wait or are in the making";
  }
  EXPECT_FAILS(prefetcher.next(), "batch 500 is the last");
}

TEST(Prefetcher, WorksAheadByTwoAtMost) {
  const Counter feed;
  Prefetcher prefetcher = ahead(feed, 1, 100);
  for (int tries = 0; feed.made < 2 && tries < 2000; ++tries)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(feed.made, 2);
}

/// Batches that take longer the earlier they are of four, so that several workers end in another order.
class Uneven : public Counter {
 public:
  mutable std::atomic<int> atOnce = 0, most = 0;
  Result<Inputs> batch(int64_t step, Inputs) const override {
    const int now = ++atOnce;
    for (int seen = most; seen < now && !most.compare_exchange_weak(seen, now);) {
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(4 - step % 4));
    auto out = Counter::batch(step, {});
    --atOnce;
    return out;
  }
};

TEST(Prefetcher, SeveralWorkersKeepTheOrder) {
  Uneven feed;
  feed.fails = 30;
  Prefetcher prefetcher = ahead(feed, 1, 100, 4);
  for (int64_t step = 1; step < 30; ++step) {
    const auto inputs = prefetcher.next();
    ASSERT_OK(inputs);
    ASSERT_EQ(inputs->at("x").at(0), static_cast<double>(step));
    ASSERT_LE(feed.made, step + 4);
  }
  EXPECT_EQ(feed.most, 4);
  EXPECT_FAILS(prefetcher.next(), "no rows at step 30");
  EXPECT_FAILS(prefetcher.next(), "no rows at step 30");
  EXPECT_LE(feed.made, 33) << "nothing is begun behind a failure";
}

TEST(Prefetcher, MakesLaterBatchesInUsedOnes) {
  const Counter feed;
  std::atomic<int> again = 0;
  auto make = [&](int64_t step, Inputs used) {
    again += used.contains("x");
    return feed.batch(step, {});
  };
  Prefetcher prefetcher("batch", make, 1, 20, 1);
  Inputs inputs;
  for (int64_t step = 1; step <= 20; ++step) {
    auto next = prefetcher.next(std::move(inputs));
    ASSERT_OK(next);
    inputs = std::move(*next);
    ASSERT_EQ(inputs.at("x").at(0), static_cast<double>(step));
  }
  EXPECT_GE(again, 17);  // not the two that begin before any call, and the one that the first call begins
}

TEST(Prefetcher, GivesEveryThirdStepUnderItsOwnNumber) {
  Counter feed;
  feed.throws = 14;
  for (const size_t workers : {1, 3}) {
    Prefetcher prefetcher(
        "batch", [&](int64_t step, Inputs) { return feed.batch(step, {}); }, 2, 16, workers, 3);
    for (const double step : {2, 5, 8, 11}) {
      const auto inputs = prefetcher.next();
      ASSERT_OK(inputs);
      EXPECT_EQ(inputs->at("x").at(0), step);
    }
    EXPECT_FAILS(prefetcher.next(), "batch 14: out of memory");
  }
}

TEST(Prefetcher, AnErrorComesInItsPlaceAndStays) {
  Counter feed;
  feed.fails = 3;
  Prefetcher prefetcher = ahead(feed, 1, 10);
  EXPECT_TRUE(prefetcher.next());
  EXPECT_TRUE(prefetcher.next());
  EXPECT_FAILS(prefetcher.next(), "no rows at step 3");
  EXPECT_FAILS(prefetcher.next(), "no rows at step 3");
  EXPECT_EQ(feed.made, 3);
}

TEST(Prefetcher, NoMemoryIsAnErrorInItsPlaceThatStays) {
  for (const bool tooLong : {false, true}) {
    Counter feed;
    feed.throws = 2;
    feed.tooLong = tooLong;
    Prefetcher prefetcher = ahead(feed, 1, 10);
    EXPECT_TRUE(prefetcher.next());
    EXPECT_FAILS(prefetcher.next(), "batch 2: out of memory");
    EXPECT_FAILS(prefetcher.next(), "batch 2: out of memory");
  }
}

TEST(Prefetcher, EndsWithoutItsBatchesBeingTaken) {
  for (int taken = 0; taken < 3; ++taken) {
    Counter feed;
    feed.sleepMs = 1;
    {
      Prefetcher prefetcher = ahead(feed, 1, int64_t{1} << 40);
      for (int count = 0; count < taken; ++count) ASSERT_TRUE(prefetcher.next());
    }
    EXPECT_LE(feed.made, taken + 2);
  }
  const Counter feed;
  Prefetcher none = ahead(feed, 5, 4);
  EXPECT_FAILS(none.next(), "batch 4 is the last");
}

// A run must not end because an evaluation gets no thread.
TEST(Prefetcher, WithoutThreadsTheCallerPrepares) {
  pthread_attr_t usual, huge;
  ASSERT_EQ(pthread_getattr_default_np(&usual), 0);
  ASSERT_EQ(pthread_attr_init(&huge), 0);
  ASSERT_EQ(pthread_attr_setstacksize(&huge, size_t{1} << 50), 0);  // more than there are addresses
  ASSERT_EQ(pthread_setattr_default_np(&huge), 0);
  Counter feed;
  feed.fails = 3;
  std::optional<Prefetcher> prefetcher;
  EXPECT_NO_THROW(prefetcher.emplace(
      "batch", [&feed](int64_t step, Inputs used) { return feed.batch(step, std::move(used)); }, 1, 10, 4));
  ASSERT_EQ(pthread_setattr_default_np(&usual), 0);
  ASSERT_TRUE(prefetcher);
  EXPECT_EQ(feed.made, 0);
  EXPECT_EQ(prefetcher->next()->at("x").at(0), 1);
  EXPECT_EQ(prefetcher->next()->at("x").at(0), 2);
  EXPECT_FAILS(prefetcher->next(), "no rows at step 3");
  EXPECT_FAILS(prefetcher->next(), "no rows at step 3");
  EXPECT_EQ(feed.made, 3);
}

}  // namespace
}  // namespace tg
