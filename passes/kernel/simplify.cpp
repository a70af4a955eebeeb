// SPDX-License-Identifier: Apache-2.0
// Runs the parts of canonicalisation, in the order in which each makes work for the next.
#include "passes/kernel/simplify.h"

#include <string>
#include <unordered_set>

#include "ir/builder.h"
#include "ir/kernel/semantics.h"
#include "ir/parser.h"

namespace tg {

static void renameRepeated(Block& block, NameTable& names, std::unordered_set<std::string>& seen) {
  auto rename = [&](Value& value) {
    if (!seen.insert(value.name).second) value.name = names.unique(value.name);
  };
  for (auto& arg : block.args) rename(*arg);
  for (Op* op : block.ops) {
    for (auto& result : op->results) rename(*result);
    for (auto& region : op->regions) renameRepeated(*region, names, seen);
  }
}

void makeNamesUnique(Item& kernel) {
  NameTable names(kernel);
  std::unordered_set<std::string> seen;
  renameRepeated(kernel.body, names, seen);
}

void simplifyKernel(Item& kernel) {
  // The parts handle accesses of one element; a matrix access has 256.
  if (anyOp(kernel.body, [](const Op& op) { return isCoopmatOp(op.code); })) return;
  for (std::string before, now = print(kernel); now != before; now = print(kernel)) {
    before = std::move(now);
    foldConstants(kernel);
    hoistInvariants(kernel);
    mergeEqual(kernel);
    recogniseReductions(kernel);
    dropDead(kernel);
  }
}

}  // namespace tg
