// SPDX-License-Identifier: Apache-2.0
// Dead code elimination in a kernel. Everything starts dead; ops with effects outside are marked live, then everything that
// they need. A carried value that only feeds itself, and a buffer that is only written, are never marked.
#include <algorithm>
#include <set>
#include <unordered_map>
#include <unordered_set>

#include "ir/builder.h"
#include "ir/kernel/inline.h"
#include "ir/kernel/kernel.h"
#include "passes/kernel/effects.h"
#include "passes/kernel/simplify.h"

namespace tg {
namespace {

/// The live ops, values and carried values of a kernel.
class Liveness {
 public:
  explicit Liveness(const Item& kernel);
  bool live(const Op* op) const { return ops_.contains(op); }
  bool live(const Value* value) const { return values_.contains(value); }
  /// Whether carried value `index` of a loop is live, in its body or as its result.
  bool carried(const Op* loop, size_t index) const { return carried_.contains({loop, index}); }

 private:
  void index(const Block& block, const Op* owner);
  bool isRoot(const Op& op) const;
  void keep(const Op* op);
  void need(const Operand& operand);
  void need(const Value* value);
  void needCarried(const Op* loop, size_t index);
  void needOperands(const Op& op);
  void needSource(const Value* value);
  void read(const Value* buffer);
  void drain();

  std::unordered_map<const Block*, const Op*> owner_;
  std::unordered_map<const Op*, const Op*> parent_;
  std::vector<const Op*> roots_, keptOps_;
  std::vector<const Value*> needed_;
  std::unordered_set<const Op*> ops_;
  std::unordered_set<const Value*> values_, read_;
  std::set<std::pair<const Op*, size_t>> carried_;
};

Liveness::Liveness(const Item& kernel) {
  index(kernel.body, nullptr);
  for (const Operand& extent : kernel.grid) need(extent);
  for (const Op* op : roots_) keep(op);
  drain();
}

void Liveness::index(const Block& block, const Op* owner) {
  owner_[&block] = owner;
  for (Op* op : block.ops) {
    parent_[op] = owner;
    if (isRoot(*op)) roots_.push_back(op);
    for (const auto& region : op->regions) index(*region, op);
  }
}

/// Whether an op is live in any case: its effect is visible outside, or to other invocations.
bool Liveness::isRoot(const Op& op) const {
  if (synchronizes(op)) return true;
  if (!writesElement(op)) return false;
  BufMode mode = elementOf(op)->value->type.mode;
  return mode == BufMode::out || mode == BufMode::inout || mode == BufMode::accum;
}

void Liveness::keep(const Op* op) {
  if (op && ops_.insert(op).second) keptOps_.push_back(op);
}

void Liveness::need(const Value* value) {
  if (values_.insert(value).second) needed_.push_back(value);
}

void Liveness::need(const Operand& operand) {
  if (operand.value) need(operand.value);
  for (const Operand& item : operand.items) need(item);
}

void Liveness::needCarried(const Op* loop, size_t index) {
  if (!carried_.insert({loop, index}).second) return;
  need(iterArgs(*loop)[index].items[0]);
  if (const Op* yield = yieldOf(*loop->regions[0])) need(yield->operands[index]);
}

/// Marks the operands that a live op needs, whether or not its results are read.
void Liveness::needOperands(const Op& op) {
  if (op.code == Opcode::k_workgroup_reduce) return;  // without a reader it is only a barrier
  for (const Operand& operand : op.operands) {
    if (operand.kind == Operand::Kind::binding)
      need(operand.items[0]);
    else if (operand.kind != Operand::Kind::keyword || operand.text != "iter_args")
      need(operand);
  }
}

/// Marks a buffer as read: all ops that write to it are live.
void Liveness::read(const Value* buffer) {
  if (!read_.insert(buffer).second) return;
  for (const Use& use : buffer->uses)
    if (writesElement(*use.user()) && elementOf(*use.user())->value == buffer) keep(use.user());
}

/// Marks what a value is computed from.
void Liveness::needSource(const Value* value) {
  const Op* op = value->def ? value->def : owner_[value->block];
  keep(op);
  if (!op) return;  // a parameter
  const auto& values = value->def ? op->results : value->block->args;
  size_t index = 0;
  while (values[index].get() != value) ++index;
  if (!value->def) {
    if (index > 0) needCarried(op, index - 1);
  } else if (op->code == Opcode::k_for) {
    needCarried(op, index);
  } else if (op->code == Opcode::k_if) {
    for (const auto& region : op->regions) need(yieldOf(*region)->operands[index]);
  } else if (op->code == Opcode::k_workgroup_reduce) {
    need(op->operands[0]);
  } else if (const Operand* element = elementOf(*op)) {
    read(element->value);
  }
}

void Liveness::drain() {
  while (!keptOps_.empty() || !needed_.empty()) {
    if (!keptOps_.empty()) {
      const Op* op = keptOps_.back();
      keptOps_.pop_back();
      keep(parent_[op]);
      needOperands(*op);
    } else {
      const Value* value = needed_.back();
      needed_.pop_back();
      needSource(value);
    }
  }
}

void shrinkLoop(Op& loop, const Liveness& liveness) {
  Operand* keyword = loop.keyword("iter_args");
  if (!keyword) return;
  std::vector<bool> gone;
  for (size_t index = 0; index < keyword->items.size(); ++index)
    gone.push_back(!liveness.carried(&loop, index));
  removeCarried(loop, gone);
}

bool isEmpty(const Block& body) { return body.ops.empty() || (body.ops.size() == 1 && yieldOf(body)); }

void shrinkIf(Op& op, const Liveness& liveness) {
  std::vector<bool> gone;
  for (const auto& result : op.results) gone.push_back(!liveness.live(result.get()));
  removeCarried(op, gone);
}

/// Removes dead ops, carried values and results from a block.
void sweep(Block& block, const Liveness& liveness) {
  block.ops.eraseIf([&](const Op* op) { return op->code != Opcode::k_yield && !liveness.live(op); });
  for (Op *op = block.ops.front(), *next = nullptr; op; op = next) {
    next = op->next();
    if (op->code == Opcode::k_for) shrinkLoop(*op, liveness);
    if (op->code == Opcode::k_if) shrinkIf(*op, liveness);
    for (auto& region : op->regions) sweep(*region, liveness);
    if (op->code == Opcode::k_if && op->results.empty() && op->regions.size() == 2 &&
        isEmpty(*op->regions[1]))
      op->regions.pop_back();
    bool unread = op->results.size() == 1 && !liveness.live(op->result());
    if (unread && writesElement(*op)) op->results.clear();  // an atomic's old value
    if (unread && op->code == Opcode::k_workgroup_reduce) {
      Builder(block.ops).setBefore(op).setLoc(op->loc).create(Opcode::k_barrier, {});
      block.ops.erase(op);
    }
  }
}

/// Whether a barrier orders the op against other invocations.
bool isOrdered(const Op& op) {
  if (isSubgroupOp(op) || op.code == Opcode::k_call) return true;
  const Operand* element = elementOf(op);
  return element && element->value->type.mode != BufMode::local && element->value->type.mode != BufMode::in;
}

bool holdsAny(const Op& op, bool (*wanted)(const Op&)) { return wanted(op) || anyInside(op, wanted); }

bool isBarrier(const Op& op) { return op.code == Opcode::k_barrier; }

/// Removes barriers with nothing to order since the previous barrier, or since the kernel's start. `clean`: whether there is
/// nothing to order at the start of the block. Returns the same for its end.
bool dropRepeatedBarriers(Block& block, bool clean, bool& changed) {
  for (Op *op = block.ops.front(), *next = nullptr; op; op = next) {
    next = op->next();
    if (isBarrier(*op) && clean) {
      block.ops.erase(op);
      changed = true;
      continue;
    }
    bool ordered = holdsAny(*op, isOrdered), loop = op->code == Opcode::k_for;
    if (isBarrier(*op)) {
      clean = true;
    } else if (op->regions.empty()) {
      clean = clean && !ordered;
    } else if (ordered || holdsAny(*op, isBarrier)) {
      // A loop's body may follow itself, and a body may not run at all.
      bool after = clean || op->regions.size() == 2;
      for (auto& region : op->regions)
        after &= dropRepeatedBarriers(*region, clean && !(loop && ordered), changed);
      clean = after && !(loop && ordered);
    }
  }
  return clean;
}

/// Removes barriers with nothing to order behind them.
void dropLastBarriers(Block& body, bool& changed) {
  for (Op *op = body.ops.back(), *previous = nullptr; op; op = previous) {
    previous = op->previous();
    if (isBarrier(*op)) {
      body.ops.erase(op);
      changed = true;
    } else if (holdsAny(*op, isOrdered) || holdsAny(*op, isBarrier)) {
      return;
    }
  }
}

bool names(const Operand& operand, const Value* value) {
  return operand.value == value ||
         std::ranges::any_of(operand.items, [&](const Operand& item) { return names(item, value); });
}

}  // namespace

void dropDead(Item& kernel) {
  for (bool changed = true; changed;) {
    changed = false;
    sweep(kernel.body, Liveness(kernel));
    dropRepeatedBarriers(kernel.body, true, changed);
    dropLastBarriers(kernel.body, changed);
  }
}

std::vector<bool> dropUnusedParams(Item& kernel, const std::vector<bool>& keep) {
  std::vector<bool> kept, gone;
  for (size_t index = 0; index < kernel.body.args.size(); ++index) {
    const Value* param = kernel.body.args[index].get();
    bool inGrid =
        std::ranges::any_of(kernel.grid, [&](const Operand& extent) { return names(extent, param); });
    kept.push_back(keep[index] || inGrid || !param->uses.empty());
    gone.push_back(!kept.back());
  }
  size_t next = 0;
  std::erase_if(kernel.body.args, [&](const auto&) { return gone[next++]; });
  return kept;
}

}  // namespace tg
