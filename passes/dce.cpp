// SPDX-License-Identifier: Apache-2.0
// dce: removes ops nobody reads.
//
//   %a = tg.exp %x        →    (nothing, when nobody reads %a)
//
// Requires: stage tensor. Ensures: every pure op left has a reader. Arguments, declared params and
// states, captures, param_grads and updates stay.
// Where: after passes that leave ops behind; fuse runs it, so that no kernel computes what is not read.
#include <unordered_set>

#include "passes/pass.h"

namespace tg {

static void removeUnread(Block& block) {
  std::unordered_set<const Value*> read;
  std::vector<std::unique_ptr<Op>> kept;
  for (size_t i = block.ops.size(); i-- > 0;) {
    std::unique_ptr<Op>& op = block.ops[i];
    bool needed = !op->info().has(table::pure);
    for (const auto& result : op->results) needed = needed || read.count(result.get());
    if (!needed) continue;
    forEachUse(static_cast<const Op&>(*op), [&](Value* value) { read.insert(value); });
    kept.push_back(std::move(op));
  }
  block.ops.assign(std::make_move_iterator(kept.rbegin()), std::make_move_iterator(kept.rend()));
}

Result<void> run_dce(Module& module, const NoOptions&, const PassContext&) {
  for (Item* func : module.all(ItemKind::func)) removeUnread(func->body);
  return {};
}

}  // namespace tg
