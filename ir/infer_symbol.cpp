// SPDX-License-Identifier: Apache-2.0
// Types of the ops that read and update parameters and states.
#include "ir/access.h"
#include "ir/infer_context.h"
#include "ir/op_view.h"

namespace tg::inference {

/// Checks that `rows` names a range of the symbol's first axis.
static Result<void> rowsOfSymbol(const Context& c, const Item& symbol, int constraint) {
  const std::vector<int64_t> rows = rowsNamed(c.op);
  const int64_t there = symbol.type.rank() ? symbol.type.shape[0] : 0;
  if (rows.empty() || (rows.size() == 2 && rows[0] >= 0 && rows[0] < rows[1] && rows[1] <= there)) return {};
  return c.error(constraint, "rows are [first, end] of the {} that @{} has", there, symbol.name);
}

static Result<Types> storageRead(const Context& c, ItemKind kind) {
  const std::string& symbol = c.op.operands[0].text;
  const Item* item = c.module ? c.module->find(kind, symbol) : nullptr;
  if (c.module && !item) return c.error(1, "@{} is not declared as a {}", symbol, name(kind));
  TG_TRY(Type type, c.declared());
  if (item) TG_CHECK(rowsOfSymbol(c, *item, 3));
  if (item && !(rowsType(c.op, item->type) == type))
    return std::move(
               c.error(2, "@{} is {}, not {}", rowsKey(c.op), rowsType(c.op, item->type).str(), type.str()))
        .note(item->loc, "declared here");
  return Types{type};
}

/// Checks a tg.update, or else a tg.param_grad: the symbol exists, and the value has its type; with `ranks` that of a
/// shard, with `rows` that of the rows.
static Result<Types> storageWrite(const Context& c, bool update) {
  const std::string& symbol = c.op.operands[0].text;
  const Item* item =
      c.module ? (update ? c.module->storage(symbol) : c.module->find(ItemKind::param, symbol)) : nullptr;
  if (c.module && !item)
    return c.error(1, "@{} is not declared as a {}", symbol, update ? "param or state" : "param");
  const Type& value = c.in(at::update::value);
  if (item && update) TG_CHECK(rowsOfSymbol(c, *item, 4));
  Type type = !item ? value : update ? rowsType(c.op, item->type) : item->type;
  if (const int64_t ranks = update ? 1 : as::param_grad(c.op).ranks(); item && ranks != 1) {
    if (ranks < 1 || type.elements() % ranks != 0)
      return c.error(4, "the {} elements of @{} cannot be divided into {} equal shards", type.elements(),
                     symbol, ranks);
    type = Type::tensor(type.dtype, {type.elements() / ranks});
  }
  if (!(type == value))
    return c.error(2, "@{} is {}, the value is {}", update ? rowsKey(c.op) : symbol, type.str(), value.str())
        .note(item->loc, "declared here");
  return Types{};
}

Result<Types> types(at::param, const Context& c) { return storageRead(c, ItemKind::param); }
Result<Types> types(at::state, const Context& c) { return storageRead(c, ItemKind::state); }
Result<Types> types(at::update, const Context& c) { return storageWrite(c, true); }
Result<Types> types(at::param_grad, const Context& c) { return storageWrite(c, false); }

}  // namespace tg::inference
