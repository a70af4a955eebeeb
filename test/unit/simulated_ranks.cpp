// SPDX-License-Identifier: Apache-2.0
#include "test/unit/simulated_ranks.h"

#include <cstring>
#include <deque>
#include <future>
#include <map>
#include <mutex>
#include <tuple>

#include "runtime/collective/host_engine.h"

namespace tg::collective {

namespace {

/// Messages sent and not yet received.
struct Hub {
  std::mutex mutex;
  std::map<std::tuple<int, int, int>, std::deque<std::vector<std::byte>>> messages;  ///< by from, to, tag
};

class SimulatedTransport {
 public:
  SimulatedTransport(std::shared_ptr<Hub> hub, int rank, int ranks, bool mute)
      : hub_(std::move(hub)), mute_(mute) {
    table_ = {kTgTransportVersion,
              "simulation",
              this,
              rank,
              ranks,
              "this host",
              send,
              receive,
              done,
              error,
              close,
              abort};
  }
  TgTransport* table() { return &table_; }

 private:
  struct Request {
    int from, tag;
    void* bytes;  ///< null for a message that was sent
    int64_t count;
    bool arrived = false;
  };

  static SimulatedTransport& of(void* self) { return *static_cast<SimulatedTransport*>(self); }
  int64_t add(Request request) {
    requests_[++last_] = request;
    return last_;
  }
  static int64_t send(void* self, int to, int tag, const void* bytes, int64_t count) {
    SimulatedTransport& own = of(self);
    if (!own.mute_) {
      const auto* from = static_cast<const std::byte*>(bytes);
      std::lock_guard lock(own.hub_->mutex);
      own.hub_->messages[{own.table_.rank, to, tag}].emplace_back(from, from + count);
    }
    return own.add({0, tag, nullptr, count, false});
  }
  static int64_t receive(void* self, int from, int tag, void* bytes, int64_t count) {
    return of(self).add({from, tag, bytes, count, false});
  }
  static int done(void* self, int64_t number) {
    SimulatedTransport& own = of(self);
    const Request request = own.requests_.at(number);
    if (request.bytes && !request.arrived) {
      if (own.mute_) return 0;
      if (!own.fill(request.from, request.tag)) return -1;
      if (!own.requests_.at(number).arrived) return 0;
    }
    own.requests_.erase(number);
    return 1;
  }
  /// Delivers messages of a rank to its oldest receive requests. False: the sizes differ.
  bool fill(int from, int tag) {
    std::lock_guard lock(hub_->mutex);
    auto& queue = hub_->messages[{from, table_.rank, tag}];
    for (auto& [number, request] : requests_) {
      if (queue.empty()) break;
      if (!request.bytes || request.arrived || request.from != from || request.tag != tag) continue;
      if (static_cast<int64_t>(queue.front().size()) != request.count) return false;
      std::memcpy(request.bytes, queue.front().data(), queue.front().size());
      queue.pop_front();
      request.arrived = true;
    }
    return true;
  }
  static const char* error(void*) { return "a message of another size"; }
  static void close(void*) {}
  static void abort(void*, int) {}

  std::shared_ptr<Hub> hub_;
  bool mute_;
  TgTransport table_{};
  std::map<int64_t, Request> requests_;
  int64_t last_ = 0;
};

}  // namespace

Result<std::vector<std::shared_ptr<Engine>>> simulatedRanks(int ranks, double timeout, int mute) {
  auto hub = std::make_shared<Hub>();
  using Made = Result<std::unique_ptr<HostEngine>>;
  std::vector<std::future<Made>> opening;
  for (int rank = 0; rank < ranks; ++rank)
    opening.push_back(std::async(std::launch::async, [=]() -> Made {
      auto transport = std::make_shared<SimulatedTransport>(hub, rank, ranks, rank == mute);
      return HostEngine::create([transport]() -> Result<TgTransport*> { return transport->table(); },
                                timeout);
    }));
  std::vector<std::shared_ptr<Engine>> engines;
  Error failure;
  for (auto& each : opening) {
    Made made = each.get();
    if (made)
      engines.push_back(std::move(*made));
    else if (failure.empty())
      failure = made.takeError();
  }
  if (!failure.empty()) return failure;
  return engines;
}

}  // namespace tg::collective
