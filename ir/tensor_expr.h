// SPDX-License-Identifier: Apache-2.0
// Tensor formulas as C++ expressions, in which decompositions and gradient rules are written. Each operator appends
// one op to the builder's block; a double beside a tensor is a rank-0 constant of its element type.
#pragma once

#include <vector>

#include "ir/builder.h"

namespace tg {

/// A value, and the builder to append ops to. Empty means "no value".
struct TensorExpr {
  Builder* builder = nullptr;
  Value* value = nullptr;

  explicit operator bool() const { return value != nullptr; }
  const Shape& shape() const { return value->type.shape; }
  int rank() const { return value->type.rank(); }
  DType dtype() const { return value->type.dtype; }
  /// The element type's lowest finite value: the result of a maximum over nothing.
  double lowest() const;

  TensorExpr sum(std::vector<int64_t> axes, bool keepdims = false) const {
    return {builder, builder->sum(value, std::move(axes), keepdims)};
  }
  TensorExpr mean(std::vector<int64_t> axes, bool keepdims = false) const {
    return {builder, builder->reduce(Opcode::mean, value, std::move(axes), keepdims)};
  }
  TensorExpr maxOver(std::vector<int64_t> axes, bool keepdims = false) const {
    return {builder, builder->reduce(Opcode::max_reduce, value, std::move(axes), keepdims)};
  }
  TensorExpr reshape(const Shape& shape) const { return {builder, builder->reshape(value, shape)}; }
  TensorExpr broadcastTo(const Shape& shape) const { return {builder, builder->broadcastTo(value, shape)}; }
  TensorExpr sumTo(const Shape& shape) const { return {builder, builder->sumTo(value, shape)}; }
  TensorExpr cast(DType dtype) const { return {builder, builder->cast(value, dtype)}; }
  /// A rank-0 constant of this tensor's element type.
  TensorExpr constant(double number) const {
    return {builder, builder->constant(number, Type::tensor(dtype(), {}))};
  }
  TensorExpr transpose(std::vector<int64_t> perm) const {
    return {builder, builder->transpose(value, std::move(perm))};
  }
  TensorExpr part(int axis, int64_t from, int64_t to) const {
    return {builder, builder->part(value, axis, from, to)};
  }
  TensorExpr unary(Opcode code, AttrList attrs = {}) const {
    return {builder, builder->op(code, {value}, std::move(attrs))};
  }
  TensorExpr binary(Opcode code, const TensorExpr& rhs) const {
    return {builder, builder->op(code, {value, rhs.value})};
  }
};

/// All axes of a rank: 0 … rank-1.
std::vector<int64_t> allAxes(int rank);
/// For each element of `shape` its index along `axis`, i32.
TensorExpr iota(Builder& builder, const Shape& shape, int axis);

#define TG_EXPR_BINARY(fn, code)                                                                        \
  inline TensorExpr fn(const TensorExpr& a, const TensorExpr& b) { return a.binary(Opcode::code, b); }  \
  inline TensorExpr fn(const TensorExpr& a, double b) { return a.binary(Opcode::code, a.constant(b)); } \
  inline TensorExpr fn(double a, const TensorExpr& b) { return b.constant(a).binary(Opcode::code, b); }
TG_EXPR_BINARY(operator+, add)
TG_EXPR_BINARY(operator-, sub)
TG_EXPR_BINARY(operator*, mul)
TG_EXPR_BINARY(operator/, div)
TG_EXPR_BINARY(min, min)
TG_EXPR_BINARY(max, max)
TG_EXPR_BINARY(pow, pow)
TG_EXPR_BINARY(lt, less)
TG_EXPR_BINARY(le, less_equal)
TG_EXPR_BINARY(gt, greater)
TG_EXPR_BINARY(ge, greater_equal)
TG_EXPR_BINARY(eq, equal)
#undef TG_EXPR_BINARY

#define TG_EXPR_UNARY(fn, code) \
  inline TensorExpr fn(const TensorExpr& a) { return a.unary(Opcode::code); }
TG_EXPR_UNARY(operator-, neg)
TG_EXPR_UNARY(abs, abs)
TG_EXPR_UNARY(sign, sign)
TG_EXPR_UNARY(sqrt, sqrt)
TG_EXPR_UNARY(rsqrt, rsqrt)
TG_EXPR_UNARY(exp, exp)
TG_EXPR_UNARY(exp2, exp2)
TG_EXPR_UNARY(floor, floor)
TG_EXPR_UNARY(log, log)
TG_EXPR_UNARY(sigmoid, sigmoid)
TG_EXPR_UNARY(normalCdf, normal_cdf)
TG_EXPR_UNARY(sin, sin)
TG_EXPR_UNARY(cos, cos)
TG_EXPR_UNARY(sinh, sinh)
TG_EXPR_UNARY(cosh, cosh)
TG_EXPR_UNARY(square, square)
TG_EXPR_UNARY(stopGradient, stop_gradient)
#undef TG_EXPR_UNARY

/// `a` where the condition holds, else `b`.
inline TensorExpr select(const TensorExpr& cond, const TensorExpr& a, const TensorExpr& b) {
  return {cond.builder, cond.builder->op(Opcode::select, {cond.value, a.value, b.value})};
}
inline TensorExpr select(const TensorExpr& cond, const TensorExpr& a, double b) {
  return select(cond, a, a.constant(b));
}
inline TensorExpr select(const TensorExpr& cond, double a, const TensorExpr& b) {
  return select(cond, b.constant(a), b);
}

}  // namespace tg
