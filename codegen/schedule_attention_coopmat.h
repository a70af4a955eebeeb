// SPDX-License-Identifier: Apache-2.0
// How an attention by matrix units is divided among subgroups. Private to codegen/.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>

#include "ir/module.h"
#include "ir/schedule.h"
#include "ir/target.h"

namespace tg {

struct AttentionFragments {
  static constexpr int64_t kSide = 16;   ///< rows and columns of a matrix
  static constexpr int64_t kPatch = 20;  ///< floats from one row of a patch to the next

  int64_t rows;   ///< of its own side that a workgroup holds
  int64_t block;  ///< rows of the other side in a step
  int64_t warp;   ///< own rows of a subgroup
  int64_t share;  ///< subgroups that have the same own rows, each a part of the columns
  int64_t subgroup;

  AttentionFragments(const CoopmatAttentionSchedule& schedule, const Target& target)
      : rows(schedule.tile[0]), block(schedule.tile[1]), warp(schedule.warp), share(schedule.share),
        subgroup(target.subgroup) {}

  /// Columns of matrices whose scores f32x3 computes side by side: products of halves wait for each other. 10 % less
  /// time of the keys' gradient at heads of 64 on an H200 than with one.
  int64_t pairs() const { return block % (2 * kSide) == 0 ? 2 : 1; }
  int64_t subgroups() const { return rows / warp * share; }
  int64_t invocations() const { return subgroups() * subgroup; }
  /// Why the attention cannot be divided so on the target, as the rest of a sentence; empty if it can.
  std::string problem(const Op& attention, const Target& target) const;
  /// Of so many columns of an operand or a result those that a subgroup has: whole matrices, as many in each subgroup.
  /// Where the last has more than there are, zeros are staged behind the rows.
  int64_t part(int64_t columns) const;
  /// Elements of 16 bytes from one staged row to the next: an odd number keeps rows in other banks.
  int64_t pitch(const Op& attention) const;
  /// Staged rows: both of the other side's operands, or one of the own side. Of f32x3 those of the high halves; as
  /// many of low ones lie behind them.
  int64_t staged() const { return std::max(2 * block, rows); }
  /// Of shared memory.
  int64_t bytes(const Op& attention) const;
};

/// Whether an attention of 16 bits or of f32x3 may be one of the matrix units: the target tells which elements of a
/// matrix an invocation has, and every query sees a key.
bool suitsFragments(const Op& attention, const Target& target);

}  // namespace tg
