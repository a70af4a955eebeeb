// SPDX-License-Identifier: Apache-2.0
// Exports memory and timeline semaphores of a device that was opened with `shared`, as file descriptors, to another API
// on the same GPU. The caller owns the descriptors.
#pragma once

#include <cstdint>
#include <memory>

#include "runtime/vulkan/memory.h"

namespace tg::vulkan {

struct SharedMemory {
  int descriptor = -1;
  int64_t bytes = 0;  ///< of the allocation; the buffer begins at 0
};
/// Exports a buffer of kind `device`, which must outlive its use by the other API.
Result<SharedMemory> shareMemory(const Buffer& buffer);

/// Exports the device's timeline semaphore. It reaches a submission's number (`Recording::lastSubmission`) when that is
/// done.
Result<int> shareSubmissions(Device& device);

/// A timeline semaphore that the other API signals and the device's queue waits for.
class ExternalTimeline {
 public:
  static Result<std::unique_ptr<ExternalTimeline>> create(Device& device);
  /// Waits for all submissions so far.
  ~ExternalTimeline();
  ExternalTimeline(const ExternalTimeline&) = delete;
  ExternalTimeline& operator=(const ExternalTimeline&) = delete;
  Result<int> share() const;
  /// The semaphore's value; 0 before the first signal.
  Result<uint64_t> reached() const;
  /// Makes later submissions wait for this value. Its signal must already be enqueued.
  void await(uint64_t value);

 private:
  struct Impl;
  ExternalTimeline();
  std::unique_ptr<Impl> impl_;
};

}  // namespace tg::vulkan
