// SPDX-License-Identifier: Apache-2.0
// Collectives in memory of NVIDIA GPUs, by NCCL. Host memory, texts and heartbeats are left to another engine of the
// same ranks.
#pragma once

#include <condition_variable>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "runtime/collective/engine.h"
#include "runtime/collective/nccl_library.h"

namespace tg::collective {

/// A CUDA device with one stream. Imports memory and timeline semaphores of Vulkan by file descriptors.
class CudaGpu : public std::enable_shared_from_this<CudaGpu> {
 public:
  /// Opens the device with the UUID that Vulkan reports (8-4-4-4-12 digits). An error if CUDA has no such device.
  static Result<std::shared_ptr<CudaGpu>> open(std::shared_ptr<const NcclLibrary> library,
                                               const std::string& uuid);
  ~CudaGpu();
  CudaGpu(const CudaGpu&) = delete;
  CudaGpu& operator=(const CudaGpu&) = delete;

  const NcclLibrary& library() const { return *library_; }
  CudaHandle stream() const { return stream_; }
  /// Makes the GPU's context current on this thread.
  Result<void> enter() const;
  /// Waits for the stream.
  Result<void> finish() const;

 private:
  CudaGpu() = default;
  std::shared_ptr<const NcclLibrary> library_;
  int device_ = -1;
  CudaHandle context_ = nullptr, stream_ = nullptr;
};

/// Imported memory. Its destructor waits for the stream.
class CudaMemory {
 public:
  /// Maps the whole allocation. Takes ownership of the descriptor.
  static Result<std::shared_ptr<CudaMemory>> create(std::shared_ptr<CudaGpu> gpu, int descriptor,
                                                    int64_t bytes);
  ~CudaMemory();
  CudaMemory(const CudaMemory&) = delete;
  CudaMemory& operator=(const CudaMemory&) = delete;
  CudaAddress address() const { return address_; }

 private:
  CudaMemory() = default;
  std::shared_ptr<CudaGpu> gpu_;
  CudaHandle memory_ = nullptr;
  CudaAddress address_ = 0;
};

/// An imported timeline semaphore. Its destructor waits for the stream.
class CudaTimeline {
 public:
  /// Takes ownership of the descriptor.
  static Result<std::shared_ptr<CudaTimeline>> create(std::shared_ptr<CudaGpu> gpu, int descriptor);
  ~CudaTimeline();
  CudaTimeline(const CudaTimeline&) = delete;
  CudaTimeline& operator=(const CudaTimeline&) = delete;
  /// Enqueues a wait for this value on the stream.
  Result<void> await(uint64_t value) const;
  /// Enqueues a signal of this value on the stream.
  Result<void> signal(uint64_t value) const;

 private:
  CudaTimeline() = default;
  Result<void> enqueue(NcclLibrary::SemaphoreCall work, uint64_t value, const char* doing) const;
  std::shared_ptr<CudaGpu> gpu_;
  CudaHandle semaphore_ = nullptr;
};

class NcclEngine final : public Engine {
 public:
  using Clock = Interval::Clock;
  /// The arguments of one NCCL collective on f32 elements. An allReduce may be in place.
  struct Collective {
    Kind kind = Kind::allReduce;
    Reduction reduction = Reduction::sum;
    CudaAddress send = 0, receive = 0;
    int64_t count = 0;  ///< elements of a shard; for allReduce, of the whole
  };
  /// Polled by a thread of the engine until it returns the interval in which a run was executed. `before` is the end of
  /// the previous run.
  using Observer = std::function<std::optional<Interval>(Clock::time_point before)>;

  /// ncclGetUniqueId, called by rank 0.
  static Result<std::string> makeId(const NcclLibrary& library);
  /// All ranks of `host` call this together, each with its own GPU and the same id. Errors: those of NCCL; `host` has
  /// lost a rank.
  static Result<std::shared_ptr<NcclEngine>> join(std::shared_ptr<Engine> host, std::shared_ptr<CudaGpu> gpu,
                                                  const std::string& id, bool oneHost = true);
  /// Waits for the other ranks' engines to end too, unless something has failed.
  ~NcclEngine() override;
  NcclEngine(const NcclEngine&) = delete;
  NcclEngine& operator=(const NcclEngine&) = delete;

  int rank() const override { return host_->rank(); }
  int ranks() const override { return host_->ranks(); }
  std::string describe() const override;
  Result<int64_t> begin(const Task& task) override { return host_->begin(task); }
  Result<void> wait(int64_t ticket) override { return host_->wait(ticket); }
  /// The traffic of the collectives on the GPUs. `waited` is 0, as only the device knows it.
  Traffic traffic() const override;
  Result<std::vector<std::string>> allGather(const std::string& own) override {
    return host_->allGather(own);
  }
  bool failed() const override { return host_->failed(); }
  bool reportsFailure() const override { return host_->reportsFailure(); }
  void abort(int code) override { host_->abort(code); }
  NcclEngine* nccl() override { return this; }

  const std::shared_ptr<CudaGpu>& gpu() const { return gpu_; }
  /// The reason why collectives fail from now on; empty while they work.
  Error failure();
  /// Aborts the communicator without the other ranks, which do the same.
  void quit() { abortAll(fail("the ranks do not use NCCL")); }
  /// Whether all ranks run on one host.
  bool onOneHost() const { return oneHost_; }
  /// Enqueues one NCCL group on the stream. All ranks pass the same collectives, none of which reads another's result.
  Result<void> run(std::span<const Collective> group);
  /// Observes the run that was enqueued last.
  void observe(Observer observer);
  /// Sets an owner's handler, or removes it if null. A thread of the engine calls it once, with the reason, when runs
  /// in flight will never complete. The handler must wake whatever waits for them.
  void onFailure(const void* owner, std::function<void(const Error&)> handler);

 private:
  NcclEngine(std::shared_ptr<Engine> host, std::shared_ptr<CudaGpu> gpu)
      : host_(std::move(host)), gpu_(std::move(gpu)) {}
  Result<void> start(const std::string& id);
  void watch();
  void poll(std::list<Observer>& observers);
  void abortAll(const Error& why);

  std::shared_ptr<Engine> host_;
  std::shared_ptr<CudaGpu> gpu_;
  bool oneHost_ = true;
  CudaHandle communicator_ = nullptr;  ///< null after an abort

  mutable std::mutex mutex_;  ///< guards the members below, up to closing_
  std::condition_variable changed_;
  std::list<Observer> observers_;  ///< not yet taken by the thread
  std::map<const void*, std::function<void(const Error&)>> handlers_;
  Traffic traffic_;
  Error failure_;
  bool closing_ = false;

  // Used only by the thread: the end of the last run, the last check for errors, and the first error of NCCL.
  Clock::time_point before_{}, asked_{}, suspect_{};
  std::thread thread_;
};

}  // namespace tg::collective
