// SPDX-License-Identifier: Apache-2.0
// Memory that the ranks of one host see of each other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "ir/result.h"

namespace tg::collective {

class Engine;

/// As many bytes of each rank, zeros at first, in whole pages. What one writes the others see once they have heard
/// that it is there.
class SharedMemory {
 public:
  /// A meeting of all ranks. Null on all of them where one runs on another host, or may not open another's memory.
  static Result<std::shared_ptr<SharedMemory>> create(Engine& ranks, int64_t bytes);
  ~SharedMemory();
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;

  /// As asked for, in whole pages of 64 KiB, which are as large as devices ask for.
  int64_t bytes() const { return bytes_; }
  std::byte* of(int rank) const { return bases_[static_cast<size_t>(rank)]; }

 private:
  SharedMemory() = default;
  int64_t bytes_ = 0;
  std::vector<std::byte*> bases_;  ///< null: not seen
};

}  // namespace tg::collective
