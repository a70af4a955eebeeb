// SPDX-License-Identifier: Apache-2.0
// expand-views: replaces composites that only rearrange elements by the views that define them.
//
//   before:  %a = tg.split %x {axis = 1, index = 0, parts = 2}
//   after:   %a = tg.slice %x {starts = [0, 0], limits = [4, 8]}
//
// Requires: stage(tensor).
// Ensures: no composite with the fusion class `view` is left. Other composites stay: they have kernels of their own, or
//   split-reductions decomposes them.
// Where: before canonicalize, which merges views. A region computes them as index arithmetic.
#include "passes/pass.h"
#include "passes/rewrite.h"

namespace tg {

Result<void> run_expand_views(Module& module, const NoOptions&, const PassContext&) {
  for (Item* func : module.all(ItemKind::func))
    expandOps(module, *func, [](const Op& op) { return op.info().fusion == table::Fusion::view; });
  return {};
}

}  // namespace tg
