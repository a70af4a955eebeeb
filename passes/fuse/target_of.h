// SPDX-License-Identifier: Apache-2.0
// The target that a tensor module carries through the passes of fuse.
#pragma once

#include <string_view>
#include <utility>

#include "ir/module.h"
#include "ir/result.h"
#include "ir/target.h"
#include "passes/rewrite.h"

namespace tg::fuse {

/// The target that set-target wrote on the module. Without one, an error that names the pass.
Result<Target> targetOn(const Module& module, std::string_view pass);

/// Calls `rewrite(func, target)` for each function of the module; fails if `target` is an error.
template <class Rewrite>
Result<void> rewriteFunctions(Module& module, Result<Target> target, Rewrite rewrite) {
  TG_TRY(const Target given, std::move(target));
  for (Item* func : module.all(ItemKind::func)) rewrite(*func, given);
  return {};
}

/// The same by Rewriter(func, target).run(). Functions with tg.grad stay as they are.
template <class Rewriter>
Result<void> rewriteFunctions(Module& module, Result<Target> target) {
  return rewriteFunctions(module, std::move(target), [](Item& func, const Target& given) {
    if (!hasGrad(func)) Rewriter(func, given).run();
  });
}

}  // namespace tg::fuse
