// SPDX-License-Identifier: Apache-2.0
// Sums of what ranks have.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "runtime/collective/engine.h"

namespace tg::collective {

int64_t sizeOf(Element element);

/// Adds `count` elements of each part, in the order of the parts, and writes their reduction to each of `sums`, which
/// may be the parts.
void addUp(Element element, Reduction reduction, const std::vector<const std::byte*>& parts, int64_t count,
           const std::vector<std::byte*>& sums);

}  // namespace tg::collective
