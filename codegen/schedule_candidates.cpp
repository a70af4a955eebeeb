// SPDX-License-Identifier: Apache-2.0
// Neighbours of a chosen schedule: what a device may run faster than the choice by rule.
#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <string_view>
#include <utility>

#include "codegen/schedule.h"
#include "codegen/schedule_parts.h"

namespace tg {

namespace {

constexpr size_t kHandful = 6;  ///< schedules of a region, the chosen one included

using Schedules = std::vector<Attr>;

int64_t option(const Attr& schedule, std::string_view name) {
  const Attr* found = schedule.find(name);
  return found ? found->integer : 1;
}

Attr with(Attr schedule, std::initializer_list<std::pair<const char*, int64_t>> options) {
  for (const auto& [name, value] : options) set(schedule.dict, name, Attr::of(value));
  return schedule;
}

/// The same with more and with fewer invocations in a workgroup, at least `least` and in multiples of it.
void addWorkgroups(Schedules& out, const Attr& chosen, const Target& target, int64_t least) {
  const int64_t workgroup = option(chosen, "workgroup");
  for (int64_t other : {workgroup * 2, workgroup / 2, workgroup * 4})
    if (other >= least && other % least == 0 && other <= largestGroup(target))
      out.push_back(with(chosen, {{"workgroup", other}}));
}

bool everyYieldIsWhole(const Op& fused, int64_t vec) {
  const auto& operands = fused.regions[0]->terminator()->operands;
  return std::all_of(operands.begin(), operands.end(),
                     [&](const Operand& operand) { return operand.value->type.elements() % vec == 0; });
}

/// Four elements instead of one, or the other way round.
void addOtherVec(Schedules& out, const Attr& chosen, bool fours) {
  const int64_t vec = option(chosen, "vec");
  if (vec != 1 || fours) out.push_back(with(chosen, {{"vec", vec == 1 ? 4 : 1}}));
}

Schedules mapNeighbours(const Op& fused, const Target& target, const Attr& chosen) {
  Schedules out;
  addOtherVec(out, chosen, everyYieldIsWhole(fused, 4));
  addWorkgroups(out, chosen, target, 8);
  return out;
}

Schedules rowNeighbours(const Op& fused, const Target& target, const Attr& chosen) {
  Schedules out;
  int64_t length = 1;
  for (Op* op : fused.regions[0]->ops)
    if (auto rows = rowSpaceOf(*op)) length = rows->length;
  const int64_t lanes = option(chosen, "lanes"), subgroup = reliedSubgroup(target);
  auto shared = [&](int64_t wanted, int64_t workgroup) {
    if (wanted >= 2 && workgroup <= largestGroup(target))
      out.push_back(with(chosen, {{"lanes", wanted}, {"workgroup", workgroup}}));
  };
  if (lanes == 1) {
    addWorkgroups(out, chosen, target, 8);
  } else if (lanes == subgroup) {
    addWorkgroups(out, chosen, target, lanes);
    shared(4 * lanes, 4 * lanes);
  } else {
    shared(2 * lanes, 2 * lanes);
    shared(lanes / 2, lanes / 2);
    if (subgroup > 1) shared(subgroup, std::max(target.workgroup / subgroup, int64_t{1}) * subgroup);
  }
  addOtherVec(out, chosen, length % 4 == 0);
  return out;
}

/// As many invocations in all, shared differently between results and elements.
Schedules columnNeighbours(const Attr& chosen) {
  Schedules out;
  const int64_t lanes = option(chosen, "lanes"), side = option(chosen, "side");
  if (side % 2 == 0) out.push_back(with(chosen, {{"lanes", 2 * lanes}, {"side", side / 2}}));
  if (lanes > 2) out.push_back(with(chosen, {{"lanes", lanes / 2}, {"side", 2 * side}}));
  if (lanes > 4) out.push_back(with(chosen, {{"lanes", lanes / 4}, {"side", 4 * side}}));
  addOtherVec(out, chosen, false);
  return out;
}

Schedules attentionNeighbours(const Op& attention, const Target& target, const Attr& chosen) {
  Schedules out;
  const Shape &q = attention.in(0)->type.shape, &v = attention.in(2)->type.shape;
  const bool forKeys = attention.code == Opcode::attention_grad_kv;
  const int64_t queries = q[q.rank() - 2], keys = v[v.rank() - 2];
  const int64_t own = forKeys ? keys : queries, other = forKeys ? queries : keys;
  const int64_t tile = option(chosen, "tile"), block = option(chosen, "block");
  if (tile % 2 == 0) out.push_back(with(chosen, {{"tile", tile / 2}}));
  addWorkgroups(out, chosen, target, 8);
  if (block % 2 == 0) out.push_back(with(chosen, {{"block", block / 2}}));
  if (tile == 1 && own % 2 == 0) out.push_back(with(chosen, {{"tile", 2}}));
  if (block < 4 && other % (2 * block) == 0) out.push_back(with(chosen, {{"block", 2 * block}}));
  return out;
}

Schedules neighbours(const Op& fused, const Target& target, const Attr& chosen) {
  for (Op* op : fused.regions[0]->ops) {
    if (op->info().fusion == table::Fusion::attention) return attentionNeighbours(*op, target, chosen);
    if (op->info().fusion == table::Fusion::contraction && chosen.text != "map")
      return matmulNeighbours(*op, target, chosen);
  }
  if (chosen.text == "row") return rowNeighbours(fused, target, chosen);
  if (chosen.text == "column") return columnNeighbours(chosen);
  if (chosen.text == "map") return mapNeighbours(fused, target, chosen);
  return {};
}

}  // namespace

std::vector<Attr> scheduleCandidates(const Op& fused, const Target& target) {
  // Parts are what several kernels became, each with the schedule it had.
  if (const Attr* own = find(fused.attrs, "schedule"); own && own->text == "parts") return {*own};
  Schedules out{chooseSchedule(fused, target)};
  const bool groups = !fused.groups.empty() ||
                      std::any_of(fused.operands.begin(), fused.operands.end(), [](const Operand& operand) {
                        return operand.items[0].kind == Operand::Kind::group;
                      });
  if (groups) return out;
  for (Attr& each : neighbours(fused, target, out.front()))
    if (out.size() < kHandful && std::find(out.begin(), out.end(), each) == out.end())
      out.push_back(std::move(each));
  return out;
}

}  // namespace tg
