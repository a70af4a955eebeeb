// What the clean-up passes share: visiting the ops of every function with values replaced on the way.
#pragma once

#include <functional>
#include <memory>
#include <unordered_map>
#include <vector>

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

}  // namespace tg
