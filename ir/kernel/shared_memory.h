// SPDX-License-Identifier: Apache-2.0
// Sizes of a kernel's shared and local memory, and reuse of shared memory.
#pragma once

#include <cstdint>

#include "ir/module.h"

namespace tg {

/// Bytes of shared memory that the kernel takes: its shared buffers, and for each type that it reduces over the
/// workgroup an element of each invocation.
int64_t sharedBytes(const Item& kernel);
/// The part of them that reductions over the workgroup take.
int64_t reductionBytes(const Item& kernel);
/// Bytes of the kernel's local buffers for one invocation.
int64_t localBytes(const Item& kernel);

/// Merges two shared buffers of one element type and rank if all accesses of one precede all of the other and a barrier
/// lies between. The first, grown to the larger extents, replaces both. An element that is read before it is written,
/// which is undefined anyway, may then hold a value of the other buffer.
void overlapSharedBuffers(Item& kernel);

}  // namespace tg
