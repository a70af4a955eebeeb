// SPDX-License-Identifier: Apache-2.0
// Bytes of a device that ranks bring together without the host: NCCL works where Vulkan's buffers lie, behind their last
// writer and before their next reader, both told by timelines that the two see.
#pragma once

#include <map>
#include <memory>
#include <mutex>

#include "runtime/collective/nccl_engine.h"
#include "runtime/travel.h"
#include "runtime/vulkan/share.h"

namespace tg {

/// A device that was opened to be shared, as the GPU of an engine, which outlives it. Kernels of Vulkan and of CUDA take
/// turns on a GPU, so nothing is gained by travelling under Vulkan's, and each turn costs: on one host, whose links are
/// fast, what has begun leaves when it is first waited for, all in one turn.
class NcclDevice : public std::enable_shared_from_this<NcclDevice> {
 public:
  static Result<std::shared_ptr<NcclDevice>> create(vulkan::Device& device, collective::NcclEngine& ranks);
  ~NcclDevice();
  NcclDevice(const NcclDevice&) = delete;
  NcclDevice& operator=(const NcclDevice&) = delete;

  /// What leaves together, and what is seen of it.
  struct Batch {
    std::vector<collective::NcclEngine::Load> loads;
    int64_t bytes = 0;     ///< that a rank sends
    uint64_t arrival = 0;  ///< the value of the arrivals at its end; 0 before it leaves
    bool awaited = false;  ///< by submissions

    std::mutex mutex;  ///< of what follows, which the engine's thread sees
    uint64_t behind =
        0;  ///< the submission after which nothing is left to do but to wait, 0 if not known yet
    bool back = false;
    double between = 0, waited = 0;  ///< seconds, when it is back
  };
  /// Adds to the batch that leaves next.
  Result<std::shared_ptr<Batch>> begin(std::span<const collective::NcclEngine::Load> loads, int64_t bytes);
  /// What is submitted from now on finds what the batch brings.
  Result<void> wait(Batch& batch);

  /// A buffer's memory, as long as somebody needs it there.
  Result<std::shared_ptr<collective::CudaMemory>> memoryOf(vulkan::Buffer& buffer);
  /// The newest batch that is back, by its arrival.
  Result<uint64_t> arrived() const { return arrivals_->reached(); }
  vulkan::Device& device() const { return *device_; }
  int64_t ranks() const { return ranks_.ranks(); }

 private:
  explicit NcclDevice(collective::NcclEngine& ranks) : ranks_(ranks) {}
  Result<void> send();

  collective::NcclEngine& ranks_;
  std::shared_ptr<vulkan::Device> device_;
  std::unique_ptr<vulkan::Arrivals> arrivals_;
  std::shared_ptr<collective::CudaTimeline> submissions_, arriving_;
  std::shared_ptr<Batch> next_;  ///< null where nothing is to leave
  uint64_t last_ = 0;            ///< of the arrivals
  std::map<const vulkan::Buffer*, std::weak_ptr<collective::CudaMemory>> memories_;
};

class NcclTravel final : public Travel {
 public:
  /// Of the collective `id`.
  static Result<std::unique_ptr<Travel>> create(std::shared_ptr<NcclDevice> device, int64_t id,
                                                const Cargo& cargo);
  Result<void> begin(collective::Engine& ranks) override;
  Result<void> wait(collective::Engine& ranks) override;
  Result<TravelTimes> times() override;

 private:
  NcclTravel() = default;
  Result<void> add(const vulkan::Binding& from, const vulkan::Binding& to, const Cargo& cargo);
  Result<void> addTimes();

  std::shared_ptr<NcclDevice> device_;
  std::vector<std::shared_ptr<collective::CudaMemory>> memories_;
  std::vector<collective::NcclEngine::Load> loads_;
  std::shared_ptr<NcclDevice::Batch> batch_;  ///< the last, until its times are taken
  TravelTimes times_;
};

}  // namespace tg
