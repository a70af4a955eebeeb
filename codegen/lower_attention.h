// SPDX-License-Identifier: Apache-2.0
// The attention of a region and where its results are stored: shared by its lowerings. Private to codegen/.
#pragma once

#include "codegen/lower_schedules.h"

namespace tg {

/// The attention, or one of its two gradients, that a region computes.
struct AttentionRegion {
  const Op* op = nullptr;
  int64_t queries = 0, keys = 0, batch = 1;  ///< batch is the product of the leading axes
  Shape lead;
  bool causal = false;
  KV scale;

  /// An error where the region has none.
  static Result<AttentionRegion> of(const LowerContext& c);

  /// The first row of the own side, queries or keys, that a workgroup of `rows` of them has. Groups with the most
  /// work go first: under a mask those of the last queries, or of the first keys.
  Index firstRow(LowerContext& c, const Index& group, int64_t rows, bool forKeys) const;
  /// The blocks of the other side of which some row from `first` on, of so many, sees a row: [from, to).
  std::pair<KV, KV> blocks(LowerContext& c, const Index& first, int64_t rows, int64_t block,
                           bool forKeys) const;
};

/// The kernel of a region whose attention workgroups divide by `division`, each by one Emitter.
template <class Emitter, class Division>
Result<void> lowerByGroups(LowerContext& c, const Division& division) {
  TG_TRY(AttentionRegion region, AttentionRegion::of(c));
  const std::string problem = division.problem(*region.op, c.target);
  if (!problem.empty()) return failAt(c.fused.loc, "schedule " + c.schedule.str() + " " + problem);
  const int64_t own = region.op->code == Opcode::attention_grad_kv ? region.keys : region.queries;
  c.launchGroups(region.batch * ((own + division.rows - 1) / division.rows), division.invocations(),
                 [&](const Index& group) { Emitter(c, region, division).emit(group); });
  return {};
}

/// Declares a result's elements at a row-major `offset`, four where it has lanes, and stores them where the region
/// yields the result, or it rounded. Of eight elements the second four follow; such are stored at once where memory
/// has 16 bits.
void storeAttention(LowerContext& c, const Value* result, const Index& offset, const KV& value,
                    const KV* following = nullptr);

}  // namespace tg
