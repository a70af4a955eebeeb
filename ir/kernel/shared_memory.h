// SPDX-License-Identifier: Apache-2.0
// How much memory of its own a kernel takes, and taking less of what is shared.
#pragma once

#include <cstdint>

#include "ir/module.h"

namespace tg {

/// Bytes of the kernel's shared buffers, and of an invocation's local ones.
int64_t sharedBytes(const Item& kernel);
int64_t localBytes(const Item& kernel);

/// Lets shared buffers of one element type and rank take one place where all accesses of one are done before
/// the first of the other, with a meeting of the workgroup between: the earlier buffer, grown to the larger
/// extents, stands for both. What invocations read stays the same; an element that is read before it is
/// written, undefined as ever, may hold what the earlier buffer left.
void overlapSharedBuffers(Item& kernel);

}  // namespace tg
