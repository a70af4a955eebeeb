// SPDX-License-Identifier: Apache-2.0
// compute-in-f32: f16 and bf16 are types of memory; kernels compute in f32. Each op on them becomes the same op in f32
// between casts. The casts in front are exact and become part of the regions that read a tensor; those behind round.
//
//   before:  %z = tg.add %x, %y : tensor<4xbf16>
//   after:   %x_f32 = tg.cast %x : tensor<4xf32>       %z_f32 = tg.add %x_f32, %y_f32 : tensor<4xf32>
//            %y_f32 = tg.cast %y : tensor<4xf32>       %z = tg.cast %z_f32 : tensor<4xbf16>
//
// Requires: stage(tensor).
// Ensures: only casts, views, constants, custom kernels and ops that name memory have such types. So sums and products add
//   in f32 however they are split later, and a value is the same whether it goes through memory or not.
// Where: behind expand-views, since a view computes nothing; before cse, which merges equal casts.

#include <algorithm>

#include "ir/builder.h"
#include "ir/target.h"
#include "passes/fuse/inline_ops.h"
#include "passes/pass.h"
#include "passes/rewrite.h"

namespace tg::fuse {
namespace {

bool narrow(const Value& value) { return value.type.isTensor() && isNarrow(value.type.dtype); }

/// Whether an op may keep its 16-bit types: it only moves or names elements, or it is a kernel, which casts by itself.
bool keepsType(const Op& op) {
  return isBoundary(op) || op.info().has(table::view) || op.code == Opcode::cast ||
         op.code == Opcode::constant || op.code == Opcode::custom || op.code == Opcode::fused;
}

/// Widens an op's 16-bit operands to the type that kernels compute with. cse merges equal casts later.
void widenOperands(Op& op, Builder& builder) {
  forEachUse(op, [&](Value*& value) {
    if (!narrow(*value)) return;
    builder.setBefore(&op).setLoc(op.loc).setHint(value->name + "_f32");
    value = builder.cast(value, computeType(value->type.dtype));
  });
}

}  // namespace

bool computesNarrow(const Op& op) {
  if (keepsType(op)) return false;
  return std::ranges::any_of(op.results, [](const auto& each) { return narrow(*each); }) ||
         anyUse(op, [](const Value* value) { return narrow(*value); });
}

static void computeInF32(Module& module, Item& func, const Target& target) {
  Builder builder(&module, &func);
  for (Op *op = func.body.ops.front(), *next = nullptr; op; op = next) {
    next = op->next();
    if (keepsType(*op)) continue;
    widenOperands(*op, builder);
    for (const auto& result : op->results)
      if (narrow(*result)) retypeResult(*op, *result, computeType(result->type.dtype), builder);
    useUnits(*op, target);
  }
}

}  // namespace tg::fuse

tg::Result<void> tg::run_compute_in_f32(Module& module, const NoOptions&, const PassContext&) {
  TG_TRY(const Target target, targetOf(module.attrs));
  for (Item* func : module.all(ItemKind::func)) fuse::computeInF32(module, *func, target);
  return {};
}
