// SPDX-License-Identifier: Apache-2.0
// dce: removes ops nobody reads.
//
//   %a = tg.exp %x        →    (nothing, when nobody reads %a)
//
// Requires: stage tensor. Ensures: every pure op left has a reader. Arguments, declared params and
// states, captures, param_grads and updates stay.
// Where: after passes that leave ops behind; fuse runs it, so that no kernel computes what is not read.
#include <algorithm>

#include "passes/pass.h"

namespace tg {

/// From the end, so that what only a removed op read goes too.
static void removeUnread(Block& block) {
  for (Op* op = block.ops.back(); op;) {
    Op* previous = op->previous();
    const bool read = std::any_of(op->results.begin(), op->results.end(),
                                  [](const auto& result) { return !result->uses.empty(); });
    if (!read && op->info().has(table::pure)) block.ops.erase(op);
    op = previous;
  }
}

Result<void> run_dce(Module& module, const NoOptions&, const PassContext&) {
  for (Item* func : module.all(ItemKind::func)) removeUnread(func->body);
  return {};
}

}  // namespace tg
