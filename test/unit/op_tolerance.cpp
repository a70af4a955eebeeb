// SPDX-License-Identifier: Apache-2.0
#include "test/unit/op_tolerance.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>
#include <vector>

#include "ir/op_view.h"
#include "runtime/interp/eval_ops.h"
#include "runtime/interp/tolerance.h"

namespace tg {

ToleranceClass toleranceClass(const OpInfo& op) {
  if (op.scalar != Scalar::none) return ToleranceClass::elementwise;
  switch (op.code) {
  case Opcode::cast:
  case Opcode::one_minus_pow:
  case Opcode::random_normal: return ToleranceClass::elementwise;
  case Opcode::sum:
  case Opcode::mean:
  case Opcode::fold:
  case Opcode::max_pool2d_grad:
  case Opcode::avg_pool2d:
  case Opcode::avg_pool2d_grad: return ToleranceClass::reduction;
  case Opcode::where_causal:
  case Opcode::embedding:
  case Opcode::max_pool2d: return ToleranceClass::exact;
  case Opcode::rope: return ToleranceClass::row;  // rotates two elements of a row
  default: break;
  }
  // Their elements are sums of products.
  if (op.fusion == table::Fusion::contraction || op.fusion == table::Fusion::scatter)
    return ToleranceClass::reduction;
  if (!op.has(table::composite) || op.fusion == table::Fusion::view) return ToleranceClass::exact;
  return op.fusion == table::Fusion::map ? ToleranceClass::map : ToleranceClass::row;
}

/// Ulps of an elementwise op. cast rounds once; one_minus_pow is a kernel expression accurate to 2; a normal value is
/// the product of a root (accurate to 5 on devices) and two polynomials accurate to 2 and 3, which is then scaled and
/// shifted.
static double elementwiseUlps(const OpInfo& op) {
  if (op.scalar != Scalar::none) return info(op.scalar).ulps;
  return op.code == Opcode::cast ? 1 : op.code == Opcode::random_normal ? 12 : 2;
}

/// Ulps for sums of `length` terms: the rounding errors of the products, of a division and of the partial sums. Kernels
/// add up to 256 terms in a chain, whose errors are taken to be independent. Longer sums are added in blocks of about
/// 128 terms, or of 512 if a product stages its operands in shared memory, and then the blocks' sums.
static double reductionUlps(int64_t length) {
  constexpr int64_t kChain = 256, kBlock = 128;
  double ulps = 2;
  int64_t terms = std::max<int64_t>(length, 1);
  for (; terms > kChain; terms = (terms + kBlock - 1) / kBlock) ulps += 2 * std::sqrt(double{kChain});
  return ulps + std::min(static_cast<double>(terms), 2 * std::sqrt(static_cast<double>(terms)));
}

double opTolerance(const OpInfo& op, int64_t reductionLength, double magnitude, DType dtype) {
  constexpr double kMapUlps = 32;  // the longest chain: erf or tanh, then products
  constexpr double kRowUlps = 64;  // exp of a difference, a sum, a quotient, a product
  double ulps = 0;
  switch (toleranceClass(op)) {
  case ToleranceClass::exact: return 0;
  case ToleranceClass::elementwise: ulps = elementwiseUlps(op); break;
  case ToleranceClass::reduction: ulps = reductionUlps(reductionLength); break;
  case ToleranceClass::map: ulps = kMapUlps; break;
  case ToleranceClass::row: ulps = kRowUlps + reductionUlps(reductionLength); break;
  }
  if (ulps == 0 || !isFloat(dtype)) return 0;
  // 16-bit results, and their sums, are computed in f32 and rounded once.
  if (isNarrow(dtype))
    return opTolerance(op, reductionLength, magnitude, computeType(dtype)) +
           epsilonOf(dtype) * magnitude / 2 + std::ldexp(1.0, info(dtype).least + 1 - info(dtype).digits);
  // Devices may flush results below the smallest normal number to zero.
  const double flushed = std::ldexp(1.0, info(dtype).least);
  // Near 1 the error of a device's logarithm has an absolute bound: 2^-21 between 0.5 and 2, by Vulkan's table of the
  // precision of GLSL.std.450 instructions.
  const double atTwo = op.scalar == Scalar::log ? std::numbers::ln2 : op.scalar == Scalar::log2 ? 1 : -1;
  const bool nearOne = dtype == DType::f32 && magnitude <= atTwo;
  return ulps * epsilonOf(dtype) * magnitude + flushed + (nearOne ? 0x1p-21 : 0);
}

/// |mean| + |std·z|, the terms of a normal value.
static NdArray normalMagnitude(const Op& op, std::span<const NdArray* const> operands) {
  EvalContext context;
  std::vector<NdArray> out = std::move(*evalOp(op, operands, context));
  const double mean = as::random_normal(op).mean();
  for (double& value : out[0].data) value = std::fabs(mean) + std::fabs(value - mean);
  return std::move(out[0]);
}

std::optional<NdArray> evalMagnitude(const Op& op, std::span<const NdArray* const> operands) {
  if (op.code == Opcode::random_normal) return normalMagnitude(op, operands);
  if (toleranceClass(op.info()) != ToleranceClass::reduction) return std::nullopt;
  // Each result is a sum of products of the float operands, so evaluation on their absolute values gives the sum of
  // |terms|. The x of max_pool2d_grad only selects terms.
  std::vector<NdArray> absolute;
  for (const NdArray* operand : operands) {
    const bool selects = op.code == Opcode::max_pool2d_grad && absolute.empty();
    absolute.push_back(*operand);
    if (isFloat(operand->type.dtype) && !selects)
      for (double& value : absolute.back().data) value = std::fabs(value);
  }
  std::vector<const NdArray*> pointers;
  for (const NdArray& operand : absolute) pointers.push_back(&operand);
  EvalContext context;
  auto out = evalOp(op, pointers, context);
  if (!out) return std::nullopt;
  return std::move((*out)[0]);
}

}  // namespace tg
