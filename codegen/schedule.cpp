// SPDX-License-Identifier: Apache-2.0
// Which kind of schedule a region gets; each kind's own file chooses its numbers.
#include "codegen/schedule.h"

#include <algorithm>
#include <cstdint>

#include "codegen/schedule_parts.h"
#include "ir/infer.h"
#include "ir/op_view.h"

namespace tg {

std::optional<RowSpace> rowSpaceOf(const Op& op) {
  using table::Fusion;
  Fusion fusion = op.info().fusion;
  if (fusion != Fusion::reduce && fusion != Fusion::row) return std::nullopt;
  const Shape& shape = op.in(0)->type.shape;
  int rank = shape.rank();
  if (rank == 0) return std::nullopt;
  int first = rank - 1;  // the reduced axes are first..rank-1
  if (op.info().attr("axis")) {
    if (normalAxis(as::softmax(op).axis(), rank) != rank - 1) return std::nullopt;
  } else if (op.info().attr("axes")) {
    std::vector<int> axes;
    for (int64_t axis : as::sum(op).axes()) axes.push_back(normalAxis(axis, rank));
    std::sort(axes.begin(), axes.end());
    if (axes.empty()) return std::nullopt;
    first = axes[0];
    for (size_t i = 0; i < axes.size(); ++i)
      if (axes[i] != first + static_cast<int>(i)) return std::nullopt;
    // Axes of extent 1 behind the reduced ones do not keep them from being last.
    for (int axis = first + static_cast<int>(axes.size()); axis < rank; ++axis)
      if (shape[axis] != 1) return std::nullopt;
  }
  RowSpace space{1, 1};
  for (int axis = 0; axis < rank; ++axis) (axis < first ? space.rows : space.length) *= shape[axis];
  return space;
}

const Op* contractionOf(const Op& fused) {
  for (const Op* op : fused.regions[0]->ops)
    if (op->info().fusion == table::Fusion::contraction) return op;
  return nullptr;
}

/// Matrix units, then shared memory, then registers, as the target and the product's size allow.
static Schedule chooseProduct(const Op& product, const Target& target) {
  if (auto schedule = choose<CoopmatSchedule>(product, target)) return *schedule;
  if (auto schedule = choose<SharedMatmulSchedule>(product, target)) return *schedule;
  return *choose<MatmulSchedule>(product, target);
}

static Schedule fastestSchedule(const Op& fused, const Target& target) {
  for (Op* op : fused.regions[0]->ops) {
    if (op->info().fusion == table::Fusion::attention) {
      if (auto units = choose<CoopmatAttentionSchedule>(*op, target)) return *units;
      if (auto shared = choose<SharedAttentionSchedule>(*op, target)) return *shared;
      return *choose<AttentionSchedule>(*op, target);
    }
    if (op->code == Opcode::custom) return CustomSchedule{};
  }
  const Op* product = nullptr;
  int products = 0;
  std::optional<RowSpace> rows;
  bool mixed = false;
  for (Op* op : fused.regions[0]->ops) {
    if (op->info().fusion == table::Fusion::contraction) product = op, ++products;
    if (auto space = rowSpaceOf(*op)) {
      mixed = mixed || (rows && !(*rows == *space));
      rows = space;
    } else if (op->info().fusion == table::Fusion::reduce || op->info().fusion == table::Fusion::row) {
      mixed = true;
    }
  }
  const Op* yield = fused.regions[0]->terminator();
  auto everyYield = [&](auto fits) {
    return std::all_of(yield->operands.begin(), yield->operands.end(),
                       [&](const Operand& operand) { return fits(operand.value->type); });
  };
  if (products == 1 && !rows && !mixed &&
      everyYield([&](const Type& type) { return type.elements() == product->result()->type.elements(); }))
    return chooseProduct(*product, target);
  if (rows && !mixed && everyYield([&](const Type& type) {
        return type.elements() == rows->rows || type.elements() == rows->rows * rows->length;
      }))
    return *choose<RowSchedule>(fused, target);
  if (auto columns = choose<ColumnSchedule>(fused, target)) return *columns;
  return *choose<MapSchedule>(fused, target);
}

/// What a kind's choice leaves to be found from the region.
static Schedule arrangedAny(const Op& fused, const Target& target, const Schedule& schedule) {
  return std::visit([&](const auto& kind) { return Schedule(arranged(fused, target, kind)); }, schedule);
}

Schedule chooseSchedule(const Op& fused, const Target& target) {
  return arrangedAny(fused, target, withinBudget(fused, target, fastestSchedule(fused, target)));
}

std::vector<Schedule> scheduleCandidates(const Op& fused, const Target& target) {
  constexpr size_t kHandful = 6;  // the chosen one included
  // Parts are what several kernels became, each with the schedule it had.
  if (find(fused.attrs, "schedule"))
    if (Schedule own = scheduleOf(fused); std::holds_alternative<PartsSchedule>(own)) return {own};
  std::vector<Schedule> out{withReads(fused, target, chooseSchedule(fused, target))};
  const bool groups = !fused.groups.empty() ||
                      std::any_of(fused.operands.begin(), fused.operands.end(), [](const Operand& operand) {
                        return operand.items[0].kind == Operand::Kind::group;
                      });
  if (groups) return out;
  const std::vector<Schedule> others =
      std::visit([&](const auto& chosen) { return neighbours(fused, target, chosen); }, out.front());
  for (const Schedule& other : others) {
    if (out.size() == kHandful) break;
    const Schedule each = withReads(fused, target, arrangedAny(fused, target, other));
    if (std::find(out.begin(), out.end(), each) == out.end()) out.push_back(each);
  }
  return out;
}

}  // namespace tg
