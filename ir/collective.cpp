// SPDX-License-Identifier: Apache-2.0
#include "ir/collective.h"

#include <algorithm>

#include "ir/op_view.h"

namespace tg {

bool isCollective(const Op& op) {
  return op.code == Opcode::all_reduce || op.code == Opcode::reduce_scatter || op.code == Opcode::all_gather;
}

const Op* readOf(const Value& value) {
  const Op* def = value.def;
  if (def && def->code == Opcode::reduce_scatter && as::reduce_scatter(*def).reduction() == "same")
    for (int i = 0; i < def->numOperands(); ++i)
      if (def->result(i) == &value) return readOf(*def->in(i));
  return def && (def->code == Opcode::param || def->code == Opcode::state) ? def : nullptr;
}

std::optional<Type> wholeOf(const Item& state) {
  const Attr* shape = find(state.attrs, "part_of");
  if (!shape || shape->kind != Attr::Kind::array || state.type.rank() != 1) return std::nullopt;
  if (shape->list.size() > static_cast<size_t>(kMaxRank)) return std::nullopt;
  Type whole = state.type;
  whole.shape = Shape();
  for (const Attr& extent : shape->list) {
    if (extent.kind != Attr::Kind::integer || extent.integer < 1) return std::nullopt;
    whole.shape.push(extent.integer);
  }
  const int64_t part = state.type.elements();
  if (part < 1 || whole.elements() % part != 0) return std::nullopt;
  return whole;
}

int64_t ranksOf(const Module& module) {
  for (const Item* func : module.all(ItemKind::func))
    for (const Op* op : func->body.ops) {
      if (op->code == Opcode::reduce_scatter) return as::reduce_scatter(*op).ranks();
      if (op->code == Opcode::all_gather) return as::all_gather(*op).ranks();
      if (op->code != Opcode::collective_begin || as::collective_begin(*op).kind() == "all_reduce") continue;
      // args(in(@buffer[offset:bytes]), out(…), …)
      const OperandList& args = op->keyword("args")->items;
      const int64_t first = args[0].items[0].items[1].integer, second = args[1].items[0].items[1].integer;
      return std::max(first, second) / std::min(first, second);
    }
  return 1;
}

}  // namespace tg
