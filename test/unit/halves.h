// SPDX-License-Identifier: Apache-2.0
// Numbers of f16 by a formula of the tests' own, and arrays to round.
#pragma once

#include <cmath>
#include <cstdint>
#include <random>

#include "ir/target.h"
#include "runtime/interp/interp.h"

namespace tg::test {

/// The nearest number of 11 significant bits, the even one at a tie; below 2^-14 the spacing stays 2^-24.
inline double half(double x) {
  if (x == 0 || !std::isfinite(x)) return x;
  int exponent = 0;
  std::frexp(x, &exponent);
  const int spacing = std::max(exponent - 11, -24);
  const double rounded = std::ldexp(std::nearbyint(std::ldexp(x, -spacing)), spacing);
  return std::fabs(rounded) > 65504 ? std::copysign(INFINITY, x) : rounded;
}

inline NdArray drawn(const Shape& shape, uint32_t seed, double scale = 1) {
  NdArray out;
  out.type = Type::tensor(DType::f32, shape);
  std::mt19937 random(seed);
  std::normal_distribution<double> normal(0, scale);
  for (int64_t i = 0; i < shape.elements(); ++i) out.data.push_back(static_cast<float>(normal(random)));
  return out;
}

/// A shipped target whose matrix units multiply bf16 too.
inline Target withBf16() {
  Target target = *targetByName("gpu-coopmat");
  target.coopmat.push_back({16, 16, 16, DType::bf16, DType::f32});
  return target;
}

/// The same, where it is known which elements of a matrix an invocation has.
inline Target withFragments() {
  Target target = withBf16();
  target.name = "quads";
  target.fragments = "quads";
  return target;
}

}  // namespace tg::test
