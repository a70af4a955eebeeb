// SPDX-License-Identifier: Apache-2.0
// The real bytes of a planned module: @persistent, @io and @arena, read and written as the plan
// places values, so that two values in one place spoil each other as they would on a device.
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
  /// All buffers of a module of stage planned or later, zeroed.
  explicit PlannedMemory(const Module& module);

  /// The bytes [offset, offset + length) of a buffer, or an error at `loc` that says what does not fit.
  Result<std::span<std::byte>> range(const std::string& buffer, int64_t offset, int64_t length,
                                     const Loc& loc);
  /// A tensor from its place; i1 is 4 bytes, true when not 0.
  Result<NdArray> read(const Type& type, const Place& place, const Loc& loc);
  /// Rounds a tensor to its type and stores it. Bytes between the rows of a pitch stay.
  Result<void> write(const NdArray& array, const Place& place, const Loc& loc);
  /// Makes the bytes of a place meaningless: NaN as f32, far out of any range as an index.
  Result<void> poison(const Type& type, const Place& place, const Loc& loc);
  void poisonArena();

 private:
  std::map<std::string, std::vector<std::byte>> buffers_;
};

/// Bytes from the first to the last element of a tensor at a place with this pitch.
int64_t placedBytes(const Type& type, const Place& place);

}  // namespace tg
