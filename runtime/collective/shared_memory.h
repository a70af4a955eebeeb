// SPDX-License-Identifier: Apache-2.0
// Memory that all ranks of a host map.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "ir/result.h"

namespace tg::collective {

class Engine;

/// A region of memory for each rank, mapped by all ranks and zero at first. A message from the writer orders its writes
/// before the receiver's reads.
class SharedMemory {
 public:
  /// All ranks call this together. Null on all ranks if one of them runs on another host or may not open the others'
  /// memory.
  static Result<std::shared_ptr<SharedMemory>> create(Engine& ranks, int64_t bytes);
  ~SharedMemory();
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;

  /// The size of each region: as requested, rounded up to 64 KiB, the largest alignment that devices require of
  /// imported host memory.
  int64_t bytes() const { return bytes_; }
  std::byte* of(int rank) const { return bases_[static_cast<size_t>(rank)]; }

 private:
  SharedMemory() = default;
  int64_t bytes_ = 0;
  std::vector<std::byte*> bases_;  ///< by rank; null: not mapped
};

}  // namespace tg::collective
