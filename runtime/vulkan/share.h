// SPDX-License-Identifier: Apache-2.0
// Exports memory and timeline semaphores of a device that was opened with `shared` to another API on the same GPU, as
// file descriptors. The caller owns them.
#pragma once

#include <cstdint>
#include <memory>

#include "runtime/vulkan/memory.h"

namespace tg::vulkan {

struct SharedMemory {
  int descriptor = -1;
  int64_t bytes = 0;  ///< of the allocation; the buffer starts at 0
};
/// Of a buffer of kind `device`, which must outlive the other API's use.
Result<SharedMemory> shareMemory(const Buffer& buffer);

/// The device's timeline semaphore, which reaches a submission's number (`Recording::lastSubmission`) when that is done.
Result<int> shareSubmissions(Device& device);

/// A timeline semaphore that the other API signals and the device's queue waits for.
class ExternalTimeline {
 public:
  static Result<std::unique_ptr<ExternalTimeline>> create(Device& device);
  /// Waits for everything submitted so far.
  ~ExternalTimeline();
  ExternalTimeline(const ExternalTimeline&) = delete;
  ExternalTimeline& operator=(const ExternalTimeline&) = delete;
  Result<int> share() const;
  /// The semaphore's value; 0 before the first signal.
  Result<uint64_t> reached() const;
  /// Later submissions wait for this value. Its signal must be enqueued already.
  void await(uint64_t value);

 private:
  struct Impl;
  ExternalTimeline();
  std::unique_ptr<Impl> impl_;
};

}  // namespace tg::vulkan
