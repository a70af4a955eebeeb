// SPDX-License-Identifier: Apache-2.0
#include "ir/collective.h"

#include <fmt/format.h>

#include "ir/access.h"
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
  return def && readsSymbol(*def) ? def : nullptr;
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
  const int64_t shard = state.type.elements();
  if (shard < 1 || whole.elements() % shard != 0) return std::nullopt;
  return whole;
}

Error otherRanks(const Loc& loc, int64_t shards, int64_t ranks) {
  return failAt(
      loc, "this module is sharded for {} ranks, and {}: compile it for as many (data-parallel{{ranks}})",
      shards, ranks == 1 ? "there is 1" : fmt::format("there are {}", ranks));
}

}  // namespace tg
