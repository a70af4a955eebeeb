// SPDX-License-Identifier: Apache-2.0
#include "runtime/interp/tolerance.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

namespace tg {

ToleranceClass toleranceClass(const OpInfo& op) {
  if (op.scalar != Scalar::none) return ToleranceClass::elementwise;
  switch (op.code) {
  case Opcode::cast:
  case Opcode::one_minus_pow:
  case Opcode::random_normal: return ToleranceClass::elementwise;
  case Opcode::sum:
  case Opcode::mean:
  case Opcode::fold:
  case Opcode::max_pool2d_grad:
  case Opcode::avg_pool2d:
  case Opcode::avg_pool2d_grad: return ToleranceClass::reduction;
  case Opcode::where_causal:
  case Opcode::embedding:
  case Opcode::max_pool2d: return ToleranceClass::exact;
  case Opcode::rope: return ToleranceClass::row;  // rotates two elements of a row
  default: break;
  }
  // Their elements are sums of products.
  if (op.fusion == table::Fusion::contraction || op.fusion == table::Fusion::scatter)
    return ToleranceClass::reduction;
  if (!op.has(table::composite) || op.fusion == table::Fusion::view) return ToleranceClass::exact;
  return op.fusion == table::Fusion::map ? ToleranceClass::map : ToleranceClass::row;
}

double epsilonOf(DType dtype) { return isFloat(dtype) ? std::ldexp(1.0, 1 - info(dtype).digits) : 0; }

/// Ulps of an elementwise op. cast rounds once; one_minus_pow is a kernel expression accurate to 2; a normal value is
/// the product of a root (accurate to 5 on devices) and two polynomials accurate to 2 and 3, which is then scaled and
/// shifted.
static double elementwiseUlps(const OpInfo& op) {
  if (op.scalar != Scalar::none) return info(op.scalar).ulps;
  return op.code == Opcode::cast ? 1 : op.code == Opcode::random_normal ? 12 : 2;
}

/// Ulps for sums of `length` terms: the rounding errors of the products, of a division and of the partial sums. Kernels
/// add up to 256 terms in a chain, whose errors are taken to be independent. Longer sums are added in blocks of about
/// 128 terms, or of 512 if a product stages its operands in shared memory, and then the blocks' sums.
static double reductionUlps(int64_t length) {
  constexpr int64_t kChain = 256, kBlock = 128;
  double ulps = 2;
  int64_t terms = std::max<int64_t>(length, 1);
  for (; terms > kChain; terms = (terms + kBlock - 1) / kBlock) ulps += 2 * std::sqrt(double{kChain});
  return ulps + std::min(static_cast<double>(terms), 2 * std::sqrt(static_cast<double>(terms)));
}

double opTolerance(const OpInfo& op, int64_t reductionLength, double magnitude, DType dtype) {
  constexpr double kMapUlps = 32;  // the longest chain: erf or tanh, then products
  constexpr double kRowUlps = 64;  // exp of a difference, a sum, a quotient, a product
  double ulps = 0;
  switch (toleranceClass(op)) {
  case ToleranceClass::exact: return 0;
  case ToleranceClass::elementwise: ulps = elementwiseUlps(op); break;
  case ToleranceClass::reduction: ulps = reductionUlps(reductionLength); break;
  case ToleranceClass::map: ulps = kMapUlps; break;
  case ToleranceClass::row: ulps = kRowUlps + reductionUlps(reductionLength); break;
  }
  if (ulps == 0 || !isFloat(dtype)) return 0;
  // 16-bit results, and their sums, are computed in f32 and rounded once.
  if (isNarrow(dtype))
    return opTolerance(op, reductionLength, magnitude, computeType(dtype)) +
           epsilonOf(dtype) * magnitude / 2 + std::ldexp(1.0, info(dtype).least + 1 - info(dtype).digits);
  // Devices may flush results below the smallest normal number to zero.
  const double flushed = std::ldexp(1.0, info(dtype).least);
  // Near 1 the error of a device's logarithm has an absolute bound: 2^-21 between 0.5 and 2, by Vulkan's table of the
  // precision of GLSL.std.450 instructions.
  const double atTwo = op.scalar == Scalar::log ? std::numbers::ln2 : op.scalar == Scalar::log2 ? 1 : -1;
  const bool nearOne = dtype == DType::f32 && magnitude <= atTwo;
  return ulps * epsilonOf(dtype) * magnitude + flushed + (nearOne ? 0x1p-21 : 0);
}

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
                         i, device.data[i], wide.data[i], exact.data[i], off, real ? bounds.allowed : 0);
  }
  return worst == 0;
}

}  // namespace tg
