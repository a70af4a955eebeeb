// The scalar table's gradient and kernel columns, instantiated over an expression type E.
//
// E is a default-constructible handle (an empty E means "nothing") with, in its own namespace:
//   operators + - * / between E and E, E and double, double and E; unary -
//   exp log sqrt rsqrt tanh sigmoid sign abs (E); pow min max (E, E or double)
//   lt le gt ge eq (E, E or double), giving a condition as an E
//   select(E condition, E or double, E or double)
//   E builtinScalar(Scalar, std::span<const E>): the function E has ready-made (scalarLower only)
// They are found by argument-dependent lookup, so each user brings its own: tensors for gradient
// rules, kernel values for lowering, f64 for tests.
#pragma once

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

/// tanh in single precision (Cephes tanhf): an odd polynomial near 0, else by exp, which saturates
/// to ±1 where exp overflows.
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

/// erf in single precision (Cephes erff and erfcf). The far branch is kept away from 1/0, so that
/// no lane forms inf or nan.
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

/// The gradients of a scalar function's operands, one for each, empty where none flows. `result` is
/// the function's value, `g` the gradient of the result.
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

/// The word `builtin` of the kernel column: becomes a call of E's own hook.
template <class E>
struct ScalarBuiltin {
  Scalar scalar;
  std::span<const E> operands;
  operator E() const { return builtinScalar(scalar, operands); }
};

/// The kernel form of a scalar function over its operands.
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
