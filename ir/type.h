// SPDX-License-Identifier: Apache-2.0
// Types of both dialects: tensors, kernel scalars and short vectors, kernel buffers.
#pragma once

#include <array>
#include <cassert>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>

#include "ir/dtype.h"

namespace tg {

constexpr int kMaxRank = 8;

/// The extents of up to kMaxRank axes; kDynamic ('?') only in kernel buffers.
class Shape {
 public:
  static constexpr int64_t kDynamic = -1;
  Shape() = default;
  Shape(std::initializer_list<int64_t> dims) {
    for (int64_t dim : dims) push(dim);
  }
  int rank() const { return rank_; }
  int64_t operator[](int axis) const { return dims_[axis]; }
  int64_t& operator[](int axis) { return dims_[axis]; }
  int64_t back() const { return dims_[rank_ - 1]; }
  void push(int64_t dim) {
    assert(rank_ < kMaxRank);
    dims_[rank_++] = dim;
  }
  void resize(int rank, int64_t fill = 1) {
    for (int axis = rank_; axis < rank; ++axis) dims_[axis] = fill;
    rank_ = static_cast<uint8_t>(rank);
  }
  /// Product of the extents; 1 for rank 0.
  int64_t elements() const;
  const int64_t* begin() const { return dims_.data(); }
  const int64_t* end() const { return dims_.data() + rank_; }
  bool operator==(const Shape& other) const;
  /// `2x3`, "" for rank 0.
  std::string str() const;

 private:
  std::array<int64_t, kMaxRank> dims_{};
  uint8_t rank_ = 0;
};

/// How a kernel uses a buffer. `in` is only read; each element of `out` is written at most once in a dispatch;
/// `accum` is zeroed by the plan and only added to; `shared` belongs to a workgroup, `local` to an invocation; `tape`
/// is scratch whose size the plan sets.
enum class BufMode : uint8_t { in, out, inout, accum, shared, local, tape };
std::string_view name(BufMode mode);

/// The role of a matrix in a product A·B + acc.
enum class MatrixUse : uint8_t { a, b, acc };
std::string_view name(MatrixUse use);

/// A type of any kind. Members that the kind does not use have their defaults, so that types can be compared
/// memberwise.
struct Type {
  enum class Kind : uint8_t { none, tensor, scalar, buffer, coopmat };
  Kind kind = Kind::none;
  DType dtype = DType::f32;
  uint8_t lanes = 1;             ///< 1, 2 or 4: the width of a kernel scalar or buffer element
  BufMode mode = BufMode::in;    ///< buffers only
  bool texel = false;            ///< buffers only: read through a texel view, element = one texel
  Shape shape;                   ///< tensors, buffers and matrices
  MatrixUse use = MatrixUse::a;  ///< coopmats only

  static Type tensor(DType dtype, Shape shape) {
    return {Kind::tensor, dtype, 1, BufMode::in, false, shape, MatrixUse::a};
  }
  static Type scalar(DType dtype, int lanes = 1) {
    return {Kind::scalar, dtype, static_cast<uint8_t>(lanes), BufMode::in, false, {}, MatrixUse::a};
  }
  static Type buffer(DType dtype, int lanes, Shape shape, BufMode mode, bool texel = false) {
    return {Kind::buffer, dtype, static_cast<uint8_t>(lanes), mode, texel, shape, MatrixUse::a};
  }
  /// A matrix that the invocations of a subgroup hold together.
  static Type coopmat(DType dtype, int64_t rows, int64_t columns, MatrixUse use) {
    return {Kind::coopmat, dtype, 1, BufMode::in, false, {rows, columns}, use};
  }
  bool isTensor() const { return kind == Kind::tensor; }
  bool isScalar() const { return kind == Kind::scalar; }
  bool isBuffer() const { return kind == Kind::buffer; }
  bool isCoopmat() const { return kind == Kind::coopmat; }
  int rank() const { return shape.rank(); }
  int64_t elements() const { return shape.elements(); }
  /// Bytes of a dense tensor or buffer.
  int64_t bytes() const { return elements() * lanes * byteSize(dtype); }
  bool operator==(const Type& other) const = default;
  /// `tensor<2x3xf32>`, `f32`, `vec4<f32>`, `buf<?xvec4<f32>, in, texel>`, `coopmat<f16, 16x16, A>`.
  std::string str() const;
};

}  // namespace tg
