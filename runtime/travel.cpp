// SPDX-License-Identifier: Apache-2.0
#include "runtime/travel.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

namespace tg {

namespace {

/// Bytes that are copied and reduced at once: long enough for full speed, short enough that the first are reduced soon.
constexpr int64_t kPiece = int64_t(4) << 20;

using Clock = collective::Journey::Clock;

double secondsBetween(Clock::time_point begin, Clock::time_point end) {
  return std::chrono::duration<double>(end - begin).count();
}

}  // namespace

// Memory that all ranks see becomes buffers of the device, so that what it copies lies where they add it up. Where one
// of them has no such memory, or its device does not take it, all have buffers of their own and send each other what
// is in them.
Result<TravelRoom> TravelRoom::create(vulkan::Device& device, const std::string& name, int64_t bytes,
                                      collective::Engine& ranks) {
  TravelRoom room;
  auto fill = [&](int64_t all) -> Result<void> {
    for (int64_t first = 0; first < all; first += kTravelBuffer) {
      std::byte* memory = room.shared ? room.shared->of(ranks.rank()) + first : nullptr;
      TG_TRY(auto made, vulkan::Buffer::create(device, {name, std::min(all - first, kTravelBuffer),
                                                        vulkan::MemoryKind::host, memory}));
      room.buffers.push_back(std::move(made));
    }
    return {};
  };
  TG_TRY(const bool takes, ranks.agree(device.info().takesHostMemory));
  if (takes) {
    TG_TRY(room.shared, collective::SharedMemory::create(ranks, bytes));
  }
  if (room.shared) {
    const auto filled = fill(room.shared->bytes());
    TG_TRY(const bool all, ranks.agree(static_cast<bool>(filled)));
    if (all) return room;
    room.buffers.clear();
    room.shared = nullptr;
  }
  TG_CHECK(fill(bytes));
  return room;
}

// Pieces and buffers are whole multiples of each other, so no piece lies in two buffers. A piece has as many bytes of
// each rank's part, one part's behind the other's, as the engine wants them.
Result<std::unique_ptr<Travel>> HostTravel::create(vulkan::Device& device, const std::string& name,
                                                   int64_t id, const Cargo& cargo, collective::Engine& ranks,
                                                   TravelRoom& room) {
  using collective::Kind;
  std::unique_ptr<HostTravel> travel(new HostTravel);
  travel->device_ = device.shared_from_this();
  travel->timed_ = device.info().timestamps;
  travel->times_.id = id;
  travel->kind_ = cargo.kind;
  travel->reduction_ = cargo.reduction;
  const auto& whole = cargo.kind == Kind::allGather ? cargo.to : cargo.from;
  const auto& own = cargo.kind == Kind::allGather ? cargo.from : cargo.to;
  const int64_t parts = cargo.kind == Kind::allReduce ? 1 : ranks.ranks();
  int64_t bytes = 0;
  for (const vulkan::Binding& range : whole) bytes += range.bytes;
  travel->times_.bytes = collective::sentBytes(cargo.kind, bytes, ranks.ranks());
  travel->times_.downBytes = cargo.kind == Kind::allGather ? bytes / parts : bytes;
  travel->times_.upBytes = cargo.kind == Kind::reduceScatter ? bytes / parts : bytes;
  constexpr auto kElement = static_cast<int64_t>(sizeof(float));
  const int64_t part = bytes / parts, step = kPiece / parts / kElement * kElement;
  const int64_t pieces = (part + step - 1) / step;
  const int64_t staged = pieces == 0 ? 0 : (pieces - 1) * kPiece + (part - (pieces - 1) * step) * parts;
  if (staged > 0 && room.buffers.empty()) {
    TG_TRY(room, TravelRoom::create(device, name, staged, ranks));
  }
  travel->shared_ = room.shared;
  size_t range = 0;
  int64_t taken = 0;  // of the range's part
  for (int64_t piece = 0; piece < pieces; ++piece) {
    vulkan::Buffer& buffer = *room.buffers[static_cast<size_t>(piece * kPiece / kTravelBuffer)];
    const int64_t first = piece * kPiece % kTravelBuffer;
    const int64_t length = std::min(step, part - piece * step);
    std::vector<vulkan::Command> down, up;
    for (int64_t done = 0; done < length;) {
      const int64_t its = whole[range].bytes / parts;
      if (taken == its) {
        ++range, taken = 0;
        continue;
      }
      const int64_t some = std::min(length - done, its - taken);
      auto copies = [&](int64_t rank, const vulkan::Binding& at, int64_t offset, bool goes, bool comes) {
        const int64_t host = first + rank * length + done;
        if (goes) down.emplace_back(vulkan::Copy{at.buffer, offset, &buffer, host, some});
        if (comes) up.emplace_back(vulkan::Copy{&buffer, host, at.buffer, offset, some});
      };
      for (int64_t rank = 0; rank < parts; ++rank)
        copies(rank, whole[range], whole[range].offset + rank * its + taken, cargo.kind != Kind::allGather,
               cargo.kind != Kind::reduceScatter);
      if (cargo.kind != Kind::allReduce)
        copies(ranks.rank(), own[range], own[range].offset + taken, cargo.kind == Kind::allGather,
               cargo.kind == Kind::reduceScatter);
      done += some;
      taken += some;
    }
    Piece made{buffer.mapped() + first, length * parts, nullptr, nullptr};
    const auto stamps = travel->timed_ ? vulkan::Timestamps::ends : vulkan::Timestamps::none;
    TG_TRY(made.down, vulkan::Recording::create(device, std::move(down), {name + ".down", stamps}));
    TG_TRY(made.up, vulkan::Recording::create(device, std::move(up), {name + ".up", stamps}));
    travel->pieces_.push_back(std::move(made));
  }
  return std::unique_ptr<Travel>(std::move(travel));
}

Result<void> HostTravel::begin(collective::Engine& ranks) {
  TG_CHECK(addCopies());
  journey_ = {};
  for (Piece& piece : pieces_) {
    TG_CHECK(piece.down->submit());
    // A lost device is told where its submissions are waited for.
    auto ready = [device = device_, submission = piece.down->lastSubmission()] {
      auto reached = device->completed();
      return !reached || *reached >= submission;
    };
    TG_TRY(piece.ticket, ranks.begin({piece.host, piece.bytes / static_cast<int64_t>(sizeof(float)),
                                      collective::Element::f32, reduction_, std::move(ready), &journey_,
                                      kind_, shared_.get()}));
  }
  return {};
}

Result<void> HostTravel::wait(collective::Engine& ranks) {
  const auto begin = Clock::now();
  for (Piece& piece : pieces_) {
    TG_CHECK(ranks.wait(piece.ticket));
    TG_CHECK(piece.up->submit());
  }
  // Until the first bytes were there, the device was waited for.
  times_.waited += std::max(0.0, secondsBetween(std::max(begin, journey_.begin), journey_.end));
  times_.between += secondsBetween(journey_.begin, journey_.end);
  ++times_.times;
  copied_ = true;
  return {};
}

/// Adds what the device says of the last copies.
Result<void> HostTravel::addCopies() {
  if (!std::exchange(copied_, false) || !timed_) return {};
  for (Piece& piece : pieces_) {
    TG_TRY(const std::vector<vulkan::DeviceTime> down, piece.down->times());
    TG_TRY(const std::vector<vulkan::DeviceTime> up, piece.up->times());
    times_.down += down.front().microseconds() * 1e-6;
    times_.up += up.front().microseconds() * 1e-6;
  }
  return {};
}

Result<TravelTimes> HostTravel::times() {
  TG_CHECK(addCopies());
  return times_;
}

double travelRate(const TravelTimes& travel, int64_t bytes, double seconds) {
  return seconds > 0 ? static_cast<double>(bytes * travel.times) / seconds * 1e-9 : 0;
}

std::string toJson(const std::vector<TravelTimes>& travels) {
  std::string out;
  for (const TravelTimes& travel : travels) {
    const auto times = static_cast<double>(std::max<int64_t>(travel.times, 1));
    auto leg = [&](const char* name, int64_t bytes, double seconds) {
      return fmt::format(", \"{0}_ms\": {1:.4f}, \"{0}_gb_per_s\": {2:.3f}", name, seconds / times * 1e3,
                         travelRate(travel, bytes, seconds));
    };
    out += fmt::format(
        R"({}    {{"function": "{}", "id": {}, "bytes": {}, "times": {}{}{}{}, "waited_ms": {:.4f}}})",
        out.empty() ? "" : ",\n", travel.function, travel.id, travel.bytes, travel.times,
        leg("down", travel.downBytes, travel.down), leg("between", travel.bytes, travel.between),
        leg("up", travel.upBytes, travel.up), travel.waited / times * 1e3);
  }
  return fmt::format("{{\n  \"collectives\": [\n{}\n  ]\n}}\n", out);
}

}  // namespace tg
