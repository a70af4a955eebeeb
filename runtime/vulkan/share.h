// SPDX-License-Identifier: Apache-2.0
// What another API on the same GPU takes over of a device that was opened with `shared`: memory, and the order of work.
// Descriptors belong to the caller, who closes them or hands them on.
#pragma once

#include <cstdint>
#include <memory>

#include "runtime/vulkan/memory.h"

namespace tg::vulkan {

struct SharedMemory {
  int descriptor = -1;
  int64_t bytes = 0;  ///< of the memory behind it, in which the buffer begins at 0
};
/// The memory of a buffer of kind `device`, which outlives the other API's use of it.
Result<SharedMemory> shareMemory(const Buffer& buffer);

/// The timeline of a device's submissions: it reaches the number of each (`Recording::lastSubmission`) when that is done.
Result<int> shareSubmissions(Device& device);

/// A timeline that the other API signals and the device waits for.
class Arrivals {
 public:
  static Result<std::unique_ptr<Arrivals>> create(Device& device);
  /// Waits for everything submitted so far.
  ~Arrivals();
  Arrivals(const Arrivals&) = delete;
  Arrivals& operator=(const Arrivals&) = delete;
  Result<int> share() const;
  /// The newest that was signalled; 0 before the first.
  Result<uint64_t> reached() const;
  /// What is submitted from now on starts after this value is reached. The other API has been told to signal it.
  void await(uint64_t value);

 private:
  struct Impl;
  Arrivals();
  std::unique_ptr<Impl> impl_;
};

}  // namespace tg::vulkan
