// SPDX-License-Identifier: Apache-2.0
// The interpreter's tensor, with f64 elements for every type, and the rounding of f64 to a type.
#pragma once

#include <utility>
#include <vector>

#include "ir/type.h"

namespace tg {

/// A dense row-major tensor. `data` has type.elements() values. f64 holds integers and i1 (0 or 1) exactly; floats keep
/// f64 precision until something rounds them.
struct NdArray {
  Type type;
  std::vector<double> data;

  NdArray() = default;
  NdArray(Type tensor, std::vector<double> elements) : type(tensor), data(std::move(elements)) {}
  /// All elements `value`. `tensor` has static extents.
  static NdArray filled(const Type& tensor, double value) {
    return {tensor, std::vector<double>(static_cast<size_t>(tensor.elements()), value)};
  }
  static NdArray zeros(const Type& tensor) { return filled(tensor, 0); }
  /// A rank-0 f32.
  static NdArray scalar(double value) { return filled(Type::tensor(DType::f32, {}), value); }
  const Shape& shape() const { return type.shape; }
};

/// The value that an element of `dtype` has after `value` is stored in it: floats round to nearest even, integers keep
/// their low 32 bits, i1 becomes value != 0.
double roundTo(DType dtype, double value);
/// The value of tg.cast: like roundTo, but when a float becomes an integer, its fraction is dropped, it is clamped to
/// the range, and NaN becomes 0.
double castTo(DType to, DType from, double value);
/// Rounds every element to the array's type.
void roundAll(NdArray& array);

}  // namespace tg
