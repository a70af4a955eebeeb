// SPDX-License-Identifier: Apache-2.0
// Collectives by NCCL on buffers of a Vulkan device. Exported timeline semaphores order the work: CUDA's stream waits
// for the device's submissions, and later submissions wait for the stream. The host waits for neither.
#pragma once

#include <map>
#include <memory>
#include <mutex>

#include "runtime/collective/nccl_engine.h"
#include "runtime/device_collective.h"
#include "runtime/vulkan/share.h"

namespace tg {

/// A Vulkan device, opened with shareable memory, and NCCL on the same GPU. The engine must outlive it. A GPU
/// alternates between Vulkan's and CUDA's kernels, so collectives do not overlap with kernels, and each change costs
/// about 0.3 ms. On one host, with its fast links, all collectives that have begun therefore run as one group when the
/// first of them is waited for.
class NcclDevice : public std::enable_shared_from_this<NcclDevice> {
 public:
  static Result<std::shared_ptr<NcclDevice>> create(vulkan::Device& device, collective::NcclEngine& ranks);
  ~NcclDevice();
  NcclDevice(const NcclDevice&) = delete;
  NcclDevice& operator=(const NcclDevice&) = delete;

  /// Collectives that run in one NCCL group.
  struct Group {
    std::vector<collective::NcclEngine::Collective> collectives;
    int64_t bytes = 0;     ///< bytes that a rank sends
    uint64_t signal = 0;   ///< the value of `finished_` at its end; 0 until launched
    bool awaited = false;  ///< later submissions wait for it

    std::mutex mutex;  ///< guards the members below, which the engine's thread writes
    /// Before the wait: when it is done, the device is idle. 0 if not known yet.
    uint64_t lastSubmission = 0;
    bool done = false;
    double exchange = 0, waited = 0;  ///< seconds, set when it is done
  };
  /// Adds collectives to the group that is launched next.
  Result<std::shared_ptr<Group>> begin(std::span<const collective::NcclEngine::Collective> collectives,
                                       int64_t bytes);
  /// Makes later submissions wait for the group's results.
  Result<void> wait(Group& group);

  /// A buffer's memory, imported into CUDA. It is imported only once while in use.
  Result<std::shared_ptr<collective::CudaMemory>> memoryOf(vulkan::Buffer& buffer);
  /// The `Group::signal` of the last group that has finished.
  Result<uint64_t> finished() const { return finished_->reached(); }
  vulkan::Device& device() const { return *device_; }
  int64_t ranks() const { return ranks_.ranks(); }

 private:
  explicit NcclDevice(collective::NcclEngine& ranks) : ranks_(ranks) {}
  Result<void> launch();

  collective::NcclEngine& ranks_;
  std::shared_ptr<vulkan::Device> device_;
  std::unique_ptr<vulkan::ExternalTimeline> finished_;         ///< counts finished groups
  std::shared_ptr<collective::CudaTimeline> cudaFinished_;     ///< the same semaphore in CUDA
  std::shared_ptr<collective::CudaTimeline> cudaSubmissions_;  ///< the device's timeline in CUDA
  std::shared_ptr<Group> next_;                                ///< the group to launch next; null if empty
  uint64_t lastSignal_ = 0;
  std::map<const vulkan::Buffer*, std::weak_ptr<collective::CudaMemory>> memories_;
};

class NcclCollective final : public DeviceCollective {
 public:
  /// `id` is the collective's id in the module's text.
  static Result<std::unique_ptr<DeviceCollective>> create(std::shared_ptr<NcclDevice> device, int64_t id,
                                                          const CollectiveArgs& args);
  Result<void> begin(collective::Engine& ranks) override;
  Result<void> wait(collective::Engine& ranks) override;
  Result<CollectiveTimes> times() override;

 private:
  NcclCollective() = default;
  Result<void> add(const vulkan::Binding& send, const vulkan::Binding& receive, const CollectiveArgs& args);
  Result<void> addTimes();

  std::shared_ptr<NcclDevice> device_;
  std::vector<std::shared_ptr<collective::CudaMemory>> memories_;
  std::vector<collective::NcclEngine::Collective> collectives_;
  std::shared_ptr<NcclDevice::Group> group_;  ///< the last run's group, until its times are added
  CollectiveTimes times_;
};

}  // namespace tg
