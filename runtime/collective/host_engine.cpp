// SPDX-License-Identifier: Apache-2.0
// A reduction of n elements by N ranks: rank r adds up the r-th of N parts, which all others send it, and sends
// the result to all. Every rank sends and receives 2(N-1)/N of the bytes, the least there is, and each element is added
// up once, in the order of the ranks: the result has the same bits on all of them, and in every run.
// Large ones are cut into pieces. A few pieces are under way at once: the parts of one travel while another is
// added up. All ranks begin pieces, and send their sums, in the order of their tickets, by which messages find each other.
// Where all ranks see each other's elements, the same is done without copies: rank r reads its part where each has it
// and writes the sum there. Messages of one byte say that parts, and then sums, are there.
#include "runtime/collective/host_engine.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "runtime/collective/add_up.h"
#include "runtime/collective/shared_memory.h"

namespace tg::collective {

namespace {

enum Tag : int { tagParts = 1, tagSums = 2, tagSizes = 3, tagTexts = 4, tagSign = 5 };
constexpr char kAlive = 'a', kLeaves = 'l';
constexpr auto kSignEvery = std::chrono::milliseconds(500);
constexpr auto kLastMessages = std::chrono::seconds(1);
/// Elements of a piece: 4 MiB of f32.
constexpr int64_t kPiece = int64_t(1) << 20;
/// Pieces under way at once.
constexpr size_t kPieces = 4;
/// Many transports move bytes only while somebody asks after them, 32 KiB at a time: the thread asks again at once as
/// long as something has happened lately, and then after pauses.
constexpr auto kLately = std::chrono::milliseconds(2);
constexpr auto kPause = std::chrono::microseconds(50);

/// Threads that add up at most: memory has no more to give.
constexpr int kMostHelpers = 6;

/// Threads beside the engine's, where all ranks share a host: a core of each rank is its caller's.
int helpersOf(int ranks) {
  cpu_set_t cores;
  if (sched_getaffinity(0, sizeof cores, &cores) != 0) return 0;
  return std::clamp(CPU_COUNT(&cores) / ranks - 2, 0, kMostHelpers);
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
  jobs_.push_back(std::move(job));
  changed_.notify_all();
  return posted_;
}

Result<int64_t> HostEngine::begin(const Task& task) {
  if (task.kind != Kind::allReduce && task.count % ranks_ != 0)
    return fail(fmt::format("{} elements are not one part for each of {} ranks", task.count, ranks_));
  Task piece = task;
  // Parts of a whole are no parts of its pieces.
  const bool cut = task.kind == Kind::allReduce;
  for (int64_t left = task.count - kPiece; cut && left > 0; left -= kPiece) {
    piece.count = kPiece;
    TG_CHECK(post({.task = piece, .gathered = nullptr}));
    piece.elements = static_cast<std::byte*>(piece.elements) + kPiece * sizeOf(task.element);
    piece.count = left;
  }
  return post({.task = std::move(piece), .gathered = nullptr});
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
  TG_TRY(const int64_t ticket, post({.task = {}, .gathered = &texts}));
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
  while (outcome && abortCode_ < 0 && awaitJobs()) {
    auto step = [&]() -> Result<void> {
      const auto begin = Clock::now();
      const bool travels = !reducing_.empty();
      TG_TRY(const bool began, beginNext());
      TG_TRY(const bool advanced, advance());
      TG_CHECK(signOfLife(kAlive));
      rest(began || advanced);
      if (!travels) return {};
      std::lock_guard lock(mutex_);
      traffic_.underWay += std::chrono::duration<double>(Clock::now() - begin).count();
      return {};
    };
    outcome = step();
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

/// Sleeps for a while where there is nothing to do; false at the end.
bool HostEngine::awaitJobs() {
  std::unique_lock lock(mutex_);
  if (!jobs_.empty() || !reducing_.empty()) return true;
  if (!closing_) changed_.wait_for(lock, std::chrono::milliseconds(50));
  moved_ = Clock::now();
  return !jobs_.empty() || !closing_;
}

/// Begins what was posted first, if it is ready and few others are under way. Whether it did.
Result<bool> HostEngine::beginNext() {
  Job job;
  {
    std::lock_guard lock(mutex_);
    if (jobs_.empty() || reducing_.size() >= kPieces) return false;
    if (jobs_.front().gathered && !reducing_.empty()) return false;
    job = jobs_.front();
  }
  if (job.task.ready && !job.task.ready()) return false;
  {
    std::lock_guard lock(mutex_);
    jobs_.pop_front();
    Journey* journey = job.task.journey;
    if (journey && journey->begin == Clock::time_point()) journey->begin = Clock::now();
  }
  if (job.gathered) {
    TG_CHECK(meet(*job.gathered));
    finish(job);
    return true;
  }
  Reducing& reducing = reducing_.emplace_back();
  reducing.job = std::move(job);
  sendParts(reducing);
  return true;
}

/// Looks at what is under way. Whether something has moved.
Result<bool> HostEngine::advance() {
  bool moved = false, sumsSent = true;
  for (Reducing& reducing : reducing_) {
    TG_TRY(const bool some, progress(reducing.messages));
    moved = moved || some;
    // Sums leave in the order of the tickets.
    if (!reducing.sums && reducing.messages.empty() && sumsSent) sendSums(reducing);
    sumsSent = sumsSent && reducing.sums;
  }
  while (!reducing_.empty() && reducing_.front().sums && reducing_.front().messages.empty()) {
    finish(reducing_.front().job);
    // A gathering took no room, so it leaves none.
    if (!reducing_.front().come.empty()) spare_.push_back(std::move(reducing_.front().come));
    reducing_.pop_front();
    moved = true;
  }
  return moved;
}

/// What a rank adds up of a task, and its bytes.
std::pair<std::byte*, int64_t> HostEngine::part(const Task& task, int rank) const {
  const int64_t first = task.count * rank / ranks_, end = task.count * (rank + 1) / ranks_;
  const int64_t size = sizeOf(task.element);
  return {static_cast<std::byte*>(task.elements) + first * size, (end - first) * size};
}

/// Where a rank has what lies at `own` of this one.
std::byte* HostEngine::seen(const Task& task, std::byte* own, int rank) const {
  return task.shared->of(rank) + (own - task.shared->of(rank_));
}

/// For what comes.
void HostEngine::makeRoom(Reducing& reducing, int64_t bytes) {
  if (reducing.come.empty() && !spare_.empty()) {
    reducing.come = std::move(spare_.back());
    spare_.pop_back();
  }
  if (const auto all = static_cast<size_t>(bytes); reducing.come.size() < all) reducing.come.resize(all);
}

void HostEngine::sendParts(Reducing& reducing) {
  const Task& task = reducing.job.task;
  if (task.shared) return sendWord(reducing, tagParts);
  if (task.kind == Kind::allGather) return;
  const int64_t bytes = part(task, rank_).second;
  makeRoom(reducing, bytes * (ranks_ - 1));
  reducing.messages = exchange(
      tagParts, [&](int peer) -> std::pair<const void*, int64_t> { return part(task, peer); },
      [&](int peer) -> std::pair<void*, int64_t> {
        return {reducing.come.data() + bytes * (peer < rank_ ? peer : peer - 1), bytes};
      });
}

/// Adds up what has come.
void HostEngine::addParts(Reducing& reducing) {
  const Task& task = reducing.job.task;
  if (task.shared) return addShared(task);
  if (task.kind == Kind::allGather) return;
  const auto [own, bytes] = part(task, rank_);
  std::vector<const std::byte*> terms;
  for (int rank = 0; rank < ranks_; ++rank)
    terms.push_back(rank == rank_ ? own : reducing.come.data() + bytes * (rank < rank_ ? rank : rank - 1));
  addUp(task.element, task.reduction, terms, bytes / sizeOf(task.element), {own});
}

/// Adds up this rank's part where each rank has it, and writes the sums where they are wanted: nobody else reads or
/// writes these bytes until all have heard that the sums are there.
void HostEngine::addShared(const Task& task) {
  if (!crew_) crew_ = std::make_unique<Crew>(helpersOf(ranks_));
  const auto [own, bytes] = part(task, rank_);
  const int64_t size = sizeOf(task.element), count = bytes / size;
  crew_->run([&, own = own](int index) {
    const int64_t first = count * index / crew_->threads(), end = count * (index + 1) / crew_->threads();
    std::byte* mine = own + first * size;
    std::vector<const std::byte*> terms;
    std::vector<std::byte*> sums;
    for (int rank = 0; rank < ranks_; ++rank) {
      std::byte* its = seen(task, mine, rank);
      if (task.kind != Kind::allGather) terms.push_back(its);
      if (rank == rank_ ? task.kind != Kind::allGather : task.kind != Kind::reduceScatter)
        sums.push_back(its);
    }
    if (task.kind == Kind::allGather) terms.push_back(mine);
    addUp(task.element, task.kind == Kind::allGather ? Reduction::same : task.reduction, terms, end - first,
          sums);
  });
}

/// Makes this rank's sums and sends them.
void HostEngine::sendSums(Reducing& reducing) {
  const Task& task = reducing.job.task;
  addParts(reducing);
  reducing.sums = true;
  if (task.shared) return sendWord(reducing, tagSums);
  if (task.kind == Kind::reduceScatter) return;
  reducing.messages = exchange(
      tagSums, [&](int) -> std::pair<const void*, int64_t> { return part(task, rank_); },
      [&](int peer) -> std::pair<void*, int64_t> { return part(task, peer); });
}

/// Tells all others that bytes which they see are there, and takes the same from each.
void HostEngine::sendWord(Reducing& reducing, int tag) {
  static constexpr char kWord = 'w';
  makeRoom(reducing, ranks_);
  reducing.messages = exchange(
      tag,
      [](int) -> std::pair<const void*, int64_t> {
        return {&kWord, 1};
      },
      [&](int peer) -> std::pair<void*, int64_t> {
        return {reducing.come.data() + peer, 1};
      });
}

/// Tells the caller that a job is done.
void HostEngine::finish(const Job& job) {
  {
    std::lock_guard lock(mutex_);
    traffic_.bytes += sentBytes(job.task.kind, job.task.count * sizeOf(job.task.element), ranks_);
    if (job.task.journey) job.task.journey->end = Clock::now();
    finished_ = job.ticket;
  }
  changed_.notify_all();
}

/// Everybody's text, of which this rank knows its own.
Result<void> HostEngine::meet(std::vector<std::string>& texts) {
  std::vector<int64_t> sizes;
  for (const std::string& text : texts) sizes.push_back(static_cast<int64_t>(text.size()));
  const auto own = static_cast<size_t>(rank_);
  TG_CHECK(drive(exchange(
      tagSizes,
      [&](int) -> std::pair<const void*, int64_t> {
        return {&sizes[own], sizeof sizes[own]};
      },
      [&](int peer) -> std::pair<void*, int64_t> {
        return {&sizes[static_cast<size_t>(peer)], sizeof(int64_t)};
      })));
  for (size_t rank = 0; rank < texts.size(); ++rank) texts[rank].resize(static_cast<size_t>(sizes[rank]));
  return drive(exchange(
      tagTexts,
      [&](int) -> std::pair<const void*, int64_t> {
        return {texts[own].data(), sizes[own]};
      },
      [&](int peer) -> std::pair<void*, int64_t> {
        return {texts[static_cast<size_t>(peer)].data(), sizes[static_cast<size_t>(peer)]};
      }));
}

/// Begins to send each peer bytes and to take some from it.
std::vector<HostEngine::Message>
HostEngine::exchange(int tag, const std::function<std::pair<const void*, int64_t>(int)>& toPeer,
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
  return messages;
}

/// Until all messages have arrived.
Result<void> HostEngine::drive(std::vector<Message> messages) {
  while (!messages.empty()) {
    TG_TRY(const bool moved, progress(messages));
    TG_CHECK(signOfLife(kAlive));
    if (!messages.empty()) rest(moved);
  }
  return {};
}

/// Takes the messages that have arrived from the list. Whether there were some.
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
  // What it sent before it left may still be on its way.
  for (const Message& message : messages)
    if (const Peer& peer = peers_[static_cast<size_t>(message.peer)];
        message.comes && peer.left && Clock::now() - peer.last > kLastMessages)
      return lost(message.peer, "has ended before the others");
  if (abortCode_ >= 0) return fail("the job is aborted");
  return messages.size() < before;
}

/// Gives others the core until it is time to look again.
void HostEngine::rest(bool moved) {
  const auto now = Clock::now();
  if (moved) moved_ = now;
  if (now - moved_ < kLately)
    std::this_thread::yield();
  else
    std::this_thread::sleep_for(kPause);
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
