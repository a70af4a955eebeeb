// SPDX-License-Identifier: Apache-2.0
// A dense tensor in host memory: the result of reading a file, and the source of an upload to a device.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "ir/result.h"
#include "ir/type.h"

namespace tg {

struct HostArray;

/// A view of the elements of an array in host memory, such as a HostArray, which must outlive the view.
struct HostView {
  DType dtype = DType::f32;
  Shape shape;
  std::span<const std::byte> bytes;

  HostView(const HostArray& array);
  HostView(DType dtype, Shape shape, std::span<const std::byte> bytes)
      : dtype(dtype), shape(shape), bytes(bytes) {}

  Type type() const { return Type::tensor(dtype, shape); }
  int64_t elements() const { return shape.elements(); }
  /// An error if `bytes` does not fit the type: another length, or an i1 other than 0 and 1. `what` names the array.
  Result<void> checkBytes(std::string_view what) const;
  /// Element `index` in row-major order, exact for every dtype.
  double at(int64_t index) const;
};

/// Row-major elements of `dtype`, byteSize(dtype) bytes each: an i1 is a 4-byte 0 or 1, an f16 two bytes.
struct HostArray {
  DType dtype = DType::f32;
  Shape shape;
  std::vector<std::byte> bytes;

  /// All elements zero. For an invalid type, such as one with a negative extent, the array has no elements; whoever
  /// uses the array reports that.
  static HostArray zeros(const Type& type);
  static HostArray zeros(DType dtype, Shape shape) { return zeros(Type::tensor(dtype, shape)); }

  /// f32 elements in row-major order, as many as the shape says.
  static Result<HostArray> of(std::span<const float> values, std::span<const int64_t> shape);
  static Result<HostArray> of(std::span<const int32_t> values, std::span<const int64_t> shape);
  /// A vector as an array of rank 1.
  static HostArray of(const std::vector<float>& values);
  static HostArray of(const std::vector<int32_t>& values);
  /// An array of rank 0.
  static HostArray of(float value);
  static HostArray of(int32_t value);

  Type type() const { return Type::tensor(dtype, shape); }
  int64_t elements() const { return shape.elements(); }
  /// As HostView's.
  Result<void> checkBytes(std::string_view what) const { return HostView(*this).checkBytes(what); }

  /// The elements in place; the dtype must be f32.
  std::span<float> f32();
  std::span<const float> f32() const;
  /// The elements in place; the dtype must be i32 or i1 (as 0/1).
  std::span<int32_t> i32();
  std::span<const int32_t> i32() const;

  /// Element `index` in row-major order, exact for every dtype.
  double at(int64_t index) const { return HostView(*this).at(index); }
  /// Stores `value` rounded to the dtype: floats to nearest even; integers towards zero and clamped
  /// to their range, NaN as 0; i1 as value != 0.
  void set(int64_t index, double value);
};

inline HostView::HostView(const HostArray& array)
    : dtype(array.dtype), shape(array.shape), bytes(array.bytes) {}

/// A NaN without its sign, which has no meaning but would be printed.
double unsignedNan(double value);

/// An error if bytes of `type`, which begin at element `first`, contain an i1 other than 0 and 1. `what` names the
/// array.
Result<void> checkFlags(std::string_view what, const Type& type, std::span<const std::byte> bytes,
                        int64_t first = 0);

/// Checks extents from outside the program and makes a shape of them. Errors: more than kMaxRank dimensions, a negative
/// extent, 2^48 elements or more.
Result<Shape> checkedShape(std::span<const int64_t> dims);

}  // namespace tg
