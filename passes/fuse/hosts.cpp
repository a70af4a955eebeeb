// SPDX-License-Identifier: Apache-2.0
#include "passes/fuse/hosts.h"

#include <algorithm>
#include <optional>
#include <unordered_map>
#include <unordered_set>

#include "ir/access.h"
#include "ir/rows.h"
#include "ir/schedule.h"
#include "passes/fuse/cost.h"

namespace tg::fuse {
namespace {

using table::Fusion;

/// The rows of a kernel over rows; nothing for other kernels.
std::optional<RowSpace> rowsOf(const Op& fused) {
  if (!std::holds_alternative<RowSchedule>(scheduleOf(fused))) return {};
  return rowSpaceOf(fused.regions[0]->ops);
}

/// Whether a kernel is a map or a kernel over rows with few ops and results of one size, without groups or random draws.
bool isCheapKernel(const Op& fused) {
  if (fused.code != Opcode::fused || !fused.groups.empty() || fused.regions[0]->ops.size() > kMostOpsAgain)
    return false;
  const int64_t elements = fused.result()->type.elements();
  auto isOne = [](const Operand& operand) { return operand.items[0].kind == Operand::Kind::value; };
  auto isWhole = [&](const auto& result) { return result->type.elements() == elements; };
  if (!std::all_of(fused.operands.begin(), fused.operands.end(), isOne) ||
      !std::all_of(fused.results.begin(), fused.results.end(), isWhole))
    return false;
  const bool isRow = std::holds_alternative<RowSchedule>(scheduleOf(fused));
  if (!isRow && !std::holds_alternative<MapSchedule>(scheduleOf(fused))) return false;
  return std::all_of(fused.regions[0]->ops.begin(), fused.regions[0]->ops.end(), [&](const Op* op) {
    const Fusion fusion = op->info().fusion;
    return op->code == Opcode::yield || op->code == Opcode::constant ||
           (keepsElements(*op) && op->code != Opcode::dropout) ||
           (isRow && (fusion == Fusion::row || fusion == Fusion::reduce));
  });
}

/// Whether results can be added to a kernel's loops: a map, rows, or a product.
bool takesResults(const Op& fused) {
  const TakesOver takes = takesOver(scheduleOf(fused));
  return fused.groups.empty() &&
         (takes == TakesOver::elements || takes == TakesOver::loneElements || takes == TakesOver::rows);
}

/// Whether a kernel reads each element of a value exactly once, to compute an element of a result of the same size.
bool visitsElements(const Op& fused, const Value& value) {
  const int64_t elements = value.type.elements();
  std::unordered_set<const Value*> reached;
  for (const Operand& operand : fused.operands)
    if (operand.items[0].kind == Operand::Kind::value && operand.items[0].value == &value)
      reached.insert(operand.value);
  for (const Op* op : fused.regions[0]->ops) {
    bool reads = false;
    forEachUse(*op, [&](const Value* read) { reads = reads || reached.contains(read); });
    if (!reads) continue;
    if (op->code == Opcode::yield) {
      bool stored = false;
      forEachUse(*op, [&](const Value* read) { stored = stored || reached.contains(read); });
      return stored;
    }
    if (!keepsElements(*op)) return false;
    for (const auto& result : op->results) {
      if (result->type.elements() != elements) return false;
      reached.insert(result.get());
    }
  }
  return false;
}

/// Whether a kernel's loops over a value that both read are those of its host. Rows must also be summed in the same order.
bool sharesLoops(const Op& kernel, const Op& host, const Value& value) {
  const std::optional<RowSpace> rows = rowsOf(kernel);
  if (!rows) return value.type.elements() == kernel.result()->type.elements() && visitsElements(host, value);
  if (value.type.elements() != rows->rows * rows->length || rows->length == 1 || rowsOf(host) != rows)
    return false;
  const auto own = std::get<RowSchedule>(scheduleOf(kernel)), other = std::get<RowSchedule>(scheduleOf(host));
  return own.lanes == other.lanes && own.vec == other.vec;
}

/// Whether kernel `later` depends on kernel `earlier`.
bool depends(const std::vector<const Op*>& kernels, size_t later, size_t earlier) {
  std::unordered_set<const Value*> follow;
  for (size_t at = earlier; at <= later; ++at) {
    bool follows = at == earlier;
    forEachUse(*kernels[at], [&](const Value* value) { follows = follows || follow.contains(value); });
    if (!follows) continue;
    if (at == later) return true;
    for (const auto& result : kernels[at]->results) follow.insert(result.get());
  }
  return false;
}

}  // namespace

std::vector<int> hostsOf(const std::vector<const Op*>& kernels,
                         const std::function<bool(size_t at)>& mayJoin) {
  std::unordered_map<const Op*, size_t> places;
  for (const Op* op : kernels) places.emplace(op, places.size());
  std::vector<int> hosts(kernels.size(), -1);
  for (size_t at = 0; at < kernels.size(); ++at) {
    if (!mayJoin(at) || !isCheapKernel(*kernels[at])) continue;
    const size_t end = at + kHostReach + 1;
    size_t host = end;
    for (const Operand& operand : kernels[at]->operands) {
      const Value& value = *operand.items[0].value;
      if (operand.value->uses.empty()) continue;
      for (const Use& use : value.uses) {
        const auto place = places.find(use.user());
        if (place == places.end() || place->second <= at || place->second >= host) continue;
        const Op& other = *place->first;
        if (mayJoin(place->second) && other.code == Opcode::fused && takesResults(other) &&
            sharesLoops(*kernels[at], other, value))
          host = place->second;
      }
    }
    if (host < end && !depends(kernels, host, at)) hosts[at] = static_cast<int>(host);
  }
  return hosts;
}

}  // namespace tg::fuse
