// SPDX-License-Identifier: Apache-2.0
// Types of collectives.
#include "ir/infer_context.h"
#include "ir/op_view.h"
#include "ir/text.h"

namespace tg::inference {

namespace {

Result<Types> shardTypes(const Context& c, int64_t ranks) {
  Types types;
  for (int operand = 0; operand < c.op.numOperands(); ++operand) {
    const int64_t elements = c.in(operand).elements();
    if (ranks < 1 || elements % ranks != 0)
      return c.errorAt(operand, 3, "the {} elements of operand {} cannot be divided into {} equal shards",
                       elements, operand, ranks);
    types.push_back(Type::tensor(DType::f32, {elements / ranks}));
  }
  return types;
}

Result<Types> wholeTypes(const Context& c, int64_t ranks) {
  if (ranks < 1) return c.error(3, "ranks = {} is not 1 or more", ranks);
  const auto results = static_cast<int>(c.op.results.size());
  if (results != c.op.numOperands())
    return c.error(4, "{} for {}", countText(results, "result"), countText(c.op.numOperands(), "operand"));
  Types types;
  for (int operand = 0; operand < c.op.numOperands(); ++operand) {
    const Type& whole = c.op.result(operand)->type;
    const int64_t elements = c.in(operand).elements() * ranks;
    if (!whole.isTensor() || whole.dtype != DType::f32 || whole.elements() != elements)
      return c.errorAt(operand, 4, "result {} is {}, not the {} elements of f32 of {} shards like operand {}",
                       operand, whole.str(), elements, ranks, operand);
    types.push_back(whole);
  }
  return types;
}

}  // namespace

/// The operands' types; an error if one is not f32.
static Result<Types> operandTypes(const Context& c) {
  if (c.op.numOperands() == 0) return c.error(1, "it has no operand");
  Types types;
  for (int operand = 0; operand < c.op.numOperands(); ++operand) {
    if (c.in(operand).dtype != DType::f32)
      return c.errorAt(operand, 2, "operand {} is {}, not f32", operand, c.in(operand).str());
    types.push_back(c.in(operand));
  }
  return types;
}

Result<Types> types(at::all_reduce, const Context& c) { return operandTypes(c); }

Result<Types> types(at::reduce_scatter, const Context& c) {
  TG_CHECK(operandTypes(c));
  return shardTypes(c, as::reduce_scatter(c.op).ranks());
}

Result<Types> types(at::all_gather, const Context& c) {
  TG_CHECK(operandTypes(c));
  return wholeTypes(c, as::all_gather(c.op).ranks());
}

}  // namespace tg::inference
