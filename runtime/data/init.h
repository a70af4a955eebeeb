// SPDX-License-Identifier: Apache-2.0
// Initial values of parameters.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "ir/init.h"
#include "ir/module.h"
#include "ir/result.h"
#include "runtime/data/array.h"
#include "runtime/data/draws.h"

namespace tg {

/// The initial value of a parameter. It is a pure function of the arguments and does not depend on other parameters, on
/// the order of calls, or on the pieces in which it is computed. Kinds, with their arguments:
///   zeros, ones, constant(value), uniform(lo, hi),
///   randn(std = 0.02), kaiming(gain = sqrt 2), xavier(gain = 1).
/// The last three are normal, with the standard deviations std, gain / sqrt(fan_in) and gain * sqrt(2 / (fan_in +
/// fan_out)). For [in, out], fan_in is the product of all extents but the last, and fan_out is the last; for a
/// convolution's [O, I/g, kh, kw] they are I/g*kh*kw and O*kh*kw. kaiming and xavier need rank 2 or more. Random kinds
/// need a float type. Errors name the parameter.
/// Element i takes philox({lo i, hi i, hi h, hi seed}, {lo seed, lo h}) with h = XXH3-64 of the name,
/// where lo and hi are the 32-bit halves: a uniform of the first word, a normal of the first two.
class InitialValue {
 public:
  static Result<InitialValue> of(std::string_view name, const Type& type, std::string_view kind,
                                 std::span<const double> args, uint64_t seed);
  /// Computes the elements from `first` on, as many as `out` has room for, on all cores.
  void fill(int64_t first, std::span<std::byte> out) const;
  /// Whether all bytes are zero.
  bool isZero() const { return draw_ == InitKind::Draw::fill && low_ == 0; }

 private:
  void fillPart(int64_t first, std::span<std::byte> out) const;

  DType dtype_ = DType::f32;
  InitKind::Draw draw_ = InitKind::Draw::fill;
  /// A constant or the least value, and the width; a normal's deviation is `range_`.
  double low_ = 0, range_ = 0;
  DrawKey key_;
};

/// The initial value of a param or state: drawn or filled piece by piece, or elements given in the text.
class FirstValue {
 public:
  static Result<FirstValue> of(const Item& item, uint64_t seed);
  void fill(int64_t first, std::span<std::byte> out) const;
  bool isZero() const { return !given_ && drawn_.isZero(); }

 private:
  InitialValue drawn_;
  std::optional<HostArray> given_;
};

/// All elements of an InitialValue.
Result<HostArray> initialValue(std::string_view name, const Type& type, std::string_view kind,
                               std::span<const double> args, uint64_t seed);

}  // namespace tg
