// SPDX-License-Identifier: Apache-2.0
// The scalar table: the value, derivative and kernel form of each elementwise function, written once and instantiated
// over f64 (interpreters), tensors (gradient rules) and kernel values (lowering).
#pragma once

#include <cmath>
#include <string_view>

namespace tg {

enum class Scalar : uint8_t {
  none,
#define SCALAR(id, arity, value, grads, lower, lo, hi, ulps) id,
#include "ir/scalar.def"
#undef SCALAR
};

struct ScalarInfo {
  std::string_view name;
  int arity;
  std::string_view value;  ///< the formula of the value, as written in the table
  std::string_view grads;  ///< the formulas of the operand gradients; g is the gradient of the result
  double lo, hi;           ///< the domain that the sweeps draw operands from
  double ulps;             ///< error allowed on a device, in units of f32 rounding of the result
};
const ScalarInfo& info(Scalar scalar);

// Functions in the table's formulas that <cmath> lacks, for f64.
namespace scalar_math {
inline double sigmoid(double x) { return x >= 0 ? 1 / (1 + std::exp(-x)) : std::exp(x) / (1 + std::exp(x)); }
inline double rsqrt(double x) { return 1 / std::sqrt(x); }
inline double min2(double x, double y) { return std::isnan(x) || x <= y ? x : y; }
inline double max2(double x, double y) { return std::isnan(x) || x >= y ? x : y; }
inline double sign(double x) { return x > 0 ? 1 : x < 0 ? -1 : 0; }
/// The angle of the point (y, x); the sign of a zero is ignored.
inline double arcTangent2(double x, double y) { return std::atan2(x == 0 ? 0.0 : x, y == 0 ? 0.0 : y); }
}  // namespace scalar_math

/// Whether the value is a condition, 0 or 1: comparisons and logic ops.
constexpr bool givesCondition(Scalar scalar) { return scalar >= Scalar::less && scalar <= Scalar::not_; }

/// Whether no gradient flows to any operand: every gradient in the table is `zero`.
bool hasNoGradient(Scalar scalar);

/// The value in f64. Comparisons give 0 or 1.
double evalScalar(Scalar scalar, double x, double y = 0, double z = 0);

}  // namespace tg
