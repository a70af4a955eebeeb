// SPDX-License-Identifier: Apache-2.0
// drop-captures: removes captures and parameter gradients that nobody asked to see.
//
//   before:  tg.capture %h {name = "hidden"}   tg.param_grad @w, %d_w   %n = tg.update @w, %w_next
//   after:   %n = tg.update @w, %w_next                                  (keep-captures=loss*)
//
// Requires: stage(tensor).
// Ensures: the names of the captures left match the pattern; no parameter gradient is left, unless keep-grads is set.
//   A remark names each part of the pattern that matches no capture.
// Where: before any pass that asks which ops read a value. A capture is a reader: it keeps its value in memory, and makes
//   it a result of its kernel.
#include <string>
#include <vector>

#include "ir/op_view.h"
#include "ir/text.h"
#include "passes/lookup.h"
#include "passes/pass.h"

namespace tg {

Result<void> run_drop_captures(Module& module, const DropCapturesOptions& options,
                               const PassContext& context) {
  std::vector<std::string> captures;
  for (Item* func : module.all(ItemKind::func))
    func->body.ops.eraseIf([&](const Op* op) {
      if (op->code == Opcode::param_grad) return !options.keepGrads;
      if (op->code != Opcode::capture) return false;
      captures.push_back(as::capture(*op).name());
      return !globMatch(options.keepCaptures, captures.back());
    });
  remarkIdle(context, module.loc, "keep-captures", options.keepCaptures, captures,
             captures.empty() ? "none" : listText(captures, [](const std::string& name) { return name; }));
  return {};
}

}  // namespace tg
