// SPDX-License-Identifier: Apache-2.0
#include "passes/fuse/joined.h"

#include <algorithm>
#include <type_traits>
#include <variant>

#include "passes/fuse/cost.h"
#include "passes/fuse/region_writer.h"

namespace tg::fuse {

std::unique_ptr<Op> joined(const std::vector<Op*>& ops, const Target& target) {
  RegionWriter writer(ops[0]->loc);
  std::vector<Value*> yielded;
  for (const Op* op : ops) {
    // What is bound and not read only held a place in the order, which is settled here.
    for (const Operand& operand : op->operands)
      if (ops.size() == 1 || !operand.value->uses.empty())
        writer.define(operand.value, writer.bind(operand.items[0], *operand.value));
    for (Op* part : op->regions[0]->ops) {
      if (part->code != Opcode::yield)
        writer.copy(*part);
      else
        for (const Operand& operand : part->operands) yielded.push_back(writer.here(operand.value));
    }
  }
  writer.yield(yielded);
  return ops.size() == 1 ? writer.finish(ops[0]->attr("schedule")) : writer.finish(target);
}

namespace {

int64_t needed(const MapSchedule&) { return 0; }
int64_t needed(const RowSchedule& row) { return row.lanes > 1 ? row.workgroup : 0; }
int64_t needed(const ColumnSchedule& column) { return column.lanes * column.side; }

/// Invocations of a part's workgroup.
int64_t workgroupOf(const PartSchedule& part) {
  const auto* column = std::get_if<ColumnSchedule>(&part);
  return column                                      ? needed(*column)
         : std::holds_alternative<MapSchedule>(part) ? std::get<MapSchedule>(part).workgroup
                                                     : std::get<RowSchedule>(part).workgroup;
}

}  // namespace

std::optional<PartSchedule> partOf(const Op& fused) {
  return std::visit(
      [](const auto& kind) -> std::optional<PartSchedule> {
        if constexpr (std::is_constructible_v<PartSchedule, decltype(kind)>) return PartSchedule(kind);
        return std::nullopt;
      },
      scheduleOf(fused));
}

int64_t neededWorkgroup(const Op& fused) {
  const std::optional<PartSchedule> part = partOf(fused);
  return part ? std::visit([](const auto& kind) { return needed(kind); }, *part) : 0;
}

int64_t resultsAtOnce(const PartSchedule& part) {
  const auto* column = std::get_if<ColumnSchedule>(&part);
  return std::visit([](const auto& kind) { return kind.vec; }, part) *
         (column ? column->side : kSmallestGroup);
}

void setWorkgroups(std::vector<PartSchedule>& parts, int64_t workgroup) {
  if (!workgroup) {
    workgroup = workgroupOf(parts[0]);
    for (const PartSchedule& part : parts) workgroup = std::min(workgroup, workgroupOf(part));
  }
  for (PartSchedule& part : parts) {
    if (auto* map = std::get_if<MapSchedule>(&part)) map->workgroup = workgroup;
    if (auto* row = std::get_if<RowSchedule>(&part); row && row->lanes == 1) row->workgroup = workgroup;
  }
}

}  // namespace tg::fuse
