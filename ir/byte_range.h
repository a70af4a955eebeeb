// SPDX-License-Identifier: Apache-2.0
// The byte ranges and grids in the commands of modules of the stages planned, kernel and spirv.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>

#include "ir/module.h"

namespace tg {

/// A byte range of a buffer, such as `@arena[1024:512]`.
struct ByteRange {
  std::string buffer;
  int64_t offset = 0, bytes = 0;
  bool operator==(const ByteRange&) const = default;
};

inline bool overlap(const ByteRange& a, const ByteRange& b) {
  return a.buffer == b.buffer && a.offset < b.offset + b.bytes && b.offset < a.offset + a.bytes;
}

/// The range of a verified command's argument, `in(@arena[1024:512])`.
inline ByteRange byteRangeOf(const Operand& argument) {
  const Operand& range = argument.items.front();
  return {range.text, range.items[0].integer, range.items[1].integer};
}

/// The workgroups of a verified dispatch; 1 along axes that it does not name.
inline std::array<int64_t, 3> gridOf(const Op& dispatch) {
  std::array<int64_t, 3> grid{1, 1, 1};
  std::ranges::transform(dispatch.keyword("grid")->items, grid.begin(),
                         [](const Operand& extent) { return extent.integer; });
  return grid;
}

}  // namespace tg
