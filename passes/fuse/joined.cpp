// SPDX-License-Identifier: Apache-2.0
#include "passes/fuse/merge_parts.h"

#include <algorithm>
#include <iterator>
#include <type_traits>
#include <variant>

#include "passes/fuse/cost.h"
#include "passes/fuse/region_writer.h"

namespace tg::fuse {

std::unique_ptr<Op> joined(const std::vector<Op*>& ops, const Target& target) {
  RegionWriter writer(ops[0]->loc);
  std::vector<Value*> yielded;
  for (const Op* op : ops) {
    // An argument that is bound but not read only served to order kernels (rematerialize); that is settled now.
    for (const Operand& operand : op->operands)
      if (ops.size() == 1 || !operand.value->uses.empty())
        writer.define(operand.value, writer.bind(operand.items[0], *operand.value));
    std::ranges::copy(writer.copyBody(*op), std::back_inserter(yielded));
  }
  writer.yield(yielded);
  return ops.size() == 1 ? writer.finish(ops[0]->attr("schedule")) : writer.finish(target);
}

namespace {

// Properties of each kind of part. Unless overloaded here, a kind with a `workgroup` takes any number of invocations, and
// a kind with a `vec` computes that many results in each.

template <class Part>
requires requires(Part part) { part.workgroup; }
int64_t needed(const Part&) { return 0; }
int64_t needed(const RowSchedule& row) { return row.lanes > 1 ? row.workgroup : 0; }
int64_t needed(const ColumnSchedule& column) { return column.lanes * column.side; }

template <class Part>
int64_t atOnce(const Part& part) {
  if constexpr (requires { part.vec; }) return part.vec * kSmallestGroup;
  return kSmallestGroup;
}
int64_t atOnce(const ColumnSchedule& column) { return column.vec * column.side; }

/// The size of a part's workgroup.
template <class Part>
int64_t workgroupOf(const Part& part) {
  if constexpr (requires { part.workgroup; }) return part.workgroup;
  return needed(part);
}

/// Sets it for a part that takes any number of invocations.
template <class Part>
void setWorkgroup(Part& part, int64_t workgroup) {
  if constexpr (requires { part.workgroup; })
    if (needed(part) == 0) part.workgroup = workgroup;
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
  return std::visit([](const auto& kind) { return atOnce(kind); }, part);
}

void setWorkgroups(std::vector<PartSchedule>& parts, int64_t workgroup) {
  auto own = [](const PartSchedule& part) {
    return std::visit([](const auto& kind) { return workgroupOf(kind); }, part);
  };
  if (!workgroup) {
    workgroup = own(parts[0]);
    for (const PartSchedule& part : parts) workgroup = std::min(workgroup, own(part));
  }
  for (PartSchedule& part : parts) std::visit([&](auto& kind) { setWorkgroup(kind, workgroup); }, part);
}

}  // namespace tg::fuse
