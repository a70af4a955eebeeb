// SPDX-License-Identifier: Apache-2.0
// dce: removes ops nobody reads.
//
//   %a = tg.exp %x        →    (nothing, when nobody reads %a)
//
// Requires: stage tensor. Ensures: every pure op left has a reader. Arguments, declared params and
// states, captures, param_grads and updates stay.
// Where: after passes that leave ops behind; fuse runs it, so that no kernel computes what is not read.
#include "ir/unread.h"
#include "passes/pass.h"

namespace tg {

Result<void> run_dce(Module& module, const NoOptions&, const PassContext&) {
  for (Item* func : module.all(ItemKind::func)) eraseUnread(func->body.ops);
  return {};
}

}  // namespace tg
