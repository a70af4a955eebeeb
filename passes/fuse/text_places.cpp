// SPDX-License-Identifier: Apache-2.0
#include "passes/fuse/text_places.h"

namespace tg::fuse {

TextPlaces::TextPlaces(OpList& ops) : ops_(ops), front_(ops.front()) {
  for (const Op* op : ops_) places_.emplace(op, places_.size() + 1);
}

size_t TextPlaces::of(const Op* op) const {
  const auto at = places_.find(op);
  return at == places_.end() ? 0 : at->second;
}

bool TextPlaces::moveToFront(Op* op) {
  if (of(op) == 0) return true;  // it is there
  const bool isLeaf = op->info().has(table::leaf);
  if (!isLeaf && (!op->info().has(table::pure) || op->results.size() != 1 || op->result()->type.rank() != 0))
    return false;
  for (const Operand& operand : op->operands) {
    if (operand.kind == Operand::Kind::value && !moveToFront(operand.value->def)) return false;
  }
  places_[op] = 0;
  if (op == front_)
    front_ = op->next();
  else
    ops_.insert(front_, ops_.take(op));
  return true;
}

}  // namespace tg::fuse
