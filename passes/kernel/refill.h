// SPDX-License-Identifier: Apache-2.0
// Which shared and local buffers of a kernel a backward step may fill again.
#pragma once

#include <memory>
#include <vector>

#include "ir/module.h"

namespace tg {

class KernelFacts;

/// A buffer that a block fills and then reads. A backward step of the block fills it again and loads from it,
/// so that what was loaded need not be kept.
struct Refill {
  const Value* buffer;
  const Block* block;  ///< the innermost one around all accesses of the buffer
  std::vector<const Op*> stores, loads;
  bool all;  ///< of the buffer's accesses, so that it stays as it was filled
};

/// The refills of a kernel. For each:
/// - all its stores precede its loads, of a shared buffer with a barrier between, and no other store comes between;
/// - stores are plain, and the ops that hold them have no barriers inside;
/// - no load finds what was there before: the loads are proved to find what the stores wrote since the block
///   was entered; or there are no other stores, and these are to the same elements in every iteration of the
///   loops around.
std::vector<std::unique_ptr<Refill>> findRefills(const KernelFacts& facts);

}  // namespace tg
