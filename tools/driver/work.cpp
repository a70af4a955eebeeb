// SPDX-License-Identifier: Apache-2.0
#include "tools/driver/work.h"

namespace tg {

namespace {

constexpr double kTinyWork = 16e6;
constexpr double kWorkPerInvocation = 64;

/// Weights that an element of a convolution's output (of its input, where it is transposed) meets.
double windowOf(const Op& op) {
  const Type& weights = op.in(1)->type;
  return static_cast<double>(weights.elements()) / static_cast<double>(weights.shape[0]);
}

double workOf(const Op& op, const Module& module) {
  if (op.code == Opcode::dispatch) {
    double invocations = 1;
    for (const Operand& extent : op.keyword("grid")->items) invocations *= extent.number();
    if (const Item* kernel = module.find(ItemKind::kernel, op.operands[0].text))
      for (int64_t extent : kernel->workgroup) invocations *= static_cast<double>(extent);
    return invocations * kWorkPerInvocation;
  }
  double work = 0;
  for (const auto& result : op.results) work += static_cast<double>(result->type.elements());
  switch (op.code) {
  case Opcode::matmul: {
    const Shape& lhs = op.in(0)->type.shape;
    return work * 2.0 * static_cast<double>(op.flag("transpose_a") ? lhs[lhs.rank() - 2] : lhs.back());
  }
  case Opcode::conv2d: return work * 2.0 * windowOf(op);
  case Opcode::conv_transpose2d: return static_cast<double>(op.in(0)->type.elements()) * 2.0 * windowOf(op);
  default: return work;
  }
}

}  // namespace

double workOf(const Item& func, const Module& module) {
  double work = 0;
  walk(func.body, [&](Op& op) { work += workOf(op, module); });
  return work;
}

bool isTiny(const Module& module) {
  for (const Item* func : module.all(ItemKind::func))
    if (workOf(*func, module) > kTinyWork) return false;
  return true;
}

}  // namespace tg
