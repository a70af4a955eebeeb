// SPDX-License-Identifier: Apache-2.0
// dce: dead code elimination: removes pure ops whose results nothing reads.
//
//   %a = tg.exp %x        →    (nothing, if nothing reads %a)
//
// Requires: stage(tensor).
// Ensures: every pure op left has a reader. Arguments, declared params and states, captures, param_grads and updates stay.
// Where: after passes that leave unused ops; fuse runs it, so that no kernel computes a value that is not read.
#include "ir/unread.h"
#include "passes/pass.h"

namespace tg {

Result<void> run_dce(Module& module, const NoOptions&, const PassContext&) {
  for (Item* func : module.all(ItemKind::func)) eraseUnread(func->body.ops);
  return {};
}

}  // namespace tg
