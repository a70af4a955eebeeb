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
};

/// Declares a result's elements at a row-major `offset` and stores them where the region yields the result.
void storeAttention(LowerContext& c, const Value* result, const Index& offset, const KV& value);

}  // namespace tg
