// SPDX-License-Identifier: Apache-2.0
// Kernel values with operators, so that the scalar table's kernel column is written once as C++ expressions.
#pragma once

#include <span>

#include "ir/kernel/builder.h"
#include "ir/scalar.h"

namespace tg {

/// A kernel value and the builder that its operations are added to; empty when `kernel` is null.
struct KExpr {
  KernelBuilder* kernel = nullptr;
  KV v;
};

namespace kexpr {
inline KV lift(const KExpr&, const KExpr& x) { return x.v; }
inline KV lift(const KExpr& like, double x) { return KernelBuilder::literal(like.v.type.dtype, x); }
inline const KExpr& owner(const KExpr& a, const KExpr& b) { return a.kernel ? a : b; }
inline const KExpr& owner(const KExpr& a, double) { return a; }
inline const KExpr& owner(double, const KExpr& b) { return b; }
template <class A, class B>
KExpr binary(Opcode code, const A& a, const B& b) {
  const KExpr& like = owner(a, b);
  return {like.kernel, like.kernel->op(code, {lift(like, a), lift(like, b)}, like.v.type.dtype)};
}
template <class A, class B>
KExpr compare(Opcode code, const A& a, const B& b) {
  const KExpr& like = owner(a, b);
  return {like.kernel, like.kernel->op(code, {lift(like, a), lift(like, b)}, DType::i1)};
}
inline KExpr unary(Opcode code, const KExpr& x) {
  return {x.kernel, x.kernel->op(code, {x.v}, x.v.type.dtype)};
}
}  // namespace kexpr

#define TG_KEXPR_BINARY(function, code)                                                       \
  inline KExpr function(const KExpr& a, const KExpr& b) { return kexpr::binary(code, a, b); } \
  inline KExpr function(const KExpr& a, double b) { return kexpr::binary(code, a, b); }       \
  inline KExpr function(double a, const KExpr& b) { return kexpr::binary(code, a, b); }
TG_KEXPR_BINARY(operator+, Opcode::k_add)
TG_KEXPR_BINARY(operator-, Opcode::k_sub)
TG_KEXPR_BINARY(operator*, Opcode::k_mul)
TG_KEXPR_BINARY(operator/, Opcode::k_div)
TG_KEXPR_BINARY(max, Opcode::k_max)
TG_KEXPR_BINARY(min, Opcode::k_min)
TG_KEXPR_BINARY(pow, Opcode::k_pow)
#undef TG_KEXPR_BINARY

#define TG_KEXPR_COMPARE(function, code)                                                       \
  inline KExpr function(const KExpr& a, const KExpr& b) { return kexpr::compare(code, a, b); } \
  inline KExpr function(const KExpr& a, double b) { return kexpr::compare(code, a, b); }
TG_KEXPR_COMPARE(lt, Opcode::k_lt)
TG_KEXPR_COMPARE(le, Opcode::k_le)
TG_KEXPR_COMPARE(gt, Opcode::k_gt)
TG_KEXPR_COMPARE(ge, Opcode::k_ge)
TG_KEXPR_COMPARE(eq, Opcode::k_eq)
TG_KEXPR_COMPARE(ne, Opcode::k_ne)
#undef TG_KEXPR_COMPARE

inline KExpr operator-(const KExpr& x) { return kexpr::unary(Opcode::k_neg, x); }
inline KExpr abs(const KExpr& x) { return kexpr::unary(Opcode::k_abs, x); }
inline KExpr sign(const KExpr& x) { return kexpr::unary(Opcode::k_sign, x); }
inline KExpr exp(const KExpr& x) { return kexpr::unary(Opcode::k_exp, x); }
inline KExpr log(const KExpr& x) { return kexpr::unary(Opcode::k_log, x); }
inline KExpr sqrt(const KExpr& x) { return kexpr::unary(Opcode::k_sqrt, x); }
inline KExpr rsqrt(const KExpr& x) { return kexpr::unary(Opcode::k_rsqrt, x); }
inline KExpr exp2(const KExpr& x) { return kexpr::unary(Opcode::k_exp2, x); }
inline KExpr log2(const KExpr& x) { return kexpr::unary(Opcode::k_log2, x); }
inline KExpr floor(const KExpr& x) { return kexpr::unary(Opcode::k_floor, x); }
inline KExpr sin(const KExpr& x) { return kexpr::unary(Opcode::k_sin, x); }
inline KExpr cos(const KExpr& x) { return kexpr::unary(Opcode::k_cos, x); }
inline KExpr sinh(const KExpr& x) { return kexpr::unary(Opcode::k_sinh, x); }
inline KExpr cosh(const KExpr& x) { return kexpr::unary(Opcode::k_cosh, x); }
inline KExpr isnan(const KExpr& x) { return {x.kernel, x.kernel->op(Opcode::k_isnan, {x.v}, DType::i1)}; }
inline KExpr sigmoid(const KExpr& x) { return 1.0 / (1.0 + exp(-x)); }

template <class A, class B>
KExpr select(const KExpr& cond, const A& a, const B& b) {
  KExpr like = [&] {
    if constexpr (std::is_same_v<A, KExpr>)
      return a;
    else if constexpr (std::is_same_v<B, KExpr>)
      return b;
    else
      return KExpr{cond.kernel, KernelBuilder::f32(0)};
  }();
  return {cond.kernel, cond.kernel->select(cond.v, kexpr::lift(like, a), kexpr::lift(like, b))};
}

/// A call of the kernel op that computes a scalar function.
KExpr builtinScalar(Scalar scalar, std::span<const KExpr> operands);
/// The kernel form of a scalar function, from the scalar table.
KV lowerScalar(KernelBuilder& kernel, Scalar scalar, const std::vector<KV>& operands);
/// 1 - base^t for a whole number t, as -expm1(t·ln base), accurate to about an ulp for every t.
KV lowerOneMinusPow(KernelBuilder& kernel, const KV& t, double base);

}  // namespace tg
