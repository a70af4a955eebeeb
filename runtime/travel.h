// SPDX-License-Identifier: Apache-2.0
// Bytes of a device that ranks bring together.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "runtime/collective/engine.h"
#include "runtime/collective/shared_memory.h"
#include "runtime/vulkan/recording.h"

namespace tg {

/// What a travel of so many bytes has cost so far.
struct TravelTimes {
  std::string function;       ///< that has the collective
  int64_t id = 0, times = 0;  ///< of the collective, how often
  /// Of one travel: what this rank sends the others and gets from them, what is copied to the host, and back.
  int64_t bytes = 0, downBytes = 0, upBytes = 0;
  /// Seconds: the device's copies to the host and back (0 where it has no timestamps or there are none), from the first
  /// bytes' start between the ranks to the last ones' end, and for how long of that nothing else was left to do.
  double down = 0, between = 0, up = 0, waited = 0;
};
/// 10^9 bytes a second, where so many take `seconds` in all travels; 0 where they take none.
double travelRate(const TravelTimes& travel, int64_t bytes, double seconds);
/// {"collectives": […]}, milliseconds and GB/s of each travel.
std::string toJson(const std::vector<TravelTimes>& travels);

/// Memory of the host for the bytes of travels, of which one at a time is under way: buffers of `kTravelBuffer` bytes
/// each and a smaller last one.
struct TravelRoom {
  std::shared_ptr<collective::SharedMemory> shared;  ///< what the buffers are, where ranks see each other's
  std::vector<std::unique_ptr<vulkan::Buffer>> buffers;

  /// A meeting of all ranks.
  static Result<TravelRoom> create(vulkan::Device& device, const std::string& name, int64_t bytes,
                                   collective::Engine& ranks);
};
constexpr int64_t kTravelBuffer = int64_t(64) << 20;

/// What a travel does to ranges of f32 of a device. Whole ranges are one part for each rank, in their order; they
/// become their reduction in place (`to` is empty then), or go to and come from ranges of this rank's part of each.
struct Cargo {
  collective::Kind kind = collective::Kind::allReduce;
  collective::Reduction reduction = collective::Reduction::mean;
  std::vector<vulkan::Binding> from, to;
};

/// Ranges of f32 on a device. The device's queue is never waited for by the host, which goes on with what comes behind
/// the ranges' last writer.
class Travel {
 public:
  virtual ~Travel() = default;
  /// Sends what the submissions so far write to the ranges.
  virtual Result<void> begin(collective::Engine& ranks) = 0;
  /// What is submitted from now on finds the results in the ranges.
  virtual Result<void> wait(collective::Engine& ranks) = 0;
  /// Waits for what is under way.
  virtual Result<TravelTimes> times() = 0;
};

/// Ranges that are copied to the host, reduced there and copied back, in pieces: one is copied while another is reduced.
class HostTravel final : public Travel {
 public:
  /// Of the collective `id`. The room outlives the travel; an empty one is made as large as needed, in a meeting of all
  /// ranks, and another travel of the same ranges has left it so.
  static Result<std::unique_ptr<Travel>> create(vulkan::Device& device, const std::string& name, int64_t id,
                                                const Cargo& cargo, collective::Engine& ranks,
                                                TravelRoom& room);
  Result<void> begin(collective::Engine& ranks) override;
  Result<void> wait(collective::Engine& ranks) override;
  Result<TravelTimes> times() override;

 private:
  struct Piece {
    std::byte* host;
    int64_t bytes;
    std::unique_ptr<vulkan::Recording> down, up;
    int64_t ticket = 0;
  };
  HostTravel() = default;
  Result<void> addCopies();

  std::shared_ptr<vulkan::Device> device_;
  collective::Kind kind_ = collective::Kind::allReduce;
  collective::Reduction reduction_ = collective::Reduction::mean;
  std::vector<Piece> pieces_;
  std::shared_ptr<collective::SharedMemory> shared_;  ///< the room's
  collective::Journey journey_;
  TravelTimes times_;
  bool timed_ = false, copied_ = false;  ///< the device has timestamps; copies whose times nobody has read
};

}  // namespace tg
