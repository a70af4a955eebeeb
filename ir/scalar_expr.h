// SPDX-License-Identifier: Apache-2.0
// The scalar table's gradient and kernel columns, instantiated over an expression type E.
//
// E is a default-constructible handle (a default E means "no value") with, in its own namespace:
//   operators + - * / between E and E, E and double, double and E; unary -
//   exp log sqrt rsqrt sigmoid sign abs (E); pow min max (E, E or double)
//   lt le gt ge eq (E, E or double), giving a condition as an E
//   sin cos sinh cosh (E) for gradients; floor exp2 log2 isnan (E) and ne (E, E) for kernel forms
//   select(E condition, E or double, E or double)
//   E builtinScalar(Scalar, std::span<const E>): calls the function that E has built in (scalarLower only)
// They are found by argument-dependent lookup, so each user brings its own: tensors for gradient
// rules, kernel values for lowering, f64 for tests.
#pragma once

#include <limits>
#include <span>
#include <vector>

#include "ir/scalar.h"

namespace tg {

/// Σ coefficients[i]·x^(n-1-i) by Horner's rule.
template <class E, size_t N>
E polynomial(const E& x, const double (&coefficients)[N]) {
  E sum = x * coefficients[0] + coefficients[1];
  for (size_t i = 2; i < N; ++i) sum = sum * x + coefficients[i];
  return sum;
}

/// n/(x² + y²), with x and y divided by |x| + |y| before they are squared, so that nothing over- or underflows.
template <class E>
E overSquares(const E& n, const E& x, const E& y) {
  E scale = 1.0 / (abs(x) + abs(y));
  E a = x * scale, b = y * scale;
  return n * scale * scale / (a * a + b * b);
}

/// tanh in single precision (Cephes tanhf): an odd polynomial near 0, else from exp, which saturates to ±1 where exp
/// overflows.
template <class E>
E lowerTanh(const E& x) {
  static constexpr double kNear[] = {-5.70498872745e-3, 2.06390887954e-2, -5.37397155531e-2, 1.33314422036e-1,
                                     -3.33332819422e-1};
  E a = abs(x);
  E z = x * x;
  E near = polynomial(z, kNear) * z * x + x;
  E far = sign(x) * (1.0 - 2.0 / (exp(2.0 * a) + 1.0));
  return select(lt(a, 0.625), near, far);
}

/// erf in single precision (Cephes erff and erfcf). The operand of the branch for large |x| is kept away from 1/0, so
/// that no lane computes inf or nan.
template <class E>
E lowerErf(const E& x) {
  static constexpr double kNear[] = {7.853861353153693e-5,  -8.010193625184903e-4, 5.188327685732524e-3,
                                     -2.685381193529856e-2, 1.128358514861418e-1,  -3.761262582423300e-1,
                                     1.128379165726710e+0};
  static constexpr double kMiddle[] = {2.326819970068386e-2,  -1.387039388740657e-1, 3.687424674597105e-1,
                                       -5.824733027278666e-1, 6.210004621745983e-1,  -4.944515323274145e-1,
                                       3.404879937665872e-1,  -2.741127028184656e-1, 5.638259427386472e-1};
  static constexpr double kFar[] = {-1.047766399936249e+1, 1.297719955372516e+1,  -7.495518717768503e+0,
                                    2.921019019210786e+0,  -1.015265279202700e+0, 4.218463358204948e-1,
                                    -2.820767439740514e-1, 5.641895067754075e-1};
  E a = max(abs(x), 1.0);
  E q = 1.0 / a;
  E y = q * q;
  E tail = select(lt(a, 2.0), polynomial(y, kMiddle), polynomial(y, kFar));
  E erfc = exp(-(a * a)) * q * tail;
  E near = x * polynomial(E(x * x), kNear);
  return select(lt(abs(x), 1.0), near, sign(x) * (1.0 - erfc));
}

/// Φ, the normal distribution function, as e^(-x²/2)·p(t) with t = 1/(1 + 0.3·|x|) for negative x, else 1 minus that: one
/// exponential for all x, and no cancellation. The coefficients minimise the largest relative error up to |x| = 13.5, by
/// weighted least squares: 1.3e-7. Overflow of x² makes it 0 or 1.
template <class E>
E lowerNormalCdf(const E& x) {
  static constexpr double kTail[] = {3.59324446e-2, -1.58278844e-1, 2.08211312e-1, -5.53980237e-2,
                                     1.29471356e-1, 9.9636844e-2,   1.20798464e-1, 1.19626383e-1};
  E t = 1.0 / (abs(x) * 0.3 + 1.0);
  E tail = exp(-0.5 * (x * x)) * (t * polynomial(t, kTail));
  return select(lt(x, 0.0), tail, 1.0 - tail);
}

/// The nearest whole number, ties to even. x - floor(x) is exact, or rounds to 1.
template <class E>
E lowerRound(const E& x) {
  E low = floor(x);
  E part = x - low;
  E high = low + 1.0;
  E even = select(eq(low - 2.0 * floor(low * 0.5), 0.0), low, high);
  return select(lt(part, 0.5), low, select(gt(part, 0.5), high, even));
}

/// Sine and cosine of x - k·π/2, where k is the whole number nearest to x/(π/2).
template <class E>
struct QuarterTurns {
  E k, sine, cosine;
};

/// Subtracts k·π/2 in parts of 11 bits, whose products with k are exact up to |x| = 8192, whatever the rounding and
/// without a fused multiply-add; the remainder has an absolute error of 2^-44 and a relative one of 2^-24. Then come
/// Cephes' polynomials on [-π/4, π/4]. Far outside that range the remainder is kept near it, so that results stay
/// within [-1, 1].
template <class E>
QuarterTurns<E> quarterTurns(const E& x) {
  static constexpr double kSine[] = {-1.9515295891e-4, 8.3321608736e-3, -1.6666654611e-1};
  static constexpr double kCosine[] = {2.443315711809948e-5, -1.388731625493765e-3, 4.166664568298827e-2};
  E k = floor(x * 0.63661977236758134 + 0.5);
  E r = ((x - k * 1.5703125) - k * 0.00048375129699707031) - k * 7.5495336204767227e-8;
  r = max(min(r - k * 2.5633441515945188e-12, 0.8), -0.8);
  E z = r * r;
  return {k, polynomial(z, kSine) * z * r + r, polynomial(z, kCosine) * z * z - 0.5 * z + 1.0};
}

/// Whether a whole number is odd.
template <class E>
E isOdd(const E& k) {
  return eq(k - 2.0 * floor(k * 0.5), 1.0);
}

/// The arc tangent for |t| <= tan(π/8) (Cephes atanf).
template <class E>
E arcTangentSmall(const E& t) {
  static constexpr double kSeries[] = {8.05374449538e-2, -1.38776856032e-1, 1.99777106478e-1,
                                       -3.33329491539e-1};
  E z = t * t;
  return polynomial(z, kSeries) * z * t + t;
}

/// The arc tangent: |x| is reduced to [0, tan(π/8)] by a reciprocal or a quotient.
template <class E>
E lowerAtan(const E& x) {
  E a = abs(x);
  E far = gt(a, 2.414213562373095), middle = gt(a, 0.41421356237309503);
  E t = select(far, -1.0 / max(a, 1.0), select(middle, (a - 1.0) / (a + 1.0), a));
  E base = select(far, 1.5707963267948966, E(select(middle, 0.78539816339744831, 0.0)));
  return sign(x) * (base + arcTangentSmall(t));
}

/// The angle of the point (y, x): the arc tangent of the smaller over the larger coordinate, moved to its octant.
template <class E>
E lowerAtan2(const E& x, const E& y) {
  E a = abs(x), b = abs(y);
  E small = min(a, b), large = max(a, b);
  E zero = eq(large, 0.0);
  E ratio = small / select(zero, 1.0, large);
  E t = select(zero, small, select(eq(small, large), 1.0, ratio));  // also for two infinities
  E middle = gt(t, 0.41421356237309503);
  E near = arcTangentSmall(E(select(middle, (t - 1.0) / (t + 1.0), t)));
  E angle = select(middle, near + 0.78539816339744831, near);
  angle = select(gt(a, b), 1.5707963267948966 - angle, angle);
  angle = select(lt(y, 0.0), 3.1415926535897931 - angle, angle);
  return select(lt(x, 0.0), -angle, angle);
}

/// The arc sine for |x| <= 1/2, given x and z = x² (Cephes asinf).
template <class E>
E asinSmall(const E& x, const E& z) {
  static constexpr double kSeries[] = {4.2163199048e-2, 2.4181311049e-2, 4.5470025998e-2, 7.4953002686e-2,
                                       1.6666752422e-1};
  return polynomial(z, kSeries) * z * x + x;
}

/// The arc sine; above 1/2 as π/2 - 2·asin(√((1-|x|)/2)).
template <class E>
E lowerAsin(const E& x) {
  E a = abs(x);
  E z = select(gt(a, 0.5), 0.5 * (1.0 - a), a * a);
  E t = select(gt(a, 0.5), sqrt(max(z, 0.0)), a);
  E small = asinSmall(t, z);
  E value = sign(x) * select(gt(a, 0.5), 1.5707963267948966 - 2.0 * small, small);
  return select(gt(a, 1.0), E(sqrt(1.0 - a)), value);  // NaN outside [-1, 1]
}

template <class E>
E lowerAcos(const E& x) {
  E a = abs(x);
  E half = 2.0 * asinSmall(E(sqrt(0.5 * (1.0 - a))), E(0.5 * (1.0 - a)));
  return select(gt(a, 0.5), select(lt(x, 0.0), 3.1415926535897931 - half, half),
                1.5707963267948966 - asinSmall(x, E(x * x)));
}

/// e^|x|/2 and e^-|x|/2. The first is computed as the square of e^(|x|/2), so that it is finite as long as sinh and
/// cosh are.
template <class E>
struct HalfExponentials {
  E rising, falling;
  explicit HalfExponentials(const E& x) {
    E root = exp(0.5 * abs(x));
    rising = (0.5 * root) * root;
    falling = 0.5 / (root * root);
  }
};

/// The hyperbolic sine: a polynomial for |x| below 1, else from exp.
template <class E>
E lowerSinh(const E& x) {
  static constexpr double kNear[] = {2.03721912945e-4, 8.33028376239e-3, 1.66667160211e-1};
  E z = x * x;
  E near = polynomial(z, kNear) * z * x + x;
  HalfExponentials<E> half(x);
  return select(lt(abs(x), 1.0), near, sign(x) * (half.rising - half.falling));
}

template <class E>
E lowerCosh(const E& x) {
  HalfExponentials<E> half(x);
  return half.rising + half.falling;
}

/// x/(1 + e^-x), for x < 0 as x·e^x/(1 + e^x). e^-|x| is computed as a square, so that it neither overflows nor is
/// flushed to zero while the result is still a normal number.
template <class E>
E lowerSilu(const E& x) {
  E root = exp(-0.5 * abs(x));
  return select(lt(x, 0.0), (x * root) * root, x) / (1.0 + root * root);
}

template <class E>
E lowerSin(const E& x) {
  QuarterTurns<E> turns = quarterTurns(x);
  E value = select(isOdd(turns.k), turns.cosine, turns.sine);
  return select(isOdd(floor(turns.k * 0.5)), -value, value);
}

template <class E>
E lowerCos(const E& x) {
  QuarterTurns<E> turns = quarterTurns(x);
  E value = select(isOdd(turns.k), turns.sine, turns.cosine);
  return select(isOdd(floor((turns.k + 1.0) * 0.5)), -value, value);
}

template <class E>
E lowerTan(const E& x) {
  QuarterTurns<E> turns = quarterTurns(x);
  E odd = isOdd(turns.k);
  return select(odd, turns.cosine, turns.sine) / select(odd, -turns.sine, turns.cosine);
}

/// x^y as IEEE 754 and C define it, from the power of |x|: 1 if x is 1 or y is 0, whatever the other is; NaN for any
/// other NaN, and for a finite x < 0 with a y that is not whole; for odd y the result has the sign of x, also for a
/// zero where the device keeps its sign. The logarithm never sees 0.
template <class E>
E lowerPow(const E& x, const E& y) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  E a = abs(x);
  E zero = eq(x, 0.0), whole = eq(floor(y), y);
  // isOdd is valid only for whole numbers: for -0.99999994 it takes 2 - 0.99999994, which rounds to 1.
  E odd = isOdd(E(select(whole, y, 0.0)));
  // 1 to an infinite power would be computed as e^(0·inf).
  E size = select(eq(a, 1.0), 1.0, exp2(y * log2(E(select(zero, 1.0, a)))));
  E fraction = select(eq(a, kInfinity), size, kNan);
  E negative = select(odd, -size, select(whole, size, fraction));
  E ofZero = select(gt(y, 0.0), select(odd, x, 0.0), select(odd, 1.0 / x, kInfinity));
  E value = select(zero, ofZero, select(lt(x, 0.0), negative, size));
  value = select(isnan(x), x, select(isnan(y), y, value));
  return select(eq(y, 0.0), 1.0, select(eq(x, 1.0), 1.0, value));
}

/// log(1 + x) for -1/2 <= x <= 1, as 2·atanh(x/(2+x)): unlike in 1 + x, no digits are lost where x is small.
template <class E>
E log1pNear(const E& x) {
  static constexpr double kSeries[] = {1.0 / 15, 1.0 / 13, 1.0 / 11, 1.0 / 9, 1.0 / 7, 1.0 / 5, 1.0 / 3};
  E s = x / (2.0 + x);
  E z = s * s;
  return 2.0 * s * (polynomial(z, kSeries) * z + 1.0);
}

/// log(1 + x); outside [-1/2, 1] by log, whose operand is kept positive.
template <class E>
E lowerLog1p(const E& x) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  E far = gt(abs(x - 0.25), 0.75);
  E value = select(far, log(max(x + 1.0, 1e-8)), log1pNear(E(select(far, 0.0, x))));
  return select(lt(x, -1.0), kNan, select(eq(x, -1.0), -kInfinity, value));
}

/// e^x - 1; by Taylor's series within [-1, 1], else by exp.
template <class E>
E lowerExpm1(const E& x) {
  E far = gt(abs(x), 1.0);
  E near = select(far, 0.0, x);
  E series = near * (1.0 / 12) + 1.0;
  for (int n = 11; n >= 2; --n) series = series * near * (1.0 / n) + 1.0;
  return select(far, exp(x) - 1.0, series * near);
}

/// max(x, 0) + log1p(e^-|x|).
template <class E>
E lowerSoftplus(const E& x) {
  return max(x, 0.0) + log1pNear(E(exp(-abs(x))));
}

/// The derivative of mish(x) = x·t with t = tanh(log(1 + e^x)). With s = sigmoid(x) and q = sigmoid(-x), t is
/// s·(1 + q)/(1 + q²) and 1 - t² is 4q²/(1 + q²)², in which no digits cancel and nothing overflows.
template <class E>
E mishSlope(const E& x) {
  E s = sigmoid(x);
  E q = sigmoid(-x);
  E square = q * q;
  E below = 1.0 + square;
  return s * (1.0 + q) / below + x * s * (4.0 * square) / (below * below);
}

/// mish(x) = x·tanh(log(1 + e^x)) = x·n/(n + 2) with n = e^x·(e^x + 2), computed as a product of roots: e^x may be too
/// small for a normal number where the result is normal.
template <class E>
E lowerMish(const E& x) {
  E half = exp(0.5 * min(x, 20.0));
  E e = half * half;
  E sum = e + 2.0;
  return select(lt(x, 20.0), x * half * (half * sum / (e * sum + 2.0)), x);
}

/// The gradients of a scalar function's operands, one for each, empty where none flows. `result` is the function's
/// value, `g` its gradient.
template <class E>
std::vector<E> scalarGrads(Scalar scalar, std::span<const E> operands, const E& result, const E& g) {
  [[maybe_unused]] const E zero{};
  [[maybe_unused]] const E x = operands.empty() ? E{} : operands[0];
  [[maybe_unused]] const E y = operands.size() > 1 ? operands[1] : E{};
  [[maybe_unused]] const E z = operands.size() > 2 ? operands[2] : E{};
  [[maybe_unused]] const E& r = result;
  switch (scalar) {
  case Scalar::none: break;
#define TG_SCALAR_LIST(...) \
  { __VA_ARGS__ }
#define SCALAR(id, arity, value, grads, lower, lo, hi, ulps) \
  case Scalar::id:                                           \
    return std::vector<E> TG_SCALAR_LIST grads;
#include "ir/scalar.def"
#undef SCALAR
#undef TG_SCALAR_LIST
  }
  return {};
}

/// Stands for the word `builtin` in the kernel column: calls builtinScalar of E.
template <class E>
struct ScalarBuiltin {
  Scalar scalar;
  std::span<const E> operands;
  operator E() const { return builtinScalar(scalar, operands); }
};

/// The kernel form of a scalar function, on its operands.
template <class E>
E scalarLower(Scalar scalar, std::span<const E> operands) {
  [[maybe_unused]] const E x = operands.empty() ? E{} : operands[0];
  [[maybe_unused]] const E y = operands.size() > 1 ? operands[1] : E{};
  [[maybe_unused]] const E z = operands.size() > 2 ? operands[2] : E{};
  [[maybe_unused]] const ScalarBuiltin<E> builtin{scalar, operands};
  switch (scalar) {
  case Scalar::none: break;
#define SCALAR(id, arity, value, grads, lower, lo, hi, ulps) \
  case Scalar::id:                                           \
    return lower;
#include "ir/scalar.def"
#undef SCALAR
  }
  return {};
}

}  // namespace tg
