// SPDX-License-Identifier: Apache-2.0
// Values that a driver may compute ahead of a run, and find that they are 0. Mesa's CPU driver then folds x·0, 0/x and x/0
// to 0, whatever x is; glsl_expr.cpp prints such products and quotients in a form that it does not fold. A driver computes
// from literals, from indices of short loops, which it may unroll, and from what such loops carry into their first iteration;
// through local memory, and through conditions that it knows inside of an if or of another selection.
#include <algorithm>

#include "codegen/glsl_printer.h"

namespace tg {

/// Whether an op on integers gives the same whatever an operand is: x & 0, x · 0, min(x, 0), x % 1, x - x, x ^ x.
static bool absorbs(const Op& op) {
  const auto& in = op.operands;
  auto is = [&](size_t index, int64_t number) {
    return in[index].isLiteral() && in[index].number() == number;
  };
  switch (op.code) {
  case Opcode::k_and:
  case Opcode::k_mul:
  case Opcode::k_min: return !isFloat(op.result()->type.dtype) && (is(0, 0) || is(1, 0));
  case Opcode::k_mod: return is(1, 1);
  case Opcode::k_sub:
  case Opcode::k_xor: return !isFloat(op.result()->type.dtype) && in[0].value && in[0].value == in[1].value;
  default: return false;
  }
}

/// Whether two conditions are the same value, or are computed by the same op from the same operands.
static bool isSame(const Value* a, const Value* b) {
  if (!a || !b || a == b) return a && a == b;
  if (!a->def || !b->def || a->def->code != b->def->code) return false;
  const auto equal = [](const Operand& x, const Operand& y) {
    return x.isLiteral() == y.isLiteral() && (x.isLiteral() ? x.number() == y.number() : x.value == y.value);
  };
  return !a->def->operands.empty() && std::ranges::equal(a->def->operands, b->def->operands, equal);
}

bool GlslPrinter::isForeseen(const Operand& operand) const {
  return operand.isLiteral() || foreseen_.contains(operand.value);
}

/// Whether a driver may know the condition of a selection, and one of the values is known.
bool GlslPrinter::selectsForeseen(const Op& op) const {
  const auto& in = op.operands;
  if (!isForeseen(in[1]) && !isForeseen(in[2])) return false;
  auto selectsAlike = [&](const Operand& value) {
    const Op* def = value.value ? value.value->def : nullptr;
    return def && def->code == Opcode::k_select && isSame(def->operands[0].value, in[0].value);
  };
  return selectsAlike(in[1]) || selectsAlike(in[2]) ||
         std::ranges::any_of(open_, [&](const Value* each) { return isSame(each, in[0].value); });
}

/// Notes what a driver may compute ahead of an op's results, or of a loop's index and carried values. Vectors of one float
/// literal are not among them: tiles are padded by them.
void GlslPrinter::foresee(const Op& op) {
  const auto& in = op.operands;
  if (op.code == Opcode::k_for) {
    constexpr int64_t kLong = 64;  // trips
    const auto [from, to, step] = rangeOf(op);
    const bool counted = from.isLiteral() && to.isLiteral() && step.isLiteral();
    if (!counted || (to.integer - from.integer > kLong * step.integer && !op.flag("unroll"))) return;
    foreseen_.insert(in[0].value);
    for (const Operand& carried : iterArgs(op))
      if (isForeseen(carried.items[0])) foreseen_.insert(carried.value);
    return;
  }
  if (op.code == Opcode::k_load && in[0].value->type.mode == BufMode::local) foreseen_.insert(op.result());
  if (op.code == Opcode::k_local_id && kernel_.workgroup[static_cast<size_t>(in[0].integer)] == 1)
    foreseen_.insert(op.result());
  const KernelSemantics& row = semantics(op.code);
  const bool computed = row.effect == KernelEffect::pure && row.uniform == KernelUniform::ofOperands;
  auto repeats = [&](const Operand& x) { return x.isLiteral() && x.number() == in[0].number(); };
  const bool padding =
      op.code == Opcode::k_vec && isFloat(op.result()->type.dtype) && std::ranges::all_of(in, repeats);
  if (!computed || in.empty() || padding) return;
  if (std::ranges::all_of(in, [&](const Operand& x) { return isForeseen(x); }) || absorbs(op) ||
      (op.code == Opcode::k_select && selectsForeseen(op)))
    foreseen_.insert(op.result());
}

/// The same for the results of an if, whose branches are printed.
void GlslPrinter::foreseeResults(const Op& op) {
  for (size_t index = 0; index < op.results.size(); ++index)
    if (std::ranges::all_of(op.regions, [&](const auto& region) {
          const Op* yield = yieldOf(*region);
          return yield && isForeseen(yield->operands[index]);
        }))
      foreseen_.insert(op.results[index].get());
}

}  // namespace tg
