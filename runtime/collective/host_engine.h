// SPDX-License-Identifier: Apache-2.0
// An engine over host memory: a thread of its own moves messages by a transport and adds up what comes.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include "runtime/collective/crew.h"
#include "runtime/collective/engine.h"
#include "runtime/collective/transport.h"

namespace tg::collective {

/// Joins the job, or says why not. Called on the engine's thread.
using OpenTransport = std::function<Result<TgTransport*>()>;

class HostEngine : public Engine {
 public:
  /// `patience`: seconds without a sign of life from a rank after which the job is at an end. Each rank's thread gives
  /// one twice a second whatever the rank is busy with, so only processes that are stopped or gone are silent.
  static Result<std::unique_ptr<HostEngine>> create(OpenTransport open, double patience);
  /// Waits for the other ranks to end theirs, unless something has failed.
  ~HostEngine() override;
  HostEngine(const HostEngine&) = delete;
  HostEngine& operator=(const HostEngine&) = delete;

  int rank() const override { return rank_; }
  int ranks() const override { return ranks_; }
  std::string describe() const override;
  Result<int64_t> begin(const Task& task) override;
  Result<void> wait(int64_t ticket) override;
  Traffic traffic() const override;
  Result<std::vector<std::string>> gather(const std::string& own) override;
  bool failed() const override;
  bool speaks() const override;
  void abort(int code) override;

 private:
  using Clock = std::chrono::steady_clock;
  /// A task, or a gathering of texts where `gathered` is not null.
  struct Job {
    int64_t ticket = 0;
    Task task;
    std::vector<std::string>* gathered = nullptr;
  };
  /// A message under way.
  struct Message {
    int64_t request;
    int peer;
    bool comes;
  };
  /// A task that has begun: parts come from all ranks, then sums do. What is scattered keeps its sums, and what is
  /// gathered is sums from the start. Of memory that all see, word that they are there comes in their place.
  struct Reducing {
    Job job;
    bool sums = false;
    std::vector<Message> messages;
    std::vector<std::byte> come;  ///< the parts of the other ranks, in their order, or a byte of each
  };
  struct Peer {
    int64_t sent = -1, awaited = -1;  ///< requests of signs of life
    char sign = 0, heard = 0;
    Clock::time_point last;
    bool left = false;  ///< it said that it ends
    std::string name;   ///< for messages
  };

  HostEngine() = default;
  Result<int64_t> post(Job job);
  Result<void> join(const OpenTransport& open);
  void work(const OpenTransport& open);
  void serve();
  bool awaitJobs();
  Result<bool> beginNext();
  Result<bool> advance();
  std::pair<std::byte*, int64_t> part(const Task& task, int rank) const;
  std::byte* seen(const Task& task, std::byte* own, int rank) const;
  void makeRoom(Reducing& reducing, int64_t bytes);
  void sendParts(Reducing& reducing);
  void addParts(Reducing& reducing);
  void addShared(const Task& task);
  void sendSums(Reducing& reducing);
  void sendWord(Reducing& reducing, int tag);
  void finish(const Job& job);
  Result<void> meet(std::vector<std::string>& texts);
  std::vector<Message> exchange(int tag, const std::function<std::pair<const void*, int64_t>(int)>& toPeer,
                                const std::function<std::pair<void*, int64_t>(int)>& fromPeer);
  Result<void> drive(std::vector<Message> messages);
  Result<bool> progress(std::vector<Message>& messages);
  void rest(bool moved);
  Result<void> signOfLife(char sign);
  Result<void> farewell();
  Error lost(int peer, const std::string& what) const;

  double patience_ = 0;
  TgTransport* transport_ = nullptr;           ///< the thread's
  std::vector<Peer> peers_;                    ///< the thread's
  std::deque<Reducing> reducing_;              ///< the thread's, in the order of their tickets
  std::vector<std::vector<std::byte>> spare_;  ///< the thread's: room for parts
  std::unique_ptr<Crew> crew_;                 ///< the thread's, of what lies in memory that all see
  Clock::time_point signed_;                   ///< when signs of life were sent last
  Clock::time_point moved_;                    ///< when something last happened
  int rank_ = 0, ranks_ = 1;
  std::string name_;
  std::atomic<int> speaker_ = 0;
  std::atomic<int> abortCode_ = -1;

  mutable std::mutex mutex_;  ///< of what follows
  std::condition_variable changed_;
  std::deque<Job> jobs_;
  int64_t posted_ = 0, finished_ = 0;  ///< tickets
  bool open_ = false, closing_ = false, over_ = false;
  Error failure_;
  Traffic traffic_;
  std::thread thread_;
};

}  // namespace tg::collective
