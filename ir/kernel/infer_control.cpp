// SPDX-License-Identifier: Apache-2.0
// Inference of the kernel ops with bodies, and of calls.

#include "ir/infer.h"
#include "ir/kernel/infer_detail.h"
#include "ir/text.h"

namespace tg::kernel_inference {
namespace {

/// Checks the types that a body yields.
Result<void> checkYield(const Op& op, const Block& body, const Types& types, std::string_view label) {
  const Op* yield = yieldOf(body);
  size_t given = yield ? yield->operands.size() : 0;
  if (given != types.size())
    return violation(op, label, "a body yields {}, not {}", countText(given, "value"), types.size());
  for (size_t index = 0; index < given; ++index) {
    const Operand& operand = yield->operands[index];
    if (!isOfType(operand, types[index]))
      return violation(op, label, "yielded value {} is {}, not {}", index,
                       operand.value ? operand.value->type.str() : "a literal", types[index].str());
  }
  return {};
}

Result<void> checkCount(const Op& op, const Operand& operand, std::string_view what, int64_t least) {
  bool fits = operand.isLiteral()
                  ? operand.isInteger && operand.integer >= least && operand.integer <= UINT32_MAX
                  : operand.kind == Operand::Kind::value && operand.value->type == Type::scalar(DType::u32);
  if (!fits) return violation(op, what, "`{}` must be u32, at least {}", what, least);
  return {};
}

Result<Types> carried(const Op& op) {
  Types types;
  for (const Operand& binding : iterArgs(op)) {
    const Type& type = binding.value->type;
    const Operand& first = binding.items[0];
    if (!isOfType(first, type) || (!type.isScalar() && !type.isCoopmat()))
      return violation(op, "c1", "%{} is {}, its first value {}", binding.value->name, type.str(),
                       first.value ? first.value->type.str() : "a literal");
    types.push_back(type);
  }
  return types;
}

}  // namespace

Result<Types> branch(const Op& op) {
  TG_TRY(Type cond, plainOperand(op, 0));
  if (cond.lanes != 1) return violation(op, "cond", "`cond` must be one bool, not {}", cond.str());
  Types types;
  for (const auto& result : op.results) types.push_back(result->type);
  if (op.regions.empty() || (!types.empty() && !yieldOf(*op.regions[0]))) return types;  // still being built
  if (!types.empty() && op.regions.size() != 2) return violation(op, "c1", "a result needs an else body");
  for (const auto& region : op.regions) TG_CHECK(checkYield(op, *region, types, "c1"));
  return types;
}

Result<Types> loop(const Op& op) {
  const Operand *to = op.keyword("to"), *step = op.keyword("step");
  if (op.operands.empty() || op.operands[0].kind != Operand::Kind::binding || !to || to->items.size() != 1 ||
      (step && step->items.size() != 1))
    return violation(op, "index", "the form is `%k = first to(limit) step(by)`");
  TG_CHECK(checkCount(op, op.operands[0].items[0], "index", 0));
  TG_CHECK(checkCount(op, to->items[0], "to", 0));
  if (step) TG_CHECK(checkCount(op, step->items[0], "step", 1));
  TG_TRY(Types types, carried(op));
  if (!op.results.empty() && op.results.size() != types.size())
    return violation(op, "c1", "{} for {}", countText(op.results.size(), "result"),
                     countText(types.size(), "carried value"));
  for (size_t index = 0; index < op.results.size(); ++index)
    if (op.result(static_cast<int>(index))->type != types[index])
      return violation(op, "c1", "result {} is {}, the carried value {}", index,
                       op.result(static_cast<int>(index))->type.str(), types[index].str());
  bool built = !op.regions.empty() && (types.empty() || yieldOf(*op.regions[0]));
  if (built) TG_CHECK(checkYield(op, *op.regions[0], types, "c2"));
  return types;
}

/// The called func is known only with the module (verify_symbols.cpp); here the results are as declared.
Result<Types> call(const Op& op) {
  Types types;
  for (const auto& result : op.results) types.push_back(result->type);
  return types;
}

}  // namespace tg::kernel_inference
