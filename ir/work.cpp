// SPDX-License-Identifier: Apache-2.0
#include "ir/work.h"

#include <array>
#include <cstdint>
#include <limits>

#include "ir/byte_range.h"
#include "ir/kernel/cost.h"
#include "ir/op_view.h"

namespace tg {

namespace {

constexpr double kTinyWork = 16e6;

/// The weights that an element of a convolution's output is computed from (for a transposed one, that an element of
/// the input is multiplied by).
double weightsMet(const Op& op) {
  const Type& weights = as::conv2d(op).w()->type;
  return static_cast<double>(weights.elements()) / static_cast<double>(weights.shape[0]);
}

/// The work of `products` products like q·kᵀ over the rows of q and k.
double attentionWork(const Op& op, double products) {
  const as::attention attention(op);
  const Type& q = attention.q()->type;
  const Shape& k = attention.k()->type.shape;
  const double all =
      2.0 * products * static_cast<double>(q.elements()) * static_cast<double>(k[k.rank() - 2]);
  return attention.causal() ? all / 2 : all;
}

double workOfOne(const Op& op, const Module& module) {
  if (op.code == Opcode::dispatch) {
    const std::array<int64_t, 3> grid = gridOf(op);
    double invocations = 1;
    for (int64_t extent : grid) invocations *= static_cast<double>(extent);
    const Item* kernel = module.find(ItemKind::kernel, as::dispatch(op).kernel());
    if (!kernel) return std::numeric_limits<double>::infinity();  // strip-kernels has removed it
    for (int64_t extent : kernel->workgroup) invocations *= static_cast<double>(extent);
    return invocations + kernelCost(module, *kernel, grid).flops;
  }
  double work = 0;
  for (const auto& result : op.results) work += static_cast<double>(result->type.elements());
  switch (op.code) {
  case Opcode::matmul: {
    const as::matmul product(op);
    const Shape& lhs = product.lhs()->type.shape;
    return work * 2.0 * static_cast<double>(product.transpose_a() ? lhs[lhs.rank() - 2] : lhs.back());
  }
  case Opcode::conv2d: return work * 2.0 * weightsMet(op);
  case Opcode::conv_transpose2d:
    return static_cast<double>(as::conv_transpose2d(op).x()->type.elements()) * 2.0 * weightsMet(op);
  case Opcode::attention: return work + attentionWork(op, 2);
  case Opcode::attention_grad: return work + attentionWork(op, 5);
  case Opcode::attention_grad_q: return work + attentionWork(op, 3);
  case Opcode::attention_grad_kv: return work + attentionWork(op, 4);
  default: return work;
  }
}

}  // namespace

double workOf(const Op& op, const Module& module) {
  double work = workOfOne(op, module);
  for (const auto& region : op.regions) walk(*region, [&](Op& inner) { work += workOfOne(inner, module); });
  return work;
}

double workOf(const Item& func, const Module& module) {
  double work = 0;
  for (const Op* op : func.body.ops) work += workOf(*op, module);
  return work;
}

bool isTiny(const Module& module) {
  for (const Item* func : module.all(ItemKind::func)) {
    double work = 0;
    for (const Op* op : func->body.ops)
      if ((work += workOf(*op, module)) > kTinyWork) return false;
  }
  return true;
}

}  // namespace tg
