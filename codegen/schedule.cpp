// SPDX-License-Identifier: Apache-2.0
// Chooses the kind of schedule for a region; each kind's own file chooses its numbers.
#include "codegen/schedule.h"

#include <algorithm>
#include <cstdint>

#include "codegen/index.h"
#include "codegen/schedule_parts.h"
#include "ir/op_view.h"

namespace tg {

bool sumsRows(const RowSpace& rows, int64_t each, const Target& target) {
  const int64_t subgroup = reliedSubgroup(target), atOnce = kSumGroup / subgroup, step = subgroup * kLanes;
  return target.reduce == "workgroup" && subgroup > 1 && each > 0 && rows.length % step == 0 &&
         rows.length <= step * kHeldRounds && each % atOnce == 0 && rows.rows % each == 0 &&
         kSumGroup <= largestGroup(target) &&
         gives(target, LimitId::sharedBytes, atOnce * rows.length * static_cast<int64_t>(sizeof(float)));
}

int64_t rowsForSums(const RowSpace& rows, const Target& target) {
  const int64_t atOnce = kSumGroup / reliedSubgroup(target);
  int64_t each = 2 * atOnce;
  auto fills = [&](int64_t count) {
    return rows.rows % count == 0 && rows.rows / count * 10 >= target.units() * 9;
  };
  if (!fills(each) || !sumsRows(rows, each, target)) return 0;
  while (fills(2 * each)) each *= 2;
  return each;
}

const Op* contractionOf(const Op& fused) {
  for (const Op* op : fused.regions[0]->ops)
    if (op->info().fusion == table::Fusion::contraction) return op;
  return nullptr;
}

/// By matrix units, else through shared memory, else in registers: the first that suits target and product.
static Schedule chooseProduct(const Op& fused, const Op& product, const Target& target) {
  if (auto schedule = choose<CoopmatSchedule>(fused, target)) return *schedule;
  if (auto schedule = choose<SharedMatmulSchedule>(product, target))
    return forRegion(fused, product, target, *schedule);
  return *choose<MatmulSchedule>(product, target);
}

/// Whether rows are overlapping windows. With an invocation for each window, neighbours share loads through the
/// cache.
static bool rowsOverlap(const Op& fused) {
  const OpList& ops = fused.regions[0]->ops;
  return std::ranges::any_of(ops, [](const Op* op) {
    return op->code == Opcode::unfold && as::unfold(*op).step() < as::unfold(*op).size();
  });
}

/// An attention or a custom kernel decides the kind. Else: a product with results of its size; reductions along
/// equal rows; column reductions; a transposed operand; and map for what is left.
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
  std::vector<const Op*> sums;  // reductions that are not along rows
  for (Op* op : fused.regions[0]->ops) {
    if (op->info().fusion == table::Fusion::contraction) product = op, ++products;
    if (auto space = rowSpaceOf(*op)) {
      mixed = mixed || (rows && !(*rows == *space));
      rows = space;
    } else if (op->info().fusion == table::Fusion::reduce || op->info().fusion == table::Fusion::row) {
      sums.push_back(op);
    }
  }
  const int64_t each = rows && !sums.empty() ? rowsPerSum(*sums[0], *rows) : 0;
  for (const Op* sum : sums)
    mixed = mixed || each == 0 || rowsPerSum(*sum, *rows) != each || !sumsRows(*rows, each, target);
  const Op* yield = fused.regions[0]->terminator();
  auto everyYield = [&](auto fits) {
    return std::ranges::all_of(yield->operands, [&](const Operand& operand) {
      return contains(sums, operand.value->def) || fits(operand.value->type);
    });
  };
  if (products == 1 && !rows && !mixed &&
      everyYield([&](const Type& type) { return type.elements() == product->result()->type.elements(); }))
    return chooseProduct(fused, *product, target);
  const bool walked = rows && target.reduce == "workgroup" && rows->rows >= target.parallel &&
                      rowsOverlap(fused) &&
                      everyYield([&](const Type& type) { return type.elements() == rows->rows; });
  if (rows && !mixed && !walked && everyYield([&](const Type& type) {
        return type.elements() == rows->rows || type.elements() == rows->rows * rows->length;
      }))
    return *choose<RowSchedule>(fused, target);
  if (auto columns = choose<ColumnSchedule>(fused, target)) return *columns;
  if (auto turned = choose<TurnSchedule>(fused, target)) return *turned;
  return *choose<MapSchedule>(fused, target);
}

/// Sets the fields of a schedule that depend on the region.
static Schedule arrangedAny(const Op& fused, const Target& target, const Schedule& schedule) {
  return std::visit([&](const auto& kind) { return Schedule(arranged(fused, target, kind)); }, schedule);
}

Schedule chooseSchedule(const Op& fused, const Target& target) {
  return arrangedAny(fused, target, withinBudget(fused, target, fastestSchedule(fused, target)));
}

std::vector<Schedule> scheduleCandidates(const Op& fused, const Target& target) {
  constexpr size_t kHandful = 6;  // the chosen one included
  // A region that has parts keeps them: they were merged from kernels, each with its schedule.
  if (find(fused.attrs, "schedule"))
    if (Schedule own = scheduleOf(fused); std::holds_alternative<PartsSchedule>(own)) return {own};
  std::vector<Schedule> out{withReads(fused, target, chooseSchedule(fused, target))};
  const bool groups =
      !fused.groups.empty() ||
      std::ranges::any_of(fused.operands, [](const Operand& operand) { return operand.bindsGroup(); });
  if (groups) return out;
  const std::vector<Schedule> others =
      std::visit([&](const auto& chosen) { return neighbours(fused, target, chosen); }, out.front());
  for (const Schedule& other : others) {
    if (out.size() == kHandful) break;
    const Schedule each = withReads(fused, target, arrangedAny(fused, target, other));
    addOnce(out, each);
  }
  return out;
}

}  // namespace tg
