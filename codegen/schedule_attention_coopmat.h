// SPDX-License-Identifier: Apache-2.0
// How an attention by matrix units is divided among subgroups: the sizes that its schedule gives, and what follows
// from them. Private to codegen/.
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
  static constexpr int64_t kPatch = 20;  ///< floats from one row of a patch to the next: 16, and 4 of padding

  int64_t rows;   ///< own rows of a workgroup
  int64_t block;  ///< rows of the other side in a step
  int64_t warp;   ///< own rows of a subgroup
  int64_t share;  ///< subgroups that share the same own rows, each with a part of the columns
  int64_t subgroup;

  AttentionFragments(const CoopmatAttentionSchedule& schedule, const Target& target)
      : rows(schedule.tile[0]), block(schedule.tile[1]), warp(schedule.warp), share(schedule.share),
        subgroup(target.subgroup) {}

  /// Columns of matrices whose scores f32x3 computes in an interleaved way, since products of halves depend on each
  /// other. Two take 10 % less time than one for the keys' gradient at heads of 64 on an H200.
  int64_t pairs() const { return block % (2 * kSide) == 0 ? 2 : 1; }
  int64_t subgroups() const { return rows / warp * share; }
  int64_t invocations() const { return subgroups() * subgroup; }
  /// Why the target cannot run an attention with this division, as the rest of a sentence; empty if it can.
  std::string problem(const Op& attention, const Target& target) const;
  /// The columns of an operand or result that a subgroup has: whole matrices, and as many in each subgroup. If the
  /// last one has more than there are, zeros are staged behind the rows.
  int64_t part(int64_t columns) const;
  /// Elements of 16 bytes from one staged row to the next. An odd number, so that rows start in other banks.
  int64_t pitch(const Op& attention) const;
  /// The number of staged rows: both operands of the other side, or one of the own side. For f32x3 those of the
  /// high halves; as many low halves lie behind them.
  int64_t staged() const { return std::max(2 * block, rows); }
  /// Bytes of shared memory that a bias and a keep take.
  int64_t bytesOfMore(const Op& attention) const;
  /// Bytes of shared memory in all.
  int64_t bytes(const Op& attention) const;
};

/// Whether an attention has a bias that differs by query.
bool differsByQuery(const Op& attention);

/// Whether matrix units could compute an attention: its precision has 16 bits or is f32x3, the target tells which
/// elements of a matrix an invocation holds, and every query sees a key.
bool suitsFragments(const Op& attention, const Target& target);

}  // namespace tg
