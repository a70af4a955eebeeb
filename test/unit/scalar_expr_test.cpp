// SPDX-License-Identifier: Apache-2.0
// The scalar table over plain numbers: values, gradients, and the single-precision kernel forms.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "ir/scalar_expr.h"

namespace tg::test {
namespace {

/// An expression type that computes at once; `T` is f64 for gradients, f32 for kernel forms.
template <class T>
struct Number {
  T value = 0;
  bool present = false;
  Number() = default;
  Number(T number) : value(number), present(true) {}
};
template <class T>
Number<T> constant(double number) {
  return {static_cast<T>(number)};
}

#define NUMBER_BINARY(fn, expression)      \
  template <class T>                       \
  Number<T> fn(Number<T> a, Number<T> b) { \
    T x = a.value, y = b.value;            \
    return {static_cast<T>(expression)};   \
  }                                        \
  template <class T>                       \
  Number<T> fn(Number<T> a, double b) {    \
    return fn(a, constant<T>(b));          \
  }                                        \
  template <class T>                       \
  Number<T> fn(double a, Number<T> b) {    \
    return fn(constant<T>(a), b);          \
  }
NUMBER_BINARY(operator+, x + y)
NUMBER_BINARY(operator-, x - y)
NUMBER_BINARY(operator*, x* y)
NUMBER_BINARY(operator/, x / y)
NUMBER_BINARY(pow, std::pow(x, y))
NUMBER_BINARY(min, x <= y ? x : y)
NUMBER_BINARY(max, x >= y ? x : y)
NUMBER_BINARY(lt, x < y)
NUMBER_BINARY(le, x <= y)
NUMBER_BINARY(gt, x > y)
NUMBER_BINARY(ge, x >= y)
NUMBER_BINARY(eq, x == y)
NUMBER_BINARY(ne, x != y)
#define NUMBER_UNARY(fn, expression)     \
  template <class T>                     \
  Number<T> fn(Number<T> a) {            \
    T x = a.value;                       \
    return {static_cast<T>(expression)}; \
  }
NUMBER_UNARY(operator-, -x)
NUMBER_UNARY(exp, std::exp(x))
NUMBER_UNARY(log, std::log(x))
NUMBER_UNARY(sqrt, std::sqrt(x))
NUMBER_UNARY(rsqrt, 1 / std::sqrt(x))
NUMBER_UNARY(sigmoid, 1 / (1 + std::exp(-x)))
NUMBER_UNARY(sin, std::sin(x))
NUMBER_UNARY(cos, std::cos(x))
NUMBER_UNARY(sinh, std::sinh(x))
NUMBER_UNARY(cosh, std::cosh(x))
NUMBER_UNARY(exp2, std::exp2(x))
NUMBER_UNARY(log2, std::log2(x))
NUMBER_UNARY(isnan, std::isnan(x))
NUMBER_UNARY(floor, std::floor(x))
NUMBER_UNARY(abs, std::abs(x))
NUMBER_UNARY(sign, (x > 0) - (x < 0))
template <class T>
Number<T> select(Number<T> c, Number<T> a, Number<T> b) {
  return c.value != 0 ? a : b;
}
template <class T>
Number<T> select(Number<T> c, Number<T> a, double b) {
  return select(c, a, constant<T>(b));
}
template <class T>
Number<T> select(Number<T> c, double a, Number<T> b) {
  return select(c, constant<T>(a), b);
}
template <class T>
Number<T> select(Number<T> c, double a, double b) {
  return select(c, constant<T>(a), constant<T>(b));
}
template <class T>
Number<T> builtinScalar(Scalar scalar, std::span<const Number<T>> operands) {
  double values[3] = {};
  for (size_t i = 0; i < operands.size(); ++i) values[i] = operands[i].value;
  return constant<T>(evalScalar(scalar, values[0], values[1], values[2]));
}

std::vector<Scalar> allScalars() {
  std::vector<Scalar> out;
#define SCALAR(id, ...) out.push_back(Scalar::id);
#include "ir/scalar.def"
#undef SCALAR
  return out;
}

/// Points of the row's domain for each operand, off the grid on which operands meet.
std::vector<std::vector<double>> pointsOf(const ScalarInfo& row) {
  std::vector<std::vector<double>> points;
  for (int i = 0; i < 40; ++i) {
    std::vector<double> point;
    for (int k = 0; k < row.arity; ++k)
      point.push_back(row.lo + (row.hi - row.lo) * ((i * (k + 7)) % 40 + 0.3 + 0.2 * k) / 40);
    if (row.name == "select") point[0] = i % 2;
    points.push_back(point);
  }
  return points;
}

TEST(ScalarTable, GradientsMatchDifferences) {
  using E = Number<double>;
  for (Scalar scalar : allScalars()) {
    const ScalarInfo& row = info(scalar);
    for (const auto& point : pointsOf(row)) {
      auto value = [&](std::vector<double> at) {
        at.resize(3);
        return evalScalar(scalar, at[0], at[1], at[2]);
      };
      std::vector<E> operands(point.begin(), point.end());
      std::vector<E> grads = scalarGrads<E>(scalar, operands, E(value(point)), E(1.5));
      ASSERT_EQ(grads.size(), point.size()) << row.name;
      for (size_t k = 0; k < point.size(); ++k) {
        if (scalar == Scalar::stop_gradient || (scalar == Scalar::select && k == 0)) {
          EXPECT_FALSE(grads[k].present) << row.name;
          continue;
        }
        std::vector<double> up = point, down = point;
        up[k] += 1e-5, down[k] -= 1e-5;
        double want = 1.5 * (value(up) - value(down)) / 2e-5;
        EXPECT_NEAR(grads[k].value, want, 1e-6 * std::max(1.0, std::abs(want)))
            << row.name << " at " << point[0];
      }
    }
  }
}

/// Distance in units of the last place of an f32 of the reference's size.
double ulps(float got, double want) {
  double unit = std::ldexp(1.0, std::max(std::ilogb(want), -126) - 23);
  return std::abs(got - want) / unit;
}

// The kernel forms in f32, against f64, within the ulps that the table grants a device.
TEST(ScalarTable, KernelFormsAreWithinTheirUlps) {
  using E = Number<float>;
  for (Scalar scalar : allScalars()) {
    const ScalarInfo& row = info(scalar);
    for (const auto& point : pointsOf(row)) {
      std::vector<E> operands;
      std::vector<double> at;
      for (double x : point)
        operands.push_back(E(static_cast<float>(x))), at.push_back(static_cast<float>(x));
      at.resize(3);
      double want = evalScalar(scalar, at[0], at[1], at[2]);
      float got = scalarLower<E>(scalar, operands).value;
      if (want == 0)
        EXPECT_EQ(got, 0) << row.name;
      else
        EXPECT_LE(ulps(got, want), std::max(row.ulps, 0.5)) << row.name << " at " << at[0];
    }
  }
}

// Densely, over the branches of both polynomials and far into saturation.
TEST(ScalarTable, TanhAndErf) {
  double worstTanh = 0, worstErf = 0;
  for (int i = -120000; i <= 120000; ++i) {
    float x = static_cast<float>(i) * 1e-4f;
    if (x == 0) continue;
    worstTanh =
        std::max(worstTanh, ulps(lowerTanh(Number<float>(x)).value, std::tanh(static_cast<double>(x))));
    worstErf = std::max(worstErf, ulps(lowerErf(Number<float>(x)).value, std::erf(static_cast<double>(x))));
  }
  EXPECT_LE(worstTanh, info(Scalar::tanh).ulps);
  EXPECT_LE(worstErf, info(Scalar::erf).ulps);
  for (float sign : {-1.0f, 1.0f}) {
    EXPECT_EQ(lowerTanh(Number<float>(sign * 200)).value, sign);  // exp overflows here
    EXPECT_EQ(lowerErf(Number<float>(sign * 200)).value, sign);
    EXPECT_EQ(lowerTanh(Number<float>(sign * 0)).value, 0);
    EXPECT_EQ(lowerErf(Number<float>(sign * 0)).value, 0);
  }
}

// Densely over its row's domain, and where x² or e^(-x²/2) leaves f32.
TEST(ScalarTable, NormalCdf) {
  double worst = 0;
  for (int i = -40000; i <= 40000; ++i) {
    const float x = static_cast<float>(i) * 1e-4f;
    const double want = 0.5 * std::erfc(-static_cast<double>(x) / std::numbers::sqrt2);
    worst = std::max(worst, ulps(lowerNormalCdf(Number<float>(x)).value, want));
  }
  EXPECT_LE(worst, info(Scalar::normal_cdf).ulps);
  for (float x : {20.0f, 1e20f, std::numeric_limits<float>::infinity()}) {
    EXPECT_EQ(lowerNormalCdf(Number<float>(x)).value, 1);
    EXPECT_EQ(lowerNormalCdf(Number<float>(-x)).value, 0);
  }
  EXPECT_TRUE(std::isnan(lowerNormalCdf(Number<float>(std::nanf(""))).value));
}

// Over the whole range the row promises, evenly and at the floats nearest to multiples of π/2, where
// the reduction has the most to cancel and sine, cosine and tangent have their zeros and poles.
TEST(ScalarTable, SineCosineTangentUpTo8192) {
  double worst[3] = {};
  auto check = [&](float x) {
    const double at = x, want[] = {std::sin(at), std::cos(at), std::tan(at)};
    const float got[] = {lowerSin(Number<float>(x)).value, lowerCos(Number<float>(x)).value,
                         lowerTan(Number<float>(x)).value};
    for (int i = 0; i < 3; ++i)
      if (std::abs(got[i] - want[i]) > 0x1p-40) worst[i] = std::max(worst[i], ulps(got[i], want[i]));
  };
  for (int i = -50000; i <= 50000; ++i) check(static_cast<float>(i) * 0.16384f);
  for (int k = -5215; k <= 5215; ++k) {
    const float near = static_cast<float>(k * (std::acos(-1.0) / 2));
    for (float x : {std::nextafter(near, -1e9f), near, std::nextafter(near, 1e9f)}) check(x);
  }
  EXPECT_LE(worst[0], info(Scalar::sin).ulps);
  EXPECT_LE(worst[1], info(Scalar::cos).ulps);
  EXPECT_LE(worst[2], info(Scalar::tan).ulps);
  EXPECT_EQ(lowerSin(Number<float>(0.0f)).value, 0);
  EXPECT_EQ(lowerCos(Number<float>(0.0f)).value, 1);
  for (float x : {1e5f, 1e7f, -3e20f}) EXPECT_LE(std::abs(lowerSin(Number<float>(x)).value), 1);
}

// Densely, over all branches and up to the ends of the domain.
TEST(ScalarTable, InverseAndHyperbolicFunctions) {
  using F = Number<float>;
  struct Case {
    Scalar scalar;
    float lo, hi;
    double worst = 0;
  };
  Case cases[] = {{Scalar::asin, -1, 1},         {Scalar::acos, -1, 1},          {Scalar::atan, -40, 40},
                  {Scalar::sinh, -89.4f, 89.4f}, {Scalar::cosh, -89.4f, 89.4f},  {Scalar::silu, -87, 88},
                  {Scalar::log1p, -0.999f, 40},  {Scalar::log1p, -1e-3f, 1e-3f}, {Scalar::expm1, -20, 80},
                  {Scalar::expm1, -1e-3f, 1e-3f}};
  for (Case& each : cases) {
    for (int i = 0; i <= 40000; ++i) {
      const float x = each.lo + (each.hi - each.lo) * static_cast<float>(i) / 40000;
      const F operands[] = {F(x)};
      const double want = evalScalar(each.scalar, x);
      each.worst = std::max(each.worst, ulps(scalarLower<F>(each.scalar, operands).value, want));
    }
    for (float x : {1e-30f, 1e-10f, 1e-5f, 1e-3f}) {  // where little is left of x
      const F operands[] = {F(x)};
      each.worst =
          std::max(each.worst, ulps(scalarLower<F>(each.scalar, operands).value, evalScalar(each.scalar, x)));
    }
    EXPECT_LE(each.worst, info(each.scalar).ulps) << info(each.scalar).name;
  }
  const float inf = std::numeric_limits<float>::infinity();
  EXPECT_TRUE(std::isnan(lowerAsin(F(1.0001f)).value) && std::isnan(lowerAcos(F(-1.0001f)).value));
  EXPECT_EQ(lowerAcos(F(1)).value, 0);
  EXPECT_EQ(lowerAsin(F(0.0f)).value, 0);
  EXPECT_EQ(lowerAtan(F(inf)).value, 1.57079637f);
  EXPECT_EQ(lowerAtan(F(-inf)).value, -1.57079637f);
  EXPECT_EQ(lowerSinh(F(0.0f)).value, 0);
  EXPECT_EQ(lowerSinh(F(100.0f)).value, inf);
  EXPECT_EQ(lowerSinh(F(-100.0f)).value, -inf);
}

// All around the circle, at radii from the least normal number to the largest, and on the axes.
TEST(ScalarTable, ArcTangentOfTwo) {
  using F = Number<float>;
  double worst = 0;
  auto check = [&](float y, float x) {
    const double want = evalScalar(Scalar::atan2, y, x);
    const float got = lowerAtan2(F(y), F(x)).value;
    if (want == 0)
      EXPECT_EQ(got, 0) << y << ", " << x;
    else
      worst = std::max(worst, ulps(got, want));
  };
  for (int i = 0; i < 20000; ++i) {
    const double angle = i * 6.283185307179586 / 20000;
    for (double radius : {1e-30, 1e-3, 1.0, 7.0, 1e30})
      check(static_cast<float>(radius * std::sin(angle)), static_cast<float>(radius * std::cos(angle)));
  }
  EXPECT_LE(worst, info(Scalar::atan2).ulps);
  const float inf = std::numeric_limits<float>::infinity(), pi = 3.14159274f;
  const float cases[][3] = {{0, 0, 0},     {0, 1, 0},      {0, -1, pi},        {-0.0f, -1, pi},
                            {0, -0.0f, 0}, {1, 0, pi / 2}, {-1, 0, -pi / 2},   {inf, 1, pi / 2},
                            {1, inf, 0},   {1, -inf, pi},  {inf, inf, pi / 4}, {-inf, -inf, -2.35619449f}};
  for (const auto& [y, x, want] : cases) {
    EXPECT_EQ(lowerAtan2(F(y), F(x)).value, want) << y << ", " << x;
    EXPECT_EQ(static_cast<float>(evalScalar(Scalar::atan2, y, x)), want) << y << ", " << x;
  }
}

TEST(ScalarTable, Log1pAndExpm1AtTheirEdges) {
  using F = Number<float>;
  const float inf = std::numeric_limits<float>::infinity();
  EXPECT_EQ(lowerLog1p(F(-1.0f)).value, -inf);
  EXPECT_TRUE(std::isnan(lowerLog1p(F(-1.5f)).value) && std::isnan(lowerLog1p(F(std::nanf(""))).value));
  EXPECT_EQ(lowerLog1p(F(inf)).value, inf);
  EXPECT_EQ(lowerLog1p(F(0.0f)).value, 0);
  EXPECT_EQ(lowerExpm1(F(0.0f)).value, 0);
  EXPECT_EQ(lowerExpm1(F(-inf)).value, -1);
  EXPECT_EQ(lowerExpm1(F(inf)).value, inf);
  EXPECT_TRUE(std::isnan(lowerExpm1(F(std::nanf(""))).value));
  for (float x : {1e-38f, -1e-20f, 1e-9f}) {  // 1 + x is 1 here
    EXPECT_EQ(lowerLog1p(F(x)).value, x);
    EXPECT_EQ(lowerExpm1(F(x)).value, x);
  }
}

TEST(ScalarTable, RoundHalfToEven) {
  const float cases[][2] = {{0.5f, 0},
                            {1.5f, 2},
                            {2.5f, 2},
                            {-0.5f, 0},
                            {-1.5f, -2},
                            {-2.5f, -2},
                            {0.49999997f, 0},
                            {0.7f, 1},
                            {-0.7f, -1},
                            {-0.49999997f, 0},
                            {3, 3},
                            {8388609, 8388609},
                            {4194303.5f, 4194304},
                            {1e20f, 1e20f},
                            {-1e-10f, 0}};
  for (const auto& [x, want] : cases) {
    EXPECT_EQ(lowerRound(Number<float>(x)).value, want) << x;
    EXPECT_EQ(evalScalar(Scalar::round, x), want) << x;
  }
}

// Bases of every sign against exponents of every kind, as C and IEEE 754 have them.
TEST(ScalarTable, PowerOfAnySign) {
  const double inf = std::numeric_limits<double>::infinity(), nan = std::nan("");
  const double cases[][3] = {
      {2, 3, 8},       {-2, 3, -8},      {-2, 2, 4},     {-2, -1, -0.5},    {-2, 0, 1},       {0, 0, 1},
      {0, 2, 0},       {0, 0.5, 0},      {0, -1, inf},   {-0.0, -1, -inf},  {-0.0, 3, 0},     {-0.0, -2, inf},
      {-2, 0.5, nan},  {4, 0.5, 2},      {-1, 1e9, 1},   {-1, 3e4 + 1, -1}, {inf, 0, 1},      {inf, 2, inf},
      {2, -inf, 0},    {0, inf, 0},      {nan, 2, nan},  {2, nan, nan},     {nan, 0, 1},      {1, nan, 1},
      {-1, nan, nan},  {0, nan, nan},    {1, inf, 1},    {-1, -inf, 1},     {0.5, -inf, inf}, {-0.5, inf, 0},
      {-inf, 3, -inf}, {-inf, 0.5, inf}, {-inf, -3, 0},  {-inf, 2, inf},    {-inf, -0.5, 0},  {-2, inf, inf},
      {nan, nan, nan}, {0, -inf, inf},   {inf, -0.5, 0}, {inf, nan, nan},   {nan, -1, nan},
  };
  for (const auto& [x, y, want] : cases) {
    const float got =
        lowerPow(Number<float>(static_cast<float>(x)), Number<float>(static_cast<float>(y))).value;
    const double value = evalScalar(Scalar::pow, x, y);
    if (std::isnan(want)) {
      EXPECT_TRUE(std::isnan(got) && std::isnan(value)) << x << "^" << y;
      continue;
    }
    EXPECT_EQ(got, static_cast<float>(want)) << x << "^" << y;
    EXPECT_EQ(value, want) << x << "^" << y;
  }
}

// Where the formulas have something to avoid: 0·inf, the logarithm of what is not positive.
TEST(ScalarTable, GradientsOfPowerAtItsEdges) {
  using E = Number<double>;
  const double ln2 = std::log(2.0), nan = std::nan("");
  const double cases[][4] = {
      // x, y, d/dx, d/dy
      {2, 3, 12, 8 * ln2}, {-2, 3, 12, 0},     {-2, 2, -4, 0},   {-2, -1, -0.25, 0}, {-2, 0, 0, 0},
      {0, 2, 0, 0},        {0, 1, 1, 0},       {0, 0, 0, 0},     {0, 3, 0, 0},       {2, 0, 0, ln2},
      {nan, 2, nan, nan},  {2, nan, nan, nan}, {nan, 0, 0, nan},
  };
  auto expectNear = [](double got, double want, double x, double y) {
    if (std::isnan(want))
      EXPECT_TRUE(std::isnan(got)) << x << "^" << y << ": " << got;
    else
      EXPECT_NEAR(got, want, 1e-12) << x << "^" << y;
  };
  for (const auto& [x, y, dx, dy] : cases) {
    const E operands[] = {E(x), E(y)};
    const auto grads = scalarGrads<E>(Scalar::pow, operands, E(evalScalar(Scalar::pow, x, y)), E(1.0));
    expectNear(grads[0].value, dx, x, y);
    expectNear(grads[1].value, dy, x, y);
  }
}

// In f32, where a rule that squares or subtracts what is large gives 0, inf or noise.
TEST(ScalarTable, GradientsKeepTheirRange) {
  using E = Number<float>;
  const double inf = std::numeric_limits<double>::infinity();
  const double near = 1 - 0.9999f;  // exact
  struct Case {
    Scalar scalar;
    double x, y, dx, dy;
  };
  const Case cases[] = {
      {Scalar::silu, 2e7, 0, 1, 0},
      {Scalar::silu, 1e30, 0, 1, 0},
      {Scalar::silu, -1e9, 0, 0, 0},
      {Scalar::silu, 1.5, 0, 1.041294154, 0},
      {Scalar::sinh, 89.25, 0, std::cosh(89.25), 0},
      {Scalar::cosh, -89.25, 0, std::sinh(-89.25), 0},
      {Scalar::cosh, 1e-5, 0, std::sinh(1e-5), 0},
      {Scalar::asin, 0.9999, 0, 1 / std::sqrt(near * (2 - near)), 0},
      {Scalar::acos, -0.9999, 0, -1 / std::sqrt(near * (2 - near)), 0},
      {Scalar::atan2, 1e-25, 1e-25, 5e24, -5e24},
      {Scalar::atan2, 1e19, 2e19, 4e-20, -2e-20},
      {Scalar::atan2, 0, -3, -1 / 3.0, 0},
      {Scalar::atan2, 3, 0, 0, -1 / 3.0},
      {Scalar::pow, inf, 0, 0, inf},
      {Scalar::pow, -inf, 0, 0, 0},
      {Scalar::pow, 0, 0, 0, 0},
  };
  for (const Case& row : cases) {
    const E operands[] = {E(static_cast<float>(row.x)), E(static_cast<float>(row.y))};
    const auto arity = static_cast<size_t>(info(row.scalar).arity);
    const E result(static_cast<float>(evalScalar(row.scalar, row.x, row.y)));
    const auto grads = scalarGrads<E>(row.scalar, std::span(operands, arity), result, E(1));
    const double want[] = {row.dx, row.dy};
    for (size_t i = 0; i < grads.size(); ++i) {
      const double got = grads[i].value;
      const std::string at = fmt::format("{} at {}, {}", info(row.scalar).name, row.x, row.y);
      if (std::isinf(want[i]))
        EXPECT_EQ(got, want[i]) << at;
      else
        EXPECT_NEAR(got, want[i], 2e-6 * std::abs(want[i])) << at;
    }
  }
}

// Far from 0 on both sides, where log(1 + e^x) in f32 would be 0 or inf.
TEST(ScalarTable, SoftplusKeepsItsDigits) {
  double worst = 0;
  for (int i = -8000; i <= 10000; ++i) {
    const float x = static_cast<float>(i) * 0.01f;
    worst = std::max(
        worst, ulps(lowerSoftplus(Number<float>(x)).value, std::log1p(std::exp(static_cast<double>(x)))));
  }
  EXPECT_LE(worst, 4);
  EXPECT_EQ(lowerSoftplus(Number<float>(-1000.0f)).value, 0);
  EXPECT_EQ(lowerSoftplus(Number<float>(1000.0f)).value, 1000);
}

}  // namespace
}  // namespace tg::test
