// SPDX-License-Identifier: Apache-2.0
#include "ir/kernel/expr.h"

#include <cmath>
#include <unordered_map>

#include "ir/kernel/kernel.h"
#include "ir/scalar_expr.h"

namespace tg {

/// The kernel op that computes the scalar function.
static Opcode kernelOpOf(Scalar scalar) {
  static const std::unordered_map<Scalar, Opcode> kOps = [] {
    std::unordered_map<Scalar, Opcode> out{// whose rows are of integers too
                                           {Scalar::and_, Opcode::k_and},
                                           {Scalar::or_, Opcode::k_or},
                                           {Scalar::not_, Opcode::k_not}};
    for (int code = kFirstKernelOp; code < kOpcodeCount; ++code)
      out.emplace(info(static_cast<Opcode>(code)).scalar, static_cast<Opcode>(code));
    return out;
  }();
  auto found = kOps.find(scalar);
  assert(found != kOps.end() && "the scalar table has a kernel form for this one");
  return found->second;
}

KExpr builtinScalar(Scalar scalar, std::span<const KExpr> operands) {
  KernelBuilder* kernel = operands[0].kernel;
  std::vector<KV> values;
  for (const KExpr& operand : operands) values.push_back(operand.v);
  return {kernel, kernel->op(kernelOpOf(scalar), values, values[0].type.dtype)};
}

KV lowerScalar(KernelBuilder& kernel, Scalar scalar, const std::vector<KV>& operands) {
  std::vector<KExpr> exprs;
  for (const KV& operand : operands) exprs.push_back({&kernel, operand});
  return scalarLower<KExpr>(scalar, exprs).v;
}

/// e^p for p <= 0, as 2^k·e^r with |r| <= ln2/2 and a Taylor polynomial for e^r.
static KExpr expNegative(const KExpr& p) {
  constexpr double kLn2 = 0.693147180559945309417;
  const double high = 0.693359375;  // 355/512: k·high is exact
  const double low = kLn2 - high;
  KernelBuilder& kernel = *p.kernel;
  KExpr k = floor(max(p, -86.0) * (1 / kLn2) + 0.5);
  KExpr r = (max(p, -86.0) - k * high) - k * low;
  KExpr sum = r * (1.0 / 40320) + 1.0 / 5040;
  for (double term : {1.0 / 720, 1.0 / 120, 1.0 / 24, 1.0 / 6, 0.5, 1.0, 1.0}) sum = sum * r + term;
  KV exponent = kernel.add(kernel.cast(k.v, DType::i32), KernelBuilder::literal(DType::i32, 127));
  KV bits = kernel.op(Opcode::k_shl, {exponent, KernelBuilder::literal(DType::i32, 23)}, DType::i32);
  return sum * KExpr{&kernel, kernel.op(Opcode::k_bitcast, {bits}, DType::f32)};
}

KV lowerOneMinusPow(KernelBuilder& kernel, const KV& count, double base) {
  // ln base in two parts. The first has 12 bits, so that t·high is exact for the t that matter; the second corrects
  // it. 1 - base^t has no digits to lose when base is near 1.
  double ln = std::log(base);
  int exponent = 0;
  double mantissa = std::frexp(ln, &exponent);
  double high = std::ldexp(std::round(mantissa * 4096) / 4096, exponent);
  KExpr t{&kernel, kernel.cast(count, DType::f32)};
  KExpr p = t * high;
  KExpr low = t * (ln - high) + KExpr{&kernel, kernel.fma(t.v, KernelBuilder::f32(high), (-p).v)};
  KExpr near = max(p, -1.0);
  KExpr series = near * (1.0 / 12) + 1.0;
  for (int n = 11; n >= 2; --n) series = series * near * (1.0 / n) + 1.0;
  KExpr expm1 = select(lt(p, -1.0), expNegative(p) - 1.0, series * near);
  return (-(expm1 + low * (expm1 + 1.0))).v;
}

}  // namespace tg
