// SPDX-License-Identifier: Apache-2.0
// A reduction of n elements by N ranks: rank r adds up the r-th of N parts, which all others send it, and sends
// the result to all. Every rank sends and receives 2(N-1)/N of the bytes, the least there is, and each element is added
// up once, in the order of the ranks: the result has the same bits on all of them, and in every run.
#include "runtime/collective/host_engine.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include <fmt/format.h>

namespace tg::collective {

namespace {

enum Tag : int { tagParts = 1, tagSums = 2, tagSizes = 3, tagTexts = 4, tagSign = 5 };
constexpr char kAlive = 'a', kLeaves = 'l';
constexpr auto kSignEvery = std::chrono::milliseconds(500);
constexpr auto kLastMessages = std::chrono::seconds(1);
/// Elements reduced at once, which bounds what a rank holds of others: 64 MiB of f32.
constexpr int64_t kPiece = int64_t(1) << 24;
/// The thread looks again at once, then after growing pauses up to this.
constexpr auto kLongestPause = std::chrono::microseconds(200);

int64_t sizeOf(Element element) { return element == Element::f32 ? 4 : 8; }

/// Adds the parts, in the order of the ranks, into `sum`, which may be one of them.
template <class T>
void addUp(const std::vector<const std::byte*>& parts, int64_t count, Reduction reduction, std::byte* sum) {
  std::vector<const T*> terms;
  for (const std::byte* part : parts) terms.push_back(reinterpret_cast<const T*>(part));
  auto* out = reinterpret_cast<T*>(sum);
  const auto ranks = static_cast<T>(parts.size());
  for (int64_t i = 0; i < count; ++i) {
    T total = terms[0][i];
    for (size_t r = 1; r < terms.size(); ++r) total += terms[r][i];
    out[i] = reduction == Reduction::mean ? total / ranks : total;
  }
}

}  // namespace

Result<std::unique_ptr<HostEngine>> HostEngine::create(OpenTransport open, double patience) {
  std::unique_ptr<HostEngine> engine(new HostEngine);
  engine->patience_ = patience;
  engine->thread_ = std::thread([raw = engine.get(), open = std::move(open)] { raw->work(open); });
  {
    std::unique_lock lock(engine->mutex_);
    engine->changed_.wait(lock, [&] { return engine->open_ || engine->over_; });
    if (!engine->open_) return engine->failure_;
  }
  return engine;
}

HostEngine::~HostEngine() {
  {
    std::lock_guard lock(mutex_);
    closing_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

std::string HostEngine::describe() const { return fmt::format("{} ranks by {}", ranks_, name_); }

bool HostEngine::failed() const {
  std::lock_guard lock(mutex_);
  return !failure_.empty();
}

bool HostEngine::speaks() const { return rank_ == speaker_; }

Result<int64_t> HostEngine::post(Job job) {
  std::lock_guard lock(mutex_);
  if (!failure_.empty()) return failure_;
  job.ticket = ++posted_;
  jobs_.push_back(job);
  changed_.notify_all();
  return job.ticket;
}

Result<int64_t> HostEngine::begin(void* elements, int64_t count, Element element, Reduction reduction) {
  return post({0, static_cast<std::byte*>(elements), count, element, reduction, nullptr});
}

Traffic HostEngine::traffic() const {
  std::lock_guard lock(mutex_);
  return traffic_;
}

Result<void> HostEngine::wait(int64_t ticket) {
  std::unique_lock lock(mutex_);
  const auto begin = Clock::now();
  changed_.wait(lock, [&] { return finished_ >= ticket || over_; });
  traffic_.waited += std::chrono::duration<double>(Clock::now() - begin).count();
  if (finished_ >= ticket) return {};
  return failure_;
}

Result<std::vector<std::string>> HostEngine::gather(const std::string& own) {
  std::vector<std::string> texts(static_cast<size_t>(ranks_));
  texts[static_cast<size_t>(rank_)] = own;
  TG_TRY(const int64_t ticket, post({.gathered = &texts}));
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return finished_ >= ticket || over_; });
  if (finished_ < ticket) return failure_;
  return texts;
}

void HostEngine::abort(int code) {
  {
    std::lock_guard lock(mutex_);
    abortCode_ = code;
  }
  changed_.notify_all();
  // Of most transports the thread does not come back from that.
  if (thread_.joinable()) thread_.join();
}

/// Joins the job, and learns where each rank runs, for messages that name it.
Result<void> HostEngine::join(const OpenTransport& open) {
  TG_TRY(transport_, open());
  rank_ = transport_->rank;
  ranks_ = transport_->ranks;
  name_ = transport_->name;
  peers_.resize(static_cast<size_t>(ranks_));
  std::vector<std::string> names(static_cast<size_t>(ranks_));
  for (int peer = 0; peer < ranks_; ++peer) {
    peers_[static_cast<size_t>(peer)].last = Clock::now();
    peers_[static_cast<size_t>(peer)].name = fmt::format("rank {}", peer);
  }
  names[static_cast<size_t>(rank_)] =
      fmt::format("rank {} (process {} on {})", rank_, getpid(), transport_->host);
  TG_CHECK(meet(names));
  for (size_t peer = 0; peer < names.size(); ++peer) peers_[peer].name = names[peer];
  return {};
}

/// The thread: joins the job, does what is posted, leaves.
void HostEngine::work(const OpenTransport& open) {
  auto joined = join(open);
  {
    std::lock_guard lock(mutex_);
    open_ = static_cast<bool>(joined);
    over_ = !open_;
    if (!joined) failure_ = joined.takeError();
  }
  changed_.notify_all();
  if (over_) return;
  serve();
  if (abortCode_ >= 0) transport_->abort(transport_->self, abortCode_);
  {
    std::lock_guard lock(mutex_);
    over_ = true;
  }
  changed_.notify_all();
}

void HostEngine::serve() {
  Result<void> outcome;
  while (outcome && abortCode_ < 0) {
    Job job;
    {
      std::unique_lock lock(mutex_);
      if (jobs_.empty() && !closing_) changed_.wait_for(lock, std::chrono::milliseconds(50));
      if (jobs_.empty() && closing_) break;
      if (!jobs_.empty()) job = jobs_.front();
    }
    const auto begin = Clock::now();
    outcome = job.ticket ? run(job) : signOfLife(kAlive);
    if (!outcome || !job.ticket) continue;
    std::lock_guard lock(mutex_);
    if (!job.gathered) {
      traffic_.bytes += job.count * sizeOf(job.element);
      traffic_.underWay += std::chrono::duration<double>(Clock::now() - begin).count();
    }
    jobs_.pop_front();
    finished_ = job.ticket;
    changed_.notify_all();
  }
  if (outcome && abortCode_ < 0) outcome = farewell();
  if (outcome || abortCode_ >= 0) return;
  {
    std::lock_guard lock(mutex_);
    failure_ = outcome.takeError();
    over_ = true;
  }
  changed_.notify_all();
  // Until the job is aborted, or this rank closes.
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return closing_ || abortCode_ >= 0; });
}

Result<void> HostEngine::run(Job& job) {
  if (job.gathered) return meet(*job.gathered);
  for (int64_t done = 0; done < job.count; done += kPiece)
    TG_CHECK(reduce(job.elements + done * sizeOf(job.element), std::min(kPiece, job.count - done),
                    job.element, job.reduction));
  return {};
}

Result<void> HostEngine::reduce(std::byte* elements, int64_t count, Element element, Reduction reduction) {
  const int64_t size = sizeOf(element);
  auto first = [&](int rank) { return count * rank / ranks_; };
  auto part = [&](int rank) -> std::pair<std::byte*, int64_t> {
    return {elements + first(rank) * size, (first(rank + 1) - first(rank)) * size};
  };
  const auto [own, bytes] = part(rank_);
  std::vector<std::vector<std::byte>> come(static_cast<size_t>(ranks_));
  std::vector<const std::byte*> terms;
  for (int rank = 0; rank < ranks_; ++rank) {
    if (rank != rank_) come[static_cast<size_t>(rank)].resize(static_cast<size_t>(bytes));
    terms.push_back(rank == rank_ ? own : come[static_cast<size_t>(rank)].data());
  }
  TG_CHECK(exchange(
      tagParts, [&](int peer) -> std::pair<const void*, int64_t> { return part(peer); },
      [&, length = bytes](int peer) -> std::pair<void*, int64_t> {
        return {come[static_cast<size_t>(peer)].data(), length};
      }));
  const int64_t mine = bytes / size;
  if (element == Element::f32)
    addUp<float>(terms, mine, reduction, own);
  else
    addUp<double>(terms, mine, reduction, own);
  return exchange(
      tagSums, [&](int) -> std::pair<const void*, int64_t> { return part(rank_); },
      [&](int peer) -> std::pair<void*, int64_t> { return part(peer); });
}

/// Everybody's text, of which this rank knows its own.
Result<void> HostEngine::meet(std::vector<std::string>& texts) {
  std::vector<int64_t> sizes;
  for (const std::string& text : texts) sizes.push_back(static_cast<int64_t>(text.size()));
  const auto own = static_cast<size_t>(rank_);
  TG_CHECK(exchange(
      tagSizes,
      [&](int) -> std::pair<const void*, int64_t> {
        return {&sizes[own], sizeof sizes[own]};
      },
      [&](int peer) -> std::pair<void*, int64_t> {
        return {&sizes[static_cast<size_t>(peer)], sizeof(int64_t)};
      }));
  for (size_t rank = 0; rank < texts.size(); ++rank) texts[rank].resize(static_cast<size_t>(sizes[rank]));
  return exchange(
      tagTexts,
      [&](int) -> std::pair<const void*, int64_t> {
        return {texts[own].data(), sizes[own]};
      },
      [&](int peer) -> std::pair<void*, int64_t> {
        return {texts[static_cast<size_t>(peer)].data(), sizes[static_cast<size_t>(peer)]};
      });
}

/// Sends each peer bytes and takes some from it.
Result<void> HostEngine::exchange(int tag, const std::function<std::pair<const void*, int64_t>(int)>& toPeer,
                                  const std::function<std::pair<void*, int64_t>(int)>& fromPeer) {
  std::vector<Message> messages;
  // Each begins with another one, so that not all send to the same.
  for (int step = 1; step < ranks_; ++step) {
    const int peer = (rank_ + step) % ranks_;
    if (const auto [bytes, count] = fromPeer(peer); count > 0)
      messages.push_back({transport_->receive(transport_->self, peer, tag, bytes, count), peer, true});
    if (const auto [bytes, count] = toPeer(peer); count > 0)
      messages.push_back({transport_->send(transport_->self, peer, tag, bytes, count), peer, false});
  }
  return drive(std::move(messages));
}

Result<void> HostEngine::drive(std::vector<Message> messages) {
  auto pause = std::chrono::microseconds(0);
  while (!messages.empty()) {
    const size_t before = messages.size();
    Result<void> good;
    std::erase_if(messages, [&](const Message& message) {
      const int state = message.request < 0 ? -1 : transport_->done(transport_->self, message.request);
      if (state < 0 && good)
        good = lost(message.peer, fmt::format("cannot be reached: {}", transport_->error(transport_->self)));
      return state == 1;
    });
    TG_CHECK(std::move(good));
    TG_CHECK(signOfLife(kAlive));
    // What it sent before it left may still be on its way.
    for (const Message& message : messages)
      if (const Peer& peer = peers_[static_cast<size_t>(message.peer)];
          message.comes && peer.left && Clock::now() - peer.last > kLastMessages)
        return lost(message.peer, "has ended before the others");
    if (abortCode_ >= 0) return fail("the job is aborted");
    pause = messages.size() < before ? std::chrono::microseconds(0)
                                     : std::min(pause + std::chrono::microseconds(5), kLongestPause);
    if (!messages.empty() && pause.count() > 5) std::this_thread::sleep_for(pause);
  }
  return {};
}

/// Sends signs of life when it is time, takes those of others, and tells whose have been missing for too long.
Result<void> HostEngine::signOfLife(char sign) {
  const auto now = Clock::now();
  const bool due = now - signed_ >= kSignEvery;
  if (due) signed_ = now;
  for (int rank = 0; rank < ranks_; ++rank) {
    if (rank == rank_) continue;
    Peer& peer = peers_[static_cast<size_t>(rank)];
    if (peer.sent >= 0 && transport_->done(transport_->self, peer.sent) != 0) peer.sent = -1;
    if ((due || sign != kAlive) && peer.sent < 0 && peer.sign != kLeaves) {
      peer.sign = sign;
      peer.sent = transport_->send(transport_->self, rank, tagSign, &peer.sign, 1);
    }
    if (peer.left) continue;
    if (peer.awaited < 0) peer.awaited = transport_->receive(transport_->self, rank, tagSign, &peer.heard, 1);
    if (peer.awaited >= 0 && transport_->done(transport_->self, peer.awaited) == 1) {
      peer.awaited = -1;
      peer.last = now;
      peer.left = peer.heard == kLeaves;
    }
    if (!peer.left && std::chrono::duration<double>(now - peer.last).count() > patience_)
      return lost(rank, fmt::format("has given no sign of life for {:.0f} s: it is stopped, gone, or cut off",
                                    patience_));
  }
  return {};
}

/// Tells the others that this rank is done, and waits until they are.
Result<void> HostEngine::farewell() {
  auto staying = [&](int rank) {
    const Peer& peer = peers_[static_cast<size_t>(rank)];
    return rank != rank_ && (!peer.left || peer.sign != kLeaves || peer.sent >= 0);
  };
  for (bool all = false; !all && abortCode_ < 0;) {
    TG_CHECK(signOfLife(kLeaves));
    all = true;
    for (int rank = 0; rank < ranks_; ++rank) all = all && !staying(rank);
    if (!all) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  if (abortCode_ < 0) transport_->close(transport_->self);
  return {};
}

/// The job cannot go on without this rank.
Error HostEngine::lost(int peer, const std::string& what) const {
  // The first rank that is there speaks.
  const_cast<HostEngine*>(this)->speaker_ = peer == 0 ? 1 : 0;
  return fail(fmt::format("{} {}", peers_[static_cast<size_t>(peer)].name, what));
}

}  // namespace tg::collective
