// SPDX-License-Identifier: Apache-2.0
// An all-reduce of n elements over N ranks is a reduce-scatter and an all-gather, each by direct messages: rank r
// receives the r-th of N shards from all others, reduces it, and sends the result to all. Every rank sends and receives
// 2(N-1)/N of the bytes, the minimum, and each element is reduced once, in rank order: all ranks get the same bits in
// every run.
// A large task is cut into chunks, of which a few are in flight at once, so that one is transferred while another is
// reduced. All ranks start chunks, and their all-gather, in ticket order: messages carry no ticket and match by order.
// In shared memory nothing is copied: rank r reads its shard where each rank has it and writes the result there.
// Messages of one byte say that shards, and then results, are ready.
#include "runtime/collective/host_engine.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "ir/stopwatch.h"
#include "ir/text.h"
#include "ir/wake.h"
#include "runtime/collective/reduce.h"
#include "runtime/collective/shared_memory.h"

namespace tg::collective {

namespace {

enum Tag : int { tagScatter = 1, tagGather = 2, tagSizes = 3, tagTexts = 4, tagHeartbeat = 5 };
constexpr char kAlive = 'a', kLeaving = 'l';
constexpr auto kHeartbeatEvery = std::chrono::milliseconds(500);
/// How long messages may still arrive after a rank's last heartbeat.
constexpr auto kLastMessages = std::chrono::seconds(1);
/// The number of elements in a chunk: 4 MiB of f32.
constexpr int64_t kChunk = int64_t(1) << 20;
constexpr size_t kMaxInFlight = 4;
/// Many transports make progress only while polled, 32 KiB at a time. The thread polls without a pause until nothing
/// has progressed for kSpin, and then every kPause.
constexpr auto kSpin = std::chrono::milliseconds(2);
constexpr auto kPause = std::chrono::microseconds(50);

/// More threads do not reduce faster: memory bandwidth is the limit.
constexpr int kMostHelpers = 6;

/// Threads besides the engine's, when all ranks share a host. One core of each rank is left to its caller.
int helpersOf(int ranks) {
  cpu_set_t cores;
  if (sched_getaffinity(0, sizeof cores, &cores) != 0) return 0;
  return std::clamp(CPU_COUNT(&cores) / ranks - 2, 0, kMostHelpers);
}

}  // namespace

Result<std::unique_ptr<HostEngine>> HostEngine::create(OpenTransport open, double timeout) {
  std::unique_ptr<HostEngine> engine(new HostEngine);
  engine->timeout_ = timeout;
  engine->thread_ = std::thread([raw = engine.get(), open = std::move(open)] { raw->work(open); });
  {
    std::unique_lock lock(engine->mutex_);
    engine->changed_.wait(lock, [&] { return engine->open_ || engine->over_; });
    if (!engine->open_) return engine->failure_;
  }
  return engine;
}

HostEngine::~HostEngine() {
  changeAndWake(mutex_, changed_, [&] { closing_ = true; });
  if (thread_.joinable()) thread_.join();
}

std::string HostEngine::describe() const { return fmt::format("{} by {}", countText(ranks_, "rank"), name_); }

bool HostEngine::failed() const {
  std::lock_guard lock(mutex_);
  return !failure_.empty();
}

bool HostEngine::reportsFailure() const { return rank_ == reporter_; }

Result<int64_t> HostEngine::post(Job job) {
  std::lock_guard lock(mutex_);
  if (!failure_.empty()) return failure_;
  job.ticket = ++posted_;
  jobs_.push_back(std::move(job));
  changed_.notify_all();
  return posted_;
}

Result<int64_t> HostEngine::begin(const Task& task) {
  if (task.kind != Kind::allReduce && task.count % ranks_ != 0)
    return fail("{} elements cannot be divided into equal shards for {} ranks", task.count, ranks_);
  Task chunk = task;
  // The shards of other kinds divide the whole range, so only an allReduce can be cut into chunks.
  const bool cut = task.kind == Kind::allReduce;
  for (int64_t left = task.count - kChunk; cut && left > 0; left -= kChunk) {
    chunk.count = kChunk;
    TG_CHECK(post({.task = chunk, .texts = nullptr}));
    chunk.elements = static_cast<std::byte*>(chunk.elements) + kChunk * sizeOf(task.element);
    chunk.count = left;
  }
  return post({.task = std::move(chunk), .texts = nullptr});
}

Traffic HostEngine::traffic() const {
  std::lock_guard lock(mutex_);
  return traffic_;
}

Result<void> HostEngine::wait(int64_t ticket) {
  std::unique_lock lock(mutex_);
  const auto begin = Clock::now();
  changed_.wait(lock, [&] { return finished_ >= ticket || over_; });
  traffic_.waited += inSeconds(Clock::now() - begin);
  if (finished_ >= ticket) return {};
  return failure_;
}

Result<std::vector<std::string>> HostEngine::allGather(const std::string& own) {
  std::vector<std::string> texts(static_cast<size_t>(ranks_));
  texts[static_cast<size_t>(rank_)] = own;
  TG_TRY(const int64_t ticket, post({.task = {}, .texts = &texts}));
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return finished_ >= ticket || over_; });
  if (finished_ < ticket) return failure_;
  return texts;
}

void HostEngine::abort(int code) {
  changeAndWake(mutex_, changed_, [&] { abortCode_ = code; });
  // With most transports, this call ends the process.
  if (thread_.joinable()) thread_.join();
}

/// Joins the job and collects each rank's name for error messages.
Result<void> HostEngine::join(const OpenTransport& open) {
  TG_TRY(transport_, open());
  rank_ = transport_->rank;
  ranks_ = transport_->ranks;
  name_ = transport_->name;
  peers_.resize(static_cast<size_t>(ranks_));
  lastLook_ = Clock::now();
  std::vector<std::string> names(static_cast<size_t>(ranks_));
  for (int peer = 0; peer < ranks_; ++peer) {
    peers_[static_cast<size_t>(peer)].last = Clock::now();
    peers_[static_cast<size_t>(peer)].name = fmt::format("rank {}", peer);
  }
  names[static_cast<size_t>(rank_)] =
      fmt::format("rank {} (process {} on {})", rank_, getpid(), transport_->host);
  TG_CHECK(gatherTexts(names));
  for (size_t peer = 0; peer < names.size(); ++peer) peers_[peer].name = names[peer];
  return {};
}

/// The engine's thread.
void HostEngine::work(const OpenTransport& open) {
  auto joined = join(open);
  changeAndWake(mutex_, changed_, [&] {
    open_ = static_cast<bool>(joined);
    over_ = !open_;
    if (!joined) failure_ = joined.takeError();
  });
  if (over_) return;
  serve();
  if (abortCode_ >= 0) transport_->abort(transport_->self, abortCode_);
  changeAndWake(mutex_, changed_, [&] { over_ = true; });
}

void HostEngine::serve() {
  Result<void> outcome;
  while (outcome && abortCode_ < 0 && waitForJobs()) {
    auto step = [&]() -> Result<void> {
      const auto begin = Clock::now();
      const bool inFlight = !active_.empty();
      TG_TRY(const bool started, startNext());
      TG_TRY(const bool advanced, advance());
      TG_CHECK(heartbeat(kAlive));
      pause(started || advanced);
      if (!inFlight) return {};
      std::lock_guard lock(mutex_);
      traffic_.inFlight += inSeconds(Clock::now() - begin);
      return {};
    };
    outcome = step();
  }
  if (outcome && abortCode_ < 0) outcome = leave();
  if (outcome || abortCode_ >= 0) return;
  changeAndWake(mutex_, changed_, [&] {
    failure_ = outcome.takeError();
    over_ = true;
  });
  // Wait here until the caller aborts the job or destroys the engine.
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return closing_ || abortCode_ >= 0; });
}

/// Waits up to 50 ms for a job. False if the engine is closing and no job is left.
bool HostEngine::waitForJobs() {
  std::unique_lock lock(mutex_);
  if (!jobs_.empty() || !active_.empty()) return true;
  if (!closing_) changed_.wait_for(lock, std::chrono::milliseconds(50));
  lastProgress_ = Clock::now();
  return !jobs_.empty() || !closing_;
}

/// Starts the oldest job if it is ready and fewer than kMaxInFlight are in flight. Returns whether it did.
Result<bool> HostEngine::startNext() {
  Job job;
  {
    std::lock_guard lock(mutex_);
    if (jobs_.empty() || active_.size() >= kMaxInFlight) return false;
    if (jobs_.front().texts && !active_.empty()) return false;
    job = jobs_.front();
  }
  if (job.task.ready && !job.task.ready()) return false;
  {
    std::lock_guard lock(mutex_);
    jobs_.pop_front();
    Interval* interval = job.task.interval;
    if (interval && interval->begin == Clock::time_point()) interval->begin = Clock::now();
  }
  if (job.texts) {
    TG_CHECK(gatherTexts(*job.texts));
    finish(job);
    return true;
  }
  ActiveTask& active = active_.emplace_back();
  active.job = std::move(job);
  startScatter(active);
  return true;
}

/// Polls the tasks in flight. Returns whether any progressed.
Result<bool> HostEngine::advance() {
  bool progressed = false, mayGather = true;
  for (ActiveTask& active : active_) {
    TG_TRY(const bool some, progress(active.messages));
    progressed = progressed || some;
    // Start all-gathers in ticket order.
    if (!active.gathering && active.messages.empty() && mayGather) startGather(active);
    mayGather = mayGather && active.gathering;
  }
  while (!active_.empty() && active_.front().gathering && active_.front().messages.empty()) {
    finish(active_.front().job);
    // An allGather has no receive buffer.
    if (!active_.front().received.empty()) spare_.push_back(std::move(active_.front().received));
    active_.pop_front();
    progressed = true;
  }
  return progressed;
}

/// The address of a rank's shard of a task, and its size in bytes.
std::pair<std::byte*, int64_t> HostEngine::shard(const Task& task, int rank) const {
  const int64_t first = task.count * rank / ranks_, end = task.count * (rank + 1) / ranks_;
  const int64_t size = sizeOf(task.element);
  return {static_cast<std::byte*>(task.elements) + first * size, (end - first) * size};
}

/// The address in another rank's shared memory that corresponds to `own` in this rank's.
std::byte* HostEngine::peerAddress(const Task& task, std::byte* own, int rank) const {
  return task.shared->of(rank) + (own - task.shared->of(rank_));
}

void HostEngine::reserveReceived(ActiveTask& active, int64_t bytes) {
  if (active.received.empty() && !spare_.empty()) {
    active.received = std::move(spare_.back());
    spare_.pop_back();
  }
  if (const auto all = static_cast<size_t>(bytes); active.received.size() < all) active.received.resize(all);
}

/// Sends each rank its shard and receives this rank's from all.
void HostEngine::startScatter(ActiveTask& active) {
  const Task& task = active.job.task;
  if (task.shared) return sendReady(active, tagScatter);
  if (task.kind == Kind::allGather) return;
  const int64_t bytes = shard(task, rank_).second;
  reserveReceived(active, bytes * (ranks_ - 1));
  active.messages = exchange(
      tagScatter, [&](int peer) -> std::pair<const void*, int64_t> { return shard(task, peer); },
      [&](int peer) -> std::pair<void*, int64_t> {
        return {active.received.data() + bytes * (peer < rank_ ? peer : peer - 1), bytes};
      });
}

void HostEngine::reduceReceived(ActiveTask& active) {
  const Task& task = active.job.task;
  if (task.shared) return reduceShared(task);
  if (task.kind == Kind::allGather) return;
  const auto [own, bytes] = shard(task, rank_);
  std::vector<const std::byte*> inputs;
  for (int rank = 0; rank < ranks_; ++rank)
    inputs.push_back(rank == rank_ ? own : active.received.data() + bytes * (rank < rank_ ? rank : rank - 1));
  reduce(task.element, task.reduction, inputs, bytes / sizeOf(task.element), {own});
}

/// Reduces this rank's shard and writes the result to the ranks that want it. No other rank accesses this shard until
/// all have sent that their results are ready.
void HostEngine::reduceShared(const Task& task) {
  if (!workers_) workers_ = std::make_unique<WorkerPool>(helpersOf(ranks_));
  const auto [own, bytes] = shard(task, rank_);
  const int64_t size = sizeOf(task.element), count = bytes / size;
  workers_->run([&, own = own](int index) {
    const int64_t first = count * index / workers_->threads(),
                  end = count * (index + 1) / workers_->threads();
    std::byte* mine = own + first * size;
    std::vector<const std::byte*> inputs;
    std::vector<std::byte*> outputs;
    for (int rank = 0; rank < ranks_; ++rank) {
      std::byte* its = peerAddress(task, mine, rank);
      if (task.kind != Kind::allGather) inputs.push_back(its);
      if (rank == rank_ ? task.kind != Kind::allGather : task.kind != Kind::reduceScatter)
        outputs.push_back(its);
    }
    if (task.kind == Kind::allGather) inputs.push_back(mine);
    reduce(task.element, task.kind == Kind::allGather ? Reduction::same : task.reduction, inputs, end - first,
           outputs);
  });
}

/// Reduces this rank's shard and sends the result to all.
void HostEngine::startGather(ActiveTask& active) {
  const Task& task = active.job.task;
  reduceReceived(active);
  active.gathering = true;
  if (task.shared) return sendReady(active, tagGather);
  if (task.kind == Kind::reduceScatter) return;
  active.messages = exchange(
      tagGather, [&](int) -> std::pair<const void*, int64_t> { return shard(task, rank_); },
      [&](int peer) -> std::pair<void*, int64_t> { return shard(task, peer); });
}

/// Sends all ranks one byte, which says that this rank's shared memory is ready, and receives theirs.
void HostEngine::sendReady(ActiveTask& active, int tag) {
  static constexpr char kReady = 'w';
  reserveReceived(active, ranks_);
  active.messages = exchange(
      tag,
      [](int) -> std::pair<const void*, int64_t> {
        return {&kReady, 1};
      },
      [&](int peer) -> std::pair<void*, int64_t> {
        return {active.received.data() + peer, 1};
      });
}

void HostEngine::finish(const Job& job) {
  changeAndWake(mutex_, changed_, [&] {
    traffic_.bytes += sentBytes(job.task.kind, job.task.count * sizeOf(job.task.element), ranks_);
    if (job.task.interval) job.task.interval->end = Clock::now();
    finished_ = job.ticket;
  });
}

/// Exchanges texts: fills in those of the other ranks.
Result<void> HostEngine::gatherTexts(std::vector<std::string>& texts) {
  std::vector<int64_t> sizes;
  for (const std::string& text : texts) sizes.push_back(static_cast<int64_t>(text.size()));
  const auto own = static_cast<size_t>(rank_);
  TG_CHECK(waitAll(exchange(
      tagSizes,
      [&](int) -> std::pair<const void*, int64_t> {
        return {&sizes[own], sizeof sizes[own]};
      },
      [&](int peer) -> std::pair<void*, int64_t> {
        return {&sizes[static_cast<size_t>(peer)], sizeof(int64_t)};
      })));
  for (size_t rank = 0; rank < texts.size(); ++rank) texts[rank].resize(static_cast<size_t>(sizes[rank]));
  return waitAll(exchange(
      tagTexts,
      [&](int) -> std::pair<const void*, int64_t> {
        return {texts[own].data(), sizes[own]};
      },
      [&](int peer) -> std::pair<void*, int64_t> {
        return {texts[static_cast<size_t>(peer)].data(), sizes[static_cast<size_t>(peer)]};
      }));
}

/// Starts a send to and a receive from each peer.
std::vector<HostEngine::Message>
HostEngine::exchange(int tag, const std::function<std::pair<const void*, int64_t>(int)>& toPeer,
                     const std::function<std::pair<void*, int64_t>(int)>& fromPeer) {
  std::vector<Message> messages;
  // Each rank starts with its successor, so that not all send to one rank at once.
  for (int step = 1; step < ranks_; ++step) {
    const int peer = (rank_ + step) % ranks_;
    if (const auto [bytes, count] = fromPeer(peer); count > 0)
      messages.push_back({transport_->receive(transport_->self, peer, tag, bytes, count), peer, true});
    if (const auto [bytes, count] = toPeer(peer); count > 0)
      messages.push_back({transport_->send(transport_->self, peer, tag, bytes, count), peer, false});
  }
  return messages;
}

Result<void> HostEngine::waitAll(std::vector<Message> messages) {
  while (!messages.empty()) {
    TG_TRY(const bool progressed, progress(messages));
    TG_CHECK(heartbeat(kAlive));
    if (!messages.empty()) pause(progressed);
  }
  return {};
}

/// Removes the messages that are complete. Returns whether there were any.
Result<bool> HostEngine::progress(std::vector<Message>& messages) {
  const size_t before = messages.size();
  Result<void> good;
  std::erase_if(messages, [&](const Message& message) {
    const int state = message.request < 0 ? -1 : transport_->done(transport_->self, message.request);
    if (state < 0 && good)
      good = lost(message.peer, fmt::format("cannot be reached: {}", transport_->error(transport_->self)));
    return state == 1;
  });
  TG_CHECK(std::move(good));
  // Messages that the rank sent before it left may still be in flight.
  for (const Message& message : messages)
    if (const Peer& peer = peers_[static_cast<size_t>(message.peer)];
        message.incoming && peer.left && Clock::now() - peer.last > kLastMessages)
      return lost(message.peer, "has ended before the others");
  if (abortCode_ >= 0) return fail("the job is aborted");
  return messages.size() < before;
}

/// Waits until the next poll: not at all for a while after progress, then for kPause.
void HostEngine::pause(bool progressed) {
  const auto now = Clock::now();
  if (progressed) lastProgress_ = now;
  if (now - lastProgress_ < kSpin)
    std::this_thread::yield();
  else
    std::this_thread::sleep_for(kPause);
}

/// Sends heartbeats when due and receives those of others. An error names a rank whose heartbeats time out.
Result<void> HostEngine::heartbeat(char kind) {
  const auto now = Clock::now();
  const bool due = now - lastHeartbeat_ >= kHeartbeatEvery;
  if (due) lastHeartbeat_ = now;
  // If this rank was stopped itself, say because its machine was suspended, it could not receive heartbeats. That
  // time does not count against the other ranks.
  const auto away = now - std::exchange(lastLook_, now);
  if (inSeconds(away) > timeout_ / 2)
    for (Peer& peer : peers_) peer.last += away;
  for (int rank = 0; rank < ranks_; ++rank) {
    if (rank == rank_) continue;
    Peer& peer = peers_[static_cast<size_t>(rank)];
    if (peer.sending >= 0 && transport_->done(transport_->self, peer.sending) != 0) peer.sending = -1;
    if ((due || kind != kAlive) && peer.sending < 0 && peer.sent != kLeaving) {
      peer.sent = kind;
      peer.sending = transport_->send(transport_->self, rank, tagHeartbeat, &peer.sent, 1);
    }
    if (peer.left) continue;
    if (peer.receiving < 0)
      peer.receiving = transport_->receive(transport_->self, rank, tagHeartbeat, &peer.received, 1);
    if (peer.receiving >= 0 && transport_->done(transport_->self, peer.receiving) == 1) {
      peer.receiving = -1;
      peer.last = now;
      peer.left = peer.received == kLeaving;
    }
    if (!peer.left && inSeconds(now - peer.last) > timeout_)
      return lost(rank, fmt::format("has sent no heartbeat for {:.0f} s: it is stopped, dead, or unreachable",
                                    timeout_));
  }
  return {};
}

/// A barrier: tells the others that this rank leaves, and waits until they leave too.
Result<void> HostEngine::leave() {
  auto pending = [&](int rank) {
    const Peer& peer = peers_[static_cast<size_t>(rank)];
    return rank != rank_ && (!peer.left || peer.sent != kLeaving || peer.sending >= 0);
  };
  for (bool all = false; !all && abortCode_ < 0;) {
    TG_CHECK(heartbeat(kLeaving));
    all = true;
    for (int rank = 0; rank < ranks_; ++rank) all = all && !pending(rank);
    if (!all) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  if (abortCode_ < 0) transport_->close(transport_->self);
  return {};
}

/// The error for a lost rank, after which the job cannot continue.
Error HostEngine::lost(int peer, const std::string& what) const {
  // The lowest rank that is left.
  const_cast<HostEngine*>(this)->reporter_ = peer == 0 ? 1 : 0;
  return fail("{} {}", peers_[static_cast<size_t>(peer)].name, what);
}

}  // namespace tg::collective
