// SPDX-License-Identifier: Apache-2.0
// Division that rounds up.
#pragma once

#include <concepts>

namespace tg {

/// n / d rounded up, for n >= 0 and d > 0: how many parts of d elements hold n.
template <std::integral N, std::integral D>
constexpr auto divideCeil(N n, D d) {
  return (n + d - 1) / d;
}

/// The least multiple of `unit` that is at least n.
template <std::integral N, std::integral D>
constexpr auto alignTo(N n, D unit) {
  return divideCeil(n, unit) * unit;
}

}  // namespace tg
