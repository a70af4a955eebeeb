// SPDX-License-Identifier: Apache-2.0
// Finds shared and local buffers of a kernel that the backward sweep may fill again.
#pragma once

#include <memory>
#include <vector>

#include "ir/module.h"

namespace tg {

class KernelFacts;

/// A buffer that a block fills and then reads. When the backward sweep reverses the block, it fills the buffer again before
/// its first load, so that the loaded values need not be kept.
struct Refill {
  const Value* buffer;
  const Block* block;  ///< the innermost one around all accesses of the buffer
  std::vector<const Op*> stores, loads;
  bool all;  ///< whether the buffer has no other accesses, so that it stays as it was filled
};

/// The refills of a kernel. For each of them:
/// - all its stores precede its loads, with a barrier between them if the buffer is shared, and no other stores between;
/// - stores are plain, and the ops that hold them have no barriers inside;
/// - loads read only what the stores wrote since the block was entered. Either this is proved, or the buffer has no other
///   accesses and the stores go to the same elements in every iteration of the loops around.
std::vector<std::unique_ptr<Refill>> findRefills(const KernelFacts& facts);

}  // namespace tg
