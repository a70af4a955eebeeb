// SPDX-License-Identifier: Apache-2.0
#include "ir/type.h"

#include <fmt/format.h>

namespace tg {

std::string_view name(BufMode mode) {
  constexpr std::string_view names[] = {"in", "out", "inout", "accum", "shared", "local", "tape"};
  return names[static_cast<int>(mode)];
}

std::string_view name(MatrixUse use) {
  constexpr std::string_view names[] = {"A", "B", "acc"};
  return names[static_cast<int>(use)];
}

/// The count stops here, far above what any tensor may have: its bytes, with four lanes of four bytes, still fit 64
/// bits.
constexpr int64_t kMostCounted = int64_t{1} << 58;

int64_t Shape::elements() const {
  int64_t count = 1;
  for (int64_t dim : *this)
    if (__builtin_mul_overflow(count, dim, &count) || count > kMostCounted) return kMostCounted;
  return count;
}

bool Shape::operator==(const Shape& other) const {
  if (rank_ != other.rank_) return false;
  for (int axis = 0; axis < rank_; ++axis)
    if (dims_[axis] != other.dims_[axis]) return false;
  return true;
}

std::string Shape::str() const {
  std::string out;
  for (int axis = 0; axis < rank_; ++axis) {
    if (axis) out += 'x';
    out += dims_[axis] == kDynamic ? "?" : std::to_string(dims_[axis]);
  }
  return out;
}

static std::string elementString(const Type& type) {
  std::string_view base = type.dtype == DType::i1 ? "bool" : name(type.dtype);
  if (type.lanes == 1) return std::string(base);
  std::string text = "vec";
  text += static_cast<char>('0' + type.lanes);
  text += '<';
  text += base;
  return text += '>';
}

std::string Type::str() const {
  switch (kind) {
  case Kind::none: return "none";
  case Kind::scalar: return elementString(*this);
  case Kind::tensor: {
    std::string text = "tensor<" + shape.str();
    if (shape.rank()) text += 'x';
    text += name(dtype);
    return text += '>';
  }
  case Kind::buffer:
    return fmt::format("buf<{}{}{}, {}{}>", shape.str(), shape.rank() ? "x" : "", elementString(*this),
                       name(mode), texel ? ", texel" : "");
  case Kind::coopmat: return fmt::format("coopmat<{}, {}, {}>", elementString(*this), shape.str(), name(use));
  }
  return "";
}

}  // namespace tg
