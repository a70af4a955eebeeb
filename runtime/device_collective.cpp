// SPDX-License-Identifier: Apache-2.0
#include "runtime/device_collective.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "ir/divide.h"
#include "ir/stopwatch.h"

namespace tg {

namespace {

/// Large enough for full bandwidth, and small enough that the reduction of the first chunk starts early.
constexpr int64_t kChunkBytes = int64_t(4) << 20;

using Clock = collective::Interval::Clock;

/// The copies between the ranges of a collective and a staging buffer, for one chunk.
struct ChunkCopies {
  std::vector<vulkan::Command> toHost, toDevice;
};

/// Walks the ranges of a collective in step. All ranges hold the same number of shards.
class ShardCopier {
 public:
  ShardCopier(const CollectiveArgs& args, const collective::Engine& ranks)
      : kind_(args.kind), gathers_(kind_ == collective::Kind::allGather),
        whole_(gathers_ ? args.receive : args.send), own_(gathers_ ? args.send : args.receive),
        rank_(ranks.rank()), shards_(kind_ == collective::Kind::allReduce ? 1 : ranks.ranks()) {}

  int64_t shards() const { return shards_; }
  /// Bytes of all shards together.
  int64_t bytes() const {
    int64_t bytes = 0;
    for (const vulkan::Binding& range : whole_) bytes += range.bytes;
    return bytes;
  }
  /// The copies for the next `length` bytes of every shard. In the staging buffer they lie from `first` on, one shard
  /// after the other, as the engine expects them.
  ChunkCopies next(vulkan::Buffer& buffer, int64_t first, int64_t length);

 private:
  collective::Kind kind_;
  bool gathers_;
  const std::vector<vulkan::Binding>&whole_, &own_;
  int64_t rank_, shards_;
  size_t range_ = 0;
  int64_t taken_ = 0;  ///< bytes already taken from each shard of the current range
};

ChunkCopies ShardCopier::next(vulkan::Buffer& buffer, int64_t first, int64_t length) {
  using collective::Kind;
  const bool scatters = kind_ == Kind::reduceScatter;
  ChunkCopies out;
  for (int64_t done = 0; done < length;) {
    const vulkan::Binding& range = whole_[range_];
    const int64_t rangeShard = range.bytes / shards_;
    if (taken_ == rangeShard) {
      ++range_, taken_ = 0;
      continue;
    }
    const int64_t some = std::min(length - done, rangeShard - taken_);
    auto copy = [&](int64_t rank, const vulkan::Binding& at, int64_t offset, bool down, bool up) {
      const int64_t host = first + rank * length + done;
      if (down) out.toHost.emplace_back(vulkan::Copy{at.buffer, offset, &buffer, host, some});
      if (up) out.toDevice.emplace_back(vulkan::Copy{&buffer, host, at.buffer, offset, some});
    };
    for (int64_t rank = 0; rank < shards_; ++rank)
      copy(rank, range, range.offset + rank * rangeShard + taken_, !gathers_, !scatters);
    if (kind_ != Kind::allReduce) copy(rank_, own_[range_], own_[range_].offset + taken_, gathers_, scatters);
    done += some;
    taken_ += some;
  }
  return out;
}

}  // namespace

// The device imports memory that all ranks map, so that its copies go directly to where the ranks reduce them. If the
// import fails on one rank, all ranks use buffers of their own and exchange messages.
Result<StagingBuffers> StagingBuffers::create(vulkan::Device& device, const std::string& name, int64_t bytes,
                                              collective::Engine& ranks) {
  StagingBuffers staging;
  auto addBuffers = [&](int64_t all) -> Result<void> {
    for (int64_t first = 0; first < all; first += kStagingBufferBytes) {
      std::byte* memory = staging.shared ? staging.shared->of(ranks.rank()) + first : nullptr;
      TG_TRY(auto made, vulkan::Buffer::create(device, {name, std::min(all - first, kStagingBufferBytes),
                                                        vulkan::MemoryKind::host, memory}));
      staging.buffers.push_back(std::move(made));
    }
    return {};
  };
  TG_TRY(const bool takes, ranks.agree(device.info().takesHostMemory));
  if (takes) {
    TG_TRY(staging.shared, collective::SharedMemory::create(ranks, bytes));
  }
  if (staging.shared) {
    const auto added = addBuffers(staging.shared->bytes());
    TG_TRY(const bool all, ranks.agree(static_cast<bool>(added)));
    if (all) return staging;
    staging.buffers.clear();
    staging.shared = nullptr;
  }
  TG_CHECK(addBuffers(bytes));
  return staging;
}

// Chunk and staging buffer sizes are multiples of each other, so no chunk spans two buffers.
Result<std::unique_ptr<DeviceCollective>>
StagedCollective::create(vulkan::Device& device, const std::string& name, int64_t id,
                         const CollectiveArgs& args, collective::Engine& ranks, StagingBuffers& staging) {
  using collective::Kind;
  std::unique_ptr<StagedCollective> made(new StagedCollective);
  made->device_ = device.shared_from_this();
  made->timed_ = device.info().timestamps;
  made->kind_ = args.kind;
  made->reduction_ = args.reduction;
  ShardCopier copier(args, ranks);
  const int64_t shards = copier.shards(), bytes = copier.bytes();
  made->times_.id = id;
  made->times_.bytes = collective::sentBytes(args.kind, bytes, ranks.ranks());
  made->times_.toHostBytes = args.kind == Kind::allGather ? bytes / shards : bytes;
  made->times_.toDeviceBytes = args.kind == Kind::reduceScatter ? bytes / shards : bytes;
  constexpr auto kElement = static_cast<int64_t>(sizeof(float));
  const int64_t shard = bytes / shards, step = kChunkBytes / shards / kElement * kElement;
  const int64_t chunks = divideCeil(shard, step);
  const int64_t staged =
      chunks == 0 ? 0 : (chunks - 1) * kChunkBytes + (shard - (chunks - 1) * step) * shards;
  if (staged > 0 && staging.buffers.empty()) {
    TG_TRY(staging, StagingBuffers::create(device, name, staged, ranks));
  }
  made->shared_ = staging.shared;
  for (int64_t index = 0; index < chunks; ++index) {
    vulkan::Buffer& buffer = *staging.buffers[static_cast<size_t>(index * kChunkBytes / kStagingBufferBytes)];
    const int64_t first = index * kChunkBytes % kStagingBufferBytes;
    const int64_t length = std::min(step, shard - index * step);
    ChunkCopies copies = copier.next(buffer, first, length);
    Chunk chunk{buffer.mapped() + first, length * shards, nullptr, nullptr};
    const auto stamps = made->timed_ ? vulkan::Timestamps::ends : vulkan::Timestamps::none;
    TG_TRY(chunk.toHost,
           vulkan::Recording::create(device, std::move(copies.toHost), {name + ".to_host", stamps}));
    TG_TRY(chunk.toDevice,
           vulkan::Recording::create(device, std::move(copies.toDevice), {name + ".to_device", stamps}));
    made->chunks_.push_back(std::move(chunk));
  }
  return std::unique_ptr<DeviceCollective>(std::move(made));
}

Result<void> StagedCollective::begin(collective::Engine& ranks) {
  TG_CHECK(addCopyTimes());
  interval_ = {};
  for (Chunk& chunk : chunks_) {
    TG_CHECK(chunk.toHost->submit());
    // Also true if the device is lost; whoever waits for a submission reports that.
    auto ready = [device = device_, submission = chunk.toHost->lastSubmission()] {
      auto reached = device->completed();
      return !reached || *reached >= submission;
    };
    TG_TRY(chunk.ticket, ranks.begin({chunk.host, chunk.bytes / static_cast<int64_t>(sizeof(float)),
                                      collective::Element::f32, reduction_, std::move(ready), &interval_,
                                      kind_, shared_.get()}));
  }
  return {};
}

Result<void> StagedCollective::wait(collective::Engine& ranks) {
  const auto begin = Clock::now();
  for (Chunk& chunk : chunks_) {
    TG_CHECK(ranks.wait(chunk.ticket));
    TG_CHECK(chunk.toDevice->submit());
  }
  // Before the exchange began, the wait was for the device's own kernels, and does not count.
  times_.waited += std::max(0.0, inSeconds(interval_.end - std::max(begin, interval_.begin)));
  times_.exchange += inSeconds(interval_.end - interval_.begin);
  ++times_.times;
  copied_ = true;
  return {};
}

/// Adds the durations of the last run's copies, from their timestamps.
Result<void> StagedCollective::addCopyTimes() {
  if (!std::exchange(copied_, false) || !timed_) return {};
  for (Chunk& chunk : chunks_) {
    TG_TRY(const std::vector<vulkan::DeviceTime> toHost, chunk.toHost->times());
    TG_TRY(const std::vector<vulkan::DeviceTime> toDevice, chunk.toDevice->times());
    times_.toHost += toHost.front().microseconds() * 1e-6;
    times_.toDevice += toDevice.front().microseconds() * 1e-6;
  }
  return {};
}

Result<CollectiveTimes> StagedCollective::times() {
  TG_CHECK(addCopyTimes());
  return times_;
}

double transferRate(const CollectiveTimes& collective, int64_t bytes, double seconds) {
  return seconds > 0 ? static_cast<double>(bytes * collective.times) / seconds * 1e-9 : 0;
}

std::string toJson(const std::vector<CollectiveTimes>& collectives) {
  std::string out;
  for (const CollectiveTimes& each : collectives) {
    const auto times = static_cast<double>(std::max<int64_t>(each.times, 1));
    auto phase = [&](const char* name, int64_t bytes, double seconds) {
      return fmt::format(", \"{0}_ms\": {1:.4f}, \"{0}_gb_per_s\": {2:.3f}", name, seconds / times * 1e3,
                         transferRate(each, bytes, seconds));
    };
    out += fmt::format(
        R"({}    {{"function": "{}", "id": {}, "bytes": {}, "times": {}{}{}{}, "waited_ms": {:.4f}}})",
        out.empty() ? "" : ",\n", each.function, each.id, each.bytes, each.times,
        phase("to_host", each.toHostBytes, each.toHost), phase("exchange", each.bytes, each.exchange),
        phase("to_device", each.toDeviceBytes, each.toDevice), each.waited / times * 1e3);
  }
  return fmt::format("{{\n  \"collectives\": [\n{}\n  ]\n}}\n", out);
}

}  // namespace tg
