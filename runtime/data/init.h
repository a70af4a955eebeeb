// SPDX-License-Identifier: Apache-2.0
// First values of parameters.
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

/// What a parameter starts from, a pure function of the arguments: it does not depend on other parameters, on
/// the order of calls, or on the pieces it is made in. Kinds, with their arguments:
///   zeros, ones, constant(value), uniform(lo, hi),
///   randn(std = 0.02), kaiming(gain = sqrt 2), xavier(gain = 1).
/// The last three are normal: std, gain / sqrt(fan_in), gain * sqrt(2 / (fan_in + fan_out)). For
/// [in, out] fan_in is the product of all extents but the last and fan_out the last; for a
/// convolution's [O, I/g, kh, kw] they are I/g*kh*kw and O*kh*kw. kaiming and xavier need rank 2
/// and more. Random kinds need a float type. Errors name the parameter.
/// Element i takes philox({lo i, hi i, hi h, hi seed}, {lo seed, lo h}) with h = XXH3-64 of the name,
/// where lo and hi are the 32-bit halves: a uniform of the first word, a normal of the first two.
class InitialValue {
 public:
  static Result<InitialValue> of(std::string_view name, const Type& type, std::string_view kind,
                                 std::span<const double> args, uint64_t seed);
  /// Elements from `first` on, as many as there are bytes for, made on all cores.
  void fill(int64_t first, std::span<std::byte> out) const;
  /// Whether all bytes are zero.
  bool isZero() const { return draw_ == InitKind::Draw::fill && low_ == 0; }

 private:
  void fillPart(int64_t first, std::span<std::byte> out) const;

  DType dtype_ = DType::f32;
  InitKind::Draw draw_ = InitKind::Draw::fill;
  double low_ = 0,
         range_ = 0;  ///< a constant or the least value, and the width; a normal's deviation is `range_`
  DrawKey key_;
};

/// What a param or state of a module starts from: drawn or filled piece by piece, or elements that the text gives.
class FirstValue {
 public:
  static Result<FirstValue> of(const Item& item, uint64_t seed);
  void fill(int64_t first, std::span<std::byte> out) const;
  bool isZero() const { return !given_ && drawn_.isZero(); }

 private:
  InitialValue drawn_;
  std::optional<HostArray> given_;
};

/// The whole of an InitialValue.
Result<HostArray> initialValue(std::string_view name, const Type& type, std::string_view kind,
                               std::span<const double> args, uint64_t seed);

}  // namespace tg
