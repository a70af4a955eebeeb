// SPDX-License-Identifier: Apache-2.0
// What passes that rewrite functions share: visiting ops with values replaced on the way, and taking
// composites apart.
#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <unordered_map>
#include <vector>

#include "ir/builder.h"
#include "ir/module.h"

namespace tg {

/// Goes once through a function in text order. `fold` sees each op after the replacements so far; it
/// may change the op in place, or return one value to stand for the op's only result, which drops the
/// op. Pointers to dropped values stay unique until the end.
inline void replaceOps(Item& func, const std::function<Value*(Op&)>& fold) {
  std::unordered_map<const Value*, Value*> replaced;
  std::vector<std::unique_ptr<Op>> kept, dropped;
  for (auto& op : func.body.ops) {
    forEachUse(*op, [&](Value*& value) {
      if (auto it = replaced.find(value); it != replaced.end()) value = it->second;
    });
    if (Value* other = fold(*op)) {
      replaced[op->result()] = other;
      dropped.push_back(std::move(op));
    } else {
      kept.push_back(std::move(op));
    }
  }
  func.body.ops = std::move(kept);
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
  if (std::none_of(func.body.ops.begin(), func.body.ops.end(), [&](const auto& op) { return expands(*op); }))
    return;
  Builder builder(&module, &func);
  std::vector<std::unique_ptr<Op>> old = std::move(func.body.ops), dropped;
  func.body.ops.clear();
  std::unordered_map<const Value*, Value*> replaced;
  for (auto& op : old) {
    forEachUse(*op, [&](Value*& value) {
      if (auto it = replaced.find(value); it != replaced.end()) value = it->second;
    });
    if (!expands(*op)) {
      func.body.ops.push_back(std::move(op));
      continue;
    }
    builder.setLoc(op->loc);
    std::vector<Value*> results = expandOp(*op, builder);
    for (size_t i = 0; i < results.size(); ++i) replaced[op->results[i].get()] = results[i];
    dropped.push_back(std::move(op));
  }
}

}  // namespace tg
