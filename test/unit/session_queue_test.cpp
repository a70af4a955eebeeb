// SPDX-License-Identifier: Apache-2.0
// Calls from several threads: their order, and what becomes of those that wait when a session ends.
#include "test/unit/session_support.h"

#include <atomic>
#include <chrono>
#include <latch>
#include <span>
#include <stdexcept>
#include <thread>
#include <utility>

namespace tg {
namespace {

void waitFor(const std::function<bool()>& condition) {
  while (!condition()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

std::unique_ptr<Session> onInterpreter(SessionOptions options = interpOptions()) {
  auto session = Session::create(model(), std::move(options));
  EXPECT_TRUE(session) << session.error().str();
  return session ? std::move(*session) : nullptr;
}

/// Options of a session that trains nothing and computes with another's parameters.
SessionOptions sharing(Session& owner) {
  SessionOptions options = interpOptions();
  options.trainPipeline = "";
  options.sharedParams = *owner.params();
  return options;
}

TEST(CallQueueTest, servesInTheOrderOfTheCalls) {
  CallQueue queue;
  std::vector<int> order;
  std::vector<std::thread> threads;
  {
    auto held = queue.enter();
    ASSERT_TRUE(held);
    for (int i = 0; i < 8; ++i) {
      threads.emplace_back([&, i] {
        auto turn = queue.enter();
        ASSERT_TRUE(turn);
        order.push_back(i);
      });
      waitFor([&] { return queue.waiting() == static_cast<size_t>(i) + 1; });
    }
    EXPECT_TRUE(order.empty());
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(order, (std::vector<int>{0, 1, 2, 3, 4, 5, 6, 7}));
}

TEST(CallQueueTest, whoeverReplacesGoesFirst) {
  CallQueue queue;
  std::atomic<int> aborted = 0;
  std::string why;
  std::vector<std::thread> threads;
  {
    auto held = queue.enter();
    for (size_t i = 0; i < 3; ++i) {
      threads.emplace_back([&] { aborted += !queue.enter(); });
      waitFor([&] { return queue.waiting() == i + 1; });
    }
    threads.emplace_back([&] { EXPECT_TRUE(queue.enterInstead("replaced")); });
    waitFor([&] { return aborted == 3; });
  }
  for (std::thread& thread : threads) thread.join();
  queue.close("closed");
  auto late = queue.enter();
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().message(), "closed");
}

TEST_F(SessionTest, callsFromThreadsAreServedInTurn) {
  auto session = open(options()), alone = open(options());
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) threads.emplace_back([&] { lossAfter(*session, 5); });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(session->steps(), 20);
  lossAfter(*alone, 20);
  EXPECT_TRUE(sameBits(*session->downloadParams(), *alone->downloadParams()));
}

TEST(SessionQueueTest, everyKindOfCallMayComeFromAnyThread) {
  auto session = onInterpreter(), alone = onInterpreter();
  auto reader = onInterpreter(sharing(*session));
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) threads.emplace_back([&] { lossAfter(*session, 4); });
  threads.emplace_back([&] {
    for (int i = 0; i < 5; ++i) {
      EXPECT_TRUE(session->downloadParams());
      EXPECT_GE(session->steps(), 0);
      EXPECT_EQ(session->info().device, "interp");
      EXPECT_EQ(session->paramNames().size(), 3u);
      EXPECT_FALSE(session->step({}));
    }
  });
  threads.emplace_back([&] {
    for (int i = 0; i < 5; ++i) {
      EXPECT_TRUE(reader->run("predict", {{"x", ramp({2, 3}, 0, 1)}}));
      EXPECT_TRUE(reader->downloadParams());
    }
  });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(session->steps(), 12);
  lossAfter(*alone, 12);
  EXPECT_TRUE(sameBits(*session->downloadParams(), *alone->downloadParams()));
}

TEST(SessionQueueTest, failedCallsLetTheNextOnesRun) {
  auto session = onInterpreter();
  auto failed = session->step({});
  EXPECT_EQ(failed.status(), CallStatus::failed);
  auto next = session->step(trainInputs());
  EXPECT_EQ(next.status(), CallStatus::completed);
  EXPECT_EQ(next->step, 1);
}

TEST(SessionQueueTest, aCallFromInsideACallFails) {
  const std::string inside = "the session is called from inside one of its own calls";
  auto session = onInterpreter();
  auto written = session->writeTensors(ItemKind::param, session->tensors(ItemKind::param));
  EXPECT_EQ(written.status(), CallStatus::failed);
  EXPECT_EQ(messageOf(written).substr(0, inside.size()), inside);
  std::string why;
  ASSERT_TRUE(session->setLearningRate([&](int64_t) {
    why = messageOf(session->downloadParams());
    EXPECT_EQ(messageOf(session->replaceModule(model())), why);
    return 0.5;
  }));
  EXPECT_TRUE(session->step(trainInputs()));
  EXPECT_EQ(why.substr(0, inside.size()), inside);
  auto copy = session->copyTensors();
  ASSERT_TRUE(copy);
  EXPECT_TRUE(session->writeTensors(ItemKind::param, copy->params));
}

TEST(SessionQueueTest, aCallMayCloseItsSession) {
  auto session = onInterpreter();
  ASSERT_TRUE(session->setLearningRate([&](int64_t) {
    session->close();
    return 0.5;
  }));
  EXPECT_TRUE(session->step(trainInputs())) << "the running call ends";
  EXPECT_EQ(messageOf(session->step(trainInputs())), "the session is closed");
  session->close();
}

TEST(SessionQueueTest, aCallMayReadFromASessionItSharesMemoryWith) {
  auto session = onInterpreter();
  auto reader = onInterpreter(sharing(*session));
  const NamedArrays before = *session->downloadParams();
  EXPECT_TRUE(reader->writeTensors(ItemKind::param, session->tensors(ItemKind::param)));
  EXPECT_TRUE(sameBits(*session->downloadParams(), before));
}

TEST(SessionQueueTest, twoSessionsMayWriteFromEachOther) {
  auto one = onInterpreter(interpOptions(1)), other = onInterpreter(interpOptions(2));
  const NamedArrays before = *one->downloadParams();
  // Each call has begun before either reads.
  std::latch begun(2);
  auto writes = [&](Session& to, Session& from) {
    TensorSource source = from.tensors(ItemKind::param);
    source.read = [&, read = source.read, first = true](size_t tensor, int64_t at,
                                                        std::span<std::byte> out) mutable {
      if (std::exchange(first, false)) begun.arrive_and_wait();
      return read(tensor, at, out);
    };
    auto written = to.writeTensors(ItemKind::param, source);
    EXPECT_TRUE(written) << written.error().str();
  };
  std::thread back([&] { writes(*other, *one); });
  writes(*one, *other);
  back.join();
  EXPECT_TRUE(one->step(trainInputs()));
  EXPECT_TRUE(other->writeTensors(ItemKind::param, one->tensors(ItemKind::param)));
  EXPECT_TRUE(sameBits(*one->downloadParams(), *other->downloadParams()));
  EXPECT_FALSE(sameBits(*one->downloadParams(), before));
}

TEST(SessionQueueTest, aCallMayReadWhatWaitsForItsMemory) {
  auto session = onInterpreter();
  auto reader = onInterpreter(sharing(*session));
  TensorSource source = session->tensors(ItemKind::param);
  source.read = [&, read = source.read](size_t tensor, int64_t at, std::span<std::byte> out) {
    std::thread([&] { EXPECT_TRUE(session->step(trainInputs())); }).join();
    return read(tensor, at, out);
  };
  auto written = reader->writeTensors(ItemKind::param, source);
  EXPECT_TRUE(written) << written.error().str();
  EXPECT_EQ(session->steps(), 3);
}

TEST(SessionQueueTest, onlyReadersComeWhileASourceIsRead) {
  auto session = onInterpreter();
  TensorSource source = session->tensors(ItemKind::param);
  std::thread steps;
  source.read = [&, steps = &steps](size_t, int64_t, std::span<std::byte> out) -> Result<void> {
    if (!steps->joinable()) {
      *steps = std::thread([&] { EXPECT_TRUE(session->step(trainInputs())); });
      waitFor([&] { return session->waitingCalls() == 1; });
      std::thread([&] { EXPECT_TRUE(readAll(session->tensors(ItemKind::state))); }).join();
    }
    EXPECT_EQ(session->steps(), 0);
    std::fill(out.begin(), out.end(), std::byte{0});
    return {};
  };
  EXPECT_TRUE(session->writeTensors(ItemKind::param, source));
  steps.join();
  EXPECT_EQ(session->steps(), 1);
}

TEST(SessionQueueTest, aSourceThatThrowsLeavesTheSessionAtWork) {
  auto session = onInterpreter();
  TensorSource source = session->tensors(ItemKind::param);
  source.read = [](size_t, int64_t, std::span<std::byte>) -> Result<void> {
    throw std::runtime_error("no piece");
  };
  EXPECT_THROW((void)session->writeTensors(ItemKind::param, source), std::runtime_error);
  source.read = {};
  EXPECT_EQ(messageOf(session->writeTensors(ItemKind::param, source)),
            "the function that reads @w1 is empty");
  EXPECT_EQ(messageOf(readAll(source)), "the function that reads @w1 is empty");
  EXPECT_TRUE(session->step(trainInputs()));
}

TEST(SessionQueueTest, aRateThatThrowsFailsItsStep) {
  auto session = onInterpreter();
  ASSERT_TRUE(session->setLearningRate([](int64_t) -> double { throw std::runtime_error("no rate"); }));
  EXPECT_EQ(messageOf(session->step(trainInputs())),
            "the learning rate a function threw at its step 1: no rate");
  EXPECT_EQ(session->steps(), 0);
  ASSERT_TRUE(session->setLearningRate(0.5));
  EXPECT_TRUE(session->step(trainInputs()));
}

/// A session whose next call of @train stays in its turn until `release`: it asks the learning rate for a
/// number, and the function that gives it waits.
class HeldSession : public ::testing::Test {
 protected:
  void SetUp() override {
    session_ = onInterpreter();
    ASSERT_TRUE(session_->setLearningRate([this](int64_t) {
      entered_.count_down();
      release_.wait();
      return 0.01;
    }));
    running_ = std::thread([this] { held_ = session_->step(trainInputs()).status(); });
    entered_.wait();
    waiting_ = std::thread([this] {
      auto out = session_->step(trainInputs());
      waited_ = out.status();
      if (!out) why_ = out.error().message();
    });
    waitFor([this] { return session_->waitingCalls() == 1; });
  }
  void TearDown() override {
    for (std::thread* thread : {&running_, &waiting_})
      if (thread->joinable()) thread->join();
  }

  std::unique_ptr<Session> session_;
  std::latch entered_{1}, release_{1};
  std::thread running_, waiting_;
  CallStatus held_ = CallStatus::failed, waited_ = CallStatus::failed;
  std::string why_;
};

TEST_F(HeldSession, closingAbortsWhatWaits) {
  std::thread closing([this] { session_->close(); });
  waiting_.join();
  release_.count_down();
  closing.join();
  running_.join();
  EXPECT_EQ(held_, CallStatus::completed);
  EXPECT_EQ(waited_, CallStatus::aborted);
  EXPECT_EQ(why_, "the session is closed");
  auto late = session_->downloadParams();
  EXPECT_EQ(late.status(), CallStatus::aborted);
  EXPECT_EQ(session_->replaceModule(model()).status(), CallStatus::aborted);
  EXPECT_EQ(session_->module(), nullptr);
  session_->close();
}

TEST_F(HeldSession, replacingAbortsWhatWaits) {
  CallStatus replaced = CallStatus::failed;
  std::thread replacing([&] { replaced = session_->replaceModule(model()).status(); });
  waiting_.join();
  release_.count_down();
  replacing.join();
  running_.join();
  EXPECT_EQ(held_, CallStatus::completed);
  EXPECT_EQ(waited_, CallStatus::aborted);
  EXPECT_EQ(why_, "the session was given another module before the call's turn");
  EXPECT_EQ(replaced, CallStatus::completed);
  EXPECT_EQ(session_->steps(), 0);
  EXPECT_TRUE(session_->step(trainInputs()));
}

}  // namespace
}  // namespace tg
