// SPDX-License-Identifier: Apache-2.0
#include "passes/op_key.h"

#include <algorithm>
#include <vector>

namespace tg {

static std::string bytesOf(const Operand& operand, ValueNumbering& numbers) {
  OpBytes bytes(numbers);
  bytes.operand(operand);
  return bytes.take();
}

std::string keyOf(const Op& op, ValueNumbering& numbers) {
  OpBytes bytes(numbers);
  bytes.number(op.code);
  if (op.info().has(table::commutative)) {
    std::vector<std::string> operands;
    for (const Operand& operand : op.operands) operands.push_back(bytesOf(operand, numbers));
    std::sort(operands.begin(), operands.end());
    for (const std::string& operand : operands) bytes.text(operand);
  } else {
    bytes.operands(op.operands);
  }
  bytes.attrs(op.attrs);
  for (const auto& result : op.results) bytes.type(result->type);
  return bytes.take();
}

}  // namespace tg
