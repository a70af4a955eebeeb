// SPDX-License-Identifier: Apache-2.0
// The facts about a module.
#include <algorithm>
#include <map>
#include <vector>

#include "ir/op_info.h"
#include "ir/target.h"
#include "runtime/train/plan_report.h"
#include "tools/driver/inspect_facts.h"

namespace tg {

namespace {

/// The number of ops of each name, the most frequent first.
Facts opCounts(const Block& body) {
  std::map<std::string_view, int64_t> counts;
  walk(body, [&](const Op& op) { ++counts[op.info().name]; });
  std::vector<std::pair<std::string_view, int64_t>> rows(counts.begin(), counts.end());
  std::stable_sort(rows.begin(), rows.end(), [](auto& a, auto& b) { return a.second > b.second; });
  Facts out = Facts::object();
  for (const auto& [op, count] : rows) out[std::string(op)] = count;
  return out;
}

Facts storageFacts(const Module& module, ItemKind kind) {
  int64_t count = 0, elements = 0, bytes = 0;
  Facts list = Facts::array();
  for (const Item* item : module.all(kind)) {
    ++count;
    elements += item->type.elements();
    bytes += item->type.bytes();
    list.push_back({{"name", item->name}, {"type", item->type.str()}, {"bytes", item->type.bytes()}});
  }
  return {{"count", count}, {"elements", elements}, {"bytes", bytes}, {"all", std::move(list)}};
}

Facts functionFacts(const Module& module, const Item& func) {
  Facts inputs = Facts::array(), results = Facts::array();
  for (const auto& arg : func.body.args) {
    Facts input = {{"name", arg->name}, {"type", arg->type.str()}};
    if (const Attr* host = find(arg->attrs, "host")) input["host"] = host->text;
    inputs.push_back(std::move(input));
  }
  for (const NamedType& result : func.results)
    results.push_back({{"name", result.name}, {"type", result.type.str()}});
  Facts out = {{"name", func.name}, {"inputs", std::move(inputs)}, {"results", std::move(results)}};
  if (const Attr* every = find(func.attrs, "every")) out["every"] = every->integer;
  out["ops"] = opCounts(func.body);
  if (module.stage >= Stage::planned) {
    const MemoryReport memory = memoryReport(module, func);
    out["memory"] = {{"persistent_bytes", memory.persistentBytes},
                     {"io_bytes", memory.ioBytes},
                     {"arena_bytes", memory.arenaBytes},
                     {"peak_bytes", memory.peakBytes()}};
  }
  return out;
}

}  // namespace

Facts moduleFacts(const Module& module) {
  Facts out = {{"name", module.name}, {"stage", name(module.stage)}};
  if (const Attr* own = find(module.attrs, "train_pipeline")) out["train_pipeline"] = own->text;
  if (module.stage >= Stage::kernel)
    if (auto target = targetOf(module.attrs)) out["target"] = target->name;
  out["params"] = storageFacts(module, ItemKind::param);
  out["states"] = storageFacts(module, ItemKind::state);
  out["functions"] = Facts::array();
  for (const Item* func : module.all(ItemKind::func))
    out["functions"].push_back(functionFacts(module, *func));
  int64_t words = 0;
  for (const Item* binary : module.all(ItemKind::binary)) words += static_cast<int64_t>(binary->code.size());
  out["kernels"] = {{"count", module.all(ItemKind::kernel).size()},
                    {"binaries", module.all(ItemKind::binary).size()},
                    {"binary_bytes", words * 4}};
  return out;
}

}  // namespace tg
