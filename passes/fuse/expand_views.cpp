// Composites that are nothing but views of their operands, and joins of them, expand before anything else
// looks: their primitives then live inside regions as index arithmetic.
#include <algorithm>

#include "passes/fuse/fuse.h"

namespace tg::fuse {

void expandViews(Module& module, Item& func) {
  Builder builder(&module, &func);
  std::vector<std::unique_ptr<Op>> old = std::move(func.body.ops), dropped;
  func.body.ops.clear();
  std::unordered_map<const Value*, Value*> replaced;
  for (auto& op : old) {
    forEachUse(*op, [&](Value*& value) {
      if (auto it = replaced.find(value); it != replaced.end()) value = it->second;
    });
    if (!op->info().has(table::composite) || op->info().fusion != table::Fusion::view) {
      func.body.ops.push_back(std::move(op));
      continue;
    }
    builder.setLoc(op->loc);
    std::vector<Value*> operands;
    for (const Operand& operand : op->operands) operands.push_back(operand.value);
    size_t begin = func.body.ops.size();
    std::vector<Value*> results = decompose(*op, operands, builder);
    for (size_t i = 0; i < results.size(); ++i) {
      replaced[op->result(static_cast<int>(i))] = results[i];
      // A view that changes nothing is its operand, which keeps its name.
      bool made = std::any_of(func.body.ops.begin() + static_cast<long>(begin), func.body.ops.end(),
                              [&](const auto& each) { return each.get() == results[i]->def; });
      if (made) results[i]->name = op->result(static_cast<int>(i))->name;
    }
    dropped.push_back(std::move(op));
  }
}

}  // namespace tg::fuse
