// SPDX-License-Identifier: Apache-2.0
#include "passes/fuse/merge_parts.h"

#include <algorithm>
#include <functional>
#include <optional>
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

/// Whether a kernel is a map.
bool isMap(const Op& fused) { return std::holds_alternative<MapSchedule>(scheduleOf(fused)); }

/// Whether all results of a kernel without groups have the same number of elements.
bool isOfOneSize(const Op& fused) {
  return fused.code == Opcode::fused && fused.groups.empty() &&
         std::ranges::all_of(fused.operands, std::mem_fn(&Operand::bindsValue)) &&
         std::ranges::all_of(fused.results, [&](const auto& result) {
           return result->type.elements() == fused.result()->type.elements();
         });
}

/// Whether a kernel is a map or a kernel over rows with few ops and results of one size, without groups or random draws.
/// `views`: whether it may read other elements of its operands than its own.
bool isCheapKernel(const Op& fused, bool views) {
  if (!isOfOneSize(fused) || fused.regions[0]->ops.size() > kMostOpsAgain) return false;
  const bool isRow = std::holds_alternative<RowSchedule>(scheduleOf(fused));
  if (!isRow && !isMap(fused)) return false;
  return std::ranges::all_of(fused.regions[0]->ops, [&](const Op* op) {
    const Fusion fusion = op->info().fusion;
    return op->code == Opcode::yield || op->code == Opcode::constant ||
           (keepsElements(*op) && op->code != Opcode::dropout) || (views && op->info().has(table::view)) ||
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
    if (operand.bindsValue() && operand.items[0].value == &value) reached.insert(operand.value);
  for (const Op* op : fused.regions[0]->ops) {
    if (!anyUse(*op, [&](const Value* read) { return reached.contains(read); })) continue;
    if (op->code == Opcode::yield) return true;
    if (!keepsElements(*op)) return false;
    for (const auto& result : op->results) {
      if (result->type.elements() != elements) return false;
      reached.insert(result.get());
    }
  }
  return false;
}

/// Whether both kernels are maps of as many elements, and a value is no small part of that.
bool areLikeMaps(const Op& kernel, const Op& host, const Value& value) {
  const int64_t elements = kernel.result()->type.elements();
  return isMap(kernel) && isMap(host) && isOfOneSize(host) && host.result()->type.elements() == elements &&
         kLeastShared * value.type.elements() >= elements;
}

/// Whether a kernel's loops over a value that both read are those of its host. Rows must also be summed in the same order.
bool sharesLoops(const Op& kernel, const Op& host, const Value& value) {
  if (areLikeMaps(kernel, host, value)) return true;
  if (!isCheapKernel(kernel, false)) return false;
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
    if (at != earlier && !anyUse(*kernels[at], [&](const Value* value) { return follow.contains(value); }))
      continue;
    if (at == later) return true;
    for (const auto& result : kernels[at]->results) follow.insert(result.get());
  }
  return false;
}

/// Whether a kernel can become results of another: that has its loops over a value that both read, or is a map as it is and
/// reads another result of the same kernel.
bool suits(const Op& kernel, const Op& host) {
  for (const Operand& own : kernel.operands) {
    if (own.value->uses.empty()) continue;  // only holds the kernel's place in the order
    const Value& value = *own.items[0].value;
    for (const Operand& other : host.operands) {
      if (!other.bindsValue()) continue;
      const Value* read = other.items[0].value;
      if (read == &value ? sharesLoops(kernel, host, value)
                         : value.def && read->def == value.def && areLikeMaps(kernel, host, value))
        return true;
    }
  }
  return false;
}

}  // namespace

std::vector<int> hostsOf(const std::vector<const Op*>& kernels,
                         const std::function<bool(size_t at)>& mayJoin) {
  std::vector<int> hosts(kernels.size(), -1);
  auto mayHost = [&](size_t at, size_t host) {
    return mayJoin(host) && kernels[host]->code == Opcode::fused && suits(*kernels[at], *kernels[host]) &&
           takesResults(*kernels[host]);
  };
  for (size_t at = kernels.size(); at-- > 0;) {
    if (!mayJoin(at) || !isCheapKernel(*kernels[at], true)) continue;
    const size_t end = std::min(at + kHostReach + 1, kernels.size());
    size_t host = at + 1;
    while (host < end && !mayHost(at, host)) ++host;
    if (host == end || depends(kernels, host, at)) continue;
    hosts[at] = static_cast<int>(host);
    if (hosts[host] < 0) continue;
    const auto further = static_cast<size_t>(hosts[host]);
    if (further < end && mayHost(at, further) && !depends(kernels, further, at)) hosts[at] = hosts[host];
  }
  return hosts;
}

}  // namespace tg::fuse
