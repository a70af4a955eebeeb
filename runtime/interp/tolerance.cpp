// SPDX-License-Identifier: Apache-2.0
#include "runtime/interp/tolerance.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "runtime/data/array.h"

namespace tg {

double epsilonOf(DType dtype) { return isFloat(dtype) ? std::ldexp(1.0, 1 - info(dtype).digits) : 0; }

/// The distance of two values: 0 for equal infinities and for two NaNs, infinite if only one is finite.
static double distance(double a, double b) {
  if (a == b || (std::isnan(a) && std::isnan(b))) return 0;
  if (!std::isfinite(a) || !std::isfinite(b)) return std::numeric_limits<double>::infinity();
  return std::fabs(a - b);
}

namespace {

/// The bounds for the elements of one tensor.
struct Bounds {
  double allowed = 0;  ///< for float elements that are finite in both oracles

  Bounds(const NdArray& wide, const NdArray& exact, double floor, std::span<const NdArray* const> others) {
    double error = 0, largest = 0;
    for (size_t i = 0; i < wide.data.size(); ++i) {
      if (!std::isfinite(wide.data[i]) || !std::isfinite(exact.data[i])) continue;
      error = std::max(error, std::fabs(exact.data[i] - wide.data[i]));
      for (const NdArray* other : others)
        if (std::isfinite(other->data[i])) error = std::max(error, std::fabs(other->data[i] - wide.data[i]));
      largest = std::max(largest, std::fabs(wide.data[i]));
    }
    // For 16-bit types, an error of f32 may change the rounding of an element.
    if (isNarrow(wide.type.dtype)) floor += 2 * epsilonOf(wide.type.dtype);
    allowed = 4 * error + floor * largest + 0x1p-126;
  }
};

}  // namespace

bool wholeFunctionClose(const NdArray& device, const NdArray& wide, const NdArray& exact, double floor,
                        std::string* why, std::span<const NdArray* const> others) {
  if (device.type != wide.type || exact.type != wide.type || device.data.size() != wide.data.size() ||
      exact.data.size() != wide.data.size()) {
    if (why)
      *why = fmt::format("types differ: {}, {}, {}", device.type.str(), wide.type.str(), exact.type.str());
    return false;
  }
  const bool real = isFloat(wide.type.dtype);
  const Bounds bounds(wide, exact, floor, others);
  double worst = 0;
  for (size_t i = 0; i < wide.data.size(); ++i) {
    if (!real && wide.data[i] != exact.data[i]) continue;
    const bool finite = std::isfinite(wide.data[i]) && std::isfinite(exact.data[i]);
    const double off = distance(device.data[i], finite ? wide.data[i] : exact.data[i]);
    if (off <= (real && finite ? bounds.allowed : 0) || off <= worst) continue;
    worst = off;
    if (why)
      *why = fmt::format("element {}: {} where the oracle has {} (exact {}); off by {:.3g}, allowed {:.3g}",
                         i, unsignedNan(device.data[i]), unsignedNan(wide.data[i]),
                         unsignedNan(exact.data[i]), off, real ? bounds.allowed : 0);
  }
  return worst == 0;
}

}  // namespace tg
