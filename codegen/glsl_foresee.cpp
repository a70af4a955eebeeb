// SPDX-License-Identifier: Apache-2.0
// Values that a driver may compute ahead of a run, and find that they are 0. Mesa's CPU driver then folds x·0, 0/x and x/0
// to 0, whatever x is; glsl_expr.cpp prints such products and quotients in a form that it does not fold. A driver computes
// from literals, from indices of short loops, which it may unroll, and from what such loops carry into their first iteration;
// through local memory, and through conditions that it knows inside of an if or of another selection.
#include <algorithm>
#include <array>

#include "codegen/glsl_printer.h"
#include "ir/kernel/semantics.h"

namespace tg {

/// Whether an op on integers gives 0 whatever an operand is, or may: x & 0, x · 0, min(x, 0), x % 1, x - x, x ^ x.
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

/// Whether a branch of an if is only taken if a value is a literal: `x == 2`, or not `x != 2`.
static bool decides(const OpenBranch& branch, const Value* value) {
  const Op* test = branch.condition ? branch.condition->def : nullptr;
  if (!test || test->code != (branch.holds ? Opcode::k_eq : Opcode::k_ne)) return false;
  const auto& in = test->operands;
  return (in[0].value == value && in[1].isLiteral()) || (in[1].value == value && in[0].isLiteral());
}

/// Whether a driver may know the value of an operand at this place.
bool GlslPrinter::isForeseen(const Operand& operand) const {
  auto known = [&](const Operand& value) { return value.isLiteral() || foreseen_.contains(value.value); };
  if (known(operand)) return true;
  const Op* def = operand.value->def;
  const bool selects =
      def && def->code == Opcode::k_select && (known(def->operands[1]) || known(def->operands[2]));
  return std::ranges::any_of(open_, [&](const OpenBranch& branch) {
    return decides(branch, operand.value) || (selects && isSame(branch.condition, def->operands[0].value));
  });
}

/// Whether one of a selection's values is known, and the other one is a selection by the same condition.
bool GlslPrinter::selectsAlike(const Op& op) const {
  const auto& in = op.operands;
  return std::ranges::any_of(std::array{1, 2}, [&](size_t index) {
    const Op* def = in[index].value ? in[index].value->def : nullptr;
    return def && def->code == Opcode::k_select && isSame(def->operands[0].value, in[0].value) &&
           isForeseen(in[3 - index]);
  });
}

/// Notes the values of a block that a driver may compute ahead.
void GlslPrinter::foresee(const Block& block) {
  for (const Op* op : block.ops) {
    foresee(*op);
    for (size_t index = 0; index < op->regions.size(); ++index) {
      const bool branches = op->code == Opcode::k_if;
      if (branches) open_.push_back({op->operands[0].value, index == 0});
      foresee(*op->regions[index]);
      if (branches) open_.pop_back();
    }
    if (op->code == Opcode::k_if) foreseeResults(*op);
  }
}

/// Notes the results of an op without regions, or the index and the carried values of a loop. Not vectors of one float
/// literal, by which tiles are padded.
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
  if (op.code == Opcode::k_store && in[1].value->type.mode == BufMode::local && isForeseen(in[0]))
    foreseen_.insert(in[1].value);
  if (op.code == Opcode::k_load && in[0].value->type.mode == BufMode::local &&
      foreseen_.contains(in[0].value))
    foreseen_.insert(op.result());
  if (op.code == Opcode::k_local_id && kernel_.workgroup[static_cast<size_t>(in[0].integer)] == 1)
    foreseen_.insert(op.result());
  const KernelSemantics& row = semantics(op.code);
  const bool computed = row.effect == KernelEffect::pure && row.uniform == KernelUniform::ofOperands;
  auto repeats = [&](const Operand& x) { return x.isLiteral() && x.number() == in[0].number(); };
  const bool padding =
      op.code == Opcode::k_vec && isFloat(op.result()->type.dtype) && std::ranges::all_of(in, repeats);
  if (!computed || in.empty() || padding) return;
  if (std::ranges::all_of(in, [&](const Operand& x) { return isForeseen(x); }) || absorbs(op) ||
      (op.code == Opcode::k_select && selectsAlike(op)))
    foreseen_.insert(op.result());
}

/// The results of an if of which all branches yield such values.
void GlslPrinter::foreseeResults(const Op& op) {
  for (size_t index = 0; index < op.results.size(); ++index)
    if (std::ranges::all_of(op.regions, [&](const auto& region) {
          const Op* yield = yieldOf(*region);
          return yield && isForeseen(yield->operands[index]);
        }))
      foreseen_.insert(op.results[index].get());
}

/// Visits the kernel twice, as a loop may load from local memory what a later op of its body stored a round before.
void GlslPrinter::foresee() {
  for (int round = 0; round < 2; ++round) foresee(kernel_.body);
}

}  // namespace tg
