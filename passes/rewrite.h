// SPDX-License-Identifier: Apache-2.0
// What passes that rewrite functions share: visiting ops with values replaced on the way, and taking
// composites apart.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <vector>

#include "ir/access.h"
#include "ir/builder.h"
#include "ir/module.h"

namespace tg {

/// Whether some region binds a value in a group, as flatten-optimizer does gradients: members lie one behind the
/// other in one place, so that they stay values of their own.
inline bool standsInGroup(const Value& value) {
  return std::any_of(value.uses.begin(), value.uses.end(), [&](const Use& use) {
    const Op& user = *use.user();
    if (user.code != Opcode::fused) return false;
    for (int binding = 0; binding < user.numOperands(); ++binding) {
      if (user.operands[binding].items[0].kind != Operand::Kind::group) continue;
      const std::vector<Value*> members = bindingSources(user, binding);
      if (std::find(members.begin(), members.end(), &value) != members.end()) return true;
    }
    return false;
  });
}

/// Goes once through a function in text order. `fold` sees each op after the replacements so far; it
/// may change the op in place, or return one value to stand for the op's only result, which drops the
/// op unless both stand in groups. A function with tg.grad stays as it is: it differentiates by values, on whose uses
/// the gradient depends.
inline void replaceOps(Item& func, const std::function<Value*(Op&)>& fold) {
  for (const Op* op : func.body.ops)
    if (op->code == Opcode::grad) return;
  for (Op* op = func.body.ops.front(); op;) {
    Op* next = op->next();
    Value* other = fold(*op);
    if (other && !(standsInGroup(*op->result()) && standsInGroup(*other))) {
      op->result()->uses.replaceAll(other);
      func.body.ops.erase(op);
    }
    op = next;
  }
}

/// An op's result gets another element type; a cast behind the op has the old type and name, and is what users
/// read. Rounds where the new type is the narrower one.
inline void retypeResult(Op& op, Value& result, DType dtype, Builder& builder) {
  const DType old = result.type.dtype;
  result.type.dtype = dtype;
  builder.setBefore(op.next()).setLoc(op.loc).setHint(fmt::format("{}_{}", result.name, name(dtype)));
  Op* cast = builder.create(Opcode::cast, {Operand::of(&result)}, {}, {Type::tensor(old, result.type.shape)});
  result.uses.replaceAll(cast->result());
  cast->operands[0] = Operand::of(&result);
  std::swap(cast->result()->name, result.name);
}

/// Emits the primitives a composite stands for at the builder's place and returns its results. They take the
/// op's names; one that is an operand of the op, as of a view that changes nothing, keeps its own.
inline std::vector<Value*> expandOp(const Op& op, Builder& builder) {
  std::vector<Value*> operands;
  for (const Operand& operand : op.operands) operands.push_back(operand.value);
  std::vector<Value*> results = decompose(op, operands, builder);
  for (size_t i = 0; i < results.size(); ++i)
    if (std::find(operands.begin(), operands.end(), results[i]) == operands.end())
      results[i]->name = op.results[i]->name;
  return results;
}

/// Replaces the composites of a function that `chosen` accepts by the primitives they stand for.
inline void expandOps(Module& module, Item& func, const std::function<bool(const Op&)>& chosen) {
  auto expands = [&](const Op& op) { return op.info().has(table::composite) && chosen(op); };
  if (std::none_of(func.body.ops.begin(), func.body.ops.end(), [&](const Op* op) { return expands(*op); }))
    return;
  Builder builder(&module, &func);
  for (Op* op = func.body.ops.front(); op;) {
    Op* next = op->next();
    if (expands(*op)) {
      builder.setLoc(op->loc);
      builder.setBefore(op);
      std::vector<Value*> results = expandOp(*op, builder);
      for (size_t i = 0; i < results.size(); ++i) op->results[i]->uses.replaceAll(results[i]);
      func.body.ops.erase(op);
    }
    op = next;
  }
}

}  // namespace tg
