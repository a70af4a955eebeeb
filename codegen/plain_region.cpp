// SPDX-License-Identifier: Apache-2.0
// Copies a region op by op, expands composites recursively, then merges equal ops.
#include "codegen/plain_region.h"

#include <algorithm>
#include <unordered_map>

#include "ir/op_bytes.h"

namespace tg {

/// Whether the region's schedule computes the op as a whole: an attention by one of the attention schedules.
static bool keepsWhole(const Op& fused, const Op& op) {
  return op.info().fusion == table::Fusion::attention && fused.attr("schedule").text.ends_with("attention");
}

/// Emits the primitives of an op for given operands. A decomposition may hold composites, which are expanded too.
static std::vector<Value*> expand(const Op& op, const std::vector<Value*>& operands, Builder& builder,
                                  bool whole = false) {
  if (whole || !op.info().has(table::composite)) {
    std::unordered_map<const Value*, Value*> map;
    for (int i = 0, next = 0; i < op.numOperands(); ++i)
      if (op.operands[i].kind == Operand::Kind::value) map[op.in(i)] = operands[static_cast<size_t>(next++)];
    Op* copy = builder.append(cloneOp(op, map));
    std::vector<Value*> out;
    for (auto& result : copy->results) out.push_back(result.get());
    return out;
  }
  // Decompose into a list of its own, then expand each op of it into the target.
  OpList& target = builder.ops();
  OpList aside;
  builder.setEnd(aside);
  std::vector<Value*> results = decompose(op, operands, builder);
  builder.setEnd(target);
  for (Op* part : aside) {
    std::vector<Value*> inputs;
    forEachUse(static_cast<const Op&>(*part), [&](Value* value) { inputs.push_back(value); });
    std::vector<Value*> made = expand(*part, inputs, builder);
    for (size_t i = 0; i < made.size(); ++i) {
      part->results[i]->uses.replaceAll(made[i]);
      std::ranges::replace(results, part->results[i].get(), made[i]);
    }
  }
  return results;
}

/// Merges equal ops. Composites with the same operands, such as a cross entropy and its gradient, have primitives
/// in common: one pass over a row then finds its maximum for both.
static void mergeEqual(PlainRegion& region) {
  ValueNumbering numbers;
  std::unordered_map<std::string, const Op*> seen;
  for (Op* op : region.body.ops.all()) {
    if (!op->info().has(table::pure) || !op->regions.empty()) continue;
    auto [first, isNew] = seen.try_emplace(keyOf(*op, numbers), op);
    if (isNew) continue;
    for (size_t i = 0; i < op->results.size(); ++i) {
      Value* same = first->second->result(static_cast<int>(i));
      op->results[i]->uses.replaceAll(same);
      std::ranges::replace(region.yields, op->results[i].get(), same);
    }
    region.body.ops.erase(op);
  }
}

std::unique_ptr<PlainRegion> plainRegion(const Op& fused) {
  auto region = std::make_unique<PlainRegion>();
  Builder builder(region->body);
  std::unordered_map<const Value*, Value*> map;
  for (const auto& arg : fused.regions[0]->args) {
    Value* copy = region->body.addArg(arg->type, builder.names().unique(arg->name));
    region->bindings.push_back(copy);
    map[arg.get()] = copy;
  }
  for (Op* op : fused.regions[0]->ops) {
    std::vector<Value*> operands;
    forEachUse(static_cast<const Op&>(*op), [&](Value* value) { operands.push_back(map.at(value)); });
    if (op->code == Opcode::yield) {
      region->yields = operands;
      break;
    }
    builder.setLoc(op->loc);
    std::vector<Value*> made = expand(*op, operands, builder, keepsWhole(fused, *op));
    for (size_t i = 0; i < made.size(); ++i) map[op->result(static_cast<int>(i))] = made[i];
  }
  mergeEqual(*region);
  return region;
}

std::unordered_set<const Op*> opsBehind(std::span<Value* const> values) {
  std::unordered_set<const Op*> found;
  std::vector<const Value*> work(values.begin(), values.end());
  while (!work.empty()) {
    const Op* def = work.back()->def;
    work.pop_back();
    if (def && found.insert(def).second) forEachUse(*def, [&](Value* value) { work.push_back(value); });
  }
  return found;
}

}  // namespace tg
