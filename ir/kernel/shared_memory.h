// SPDX-License-Identifier: Apache-2.0
// Sizes of a kernel's shared and local memory, and sharing of memory between buffers that are not live at the same
// time.
#pragma once

#include <cstdint>

#include "ir/module.h"

namespace tg {

/// Bytes of shared memory that the kernel takes: its shared buffers, and for each type that it reduces over the
/// workgroup one element for each invocation.
int64_t sharedBytes(const Item& kernel);
/// The part of these bytes for reductions over the workgroup.
int64_t reductionBytes(const Item& kernel);
/// Bytes of the kernel's local buffers for one invocation.
int64_t localBytes(const Item& kernel);

/// Merges two shared buffers of one element type and rank if all accesses of one come before all accesses of the
/// other and a barrier lies between them. The first buffer replaces both, with the larger extents. Reading an element
/// before it is written is undefined in any case; it may now give a value of the other buffer.
void overlapSharedBuffers(Item& kernel);

}  // namespace tg
