// SPDX-License-Identifier: Apache-2.0
#include "ir/symbol_rows.h"

#include <fmt/format.h>

namespace tg {

std::vector<int64_t> rowsNamed(const Op& op) { return op.ints("rows"); }

bool namesRows(const Op& op) { return !rowsNamed(op).empty(); }

Type rowsType(const Op& op, const Type& symbol) {
  const std::vector<int64_t> rows = rowsNamed(op);
  Type type = symbol;
  if (rows.size() == 2) type.shape[0] = rows[1] - rows[0];
  return type;
}

Place rowsHome(const Op& op, const Item& symbol) {
  const std::vector<int64_t> rows = rowsNamed(op);
  Place home = *symbol.place;
  if (rows.size() == 2) home.offset += symbol.type.bytes() / symbol.type.shape[0] * rows[0];
  return home;
}

std::string rowsKey(const Op& op) {
  const std::vector<int64_t> rows = rowsNamed(op);
  return rows.size() != 2 ? op.operands[0].text
                          : fmt::format("{}[{}, {}]", op.operands[0].text, rows[0], rows[1]);
}

}  // namespace tg
