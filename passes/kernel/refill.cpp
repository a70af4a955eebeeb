// SPDX-License-Identifier: Apache-2.0
#include "passes/kernel/kernel_facts.h"

#include <algorithm>
#include <optional>
#include <unordered_map>

#include "ir/kernel/index_analysis.h"
#include "passes/kernel/effects.h"

namespace tg {
namespace {

/// The blocks from the kernel's body to the one that holds an op.
using Path = std::vector<const Block*>;

struct Accesses {
  std::vector<Path> paths;
  bool plain = true;  ///< whether all are loads and stores
};

class RefillFinder {
 public:
  explicit RefillFinder(const KernelFacts& facts) : facts_(facts) { collect(facts.kernel().body); }
  std::vector<std::unique_ptr<Refill>> run();

 private:
  void collect(const Block& block);
  void refillsOf(const Value* buffer, const Accesses& accesses);
  void keep(Refill refill, size_t accesses);
  bool steady(const Value* value, const std::vector<const Op*>& loops) const;
  bool steady(const Operand& operand, const std::vector<const Op*>& loops) const;
  bool storesSteadily(const Op& op, const Value* buffer, const std::vector<const Op*>& loops) const;
  bool equal(const Operand& a, const Operand& b) const;
  bool storesSame(const Block& a, const Block& b, const Value* buffer) const;

  const KernelFacts& facts_;
  Path path_;
  std::vector<const Value*> buffers_;  ///< in text order
  std::unordered_map<const Value*, Accesses> accesses_;
  std::vector<std::unique_ptr<Refill>> out_;
  std::optional<IndexAnalysis> analysis_;
};

void RefillFinder::collect(const Block& block) {
  path_.push_back(&block);
  for (const Op* op : block.ops) {
    const Operand* element = elementOf(*op);
    if (element &&
        (element->value->type.mode == BufMode::shared || element->value->type.mode == BufMode::local)) {
      Accesses& accesses = accesses_[element->value];
      if (accesses.paths.empty()) buffers_.push_back(element->value);
      accesses.paths.push_back(path_);
      accesses.plain &= op->code == Opcode::k_load || op->code == Opcode::k_store;
    }
    for (const auto& region : op->regions) collect(*region);
  }
  path_.pop_back();
}

std::vector<std::unique_ptr<Refill>> RefillFinder::run() {
  for (const Value* buffer : buffers_)
    if (const Accesses& accesses = accesses_.at(buffer); accesses.plain) refillsOf(buffer, accesses);
  return std::move(out_);
}

/// Collects the loads and stores of a buffer in an op and its bodies.
void accessesIn(const Op& op, const Value* buffer, std::vector<const Op*>& loads,
                std::vector<const Op*>& stores) {
  if (const Operand* element = elementOf(op); element && element->value == buffer)
    (isLoad(op) ? loads : stores).push_back(&op);
  for (const auto& region : op.regions)
    for (Op* inner : region->ops) accessesIn(*inner, buffer, loads, stores);
}

/// Walks the innermost block around all accesses and matches: stores, a barrier, loads, a barrier, stores again.
void RefillFinder::refillsOf(const Value* buffer, const Accesses& accesses) {
  const Path& first = accesses.paths[0];
  size_t depth = first.size() - 1;
  for (const Path& path : accesses.paths)
    while (depth >= path.size() || path[depth] != first[depth]) --depth;
  const Block& block = *first[depth];
  bool synchronized = false, usable = true;
  Refill now{buffer, &block, {}, {}, false};
  auto restart = [&] {
    if (!now.loads.empty()) keep(std::move(now), accesses.paths.size());
    now = {buffer, &block, {}, {}, false};
    synchronized = false;
    usable = true;
  };
  for (Op* op : block.ops) {
    if (synchronizes(*op)) synchronized = !now.stores.empty();
    if (!touches(*op, buffer)) continue;
    std::vector<const Op*> loads, stores;
    accessesIn(*op, buffer, loads, stores);
    if (!stores.empty() && (!now.loads.empty() || !loads.empty() || !usable)) restart();
    if (!stores.empty()) {
      usable = usable && loads.empty() && !anyInside(*op, synchronizes);
      now.stores.insert(now.stores.end(), stores.begin(), stores.end());
      synchronized = false;
    } else if (usable && !now.stores.empty() && (synchronized || buffer->type.mode == BufMode::local)) {
      now.loads.insert(now.loads.end(), loads.begin(), loads.end());
    }
  }
  restart();
}

/// Adds a refill if its loads are proved to read only what its stores wrote.
void RefillFinder::keep(Refill refill, size_t accesses) {
  refill.all = refill.stores.size() + refill.loads.size() == accesses;
  const std::vector<const Op*> loops = facts_.loopsAround(*refill.block);
  auto steadily = [&](const Op* op) {
    std::vector<const Op*> loads, stores;
    accessesIn(*op, refill.buffer, loads, stores);
    return stores.empty() || storesSteadily(*op, refill.buffer, loops);
  };
  const auto& ops = refill.block->ops;
  bool fresh = refill.all && (loops.empty() || std::ranges::all_of(ops, steadily));
  if (!fresh && !analysis_) analysis_.emplace(facts_.kernel());
  if (fresh || analysis_->covered(refill.stores, refill.loads, *refill.block))
    out_.push_back(std::make_unique<Refill>(std::move(refill)));
}

/// Whether an op stores to the same elements in every iteration of `loops`.
bool RefillFinder::storesSteadily(const Op& op, const Value* buffer,
                                  const std::vector<const Op*>& loops) const {
  const Operand* element = elementOf(op);
  if (element && element->value == buffer)
    return std::ranges::all_of(element->items, [&](const Operand& index) { return steady(index, loops); });
  if (!touches(op, buffer)) return true;
  if (op.code == Opcode::k_for) {
    const auto [from, to, step] = rangeOf(op);
    if (!steady(from, loops) || !steady(to, loops) || !steady(step, loops)) return false;
  } else if (!steady(op.operands[0], loops) &&
             !(op.regions.size() == 2 && storesSame(*op.regions[0], *op.regions[1], buffer))) {
    return false;
  }
  for (const auto& region : op.regions)
    for (Op* inner : region->ops)
      if (!storesSteadily(*inner, buffer, loops)) return false;
  return true;
}

bool RefillFinder::steady(const Operand& operand, const std::vector<const Op*>& loops) const {
  return !operand.value || steady(operand.value, loops);
}

/// Whether a value is the same in every iteration of `loops`, which enclose one another.
bool RefillFinder::steady(const Value* value, const std::vector<const Op*>& loops) const {
  std::vector<const Op*> around = facts_.loopsAround(value);
  if (!contains(around, loops[0])) return true;
  if (!value->def) {  // the index of a loop inside
    const Op* loop = around.back();
    return !contains(loops, loop) && loop->regions[0]->args[0].get() == value &&
           steady(rangeOf(*loop).from, loops) && steady(rangeOf(*loop).step, loops);
  }
  const Op& op = *value->def;
  bool load = isLoad(op) && !facts_.isMutable(elementOf(op)->value);
  if (!load && !isArithmetic(op)) return false;
  return everyUse(op, [&](const Value* used) { return steady(used, loops); });
}

/// Whether two operands are the same value, or are computed by equal ops.
bool RefillFinder::equal(const Operand& a, const Operand& b) const {
  if (a.isLiteral() && b.isLiteral()) return a.number() == b.number() && a.integer == b.integer;
  if (!a.value || !b.value) return false;
  if (a.value == b.value) return true;
  const Op *x = a.value->def, *y = b.value->def;
  if (!x || !y || x->code != y->code || !isArithmetic(*x) || a.value->type != b.value->type) return false;
  if (x->operands.size() != y->operands.size()) return false;
  for (size_t i = 0; i < x->operands.size(); ++i)
    if (!equal(x->operands[i], y->operands[i])) return false;
  return true;
}

/// Whether both bodies of an if store to the same elements, not in loops or inner ifs.
bool RefillFinder::storesSame(const Block& a, const Block& b, const Value* buffer) const {
  auto storesOf = [&](const Block& block, std::vector<const Operand*>& out) {
    for (Op* op : block.ops) {
      if (!touches(*op, buffer)) continue;
      out.push_back(elementOf(*op));
      if (!out.back()) return false;
    }
    return true;
  };
  std::vector<const Operand*> first, second;
  if (!storesOf(a, first) || !storesOf(b, second) || first.size() != second.size()) return false;
  for (size_t i = 0; i < first.size(); ++i)
    for (size_t axis = 0; axis < first[i]->items.size(); ++axis)
      if (!equal(first[i]->items[axis], second[i]->items[axis])) return false;
  return true;
}

}  // namespace

std::vector<std::unique_ptr<Refill>> findRefills(const KernelFacts& facts) {
  return RefillFinder(facts).run();
}

}  // namespace tg
