// SPDX-License-Identifier: Apache-2.0
// The instructions of a flattened kernel and what each computes, over registers of a real type.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

namespace tg {

/// A register or word of memory; the instruction says what it holds. bool is 0 or 1. Real is float where
/// results are rounded as on a device and double where nothing is rounded.
template <class Real>
union LaneWord {
  uint32_t u;
  int32_t i;
  Real f;
};

namespace lane_math {
inline int32_t div(int32_t x, int32_t y) {
  if (y == 0) return 0;
  if (y == -1) return static_cast<int32_t>(0u - static_cast<uint32_t>(x));
  return x / y;
}
inline int32_t mod(int32_t x, int32_t y) { return y == 0 || y == -1 ? 0 : x % y; }
inline uint32_t div(uint32_t x, uint32_t y) { return y == 0 ? UINT32_MAX : x / y; }
inline uint32_t mod(uint32_t x, uint32_t y) { return y == 0 ? 0 : x % y; }
template <class Real>
Real min(Real x, Real y) {
  return y < x || std::isnan(y) ? y : x;
}
template <class Real>
Real max(Real x, Real y) {
  return y > x || std::isnan(y) ? y : x;
}
template <class T>
T sign(T x) {
  return static_cast<T>((x > 0) - (x < 0));
}
/// Towards zero, clamped to the type; 0 of NaN.
template <class T>
T truncated(double x) {
  if (std::isnan(x)) return 0;
  double whole = std::trunc(x);
  double least = std::numeric_limits<T>::min(), most = std::numeric_limits<T>::max();
  return static_cast<T>(whole < least ? least : whole > most ? most : whole);
}
inline uint32_t reverseBits(uint32_t x) {
  uint32_t out = 0;
  for (int bit = 0; bit < 32; ++bit) out |= (x >> bit & 1u) << (31 - bit);
  return out;
}
inline uint32_t addSat(uint32_t x, uint32_t y) { return x > UINT32_MAX - y ? UINT32_MAX : x + y; }
inline uint32_t mulSat(uint32_t x, uint32_t y) {
  return static_cast<uint32_t>(std::min<uint64_t>(uint64_t{x} * y, UINT32_MAX));
}
/// The nearest f16 or bf16; where nothing is rounded, x.
template <DType narrow, class Real>
Real rounded(Real x) {
  return std::is_same_v<Real, double> ? x : static_cast<Real>(roundedTo(narrow, double{x}));
}
/// The bits of the f32 nearest to a register, and the register that holds an f32 of given bits.
template <class Real>
uint32_t bitsOf(LaneWord<Real> x) {
  if constexpr (std::is_same_v<Real, float>)
    return x.u;
  else
    return std::bit_cast<uint32_t>(static_cast<float>(x.f));
}
template <class Real>
LaneWord<Real> ofBits(uint32_t bits) {
  LaneWord<Real> out{bits};
  if constexpr (!std::is_same_v<Real, float>) out.f = std::bit_cast<float>(bits);
  return out;
}
}  // namespace lane_math

// Instructions that compute one register from up to three: name, field of the result, value. Sums, products,
// quotients and roots of floats are the rounded exact ones, as f64 followed by rounding would give.
// clang-format off
#define TG_LANE_CODES(X)                                                    \
  X(addF, f, x.f + y.f)                                                     \
  X(addI, u, x.u + y.u)                                                     \
  X(subF, f, x.f - y.f)                                                     \
  X(subI, u, x.u - y.u)                                                     \
  X(mulF, f, x.f * y.f)                                                     \
  X(mulI, u, x.u * y.u)                                                     \
  X(mulHi, u, static_cast<uint32_t>(uint64_t{x.u} * y.u >> 32))             \
  X(divF, f, x.f / y.f)                                                     \
  X(divI, i, lane_math::div(x.i, y.i))                                      \
  X(divU, u, lane_math::div(x.u, y.u))                                      \
  X(modI, i, lane_math::mod(x.i, y.i))                                      \
  X(modU, u, lane_math::mod(x.u, y.u))                                      \
  X(minF, f, lane_math::min(x.f, y.f))                                      \
  X(minI, i, std::min(x.i, y.i))                                            \
  X(minU, u, std::min(x.u, y.u))                                            \
  X(maxF, f, lane_math::max(x.f, y.f))                                      \
  X(maxI, i, std::max(x.i, y.i))                                            \
  X(maxU, u, std::max(x.u, y.u))                                            \
  X(powF, f, static_cast<Real>(std::pow(double{x.f}, double{y.f})))         \
  X(fmaF, f, std::fma(x.f, y.f, z.f))                                       \
  X(negF, f, -x.f)                                                          \
  X(negI, u, 0u - x.u)                                                      \
  X(absF, f, std::fabs(x.f))                                                \
  X(absI, u, x.i < 0 ? 0u - x.u : x.u)                                      \
  X(signF, f, lane_math::sign(x.f))                                         \
  X(signI, i, lane_math::sign(x.i))                                         \
  X(signU, u, x.u != 0)                                                     \
  X(floorF, f, std::floor(x.f))                                             \
  X(roundF16, f, lane_math::rounded<DType::f16>(x.f))                       \
  X(roundBf16, f, lane_math::rounded<DType::bf16>(x.f))                     \
  X(sqrtF, f, std::sqrt(x.f))                                               \
  X(rsqrtF, f, static_cast<Real>(1 / std::sqrt(double{x.f})))               \
  X(expF, f, static_cast<Real>(std::exp(double{x.f})))                      \
  X(logF, f, static_cast<Real>(std::log(double{x.f})))                      \
  X(isNan, u, std::isnan(x.f))                                              \
  X(isInf, u, std::isinf(x.f))                                              \
  X(isFinite, u, std::isfinite(x.f))                                        \
  X(andW, u, x.u & y.u)                                                     \
  X(orW, u, x.u | y.u)                                                      \
  X(xorW, u, x.u ^ y.u)                                                     \
  X(notI, u, ~x.u)                                                          \
  X(notB, u, x.u ^ 1u)                                                      \
  X(shl, u, x.u << (y.u & 31))                                              \
  X(shrU, u, x.u >> (y.u & 31))                                             \
  X(shrI, i, x.i >> (y.u & 31))                                             \
  X(popcount, u, static_cast<uint32_t>(std::popcount(x.u)))                 \
  X(clz, u, static_cast<uint32_t>(std::countl_zero(x.u)))                   \
  X(ctz, u, static_cast<uint32_t>(std::countr_zero(x.u)))                   \
  X(reverseBits, u, lane_math::reverseBits(x.u))                            \
  X(rotl, u, std::rotl(x.u, static_cast<int>(y.u & 31)))                    \
  X(rotr, u, std::rotr(x.u, static_cast<int>(y.u & 31)))                    \
  X(addSat, u, lane_math::addSat(x.u, y.u))                                 \
  X(subSat, u, x.u > y.u ? x.u - y.u : 0u)                                  \
  X(mulSat, u, lane_math::mulSat(x.u, y.u))                                 \
  X(absDiff, u, x.u > y.u ? x.u - y.u : y.u - x.u)                          \
  X(ltF, u, x.f < y.f)                                                      \
  X(ltI, u, x.i < y.i)                                                      \
  X(ltU, u, x.u < y.u)                                                      \
  X(leF, u, x.f <= y.f)                                                     \
  X(leI, u, x.i <= y.i)                                                     \
  X(leU, u, x.u <= y.u)                                                     \
  X(eqF, u, x.f == y.f)                                                     \
  X(eqW, u, x.u == y.u)                                                     \
  X(neF, u, x.f != y.f)                                                     \
  X(neW, u, x.u != y.u)                                                     \
  X(toI, i, lane_math::truncated<int32_t>(double{x.f}))                     \
  X(toU, u, lane_math::truncated<uint32_t>(double{x.f}))                    \
  X(fromI, f, static_cast<Real>(x.i))                                       \
  X(fromU, f, static_cast<Real>(x.u))                                       \
  X(toBits, u, lane_math::bitsOf(x))                                        \
  X(notZeroF, u, x.f != 0)                                                  \
  X(notZeroW, u, x.u != 0)                                                  \
  X(next, u, lane_math::addSat(x.u, y.u))
// clang-format on

enum class Code : uint8_t {
#define X(name, field, value) name,
  TG_LANE_CODES(X)
#undef X
      move,    // dst = a, the whole register
  select,      // dst = b where a, else c
  fromBits,    // dst: the float whose bits a has
  scalar,      // dst = the function c, a Scalar, of a and b
  load,        // dst = memory, a: access
  store,       // a: access, b: value
  atomic,      // a: atomic
  exactAdd,    // a: access, b: value
  exactStore,  // a: access, b: value
  exactLoad,   // dst = memory, a: access
  jump,        // a: target
  jumpUnless,  // a: target, b: condition
  checkStep,   // b: a loop's step
  barrier,
  reduce,      // a: reduction over the workgroup
  collective,  // a: collective of a subgroup
  end,
};

}  // namespace tg
