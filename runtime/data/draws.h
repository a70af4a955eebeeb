// SPDX-License-Identifier: Apache-2.0
// Many random numbers at once, with the bits that one at a time has.
#pragma once

#include <array>
#include <cstdint>

#include "ir/philox.h"

namespace tg {

/// What all elements of a tensor have in common: element i draws from philox({lo i, hi i, high}, key).
struct DrawKey {
  PhiloxKey key{};
  std::array<uint32_t, 2> high{};
};

constexpr int kDrawBlock = 512;
/// The first two words of consecutive elements.
struct DrawnWords {
  std::array<uint32_t, kDrawBlock> first, second;
};
void drawWords(const DrawKey& key, uint64_t element, DrawnWords& out);

/// Two floats around deviation * philoxNormal(first, second) of each element: the exact product and its rounding
/// by libm lie between them. `spread` is how far apart they are, as a part of the normal's radius; at least 2^-44.
struct NormalBounds {
  std::array<float, kDrawBlock> low, high;
};
void boundNormals(const DrawnWords& words, double deviation, double spread, NormalBounds& out);

}  // namespace tg
