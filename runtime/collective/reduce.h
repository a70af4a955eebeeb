// SPDX-License-Identifier: Apache-2.0
// The arithmetic of collectives in host memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "runtime/collective/engine.h"

namespace tg::collective {

int64_t sizeOf(Element element);

/// Reduces `count` elements of each input, in the order of the inputs, and writes the result to each output. Outputs may
/// be inputs.
void reduce(Element element, Reduction reduction, const std::vector<const std::byte*>& inputs, int64_t count,
            const std::vector<std::byte*>& outputs);

}  // namespace tg::collective
