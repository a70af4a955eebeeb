// SPDX-License-Identifier: Apache-2.0
// Turns x² into x·x.
#include "ir/module.h"
#include "passes/pass.h"
#include "passes/plugin.h"

namespace {

tg::Result<void> squaresToProducts(tg::Module& module, bool remarks, const tg::PassContext& context) {
  for (tg::Item* func : module.all(tg::ItemKind::func))
    for (tg::Op* op : func->body.ops) {
      if (op->code != tg::Opcode::square) continue;
      op->code = tg::Opcode::mul;
      op->operands.push_back(op->operands[0]);
      if (remarks) context.remark(op->loc, "a square became a product");
    }
  return {};
}

}  // namespace

/// Makes the pass known to the tool that calls this, as `squares-to-products`.
tg::Result<void> registerSquares() {
  tg::PassInfo info;
  info.name = "squares-to-products";
  info.summary = "Turns tg.square into tg.mul.";
  info.options = {{"remarks", "bool", "false", "say which", ""}};
  // Called for each use in a pipeline, with the options that were given there.
  info.make = [](const tg::AttrList& options) {
    const tg::Attr* given = tg::find(options, "remarks");
    bool remarks = given && given->integer;
    return tg::PassFunction([remarks](tg::Module& module, const tg::PassContext& context) {
      return squaresToProducts(module, remarks, context);
    });
  };
  return tg::registerPass(info);
}

TG_PASS_PLUGIN("my-pass", registerSquares)
