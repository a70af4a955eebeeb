// SPDX-License-Identifier: Apache-2.0
// The actual bytes of a planned module: @persistent, @io and @arena. Values are read and written where the plan places
// them, so that two values in the same place overwrite each other, as on a device.
#pragma once

#include <cstddef>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "ir/module.h"
#include "ir/result.h"
#include "runtime/interp/nd_array.h"

namespace tg {

class PlannedMemory {
 public:
  /// All buffers of a module of stage planned or later, filled with zeros.
  explicit PlannedMemory(const Module& module);

  /// The bytes [offset, offset + length) of a buffer. If they do not fit, an error at `loc` says so.
  Result<std::span<std::byte>> range(const std::string& buffer, int64_t offset, int64_t length,
                                     const Loc& loc);
  /// Reads a tensor from its place. An i1 is 4 bytes, and true unless 0.
  Result<NdArray> read(const Type& type, const Place& place, const Loc& loc);
  /// Rounds a tensor to its type and stores it.
  Result<void> write(const NdArray& array, const Place& place, const Loc& loc);
  /// Overwrites a place with a pattern that is NaN as f32, and far out of range as an index.
  Result<void> poison(const Type& type, const Place& place, const Loc& loc);
  void poisonArena();

 private:
  std::map<std::string, std::vector<std::byte>> buffers_;
};

}  // namespace tg
