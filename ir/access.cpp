// SPDX-License-Identifier: Apache-2.0
#include "ir/access.h"

#include <algorithm>
#include <climits>
#include <unordered_set>

#include <fmt/format.h>

#include "ir/collective.h"
#include "ir/kernel/custom.h"
#include "ir/op_view.h"
#include "ir/rows.h"
#include "ir/schedule.h"

namespace tg {

std::vector<Value*> bindingSources(const Op& fused, int binding) {
  const Operand& source = fused.operands[binding].items[0];
  if (source.kind != Operand::Kind::group) return {source.value};
  std::vector<Value*> members;
  for (const Operand& member : source.items) members.push_back(member.value);
  return members;
}

Type boundType(const Operand& source) {
  if (source.kind != Operand::Kind::group) return source.value ? source.value->type : Type{};
  std::vector<Type> members;
  for (const Operand& member : source.items)
    if (member.value) members.push_back(member.value->type);
  const DType dtype = members.empty() ? DType::f32 : members[0].dtype;
  return Type::tensor(dtype, {groupBytes(members) / byteSize(dtype)});
}

std::vector<ResultSlot> resultSlots(const Op& fused) {
  std::vector<ResultSlot> slots;
  if (fused.groups.empty()) {
    for (int index = 0; index < static_cast<int>(fused.results.size()); ++index)
      slots.push_back({index, 1, false});
    return slots;
  }
  int first = 0;
  for (int members : fused.groups) {
    slots.push_back({first, members == 0 ? 1 : members, members != 0});
    first += slots.back().count;
  }
  return slots;
}

std::vector<Value*> valuesOf(const Op& fused, const ResultSlot& slot) {
  std::vector<Value*> values;
  for (int member = 0; member < slot.count; ++member) values.push_back(fused.result(slot.first + member));
  return values;
}

std::vector<Type> typesOf(const std::vector<Value*>& values) {
  std::vector<Type> types;
  for (const Value* value : values) types.push_back(value->type);
  return types;
}

bool hostReads(const Op& op) {
  return op.code == Opcode::return_ || op.code == Opcode::capture || op.code == Opcode::param_grad;
}

bool isNumber(const Value& value, double number) {
  return value.def && value.def->code == Opcode::constant && value.def->operands[0].isLiteral() &&
         value.def->operands[0].number() == number;
}

const Value* throughCasts(const Value* value) {
  while (value->def && value->def->code == Opcode::cast) value = value->def->in(0);
  return value;
}

bool readsSymbol(const Op& op) { return op.code == Opcode::param || op.code == Opcode::state; }

bool readsEntry(const Op& op) { return readsSymbol(op) || op.code == Opcode::disjoin; }

bool isTurn(const Op& op) { return op.code == Opcode::fused || isCollective(op); }

bool keepsElements(const Op& op) {
  return op.info().scalar != Scalar::none || op.info().has(table::elements);
}

/// Whether a custom kernel's result is that of an inout parameter bound to `binding`, and no other parameter reads
/// the binding.
static bool takesOver(const Op& fused, const Op& custom, int binding, int result, const Module& module) {
  const Item* kernel = customKernel(custom, module);
  const Op* yield = fused.regions[0]->terminator();
  if (!kernel || !yield || result >= yield->numOperands()) return false;
  bool found = false;
  for (const CustomParam& param : customParams(*kernel)) {
    if (param.input < 0 || customBinding(fused, custom, param.input) != binding) continue;
    if (found || param.result < 0 || yield->in(result) != custom.result(param.result)) return false;
    found = true;
  }
  return found;
}

/// Whether tiles of the region's product extend beyond its end. There, subgroups load elements that belong to other
/// subgroups, though they store nothing.
static bool hasSurplus(const CoopmatSchedule& schedule, const Op& fused) {
  for (const Op* op : fused.regions[0]->ops) {
    if (op->code != Opcode::matmul) continue;
    const Shape& shape = op->result()->type.shape;
    if (shape[shape.rank() - 2] % schedule.tile[0] != 0 || shape.back() % schedule.tile[1] != 0) return true;
  }
  return false;
}

/// Over which operands' bytes a schedule without parts may write a result.
static TakesOver takesFor(const Schedule& schedule, const Op& fused, int result) {
  if (const auto* coopmat = std::get_if<CoopmatSchedule>(&schedule))
    if (fused.regions.empty() || hasSurplus(*coopmat, fused)) return TakesOver::nothing;
  if (const auto* column = std::get_if<ColumnSchedule>(&schedule)) {
    const Op* yield = fused.regions.empty() ? nullptr : fused.regions[0]->terminator();
    if (!yield || result >= yield->numOperands() || hasSurplus(*column, yield->in(result)->type.elements()))
      return TakesOver::nothing;
  }
  return takesOver(schedule);
}

/// Results [first, end) computed by one schedule, the requested one among them.
struct Part {
  TakesOver takes = TakesOver::nothing;
  int first = 0, end = 0;
};

static Part partOf(const Op& fused, int result) {
  const auto schedule = parseSchedule(fused.attr("schedule"));
  if (!schedule) return {};
  const auto* parts = std::get_if<PartsSchedule>(&*schedule);
  if (!parts) return {takesFor(*schedule, fused, result), 0, INT_MAX};
  Part part;
  for (size_t i = 0; i < parts->of.size(); ++i) {
    part = {takesFor(wholeSchedule(parts->of[i]), fused, result), part.end,
            part.end + static_cast<int>(parts->results[i])};
    if (result < part.end) return part;
  }
  return {};
}

/// The length of the rows that an op reduces or normalizes along the last axes of its first operand; 0 for other ops.
/// All of a row is read before anything computed from it is written.
static int64_t rowLength(const Op& op) {
  const auto rows = rowSpaceOf(op);
  return rows ? rows->length : 0;
}

/// Whether an op sums over neighbouring rows of a value with `count` elements.
static bool sumsUpRows(const Op& op, int64_t count) {
  if (op.code != Opcode::sum || op.in(0)->type.rank() == 0) return false;
  const int64_t length = op.in(0)->type.shape.back();
  return length > 0 && rowsPerSum(op, {count / length, length}) > 0;
}

/// Whether an operand with one element for each row of `length` is broadcast so that each element of the result reads
/// the element of its own row: the operand's extents are 1 along the axes of a row and equal the result's along the
/// others.
static bool readsOwnRow(const Shape& operand, const Shape& value, int64_t length) {
  int64_t inside = 1;
  for (int axis = value.rank() - 1, own = operand.rank() - 1; axis >= 0; --axis, --own) {
    const int64_t extent = own >= 0 ? operand[own] : 1;
    if (extent != (inside < length ? 1 : value[axis])) return false;
    if (inside < length) inside *= value[axis];
  }
  return inside == length;
}

// Follows the binding from the region argument through all ops of the region. `reached` has the values whose element
// i depends on the binding's element i only; for row schedules `ofRows` and `spread` have those that depend on its
// rows. Any op that does not fit one of these sets ends the search with false. In the end the result must be in
// `reached`, no result of the same part may be larger, and no other part's result may depend on the binding.
bool readsOnlyWrittenElement(const Op& fused, int binding, int result, const Module& module) {
  if (const Op* custom = customOf(fused)) return takesOver(fused, *custom, binding, result, module);
  const Part part = partOf(fused, result);
  const bool elementwise = part.takes == TakesOver::elements || part.takes == TakesOver::loneElements;
  const bool rows = part.takes == TakesOver::rows && part.first == 0 && part.end == INT_MAX;
  if ((!elementwise && !rows) || fused.regions.empty()) return false;
  const Value* source = fused.operands[binding].value;
  const int64_t count = source->type.elements();
  int64_t length = 0;  // of the rows, if some op reduces along them
  // All lanes of a row read a value of the whole row, when one of them may have stored an element already.
  auto isFull = [&](const Op* op) { return rowLength(*op) > 1 && op->in(0)->type.elements() == count; };
  const auto& body = fused.regions[0]->ops;
  if (rows && std::ranges::none_of(body, isFull)) return false;
  std::unordered_set<const Value*> reached{source};
  // Values computed from whole rows: those with one element for each row, and those spread over the elements of the
  // rows.
  std::unordered_set<const Value*> ofRows, spread;
  for (Op* op : fused.regions[0]->ops) {
    bool reads = false, readsRows = false, readsSpread = false;
    forEachUse(static_cast<const Op&>(*op), [&](Value* value) {
      reads |= reached.count(value) > 0;
      readsRows |= ofRows.count(value) > 0;
      readsSpread |= spread.count(value) > 0;
    });
    if ((!reads && !readsRows && !readsSpread) || op->code == Opcode::yield) continue;
    auto& elements = reads ? reached : spread;
    // Sums over rows take the elements as they are computed, before the row is written.
    if (rows && sumsUpRows(*op, count)) continue;
    if (const int64_t own = rows ? rowLength(*op) : 0) {
      if ((length && own != length) || op->in(0)->type.elements() != count) return false;
      length = own;
      for (const auto& value : op->results)
        (value->type.elements() == count ? elements : ofRows).insert(value.get());
      continue;
    }
    if (readsRows) {
      // An element may depend on its own row's value; the elements of another row may be overwritten by then.
      if (op->results.size() != 1) return false;
      const Value* result = op->result();
      if (!keepsElements(*op)) return false;
      if (result->type.elements() == count / length) {
        ofRows.insert(result);
        continue;
      }
      bool own = true;
      forEachUse(static_cast<const Op&>(*op), [&](Value* value) {
        own = own && (!ofRows.count(value) || readsOwnRow(value->type.shape, result->type.shape, length));
      });
      if (!own || result->type.elements() != count) return false;
      elements.insert(result);
      continue;
    }
    if (!keepsElements(*op)) return false;
    if (op->code == Opcode::dropout && reached.count(as::dropout(*op).rng()))
      return false;  // every element reads the key
    for (const auto& value : op->results) {
      if (value->type.elements() != count) return false;
      elements.insert(value.get());
    }
  }
  const Op* yield = fused.regions[0]->terminator();
  if (!yield || result >= yield->numOperands()) return false;
  // With a second store elsewhere, which a driver cannot prove to be apart, each of a product's many loads would wait
  // for it: 530 us instead of 200 for the gradient of attention's scores on an H200.
  if (part.takes == TakesOver::loneElements && yield->numOperands() > 1) return false;
  for (int slot = 0; slot < yield->numOperands(); ++slot) {
    const Value* value = yield->in(slot);
    const bool own = slot >= part.first && slot < part.end;
    if (own ? value->type.elements() > count : reached.count(value) > 0) return false;
  }
  const Value* written = yield->in(result);
  return reached.count(written) > 0 && byteSize(written->type.dtype) == byteSize(source->type.dtype);
}

std::vector<int64_t> rowsNamed(const Op& op) {
  switch (op.code) {
  case Opcode::param: return as::param(op).rows();
  case Opcode::state: return as::state(op).rows();
  case Opcode::update: return as::update(op).rows();
  default: return {};
  }
}

bool namesRows(const Op& op) { return !rowsNamed(op).empty(); }

Type rowsType(const Op& op, const Type& symbol) {
  const std::vector<int64_t> rows = rowsNamed(op);
  Type type = symbol;
  if (rows.size() == 2) type.shape[0] = rows[1] - rows[0];
  return type;
}

Place rowsHome(const Op& op, const Item& symbol) {
  const std::vector<int64_t> rows = rowsNamed(op);
  Place home = *symbol.place;
  if (rows.size() == 2) home.offset += symbol.type.bytes() / symbol.type.shape[0] * rows[0];
  return home;
}

std::string rowsKey(const Op& op) {
  const std::vector<int64_t> rows = rowsNamed(op);
  return rows.size() != 2 ? op.operands[0].text
                          : fmt::format("{}[{}, {}]", op.operands[0].text, rows[0], rows[1]);
}

}  // namespace tg
