// SPDX-License-Identifier: Apache-2.0
// Ranks that bring together what lies on their NVIDIA GPUs without the host, by NCCL. All else (meetings, values of the host,
// signs of life) is another engine's, by which the ranks have met.
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

/// A GPU as CUDA sees it, and a stream of its work, which is done in order. Memory and timelines of another API come in
/// as descriptors.
class CudaGpu : public std::enable_shared_from_this<CudaGpu> {
 public:
  /// The GPU of this UUID, as Vulkan tells it (8-4-4-4-12 digits). An error where CUDA has none.
  static Result<std::shared_ptr<CudaGpu>> open(std::shared_ptr<const NcclLibrary> library,
                                               const std::string& uuid);
  ~CudaGpu();
  CudaGpu(const CudaGpu&) = delete;
  CudaGpu& operator=(const CudaGpu&) = delete;

  const NcclLibrary& library() const { return *library_; }
  CudaHandle stream() const { return stream_; }
  /// Has this thread's calls be of this GPU.
  Result<void> enter() const;
  Result<void> finish() const;

 private:
  CudaGpu() = default;
  std::shared_ptr<const NcclLibrary> library_;
  int device_ = -1;
  CudaHandle context_ = nullptr, stream_ = nullptr;
};

/// Memory of another API. Waits for the stream at its end.
class CudaMemory {
 public:
  /// All bytes of the memory behind a descriptor, which this takes.
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

/// A timeline of another API, which counts up. Waits for the stream at its end.
class CudaTimeline {
 public:
  /// Of the semaphore behind a descriptor, which this takes.
  static Result<std::shared_ptr<CudaTimeline>> create(std::shared_ptr<CudaGpu> gpu, int descriptor);
  ~CudaTimeline();
  CudaTimeline(const CudaTimeline&) = delete;
  CudaTimeline& operator=(const CudaTimeline&) = delete;
  /// The stream's work from now on waits for this value, or gives it when that before is done.
  Result<void> await(uint64_t value) const;
  Result<void> signal(uint64_t value) const;

 private:
  CudaTimeline() = default;
  Result<void> add(NcclLibrary::SemaphoreCall work, uint64_t value, const char* doing) const;
  std::shared_ptr<CudaGpu> gpu_;
  CudaHandle semaphore_ = nullptr;
};

class NcclEngine final : public Engine {
 public:
  using Clock = Journey::Clock;
  /// Elements of f32 on the GPU that ranks bring together, by kind: `count` of a rank's part, of allReduce all. What
  /// allReduce takes it may put in its place.
  struct Load {
    Kind kind = Kind::allReduce;
    Reduction reduction = Reduction::sum;
    CudaAddress from = 0, to = 0;
    int64_t count = 0;
  };
  /// Asked by a thread of the engine, again and again, until it says from when to when a run was under way. It is
  /// given when the one before was done.
  using Observer = std::function<std::optional<Journey>(Clock::time_point before)>;

  /// What rank 0 tells the others before they join.
  static Result<std::string> makeId(const NcclLibrary& library);
  /// A meeting of all ranks of `host`, each with a GPU of its own and the same id. Errors: what NCCL says; a rank that
  /// `host` has lost, which then has failed.
  static Result<std::shared_ptr<NcclEngine>> join(std::shared_ptr<Engine> host, std::shared_ptr<CudaGpu> gpu,
                                                  const std::string& id, bool oneHost = true);
  /// Waits for the other ranks to end theirs, unless something has failed.
  ~NcclEngine() override;
  NcclEngine(const NcclEngine&) = delete;
  NcclEngine& operator=(const NcclEngine&) = delete;

  int rank() const override { return host_->rank(); }
  int ranks() const override { return host_->ranks(); }
  std::string describe() const override;
  Result<int64_t> begin(const Task& task) override { return host_->begin(task); }
  Result<void> wait(int64_t ticket) override { return host_->wait(ticket); }
  /// Of what was brought together on the GPUs, `waited` excepted, which devices know.
  Traffic traffic() const override;
  Result<std::vector<std::string>> gather(const std::string& own) override { return host_->gather(own); }
  bool failed() const override { return host_->failed(); }
  bool speaks() const override { return host_->speaks(); }
  void abort(int code) override { host_->abort(code); }
  NcclEngine* onGpus() override { return this; }

  const std::shared_ptr<CudaGpu>& gpu() const { return gpu_; }
  /// Why nothing is brought together any more; empty while it is.
  Error failure();
  /// Ends this rank's part without the others, which do the same.
  void quit() { giveUp(fail("the ranks have parted")); }
  /// Whether all ranks run on one host, whose GPUs are near to each other.
  bool onOneHost() const { return oneHost_; }
  /// Adds to the stream's work; all ranks call it with the same loads, none of which takes what another brings.
  Result<void> run(std::span<const Load> loads);
  void observe(Observer observer);
  /// Called once, by a thread of the engine, when what is under way will never be done: with why. What waits for them is to be
  /// woken. The last handler of an owner counts, and a null one takes it back.
  void onFailure(const void* owner, std::function<void(const Error&)> handler);

 private:
  NcclEngine(std::shared_ptr<Engine> host, std::shared_ptr<CudaGpu> gpu)
      : host_(std::move(host)), gpu_(std::move(gpu)) {}
  Result<void> start(const std::string& id);
  void watch();
  void look(std::list<Observer>& observers);
  void giveUp(const Error& why);

  std::shared_ptr<Engine> host_;
  std::shared_ptr<CudaGpu> gpu_;
  bool oneHost_ = true;
  CudaHandle communicator_ = nullptr;  ///< null where it is aborted

  mutable std::mutex mutex_;  ///< of what follows
  std::condition_variable changed_;
  std::list<Observer> observers_;  ///< new ones
  std::map<const void*, std::function<void(const Error&)>> handlers_;
  Traffic traffic_;
  Error failure_;
  bool closing_ = false;

  /// When the last run was done, NCCL was last asked, and first told of a failure.
  Clock::time_point before_{}, asked_{}, suspect_{};  ///< the thread's
  std::thread thread_;
};

}  // namespace tg::collective
