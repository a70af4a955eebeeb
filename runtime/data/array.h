// SPDX-License-Identifier: Apache-2.0
// A dense host tensor: what files are read into and what is uploaded to a device.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "ir/result.h"
#include "ir/type.h"

namespace tg {

/// Row-major elements of `dtype`, byteSize(dtype) each: i1 is a 4-byte 0/1, f16 two bytes.
struct HostArray {
  DType dtype = DType::f32;
  Shape shape;
  std::vector<std::byte> bytes;

  /// All elements zero. Of a type that no array has, as one with a negative extent, there are no elements, and what
  /// takes the array says so.
  static HostArray zeros(const Type& type);
  static HostArray zeros(DType dtype, Shape shape) { return zeros(Type::tensor(dtype, shape)); }

  /// f32 elements in row-major order, as many as the shape says.
  static Result<HostArray> of(std::span<const float> values, std::span<const int64_t> shape);
  static Result<HostArray> of(std::span<const int32_t> values, std::span<const int64_t> shape);
  /// A vector's elements along one axis.
  static HostArray of(const std::vector<float>& values);
  static HostArray of(const std::vector<int32_t>& values);
  /// Rank 0.
  static HostArray of(float value);
  static HostArray of(int32_t value);

  Type type() const { return Type::tensor(dtype, shape); }
  int64_t elements() const { return shape.elements(); }
  /// An error about `what` where `bytes` are not those of the type: not as many, or flags other than 0 and 1.
  Result<void> checkBytes(std::string_view what) const;

  /// The elements in place; the dtype must be f32.
  std::span<float> f32();
  std::span<const float> f32() const;
  /// The elements in place; the dtype must be i32 or i1 (as 0/1).
  std::span<int32_t> i32();
  std::span<const int32_t> i32() const;

  /// Element `index` in row-major order, exact for every dtype.
  double at(int64_t index) const;
  /// Stores `value` rounded to the dtype: floats to nearest even; integers towards zero and clamped
  /// to their range, NaN as 0; i1 as value != 0.
  void set(int64_t index, double value);
};

/// An error about `what` where bytes of `type`, from its element `first` on, hold a flag (i1) other than 0 and 1.
Result<void> checkFlags(std::string_view what, const Type& type, std::span<const std::byte> bytes,
                        int64_t first = 0);

/// The shape of extents that come from outside: an error for more than kMaxRank dimensions, a
/// negative extent, or 2^48 elements and more.
Result<Shape> checkedShape(std::span<const int64_t> dims);

}  // namespace tg
