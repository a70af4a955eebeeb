// SPDX-License-Identifier: Apache-2.0
// The form of the result of each op: affine where the op is, else a symbol with the facts that its operands imply.
#include <fmt/format.h>

#include <algorithm>

#include "ir/kernel/index_builder.h"
#include "ir/kernel/semantics.h"

namespace tg::indexing {
namespace {

// A ballot has one bit for each lane of a subgroup, in four 32-bit words.
constexpr int64_t kMaxSubgroup = 128;

std::string pointerKey(const void* pointer) { return fmt::format("{}", pointer); }

}  // namespace

void FormsBuilder::define(const Op& op, int scope) {
  for (const auto& result : op.results) {
    if (result->type.isBuffer()) continue;
    Affine made = op.results.size() == 1 ? value(op, scope) : opaque(*result, inputsOf(op), false);
    f_.forms_[result.get()] = std::move(made);
  }
}

/// Equal loads from a read-only buffer share one symbol.
Affine FormsBuilder::loaded(const Op& op) {
  const Operand& element = op.operands[0];
  bool constant = element.value->type.mode == BufMode::in;
  if (!constant || !isInteger(op.result()->type)) return opaque(*op.result(), inputsOf(op), !constant);
  std::string key = "load " + pointerKey(element.value);
  for (const Operand& index : element.items) key += " " + form(index).key();
  if (const int* symbol = valueIn(interned_, key)) return Affine::symbol(*symbol);
  Affine made = opaque(*op.result(), inputsOf(op), false);
  interned_[key] = made.terms.begin()->first;
  return made;
}

/// The form of an op's single result, by opcode; an opaque symbol where nothing better is known.
Affine FormsBuilder::value(const Op& op, int scope) {
  const Value& result = *op.result();
  auto axis = [&] { return static_cast<size_t>(op.operands[0].integer); };
  auto orZero = [](int id) { return id < 0 ? Affine{} : Affine::symbol(id); };
  auto subgroup = [&](Interval range, bool everywhere) {
    Affine made = opaque(result, {}, false);
    Symbol& it = f_.symbols_.back();
    it.base = range;
    it.open = false;
    it.kind = everywhere ? Kind::launch : Kind::opaque;
    for (int id : {f_.local_[0], f_.local_[1], f_.local_[2], f_.group_[0], f_.group_[1], f_.group_[2]})
      if (id >= 0 && !everywhere) it.inputs.push_back(id);
    return made;
  };
  switch (op.code) {
  case Opcode::k_local_id: return orZero(f_.local_[axis()]);
  case Opcode::k_workgroup_id: return orZero(f_.group_[axis()]);
  case Opcode::k_global_id:
    return sum(orZero(f_.local_[axis()]), orZero(f_.group_[axis()]), kernel_.workgroup[axis()]);
  case Opcode::k_num_workgroups: return wrapped(groups_[axis()]);
  case Opcode::k_dim: return wrapped(f_.extent(op.in(0), static_cast<int>(op.operands[1].integer)));
  case Opcode::k_load:
  case Opcode::k_exact_load: return loaded(op);
  case Opcode::k_subgroup_size: return subgroup({1, kMaxSubgroup}, true);
  case Opcode::k_subgroup_lane: return subgroup({0, kMaxSubgroup - 1}, false);
  case Opcode::k_subgroup_id:
    return subgroup({0, kernel_.workgroup[0] * kernel_.workgroup[1] * kernel_.workgroup[2] - 1}, false);
  case Opcode::k_constant:
  case Opcode::k_stop_gradient:
    if (isInteger(result.type)) return form(op.operands[0]);
    break;
  case Opcode::k_cast:
  case Opcode::k_bitcast:
    if (isInteger(result.type) && isInteger(op.in(0)->type)) return form(op.operands[0]);
    if (isInteger(result.type) && op.in(0)->type.dtype == DType::i1) {
      Affine made = opaque(result, inputsOf(op), false);
      f_.symbols_.back().base = {0, 1};
      f_.symbols_.back().open = false;
      return made;
    }
    break;
  default:
    if (op.info().has(table::pure)) break;
    return opaque(result, inputsOf(op), true);  // it depends on memory, or on other invocations
  }
  return isInteger(result.type) ? integer(op, scope) : opaque(result, inputsOf(op), false);
}

Affine FormsBuilder::product(const Op& op, const Affine& a, const Affine& b) {
  if (b.isConstant()) return wrapped(sum({}, a, b.constant));
  if (a.isConstant()) return wrapped(sum({}, b, a.constant));
  DType dtype = op.result()->type.dtype;
  return a.key() < b.key() ? derived(op.code, dtype, {a, b}, {}) : derived(op.code, dtype, {b, a}, {});
}

/// The form of integer arithmetic: affine for sums, differences and products with constants, else a derived symbol.
Affine FormsBuilder::integer(const Op& op, int scope) {
  DType dtype = op.result()->type.dtype;
  bool plain = op.numOperands() > 0;
  for (const Operand& operand : op.operands)
    plain = plain && (operand.isLiteral() || (operand.value && operand.kind == Operand::Kind::value));
  const bool ofReals = semantics(op.code).gives == LaneGives::word;
  if (!plain || ofReals || op.code == Opcode::k_extract || op.code == Opcode::k_cast ||
      op.code == Opcode::k_bitcast)
    return opaque(*op.result(), inputsOf(op), false);
  if (op.code == Opcode::k_select) return selected(op, scope);
  Affine a = form(op.operands[0]), b = op.numOperands() > 1 ? form(op.operands[1]) : Affine{};
  switch (op.code) {
  case Opcode::k_add: return wrapped(a + b);
  case Opcode::k_sub: return wrapped(a - b);
  case Opcode::k_neg: return wrapped(-a);
  case Opcode::k_not: return wrapped(-a - Affine::of(1));
  case Opcode::k_mul: return product(op, a, b);
  case Opcode::k_shl:
    if (b.isConstant()) return wrapped(sum({}, a, int64_t{1} << (b.constant & 31)));
    break;
  case Opcode::k_shr:
  case Opcode::k_div:
  case Opcode::k_mod:
  case Opcode::k_and: return divided(op, a, b, scope);
  case Opcode::k_min:
  case Opcode::k_max:
  case Opcode::k_sub_sat: return bounded(op, a, b, scope);
  default:
    if (!semantics(op.code).isLaneWise()) return opaque(*op.result(), inputsOf(op), false);
    break;
  }
  std::vector<Affine> operands{a};
  if (op.numOperands() > 1) operands.push_back(b);
  return derived(op.code, dtype, std::move(operands), {});
}

/// A select takes each operand only where the condition holds or fails, and this bounds it: `select(i < n, n - i, 0)`
/// is at most n, though n - i wraps where i is larger.
Affine FormsBuilder::selected(const Op& op, int scope) {
  const Operand& cond = op.operands[0];
  DType dtype = op.result()->type.dtype;
  Affine a = form(op.operands[1]), b = form(op.operands[2]);
  if (a == b) return a;
  std::vector<int> inputs;
  if (cond.value) symbolsOf(form(cond), inputs);
  Affine made = derived(op.code, dtype, {a, b}, inputs, pointerKey(cond.value));
  Side yes{a, newScope(scope)}, no{b, newScope(scope)};
  condition(yes.scope, cond, true);
  condition(no.scope, cond, false);
  // Where i is at most 1, `select(2 < i, (i - 3) / 3 + 1, 0)` is 0, though i - 3 wraps.
  if (!mayHold(yes.scope, scope)) yes = no;
  if (!mayHold(no.scope, scope)) no = yes;
  Interval range = either(yes, no, dtype), open = either(yes, no, dtype, true);
  if (range.lo > wholeRange(dtype).lo) addConsequence(scope, made, made - Affine::of(range.lo));
  if (open.hi < Bounds::kUnknown) addConsequence(scope, made, Affine::of(range.hi) - made);
  // If one operand bounds both, it bounds the result: `select(i < n, i, n - 1)` is at most n - 1.
  auto exactA = bounds_.exact(a, dtype, scope), exactB = bounds_.exact(b, dtype, scope);
  for (const auto& bound : {exactA, exactB}) {
    if (!bound || bound->isConstant()) continue;
    auto inA = bounds_.exact(a, dtype, yes.scope), inB = bounds_.exact(b, dtype, no.scope);
    if (!inA || !inB) break;
    if (bounds_.lower(*bound - *inA, yes.scope) >= 0 && bounds_.lower(*bound - *inB, no.scope) >= 0)
      addConsequence(scope, made, *bound - made);
    if (bounds_.lower(*inA - *bound, yes.scope) >= 0 && bounds_.lower(*inB - *bound, no.scope) >= 0)
      addConsequence(scope, made, made - *bound);
  }
  return made;
}

/// Whether the facts of `scope` are consistent with those of the scope around it.
bool FormsBuilder::mayHold(int scope, int around) const {
  return std::ranges::none_of(f_.scope(scope).facts,
                              [&](const Affine& fact) { return bounds_.upper(fact, around) < 0; });
}

/// The smallest interval that contains both values.
Interval FormsBuilder::either(const Side& a, const Side& b, DType dtype, bool open) const {
  Interval ofA = bounds_.value(a.form, dtype, a.scope, open),
           ofB = bounds_.value(b.form, dtype, b.scope, open);
  return {std::min(ofA.lo, ofB.lo), std::max(ofA.hi, ofB.hi)};
}

/// div, mod, shr, and: by a constant as quotient or remainder where the operands allow it.
Affine FormsBuilder::divided(const Op& op, const Affine& a, const Affine& b, int scope) {
  int64_t by = b.isConstant() ? b.constant : a.constant;
  const Affine& other = b.isConstant() ? a : b;
  bool constant = b.isConstant() || (a.isConstant() && op.code == Opcode::k_and);
  bool mask = op.code == Opcode::k_and && by > 0 && (by & (by + 1)) == 0;
  if (constant && op.code == Opcode::k_shr) return quotient(op, a, int64_t{1} << (by & 31), false, scope);
  if (constant && mask) return quotient(op, other, by + 1, true, scope);
  if (constant && by > 0 && op.code == Opcode::k_div) return quotient(op, a, by, false, scope);
  if (constant && by > 0 && op.code == Opcode::k_mod) return quotient(op, a, by, true, scope);
  if (op.code == Opcode::k_mod) return bounded(op, a, b, scope);
  return derived(op.code, op.result()->type.dtype, {a, b}, {});
}

/// Gives q or r of a = divisor·q + r with 0 <= r < divisor. Splits a into the terms that the divisor divides and the
/// rest. If the rest lies in [0, divisor), it is r and the other terms, divided, are q: (16·x + y) / 16 with y < 16
/// is x. Else q is a new symbol with the two facts of a division, and r is a - divisor·q.
Affine FormsBuilder::quotient(const Op& op, const Affine& a, int64_t divisor, bool remainder, int scope) {
  DType dtype = op.result()->type.dtype;
  auto exact = bounds_.exact(a, dtype, scope);
  if (!exact || bounds_.lower(*exact, scope) < 0) {
    std::vector<Affine> operands{form(op.operands[0]), form(op.operands[1])};
    return derived(op.code, dtype, std::move(operands), {});
  }
  Affine rest, whole;
  rest.constant = ((exact->constant % divisor) + divisor) % divisor;
  whole.constant = (exact->constant - rest.constant) / divisor;
  for (const auto& [id, factor] : exact->terms)
    if (factor % divisor == 0)
      whole.terms[id] = factor / divisor;
    else
      rest.terms[id] = factor;
  Interval left = bounds_.of(rest, scope);
  if (left.lo >= 0 && left.hi < divisor) return wrapped(remainder ? rest : whole);
  Affine q = derived(Opcode::k_div, DType::u32, {*exact, Affine::of(divisor)}, {});
  addConsequence(scope, q, sum(*exact, q, -divisor));
  addConsequence(scope, q, sum(Affine::of(divisor - 1) - *exact, q, divisor));
  return remainder ? wrapped(sum(*exact, q, -divisor)) : q;
}

/// min, max, mod, sub_sat: one operand where it is always the result, else a new symbol with bounds from the
/// operands.
Affine FormsBuilder::bounded(const Op& op, const Affine& a, const Affine& b, int scope) {
  DType dtype = op.result()->type.dtype;
  auto exactA = bounds_.exact(a, dtype, scope), exactB = bounds_.exact(b, dtype, scope);
  bool least = op.code == Opcode::k_min, most = op.code == Opcode::k_max;
  if (exactA && exactB && (least || most)) {
    if (bounds_.lower(*exactA - *exactB, scope) >= 0) return least ? b : a;
    if (bounds_.lower(*exactB - *exactA, scope) >= 0) return least ? a : b;
  }
  Affine made = derived(op.code, dtype, {a, b}, {});
  auto below = [&](const Affine& bound) { addConsequence(scope, made, bound - made); };
  auto above = [&](const Affine& bound) { addConsequence(scope, made, made - bound); };
  bool positive = exactB && bounds_.lower(*exactB, scope) >= 1;
  bool unsignedA = exactA && bounds_.lower(*exactA, scope) >= 0;
  if (most && exactA) above(*exactA);
  if (most && exactB) above(*exactB);
  if (least && exactA) below(*exactA);
  if (least && exactB) below(*exactB);
  if (op.code == Opcode::k_mod && unsignedA) below(*exactA);
  if (op.code == Opcode::k_mod && unsignedA && positive) below(*exactB - Affine::of(1));
  if (op.code == Opcode::k_sub_sat && exactA) below(*exactA);
  if (op.code == Opcode::k_sub_sat && exactA && exactB) above(*exactA - *exactB);
  return made;
}

}  // namespace tg::indexing
