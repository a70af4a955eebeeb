// SPDX-License-Identifier: Apache-2.0
// Constant folding in a kernel: one walk through the text, which records for each value whether it equals a literal or
// another value. A value that becomes a literal stays as `tgk.constant c`, for users that cannot have a literal operand;
// without such users it is dead.
#include <unordered_map>

#include "ir/builder.h"
#include "ir/kernel/kernel.h"
#include "passes/kernel/effects.h"
#include "passes/kernel/fold_values.h"
#include "passes/kernel/simplify.h"

namespace tg {
namespace {

/// Whether an op's operand may be a literal. The type of a literal comes from another operand, which some ops do not have.
bool mayBeLiteral(const Op& op, size_t index) {
  if (semantics(op.code).gives != LaneGives::same && op.numOperands() == 1) return false;
  switch (op.code) {
  case Opcode::k_cast:
  case Opcode::k_bitcast:
  case Opcode::k_subgroup_ballot:
  case Opcode::k_exact_add:
  case Opcode::k_exact_store:
  case Opcode::k_call: return false;
  case Opcode::k_subgroup_shuffle: return index == 1;
  default: return true;
  }
}

/// Whether an element's index along an axis may be this literal: it must be in range.
bool indexMayBeLiteral(const Operand& element, size_t axis, const Operand& literal) {
  int64_t extent = element.value->type.shape[static_cast<int>(axis)];
  return literal.integer >= 0 && (extent == Shape::kDynamic || literal.integer < extent);
}

/// Whether two operands are the same value or equal literals.
bool same(const Operand& a, const Operand& b) {
  return a.isLiteral() ? b.isLiteral() && a.integer == b.integer : a.value && a.value == b.value;
}

/// Turns a select of integers into the min, max or (u32) sub_sat that it computes, which narrows its range:
/// `select(a >= b, a - b, 0)` is `sub_sat(a, b)`.
void nameSelect(Op& select) {
  const Type& type = select.result()->type;
  const Op* test = select.operands[0].value ? select.operands[0].value->def : nullptr;
  if (!test || isFloat(type.dtype) || type.dtype == DType::i1) return;
  bool less = test->code == Opcode::k_lt || test->code == Opcode::k_le;
  if (!less && test->code != Opcode::k_gt && test->code != Opcode::k_ge) return;
  if (operandType(*test, test->operands[0]) != type || operandType(*test, test->operands[1]) != type) return;
  // If the condition holds, low <= high; otherwise high <= low.
  const Operand low = test->operands[less ? 0 : 1], high = test->operands[less ? 1 : 0];
  const Operand then = select.operands[1], otherwise = select.operands[2];
  auto become = [&](Opcode code, const Operand& a, const Operand& b) {
    select.code = code;
    select.operands = {a, b};
  };
  auto isDifference = [&](const Operand& x, const Operand& of, const Operand& by) {
    const Op* op = x.value ? x.value->def : nullptr;
    return type.dtype == DType::u32 && op && op->code == Opcode::k_sub && same(op->operands[0], of) &&
           same(op->operands[1], by);
  };
  auto isZero = [](const Operand& x) { return x.isLiteral() && x.integer == 0; };
  if (low.isLiteral() && high.isLiteral()) return;
  if (same(then, low) && same(otherwise, high)) return become(Opcode::k_min, low, high);
  if (same(then, high) && same(otherwise, low)) return become(Opcode::k_max, low, high);
  if (isZero(otherwise) && isDifference(then, high, low)) return become(Opcode::k_sub_sat, high, low);
  if (isZero(then) && isDifference(otherwise, low, high)) return become(Opcode::k_sub_sat, low, high);
}

class Folder {
 public:
  explicit Folder(Item& kernel) : kernel_(kernel) {}
  void run() { block(kernel_.body); }

 private:
  void block(Block& block);
  void visit(Op& op);
  void visitIf(Op& op);
  void visitFor(Op& op);
  void plain(Op& op);
  void inlined(Op& op, Block& body);
  void settleCarried(Op& loop);
  void substitute(Op& op);
  void substituteValue(Operand& operand, bool mayBeLiteral);
  KnownOperand known(const Op& op, const Operand& operand) const;
  Operand resolved(const Operand& operand) const;
  bool equal(const Operand& a, const Operand& b, const Type& type) const;
  void replaceGone(Value& value, Operand by, Op& before);
  void take(Op& op) { gone_.push_back(op.list()->take(&op)); }

  Item& kernel_;
  std::unordered_map<const Value*, Operand> known_;  ///< the literal or other value that a value equals
  std::unordered_map<const Value*, Value*>
      holders_;  ///< for removed values: the value that holds their constant
  OpList gone_;  ///< removed ops, kept until the end so that pointers to their values stay unique
};

void Folder::block(Block& block) {
  for (Op *op = block.ops.front(), *next = nullptr; op; op = next) {
    next = op->next();
    visit(*op);
  }
}

/// The literal or value that an operand is known to equal; otherwise the operand.
Operand Folder::resolved(const Operand& operand) const {
  auto it = operand.kind == Operand::Kind::value ? known_.find(operand.value) : known_.end();
  return it == known_.end() ? operand : it->second;
}

KnownOperand Folder::known(const Op& op, const Operand& operand) const {
  KnownOperand out;
  out.type = operandType(op, operand);
  Operand now = resolved(operand);
  if (now.isLiteral() && out.type.kind != Type::Kind::none) out.word = literalWord(now, out.type.dtype);
  out.value = now.isLiteral() ? operand.value : now.value;
  return out;
}

/// Replaces an operand by what it equals, if a literal is allowed there or it is no literal.
void Folder::substituteValue(Operand& operand, bool mayBeLiteral) {
  Operand now = resolved(operand);
  if (!now.isLiteral() || mayBeLiteral) {
    operand = now;
  } else if (auto it = holders_.find(operand.value); it != holders_.end()) {
    operand.value = it->second;
  }
}

void Folder::substitute(Op& op) {
  for (size_t index = 0; index < op.operands.size(); ++index) {
    Operand& operand = op.operands[index];
    if (operand.kind == Operand::Kind::value) substituteValue(operand, mayBeLiteral(op, index));
    bool step = operand.kind == Operand::Kind::keyword && operand.text == "step";
    for (size_t at = 0; at < operand.items.size(); ++at) {
      Operand& item =
          operand.items[at].kind == Operand::Kind::binding ? operand.items[at].items[0] : operand.items[at];
      Operand now = resolved(item);
      bool fits = !step || now.integer != 0;
      if (operand.kind == Operand::Kind::element && now.isLiteral())
        fits = indexMayBeLiteral(operand, at, now);
      substituteValue(item, fits);
    }
  }
}

/// Records what replaces a value whose op or block is removed. A constant is put in front of `before`.
void Folder::replaceGone(Value& value, Operand by, Op& before) {
  if (by.isLiteral()) {
    Builder builder(*before.list());  // with an empty name table, so that the value keeps its name
    builder.setBefore(&before).setHint(value.name);
    Value* result = builder.create(Opcode::k_constant, {by}, {}, {value.type})->result();
    holders_[&value] = result;
    if (value.type.lanes == 1)
      known_[result] = by;
    else
      by = Operand::of(result);  // a literal in place of a vector would be a scalar
  }
  known_[&value] = std::move(by);
}

/// Moves the ops of a body in front of the op that has it; the op's results become the yielded values.
void Folder::inlined(Op& op, Block& body) {
  const Op* yield = yieldOf(body);
  for (Op* inner : body.ops.all()) {
    if (inner == yield) continue;
    op.list()->insert(&op, body.ops.take(inner));
    visit(*inner);
  }
  for (size_t index = 0; index < op.results.size(); ++index)
    replaceGone(*op.results[index], resolved(yield->operands[index]), op);
}

/// Inlines the taken body of an if with a known condition; otherwise folds both, in each of which the condition is known.
void Folder::visitIf(Op& op) {
  Operand cond = resolved(op.operands[0]);
  if (cond.isLiteral()) {
    if (cond.integer)
      inlined(op, *op.regions[0]);
    else if (op.regions.size() == 2)
      inlined(op, *op.regions[1]);
    return take(op);
  }
  substitute(op);
  for (size_t index = 0; index < op.regions.size(); ++index) {
    known_[cond.value] = Operand::literal(int64_t{index == 0});
    block(*op.regions[index]);
    known_.erase(cond.value);
  }
  for (size_t index = 0; index < op.results.size(); ++index) {
    const Operand &a = yieldOf(*op.regions[0])->operands[index],
                  &b = yieldOf(*op.regions[1])->operands[index];
    const Type& type = op.results[index]->type;
    if (equal(a, b, type) && (!a.isLiteral() || type.lanes == 1)) known_[op.results[index].get()] = a;
  }
}

bool Folder::equal(const Operand& a, const Operand& b, const Type& type) const {
  if (a.isLiteral() != b.isLiteral()) return false;
  return a.isLiteral() ? literalWord(a, type.dtype) == literalWord(b, type.dtype) : a.value == b.value;
}

/// A carried value that each trip yields unchanged, or as its initial value, equals the initial value.
void Folder::settleCarried(Op& loop) {
  const auto& carried = iterArgs(loop);
  const Op* yield = yieldOf(*loop.regions[0]);
  for (size_t index = 0; index < carried.size(); ++index) {
    const Operand &first = carried[index].items[0], &next = yield->operands[index];
    const Type& type = carried[index].value->type;
    if (next.value != carried[index].value && !equal(resolved(next), first, type)) continue;
    if (first.isLiteral() && type.lanes != 1) continue;
    known_[carried[index].value] = first;
    if (!loop.results.empty()) known_[loop.results[index].get()] = first;
  }
}

/// Removes a loop without trips, inlines a loop with one, and folds the body of any other.
void Folder::visitFor(Op& loop) {
  substitute(loop);
  const LoopRange range = rangeOf(loop);
  const Operand from = range.from, to = range.to, by = range.step;
  bool counted = from.isLiteral() && to.isLiteral();
  bool none = counted && from.integer >= to.integer;
  bool once = counted && !none && by.isLiteral() && from.integer + by.integer >= to.integer;
  if (!none && !once) {
    settleCarried(loop);
    return block(*loop.regions[0]);
  }
  const auto& carried = iterArgs(loop);
  if (none) {
    for (size_t index = 0; index < loop.results.size(); ++index)
      replaceGone(*loop.results[index], carried[index].items[0], loop);
  } else {
    replaceGone(*loop.operands[0].value, from, loop);
    for (const Operand& binding : carried) replaceGone(*binding.value, binding.items[0], loop);
    inlined(loop, *loop.regions[0]);
  }
  take(loop);
}

/// Folds an op without regions: it becomes a constant, is replaced by an equal value, or gets known operands.
void Folder::plain(Op& op) {
  std::optional<Operand> folded;
  if (isArithmetic(op) && op.results.size() == 1) {
    std::vector<KnownOperand> in;
    for (const Operand& operand : op.operands) in.push_back(known(op, operand));
    folded = foldOp(op, in, kernel_);
  }
  if (folded) folded = resolved(*folded);
  if (!folded) {
    substitute(op);
    if (op.code == Opcode::k_select) nameSelect(op);
    return;
  }
  known_[op.result()] = *folded;
  if (!folded->isLiteral()) return take(op);
  op.code = Opcode::k_constant;
  op.operands = {*folded};
}

void Folder::visit(Op& op) {
  if (op.code == Opcode::k_if)
    visitIf(op);
  else if (op.code == Opcode::k_for)
    visitFor(op);
  else
    plain(op);
}

}  // namespace

void foldConstants(Item& kernel) {
  makeNamesUnique(kernel);
  Folder(kernel).run();
}

}  // namespace tg
