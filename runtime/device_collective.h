// SPDX-License-Identifier: Apache-2.0
// Collectives on device buffers: an interface, and the implementation that stages data through host memory.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "runtime/collective/engine.h"
#include "runtime/collective/shared_memory.h"
#include "runtime/vulkan/recording.h"

namespace tg {

/// The cost of one collective of a function so far.
struct CollectiveTimes {
  std::string function;       ///< the function that has it
  int64_t id = 0, times = 0;  ///< the id in its text; how often it ran
  /// For one run: bytes this rank sends, and bytes copied to the host's staging buffers and back to the device.
  int64_t bytes = 0, toHostBytes = 0, toDeviceBytes = 0;
  /// Total seconds of all runs: the device's copies (0 without timestamps or copies), the exchange between ranks, and
  /// the exposed part of the exchange, in which the device had nothing else to run.
  double toHost = 0, exchange = 0, toDevice = 0, waited = 0;
};
/// GB/s of runs that move `bytes` each and take `seconds` together; 0 if `seconds` is 0.
double transferRate(const CollectiveTimes& collective, int64_t bytes, double seconds);
/// {"collectives": […]}, with milliseconds for each run and GB/s.
std::string toJson(const std::vector<CollectiveTimes>& collectives);

/// Host memory for one collective at a time: buffers of kStagingBufferBytes each and a smaller last one.
struct StagingBuffers {
  /// The memory behind the buffers, if all ranks can map it.
  std::shared_ptr<collective::SharedMemory> shared;
  std::vector<std::unique_ptr<vulkan::Buffer>> buffers;

  /// All ranks call this together.
  static Result<StagingBuffers> create(vulkan::Device& device, const std::string& name, int64_t bytes,
                                       collective::Engine& ranks);
};
constexpr int64_t kStagingBufferBytes = int64_t(64) << 20;

/// The operands of a collective: f32 ranges of device buffers. allReduce is in place, and `receive` is empty. In the
/// other kinds ranges pair up: one range of a pair holds a shard of every rank, in rank order, and the other holds this
/// rank's shard.
struct CollectiveArgs {
  collective::Kind kind = collective::Kind::allReduce;
  collective::Reduction reduction = collective::Reduction::mean;
  std::vector<vulkan::Binding> send, receive;
};

/// One collective, which may run many times. The host does not wait for the device's queue, and may submit more work at
/// once.
class DeviceCollective {
 public:
  virtual ~DeviceCollective() = default;
  /// Starts a run after the submissions so far.
  virtual Result<void> begin(collective::Engine& ranks) = 0;
  /// Makes later submissions wait for the run's results.
  virtual Result<void> wait(collective::Engine& ranks) = 0;
  /// The cost so far. Waits for a run in flight.
  virtual Result<CollectiveTimes> times() = 0;
};

/// Copies its ranges through host memory in chunks, so that one chunk is copied while another is reduced.
class StagedCollective final : public DeviceCollective {
 public:
  /// Creates `staging` if it is empty, in which case all ranks must call this together. `staging` must outlive the
  /// result. Collectives that share it must run one at a time.
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
  std::shared_ptr<collective::SharedMemory> shared_;  ///< backs the staging buffers
  collective::Interval interval_;
  CollectiveTimes times_;
  bool timed_ = false;   ///< the device has timestamps
  bool copied_ = false;  ///< the last run's copy times are not in times_ yet
};

}  // namespace tg
