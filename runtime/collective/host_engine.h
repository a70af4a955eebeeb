// SPDX-License-Identifier: Apache-2.0
// Collectives in host memory. A thread of the engine exchanges messages through a transport and does the arithmetic.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include "runtime/collective/engine.h"
#include "runtime/collective/transport.h"
#include "runtime/collective/worker_pool.h"

namespace tg::collective {

/// Joins the job. Called on the engine's thread.
using OpenTransport = std::function<Result<TgTransport*>()>;

class HostEngine : public Engine {
 public:
  /// `timeout`: seconds without a heartbeat from a rank after which the job fails. Each engine's thread sends two a
  /// second whatever its rank computes, so only a stopped or dead process, or a broken link, is silent.
  static Result<std::unique_ptr<HostEngine>> create(OpenTransport open, double timeout);
  /// Waits for the other ranks' engines to end too, unless something has failed.
  ~HostEngine() override;
  HostEngine(const HostEngine&) = delete;
  HostEngine& operator=(const HostEngine&) = delete;

  int rank() const override { return rank_; }
  int ranks() const override { return ranks_; }
  std::string describe() const override;
  Result<int64_t> begin(const Task& task) override;
  Result<void> wait(int64_t ticket) override;
  Traffic traffic() const override;
  Result<std::vector<std::string>> allGather(const std::string& own) override;
  bool failed() const override;
  bool reportsFailure() const override;
  void abort(int code) override;

 private:
  using Clock = std::chrono::steady_clock;
  /// A task, or an all-gather of texts if `texts` is not null.
  struct Job {
    int64_t ticket = 0;
    Task task;
    std::vector<std::string>* texts = nullptr;
  };
  /// A message in flight.
  struct Message {
    int64_t request;
    int peer;
    bool incoming;
  };
  /// A task in flight: a reduce-scatter, then an all-gather of the results. A reduceScatter has no second phase, an
  /// allGather no first one. In shared memory, messages of one byte replace the data.
  struct ActiveTask {
    Job job;
    bool gathering = false;  ///< the second phase
    std::vector<Message> messages;
    /// This rank's shard from each other rank, in rank order, or a byte from each.
    std::vector<std::byte> received;
  };
  /// Another rank: its heartbeats, and whether it has left the job.
  struct Peer {
    int64_t sending = -1, receiving = -1;  ///< requests for heartbeats in flight
    char sent = 0, received = 0;           ///< heartbeats
    Clock::time_point last;                ///< when one was received
    bool left = false;                     ///< its last heartbeat said that it leaves
    std::string name;                      ///< for messages
  };

  HostEngine() = default;
  Result<int64_t> post(Job job);
  Result<void> join(const OpenTransport& open);
  void work(const OpenTransport& open);
  void serve();
  bool waitForJobs();
  Result<bool> startNext();
  Result<bool> advance();
  std::pair<std::byte*, int64_t> shard(const Task& task, int rank) const;
  std::byte* peerAddress(const Task& task, std::byte* own, int rank) const;
  void reserveReceived(ActiveTask& active, int64_t bytes);
  void startScatter(ActiveTask& active);
  void reduceReceived(ActiveTask& active);
  void reduceShared(const Task& task);
  void startGather(ActiveTask& active);
  void sendReady(ActiveTask& active, int tag);
  void finish(const Job& job);
  Result<void> gatherTexts(std::vector<std::string>& texts);
  std::vector<Message> exchange(int tag, const std::function<std::pair<const void*, int64_t>(int)>& toPeer,
                                const std::function<std::pair<void*, int64_t>(int)>& fromPeer);
  Result<void> waitAll(std::vector<Message> messages);
  Result<bool> progress(std::vector<Message>& messages);
  void pause(bool progressed);
  Result<void> heartbeat(char kind);
  Result<void> leave();
  Error lost(int peer, const std::string& what) const;

  double timeout_ = 0;
  // Used only by the engine's thread.
  TgTransport* transport_ = nullptr;
  std::vector<Peer> peers_;
  std::deque<ActiveTask> active_;              ///< in the order of their tickets
  std::vector<std::vector<std::byte>> spare_;  ///< receive buffers to reuse
  std::unique_ptr<WorkerPool> workers_;        ///< for shared memory; null until first used
  Clock::time_point lastHeartbeat_;            ///< sent
  Clock::time_point lastLook_;                 ///< when this rank last polled for heartbeats
  Clock::time_point lastProgress_;

  int rank_ = 0, ranks_ = 1;
  std::string name_;
  std::atomic<int> reporter_ = 0;  ///< the rank that prints a failure
  std::atomic<int> abortCode_ = -1;

  mutable std::mutex mutex_;  ///< guards the members below
  std::condition_variable changed_;
  std::deque<Job> jobs_;
  int64_t posted_ = 0, finished_ = 0;  ///< tickets
  bool open_ = false, closing_ = false, over_ = false;
  Error failure_;
  Traffic traffic_;
  std::thread thread_;
};

}  // namespace tg::collective
