#include "passes/op_key.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

namespace tg {

static std::string keyOf(const Operand& operand, ValueNumbering& numbers) {
  std::string key = std::to_string(static_cast<int>(operand.kind)) + ':' + operand.text + ':';
  if (operand.value) key += '%' + std::to_string(numbers.of(operand.value));
  if (operand.isLiteral())
    key += operand.isInteger ? fmt::format("{}", operand.integer) : formatReal(operand.real);
  for (const Operand& item : operand.items) key += "(" + keyOf(item, numbers) + ")";
  return key;
}

std::string keyOf(const Op& op, ValueNumbering& numbers) {
  std::vector<std::string> operands;
  for (const Operand& operand : op.operands) operands.push_back(keyOf(operand, numbers));
  if (op.info().has(table::commutative)) std::sort(operands.begin(), operands.end());
  std::string key(op.info().name);
  for (const std::string& operand : operands) key += " " + operand;
  for (const NamedAttr& attr : op.attrs) key += fmt::format(" {}={}", attr.name, attr.value.str());
  for (const auto& result : op.results) key += " " + result->type.str();
  return key;
}

}  // namespace tg
