// SPDX-License-Identifier: Apache-2.0
// Common subexpression elimination in a kernel: equal ops merge into the first one in scope.
#include <unordered_map>
#include <unordered_set>

#include "ir/op_bytes.h"
#include "passes/kernel/effects.h"
#include "passes/kernel/simplify.h"

namespace tg {
namespace {

class Merger {
 public:
  explicit Merger(Item& kernel) : kernel_(kernel), written_(writtenBuffers(kernel)) {}
  void run() { block(kernel_.body); }

 private:
  void block(Block& block);
  bool mergeable(const Op& op) const {
    return isArithmetic(op) || (isLoad(op) && !written_.contains(elementOf(op)->value));
  }
  const Op* find(const std::string& key) const;

  Item& kernel_;
  const std::unordered_set<const Value*> written_;
  ValueNumbering numbers_;
  std::vector<std::unordered_map<std::string, const Op*>> scopes_;
};

const Op* Merger::find(const std::string& key) const {
  for (const auto& scope : scopes_)
    if (auto it = scope.find(key); it != scope.end()) return it->second;
  return nullptr;
}

void Merger::block(Block& block) {
  scopes_.emplace_back();
  for (Op *op = block.ops.front(), *next = nullptr; op; op = next) {
    next = op->next();
    for (auto& region : op->regions) this->block(*region);
    if (!mergeable(*op)) continue;
    std::string key = keyOf(*op, numbers_);
    if (const Op* first = find(key)) {
      op->result()->uses.replaceAll(first->result());
      block.ops.erase(op);
    } else {
      scopes_.back()[std::move(key)] = op;
    }
  }
  scopes_.pop_back();
}

}  // namespace

void mergeEqual(Item& kernel) { Merger(kernel).run(); }

}  // namespace tg
