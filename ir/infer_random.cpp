// SPDX-License-Identifier: Apache-2.0
// Types of the random ops.
#include <cmath>

#include "ir/infer.h"
#include "ir/infer_context.h"
#include "ir/op_view.h"

namespace tg::inference {

/// Checks the key and the salt, which all random ops have.
static Result<void> checkKey(const Context& c, int rng) {
  if (!(c.in(rng) == Type::tensor(DType::i32, {2})))
    return c.errorAt(rng, 1, "the key is {}, not tensor<2xi32>", c.in(rng).str());
  const int64_t salt = as::random_uniform(c.op).salt();
  if (salt < 0 || salt > UINT32_MAX) return c.error(2, "salt = {} is not in 0 … {}", salt, UINT32_MAX);
  return {};
}

/// Checks the number of the first element, with which constraint `which` deals.
static Result<void> checkFirst(const Context& c, int which) {
  const int64_t first = as::random_uniform(c.op).first();
  if (first < 0 || first > UINT32_MAX || first % 4 != 0)
    return c.error(which, "first = {} is not a multiple of 4 in 0 … {}", first, UINT32_MAX);
  return {};
}

/// The declared type of the random values.
static Result<Type> drawn(const Context& c) {
  TG_CHECK(checkKey(c, 0));
  TG_TRY(Type type, c.declared());
  if (type.dtype != DType::f32) return c.error(3, "the result is {}; draw f32 and cast it", type.str());
  TG_CHECK(checkFirst(c, 5));
  return type;
}

/// Whether a number is finite after rounding to f32.
static bool isFinite(double value) { return std::isfinite(static_cast<float>(value)); }

Result<Types> types(at::random_uniform, const Context& c) {
  TG_TRY(Type type, drawn(c));
  const double low = as::random_uniform(c.op).low(), high = as::random_uniform(c.op).high();
  if (!isFinite(low) || !isFinite(high) || !isFinite(high - low) ||
      !(static_cast<float>(low) < static_cast<float>(high)))
    return c.error(4, "[{}, {}) is not an interval of f32", low, high);
  return Types{type};
}

Result<Types> types(at::random_normal, const Context& c) {
  TG_TRY(Type type, drawn(c));
  const double mean = as::random_normal(c.op).mean(), std = as::random_normal(c.op).std();
  if (!isFinite(mean) || !isFinite(std) || std < 0)
    return c.error(4, "there is no normal distribution of mean {} and std {}", mean, std);
  return Types{type};
}

Result<Types> types(at::dropout, const Context& c) {
  TG_CHECK(checkKey(c, 1));
  const auto p = static_cast<float>(as::dropout(c.op).p());
  if (!(p >= 0 && p < 1)) return c.error(3, "p = {} is not in [0, 1)", formatReal(as::dropout(c.op).p()));
  TG_CHECK(checkFirst(c, 4));
  return Types{c.in(0)};
}

Result<Types> types(at::categorical, const Context& c) {
  TG_CHECK(checkKey(c, 1));
  TG_TRY(const int axis, c.axisOf("axis", c.in(0).rank(), 3, 0));
  return Types{Type::tensor(DType::i32, reducedShape(c.shape(0), {axis}, false))};
}

}  // namespace tg::inference
