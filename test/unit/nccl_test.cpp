// SPDX-License-Identifier: Apache-2.0
// NcclEngine between ranks that are threads, with a fake of CUDA and NCCL: the order of work, and errors when a rank is
// lost.
#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <functional>
#include <thread>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "runtime/collective/nccl_engine.h"
#include "test/unit/simulated_ranks.h"

namespace tg {
namespace {

using namespace std::chrono_literals;
using collective::CudaGpu;
using collective::CudaMemory;
using collective::CudaTimeline;
using collective::Engine;
using collective::Kind;
using collective::NcclEngine;
using collective::NcclLibrary;
using collective::Reduction;

const collective::NcclNames kFake = {TG_FAKE_NCCL, TG_FAKE_NCCL};

std::string errorOf(const auto& result) { return result ? "none" : result.error().message(); }

template <class Function>
Function* fake(const char* name) {
  void* object = dlopen(TG_FAKE_NCCL, RTLD_NOW);
  return reinterpret_cast<Function*>(dlsym(object, name));
}

/// Memory of one API that is exported to another one by a descriptor.
class Shared {
 public:
  explicit Shared(size_t size) : size_(size), descriptor_(memfd_create("shared", 0)) {
    EXPECT_EQ(ftruncate(descriptor_, static_cast<off_t>(size)), 0);
    bytes_ = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor_, 0);
  }
  ~Shared() {
    munmap(bytes_, size_);
    close(descriptor_);
  }
  Shared(const Shared&) = delete;
  Shared& operator=(const Shared&) = delete;
  int give() const { return dup(descriptor_); }
  float* values() const { return static_cast<float*>(bytes_); }
  std::atomic<uint64_t>& counter() const { return *static_cast<std::atomic<uint64_t>*>(bytes_); }

 private:
  size_t size_;
  int descriptor_;
  void* bytes_;
};

std::string uuidOf(int rank) {
  return fmt::format("{0}{0}{0}{0}-{0}{0}-{0}{0}-{0}{0}-{0}{0}{0}{0}{0}{0}", fmt::format("{:02x}", rank));
}

Result<std::shared_ptr<NcclEngine>> join(const std::shared_ptr<Engine>& host) {
  TG_TRY(auto library, NcclLibrary::open(kFake));
  TG_CHECK(library->openNccl(kFake));
  TG_TRY(auto gpu, CudaGpu::open(library, uuidOf(host->rank())));
  std::string id;
  if (host->rank() == 0) {
    TG_TRY(id, NcclEngine::makeId(*library));
  }
  TG_TRY(const auto ids, host->allGather(id));
  return NcclEngine::join(host, gpu, ids[0]);
}

/// Runs a function on each rank's thread, which also destroys the rank's engines.
void onEachGpu(int count, const std::function<void(NcclEngine&)>& run) {
  auto hosts = collective::simulatedRanks(count);
  ASSERT_TRUE(hosts) << hosts.error().message();
  std::vector<std::thread> threads;
  for (auto& host : *hosts)
    threads.emplace_back([&run, own = std::move(host)]() mutable {
      auto engine = join(own);
      ASSERT_TRUE(engine) << engine.error().message();
      run(**engine);
      engine->reset();
      own.reset();
    });
  hosts->clear();
  for (std::thread& thread : threads) thread.join();
}

TEST(NcclTest, allReduceIsOrderedByTimelines) {
  onEachGpu(3, [](NcclEngine& engine) {
    EXPECT_EQ(engine.describe(), "3 ranks by nccl");
    EXPECT_EQ(engine.nccl(), &engine);
    Shared bytes(8192), sent(8), back(8);
    auto memory = CudaMemory::create(engine.gpu(), bytes.give(), 8192);
    auto written = CudaTimeline::create(engine.gpu(), sent.give());
    auto finished = CudaTimeline::create(engine.gpu(), back.give());
    ASSERT_TRUE(memory && written && finished);
    const auto inPlace = [&](uint64_t offset, int64_t count, Reduction reduction) {
      const auto at = (*memory)->address() + offset;
      return NcclEngine::Collective{Kind::allReduce, reduction, at, at, count};
    };
    for (uint64_t round = 1; round <= 3; ++round) {
      ASSERT_TRUE((*written)->await(round * 2));
      const Reduction reduction = round == 2 ? Reduction::sum : Reduction::mean;
      const NcclEngine::Collective group[] = {inPlace(400, 5, reduction), inPlace(4096, 1000, reduction)};
      ASSERT_TRUE(engine.run(group));
      ASSERT_TRUE((*finished)->signal(round));
      std::this_thread::sleep_for(std::chrono::milliseconds(5 * engine.rank()));
      EXPECT_EQ(back.counter(), round - 1);
      for (int i = 0; i < 5; ++i) bytes.values()[100 + i] = static_cast<float>(engine.rank() * 2 + i);
      bytes.values()[1024 + 999] = static_cast<float>(engine.rank());
      sent.counter() = round * 2;
      while (back.counter() < round) std::this_thread::yield();
      for (int i = 0; i < 5; ++i)
        EXPECT_NEAR(bytes.values()[100 + i], round == 2 ? 6 + 3 * i : 2 + i, 1e-5) << round;
      EXPECT_NEAR(bytes.values()[1024 + 999], round == 2 ? 3 : 1, 1e-6);
    }
    EXPECT_EQ(engine.traffic().bytes, 3 * (2 * 20 * 2 / 3 + 2 * 4000 * 2 / 3));
  });
}

TEST(NcclTest, reduceScatterThenAllGather) {
  onEachGpu(3, [](NcclEngine& engine) {
    Shared bytes(8192), back(8);
    auto memory = CudaMemory::create(engine.gpu(), bytes.give(), 8192);
    auto finished = CudaTimeline::create(engine.gpu(), back.give());
    ASSERT_TRUE(memory && finished);
    const auto rank = static_cast<float>(engine.rank());
    float *whole = bytes.values(), *shard = whole + 100, *again = whole + 200;
    for (int i = 0; i < 12; ++i) whole[i] = static_cast<float>(i) + rank * 30;
    const auto at = (*memory)->address();
    const NcclEngine::Collective group[] = {{Kind::reduceScatter, Reduction::mean, at, at + 400, 4},
                                            {Kind::allGather, Reduction::sum, at + 400, at + 800, 4}};
    // One group each: the second reads what the first writes.
    for (const NcclEngine::Collective& each : group) ASSERT_TRUE(engine.run({&each, 1}));
    ASSERT_TRUE((*finished)->signal(1));
    while (back.counter() < 1) std::this_thread::yield();
    for (int i = 0; i < 4; ++i) EXPECT_NEAR(shard[i], rank * 4 + static_cast<float>(i) + 30, 1e-4);
    for (int i = 0; i < 12; ++i) EXPECT_NEAR(again[i], i + 30, 1e-4);
    EXPECT_EQ(engine.traffic().bytes, 2 * 48 * 2 / 3);
  });
}

TEST(NcclTest, trafficAddsUpRunTimes) {
  onEachGpu(2, [](NcclEngine& engine) {
    std::atomic<int> asked = 0;
    const auto begin = NcclEngine::Clock::now();
    for (int i = 1; i <= 2; ++i)
      engine.observe(
          [&asked, begin, i](NcclEngine::Clock::time_point before) -> std::optional<collective::Interval> {
            if (++asked < 10 * i) return {};
            return collective::Interval{std::max(begin, before), begin + i * 100ms};
          });
    while (asked < 20) std::this_thread::yield();
    while (engine.traffic().inFlight < 0.2) std::this_thread::yield();
    EXPECT_NEAR(engine.traffic().inFlight, 0.2, 1e-6);
  });
}

/// Ranks that can be lost at any time.
class Losable : public Engine {
 public:
  Losable(int rank, std::shared_ptr<Engine> others) : rank_(rank), others_(std::move(others)) {}
  int rank() const override { return rank_; }
  int ranks() const override { return others_->ranks(); }
  std::string describe() const override { return others_->describe(); }
  Result<int64_t> begin(const collective::Task&) override { return fail("rank 1 is gone"); }
  Result<void> wait(int64_t) override { return {}; }
  collective::Traffic traffic() const override { return {}; }
  Result<std::vector<std::string>> allGather(const std::string& own) override {
    if (lost) return fail("rank 1 is gone");
    return others_->allGather(own);
  }
  bool failed() const override { return lost; }
  bool reportsFailure() const override { return true; }
  void abort(int) override {}
  std::atomic<bool> lost = false;

 private:
  int rank_;
  std::shared_ptr<Engine> others_;
};

/// Two ranks, of which the first is in an all-reduce that the second never calls. Returns the error that its failure
/// handler gets.
std::string failureOf(const std::function<void(Losable&)>& lose, std::chrono::milliseconds within) {
  std::string heard;
  auto hosts = collective::simulatedRanks(2);
  EXPECT_TRUE(hosts);
  std::vector<std::thread> threads;
  std::atomic<bool> over = false;
  for (int rank = 0; rank < 2; ++rank)
    threads.emplace_back([&, rank, own = std::move((*hosts)[static_cast<size_t>(rank)])] {
      auto host = std::make_shared<Losable>(rank, own);
      auto joined = join(host);
      ASSERT_TRUE(joined) << joined.error().message();
      NcclEngine& engine = **joined;
      if (rank == 0) {
        Shared bytes(4096), back(8);
        auto memory = CudaMemory::create(engine.gpu(), bytes.give(), 4096);
        auto finished = CudaTimeline::create(engine.gpu(), back.give());
        std::mutex mutex;
        engine.onFailure(&heard, [&](const Error& why) {
          std::lock_guard lock(mutex);
          heard = why.message();
        });
        const auto at = (*memory)->address();
        const NcclEngine::Collective sum = {Kind::allReduce, Reduction::sum, at, at, 3};
        ASSERT_TRUE(engine.run({&sum, 1}));
        ASSERT_TRUE((*finished)->signal(1));
        const auto begin = std::chrono::steady_clock::now();
        lose(*host);
        const auto hasHeard = [&] {
          std::lock_guard lock(mutex);
          return !heard.empty();
        };
        // The other rank's end may abort the all-reduce before this rank has noticed the failure.
        while ((back.counter() == 0 || !hasHeard()) && std::chrono::steady_clock::now() - begin < within)
          std::this_thread::sleep_for(1ms);
        EXPECT_LT(std::chrono::steady_clock::now() - begin, within);
        const std::string told = errorOf(engine.run({&sum, 1}));
        std::lock_guard lock(mutex);
        EXPECT_FALSE(heard.empty());
        EXPECT_EQ(told, heard);
        over = true;
      }
      while (!over) std::this_thread::sleep_for(1ms);
      host->lost = true;
    });
  hosts->clear();
  for (std::thread& thread : threads) thread.join();
  return heard;
}

TEST(NcclTest, aLostRankAbortsTheGroup) {
  auto* calls = fake<const char*()>("fakeCalls");
  const std::string before = calls();
  EXPECT_EQ(failureOf([](Losable& host) { host.lost = true; }, 20s), "rank 1 is gone");
  EXPECT_EQ(std::string(calls()).substr(before.size()), "abort\nabort\n") << "on both ranks, and no destroy";
}

TEST(NcclTest, anErrorOfNcclAbortsTheGroup) {
  auto* asyncError = fake<void(int)>("fakeAsyncError");
  // Reported only after a delay, in which the other engine may name the lost rank.
  EXPECT_EQ(failureOf([&](Losable&) { asyncError(6); }, 60s),
            "NCCL failed in a collective: a rank is gone (NCCL_DEBUG=WARN tells more)");
  asyncError(0);
}

TEST(NcclTest, aRankLostDuringInitIsReported) {
  auto hosts = collective::simulatedRanks(2);
  ASSERT_TRUE(hosts);
  std::thread other([own = std::move((*hosts)[1])] { EXPECT_TRUE(own->allGather("")); });
  Losable* seen = nullptr;
  auto host = std::make_shared<Losable>(0, (*hosts)[0]);
  seen = host.get();
  std::thread loses([&] {
    std::this_thread::sleep_for(300ms);
    seen->lost = true;
  });
  EXPECT_EQ(errorOf(join(host)), "rank 1 is gone");
  loses.join();
  hosts->clear();
  host.reset();
  other.join();
}

TEST(NcclTest, missingLibrariesAreNamed) {
  EXPECT_EQ(errorOf(NcclLibrary::open({"libnone.so.1", ""})), "libnone.so.1 is not found");
  EXPECT_EQ(errorOf(NcclLibrary::open({"libm.so.6", ""})), "libm.so.6 has no cuInit: it is too old");
  auto library = NcclLibrary::open(kFake);
  ASSERT_TRUE(library) << library.error().message();
  EXPECT_EQ(errorOf((*library)->openNccl({"", "libnone.so.2"})), "libnone.so.2 is not found");
  EXPECT_EQ(errorOf(CudaGpu::open(*library, "00000000-0000-0000-0000-0000000000ff")),
            "none of the 4 devices of CUDA has the UUID 00000000-0000-0000-0000-0000000000ff");
  auto gpu = CudaGpu::open(*library, uuidOf(0));
  ASSERT_TRUE(gpu) << gpu.error().message();
  EXPECT_EQ(errorOf(CudaMemory::create(*gpu, dup(0), 0)),
            "CUDA failed to import memory of Vulkan: a fake error (1)");
  EXPECT_EQ(errorOf(CudaTimeline::create(*gpu, -1)),
            "CUDA failed to import a semaphore of Vulkan: a fake error (1)");
}

}  // namespace
}  // namespace tg
