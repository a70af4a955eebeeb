// SPDX-License-Identifier: Apache-2.0
// Draws many random numbers at once, bit for bit equal to drawing them one at a time.
#pragma once

#include <array>
#include <cstdint>

#include "ir/philox.h"

namespace tg {

/// What the draws of all elements of a tensor share: element i draws philox({lo i, hi i, high}, key).
struct DrawKey {
  PhiloxKey key{};
  std::array<uint32_t, 2> high{};
};

constexpr int kDrawBlock = 512;
/// The first two random words of kDrawBlock consecutive elements.
struct DrawnWords {
  std::array<uint32_t, kDrawBlock> first, second;
};
void drawWords(const DrawKey& key, uint64_t element, DrawnWords& out);

/// Lower and upper bounds of deviation * philoxNormal(first, second) for each element: the exact product and its
/// rounding by libm lie between them. `spread` is the distance of each bound from the computed value, relative to the
/// normal's radius; at least 2^-44.
struct NormalBounds {
  std::array<float, kDrawBlock> low, high;
};
void boundNormals(const DrawnWords& words, double deviation, double spread, NormalBounds& out);

}  // namespace tg
