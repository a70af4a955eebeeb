// SPDX-License-Identifier: Apache-2.0
// How an attention that is staged in shared memory is divided among invocations: the sizes that its schedule gives,
// and what follows from them. Private to codegen/.
#pragma once

#include <cstdint>
#include <string>

#include "ir/module.h"
#include "ir/schedule.h"
#include "ir/target.h"

namespace tg {

struct AttentionBlocking {
  int64_t rows;     ///< own rows of a workgroup
  int64_t block;    ///< rows of the other side in a step
  int64_t tile;     ///< own rows whose scores an invocation computes, a multiple of 4
  int64_t columns;  ///< rows of the other side whose scores it computes

  explicit AttentionBlocking(const SharedAttentionSchedule& schedule)
      : rows(schedule.shared[0]), block(schedule.shared[1]), tile(schedule.tile), columns(schedule.block) {}

  /// Why the target cannot run an attention with this division, as the rest of a sentence; empty if it can.
  std::string problem(const Op& attention, const Target& target) const;
  int64_t invocations() const { return rows / tile * (block / columns); }
  /// The number of places along the columns when the invocations divide a result of this width, so that each has
  /// whole fours of rows and columns and a tile that is as square as can be; 0 if there is no such number.
  int64_t resultPlaces(int64_t width) const;
  /// Bytes of shared memory.
  int64_t bytes(const Op& attention) const;
  /// Elements of the rows in a step of the scores.
  static int64_t deepOf(int64_t width, int64_t valueWidth);
  /// Rows of the other side in a step of the results.
  int64_t deepRows() const;
  /// Vectors from one row of a tile to the next; odd, so that rows start in other banks.
  static int64_t pitch(int64_t width) { return width / 4 + 1 - width / 4 % 2; }
};

}  // namespace tg
