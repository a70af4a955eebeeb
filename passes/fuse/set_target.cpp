// SPDX-License-Identifier: Apache-2.0
// set-target: records on the module the device for which it is compiled.
//
//   before:  module @m { … }
//   after:   module @m attributes {target = {name = "lavapipe", max_invocations = 1024, …}} { … }
//
// Requires: stage(tensor) without regions: those were made for another target.
// Ensures: the module holds everything that later passes ask about the device, so they have no such option. From now on
//   tg.fused may stand among the tensor ops. The constant that is the seed of gradients, which earlier passes look for,
//   is unmarked.
// Where: first of fuse. The results of earlier passes (gradients, optimizers) are the same for all targets.

#include "ir/file_io.h"
#include "passes/fuse/target_of.h"
#include "passes/pass.h"

namespace tg {

/// The target that the option gives: a shipped name, a JSON file, or JSON text. Without the option, the module's own.
static Result<Target> resolveTarget(const std::string& option, const Module& module) {
  if (option.empty()) return targetOf(module.attrs);
  if (option.starts_with("{")) return targetFromJson(option, "target");
  bool file = option.find('/') != std::string::npos || option.ends_with(".json");
  if (!file) return targetByName(option);
  TG_TRY(const std::string text, readTextFile(option));
  return targetFromJson(text, option);
}

Result<Target> fuse::targetOn(const Module& module, std::string_view pass) {
  if (!find(module.attrs, "target"))
    return failAt(module.loc, "{} needs a target on the module; run set-target first", pass);
  return targetOf(module.attrs);
}

Result<void> run_set_target(Module& module, const SetTargetOptions& options, const PassContext&) {
  TG_TRY(Target target, resolveTarget(options.target, module));
  for (Item* func : module.all(ItemKind::func))
    for (Op* op : func->body.ops) {
      if (op->code == Opcode::constant) op->setAttr("seed", Attr::boolean(false));
      if (op->code == Opcode::fused)
        return failAt(op->loc, "set-target: the module has regions made for its present target; run the "
                               "passes of fuse that follow the one that made them");
    }
  set(module.attrs, "target", targetToAttr(target));
  return {};
}

}  // namespace tg
