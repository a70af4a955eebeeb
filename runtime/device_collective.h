// SPDX-License-Identifier: Apache-2.0
// Collectives on buffers of a device.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "runtime/collective/engine.h"
#include "runtime/collective/shared_memory.h"
#include "runtime/vulkan/recording.h"

namespace tg {

/// What one collective of a function has cost so far.
struct CollectiveTimes {
  std::string function;       ///< that has it
  int64_t id = 0, times = 0;  ///< in the function's text; how often it ran
  /// Of one run: bytes this rank sends, and bytes copied to the host's staging buffers and back to the device.
  int64_t bytes = 0, toHostBytes = 0, toDeviceBytes = 0;
  /// Seconds in all runs: the device's copies (0 without timestamps or copies), the exchange between ranks, and how much
  /// of it was exposed: nothing else was left to run.
  double toHost = 0, exchange = 0, toDevice = 0, waited = 0;
};
/// GB/s for `bytes` in each run and `seconds` in all; 0 if `seconds` is 0.
double transferRate(const CollectiveTimes& collective, int64_t bytes, double seconds);
/// {"collectives": […]}, with milliseconds a run and GB/s.
std::string toJson(const std::vector<CollectiveTimes>& collectives);

/// Host memory for one collective at a time: buffers of kStagingBufferBytes each and a smaller last one.
struct StagingBuffers {
  std::shared_ptr<collective::SharedMemory> shared;  ///< that backs the buffers, where all ranks can map it
  std::vector<std::unique_ptr<vulkan::Buffer>> buffers;

  /// Collective.
  static Result<StagingBuffers> create(vulkan::Device& device, const std::string& name, int64_t bytes,
                                       collective::Engine& ranks);
};
constexpr int64_t kStagingBufferBytes = int64_t(64) << 20;

/// The arguments of a collective on f32 ranges of device buffers. allReduce is in place: `receive` is empty. Else ranges
/// pair up: one of each pair holds a shard of every rank, in rank order, and the other this rank's shard.
struct CollectiveArgs {
  collective::Kind kind = collective::Kind::allReduce;
  collective::Reduction reduction = collective::Reduction::mean;
  std::vector<vulkan::Binding> send, receive;
};

/// One collective, which may run many times. The host does not wait for the device's queue and may submit further work
/// at once.
class DeviceCollective {
 public:
  virtual ~DeviceCollective() = default;
  /// Starts it behind the submissions so far.
  virtual Result<void> begin(collective::Engine& ranks) = 0;
  /// Later submissions see its results.
  virtual Result<void> wait(collective::Engine& ranks) = 0;
  /// Waits for a run in flight.
  virtual Result<CollectiveTimes> times() = 0;
};

/// Stages its ranges through host memory, in chunks, so that one is copied while another is reduced.
class StagedCollective final : public DeviceCollective {
 public:
  /// Collective if `staging` is empty; it is then created. `staging` outlives the result; collectives that share it run
  /// one at a time.
  static Result<std::unique_ptr<DeviceCollective>> create(vulkan::Device& device, const std::string& name,
                                                          int64_t id, const CollectiveArgs& args,
                                                          collective::Engine& ranks, StagingBuffers& staging);
  Result<void> begin(collective::Engine& ranks) override;
  Result<void> wait(collective::Engine& ranks) override;
  Result<CollectiveTimes> times() override;

 private:
  struct Chunk {
    std::byte* host;
    int64_t bytes;
    std::unique_ptr<vulkan::Recording> toHost, toDevice;
    int64_t ticket = 0;
  };
  StagedCollective() = default;
  Result<void> addCopyTimes();

  std::shared_ptr<vulkan::Device> device_;
  collective::Kind kind_ = collective::Kind::allReduce;
  collective::Reduction reduction_ = collective::Reduction::mean;
  std::vector<Chunk> chunks_;
  std::shared_ptr<collective::SharedMemory> shared_;  ///< of the staging buffers
  collective::Interval interval_;
  CollectiveTimes times_;
  bool timed_ = false;   ///< the device has timestamps
  bool copied_ = false;  ///< the last run's copies are not in times_ yet
};

}  // namespace tg
