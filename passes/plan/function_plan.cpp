// SPDX-License-Identifier: Apache-2.0
#include "passes/plan/function_plan.h"

#include <fmt/format.h>

#include <algorithm>

#include "ir/access.h"
#include "ir/builder.h"
#include "ir/kernel/custom.h"
#include "ir/needs.h"
#include "ir/op_view.h"
#include "ir/verify.h"

namespace tg::plan {

/// The result slot that holds a value.
struct SlotOf {
  int index = 0;
  std::vector<Value*> values;
  int64_t bytes = 0;
  bool group = false;
};

std::string describe(const Unit& unit) {
  const Value& one = unit.whole ? *unit.whole : *unit.members[0];
  if (!unit.group || unit.whole) return fmt::format("%{} : {}", one.name, one.type.str());
  return fmt::format("[%{}, …] of {} members", unit.members[0]->name, unit.members.size());
}

namespace {

int64_t bytesOf(const std::vector<Value*>& values, bool group) {
  return group ? groupBytes(typesOf(values)) : values[0]->type.bytes();
}

SlotOf slotOf(const Value& value) {
  std::vector<ResultSlot> slots = resultSlots(*value.def);
  for (int index = 0; index < static_cast<int>(slots.size()); ++index) {
    SlotOf slot{index, valuesOf(*value.def, slots[index]), 0, slots[index].group};
    if (!contains(slot.values, &value)) continue;
    slot.bytes = bytesOf(slot.values, slot.group);
    return slot;
  }
  return {};
}

}  // namespace

/// Adds a unit of these members, laid out one behind the other if they are a group.
void FunctionPlan::addUnit(std::vector<Value*> members, bool group) {
  Unit unit;
  unit.members = std::move(members);
  unit.group = group;
  if (group) {
    unit.bytes = groupBytes(typesOf(unit.members), &unit.offsets);
  } else {
    unit.bytes = unit.members[0]->type.bytes();
    unit.offsets = {0};
  }
  for (size_t member = 0; member < unit.members.size(); ++member)
    for (const Value* form = unit.members[member]; form; form = factsOf(*form).source) {
      facts_[form].unit = static_cast<int>(units_.size());
      facts_[form].member = static_cast<int>(member);
    }
  units_.push_back(std::move(unit));
}

/// The value that holds the bytes of this one after all collectives.
Value* FunctionPlan::takenOverBy(Value* value) const {
  while (Value* next = factsOf(*value).takenOverBy) value = next;
  return value;
}

/// The values that need places of their own: arguments and results, except symbol reads, pieces of arguments, and operands
/// of tg.all_reduce, whose bytes the result takes over.
std::vector<Value*> FunctionPlan::ownValues() const {
  std::vector<Value*> values;
  for (const auto& arg : func_.body.args)
    if (!factsOf(*arg).takenOverBy) values.push_back(arg.get());
  for (const Op* op : func_.body.ops) {
    if (op->code == Opcode::adjoin) continue;
    for (const auto& result : op->results)
      if (!isEntry(*result) && !factsOf(*result).takenOverBy) values.push_back(result.get());
  }
  return values;
}

/// The lists of values that must be contiguous: the parts of each tg.adjoin, and the groups that regions write and read.
/// Groups of parameters and states are skipped: their homes are laid out already.
Result<std::vector<Sequence>>
FunctionPlan::findSequences(const std::unordered_map<const Value*, int>& keyOf) const {
  std::vector<Sequence> sequences;
  auto add = [&](const Op& op, const std::vector<Value*>& members) {
    Sequence sequence{{}, &op, true};
    for (Value* member : members) sequence.keys.push_back(keyOf.at(takenOverBy(member)));
    sequences.push_back(std::move(sequence));
  };
  for (const Op* op : func_.body.ops) {
    if (op->code == Opcode::adjoin) {
      std::vector<Value*> parts;
      forEachUse(*op, [&](Value* part) { parts.push_back(part); });
      add(*op, parts);
    }
    if (op->code != Opcode::fused) continue;
    for (const ResultSlot& slot : resultSlots(*op))
      if (slot.group) add(*op, valuesOf(*op, slot));
    for (int binding = 0; binding < op->numOperands(); ++binding) {
      if (!op->operands[binding].bindsGroup()) continue;
      const std::vector<Value*> members = bindingSources(*op, binding);
      auto symbols = std::ranges::count_if(members, [](Value* value) { return isSymbolRead(*value); });
      if (symbols == static_cast<long>(members.size())) continue;
      if (std::ranges::any_of(members, [](Value* value) { return isEntry(*value); }))
        return failAt(
            op->loc,
            "tg.fused [plan.group]: the group of %{} has pieces of an argument, or parameters or states "
            "beside other values: their places are given",
            op->operands[binding].value->name);
      add(*op, members);
    }
  }
  return sequences;
}

/// Makes units: one for each run of groups, one for each remaining value.
Result<void> FunctionPlan::findUnits() {
  const std::vector<Value*> values = ownValues();
  std::unordered_map<const Value*, int> keyOf;
  for (Value* value : values) keyOf.emplace(value, static_cast<int>(keyOf.size()));
  TG_TRY(std::vector<Sequence> sequences, findSequences(keyOf));
  auto nameOf = [&](int key) { return "%" + values[key]->name; };
  TG_TRY(std::vector<std::vector<int>> runs,
         mergeRuns(std::move(sequences), static_cast<int>(values.size()), nameOf));
  std::vector<int> runAt(values.size(), -1);
  std::vector<bool> inRun(values.size(), false);
  for (size_t run = 0; run < runs.size(); ++run) {
    runAt[*std::ranges::min_element(runs[run])] = static_cast<int>(run);
    for (int key : runs[run]) inRun[key] = true;
  }
  for (size_t key = 0; key < values.size(); ++key) {
    if (!inRun[key]) addUnit({values[key]}, false);
    if (runAt[key] < 0) continue;
    std::vector<Value*> members;
    for (int member : runs[runAt[key]]) members.push_back(values[member]);
    addUnit(std::move(members), true);
  }
  for (Op* op : func_.body.ops) {
    if (op->code != Opcode::adjoin) continue;
    const int unit = factsOf(*op->in(0)).unit;
    facts_[op->result()].unit = unit;
    units_[unit].whole = op->result();
  }
  return {};
}

FunctionPlan::Life FunctionPlan::lifeOf(const Value& member) const {
  Life life{factsOf(member).defined, 0};
  eachAccess(&member, [&](int op) { life = {std::min(life.first, op), std::max(life.last, op)}; });
  return life;
}

void FunctionPlan::setLifetimes() {
  for (Unit& unit : units_) {
    unit.first = unit.last = factsOf(*unit.members[0]).defined;
    for (const Value* member : unit.members) {
      const Life life = lifeOf(*member);
      unit.first = std::min(unit.first, life.first);
      unit.last = std::max(unit.last, life.last);
    }
  }
}

void FunctionPlan::setBlocks() {
  blocks_ = 0;
  for (Unit& unit : units_) {
    unit.firstBlock = blocks_;
    blocks_ += unit.blocks();
  }
}

/// The block that holds a value of a unit.
int FunctionPlan::blockOf(const Value& value) const {
  const Unit& unit = *unitOf(value);
  return unit.firstBlock + (unit.inParts() ? factsOf(value).member : 0);
}

/// Whether `successor`, in a slot that starts at `start` in @persistent, may overwrite the old value of its symbol: all ops
/// that read the old value come earlier, or are the producing region and read the same bytes only at the element they
/// write. `shared` collects bindings for which this was shown; it then holds for all members of the slot.
bool FunctionPlan::homeIsFree(const Value& successor, const SlotOf& slot, int64_t start,
                              std::vector<Reading>& shared) const {
  auto reads = reads_.find(factsOf(successor).update->operands[0].text);
  if (reads == reads_.end()) return true;
  const int defined = factsOf(successor).defined;
  const int64_t home = homeOf(*factsOf(successor).update).offset;
  for (const Value* read : reads->second) {
    // Reads of other rows of the symbol do not matter.
    const int64_t from = homeOf(*read->def).offset;
    if (from + read->type.bytes() <= home || home + successor.type.bytes() <= from) continue;
    for (const Reading& use : factsOf(*read).readings) {
      if (use.op < defined) continue;
      if (use.op > defined || use.binding < 0) return false;
      bool known = std::ranges::any_of(
          shared, [&](const Reading& other) { return other.op == use.op && other.binding == use.binding; });
      if (known) continue;
      const Op& op = *ops_[use.op];
      std::vector<Value*> sources = bindingSources(op, use.binding);
      bool group = op.operands[use.binding].bindsGroup();
      int64_t sourceStart = homeOf(*sources[0]->def).offset;
      if (sourceStart != start || bytesOf(sources, group) != slot.bytes) return false;
      if (!readsOnlyWrittenElement(op, use.binding, slot.index, module_)) return false;
      shared.push_back(use);
    }
  }
  return true;
}

/// Whether every member may be written directly to the home of the symbol that it updates; sets `home` to the first offset.
bool FunctionPlan::fitsHome(const Unit& unit, int64_t* home) const {
  for (size_t index = 0; index < unit.members.size(); ++index) {
    const Value& member = *unit.members[index];
    const Facts& facts = factsOf(member);
    if (!facts.update || !member.def || facts.source) return false;
    int64_t at = homeOf(*facts.update).offset;
    if (index == 0) *home = at;
    if (at != *home + unit.offsets[index]) return false;
  }
  SlotOf slot;
  std::ptrdiff_t at = 0;
  size_t next = 0;
  std::vector<Reading> shared;
  for (const Value* member : unit.members) {
    // The slot of the member: a result group is the whole unit or a part of it.
    if (next >= slot.values.size() || slot.values[next] != member) {
      slot = slotOf(*member);
      shared.clear();
      at = std::ranges::find(unit.members, slot.values[0]) - unit.members.begin();
      next = static_cast<size_t>(std::ranges::find(slot.values, member) - slot.values.begin());
    }
    ++next;
    if (!homeIsFree(*member, slot, *home + unit.offsets[at], shared)) return false;
  }
  return true;
}

/// Chooses a buffer for each unit: @io for arguments and values that the host reads, a home for values that may be written
/// directly to it, otherwise the arena.
void FunctionPlan::setRooms() {
  auto toHost = [&](const Value* value) {
    if (const int unit = factsOf(*value).unit; unit >= 0) units_[unit].room = Unit::Room::io;
  };
  for (const auto& arg : func_.body.args) toHost(arg.get());
  for (const Op* op : func_.body.ops)
    if (hostReads(*op)) forEachUse(*op, toHost);
  const auto placeHome = [&](Unit& unit) {
    if (unit.room == Unit::Room::arena && fitsHome(unit, &unit.offset)) unit.room = Unit::Room::home;
  };
  for (Unit& unit : units_)
    if (!factsOf(*unit.members[0]).stepTo) placeHome(unit);
  // A step may take a home only if the value computed from it has it, so later steps come first.
  for (auto op = ops_.rbegin(); op != ops_.rend(); ++op)
    for (const auto& result : (*op)->results)
      if (const Facts& facts = factsOf(*result);
          facts.stepTo && unitOf(*facts.stepTo)->room == Unit::Room::home)
        placeHome(units_[facts.unit]);
}

/// Whether a result slot of an op defines exactly the members of a unit.
bool FunctionPlan::defines(const Unit& unit, const Op& op, const ResultSlot& slot) const {
  if (slot.group != unit.group || slot.count != static_cast<int>(unit.members.size())) return false;
  for (int member = 0; member < slot.count; ++member)
    if (op.result(slot.first + member) != unit.members[member]) return false;
  return true;
}

/// Finds the padding that must be zeroed. The kernel of a result group writes the padding within it. Padding in homes is
/// zero from the session's start; other padding needs a fill.
void FunctionPlan::setFills() {
  for (Unit& unit : units_) {
    if (!unit.group || unit.whole || unit.room == Unit::Room::home) continue;
    bool extends =
        false;  // whether the last fill may be extended: only over results, and only outside of the arena
    for (size_t index = 0; index < unit.members.size(); ++index) {
      const Value* member = unit.members[index];
      int64_t from = unit.offsets[index] + member->type.bytes();
      int64_t to = index + 1 < unit.members.size() ? unit.offsets[index + 1] : unit.bytes;
      extends = extends && member->def && !unit.inParts();
      if (from == to || (member->def && slotOf(*member).group)) continue;
      if (extends)
        unit.fills.back().to = to;
      else
        unit.fills.push_back({from, to, index, 0});
      extends = true;
    }
  }
}

/// Whether the slot's unit may take the bytes of a binding: the sizes are equal, and the region reads these bytes, through
/// this or another binding, only at the element that it writes. Live ranges are not checked.
bool FunctionPlan::mayShare(int opIndex, int binding, int slotIndex, const Unit& unit) const {
  const Op& op = *ops_[opIndex];
  std::vector<Value*> sources = bindingSources(op, binding);
  bool group = op.operands[binding].bindsGroup();
  const Unit* source = unitOf(*sources[0]);
  if (!source || source->room != Unit::Room::arena || source->members != sources) return false;
  if (group != source->group || group != unit.group || source->bytes != unit.bytes) return false;
  for (const Value* member : sources)
    for (const Reading& use : factsOf(*member).readings)
      if (use.op == opIndex && (use.binding < 0 || bindingSources(op, use.binding) != sources ||
                                !readsOnlyWrittenElement(op, use.binding, slotIndex, module_)))
        return false;
  return true;
}

/// Whether a unit that a result slot defines may take bytes of another.
bool FunctionPlan::mayTakeOver(const Unit& unit, const Op& op, const ResultSlot& slot) const {
  return unit.room == Unit::Room::arena && unit.fills.empty() && defines(unit, op, slot);
}

/// Gives the slot's unit the bytes of the first binding of the op that dies there and may be taken.
void FunctionPlan::tryInPlace(int opIndex, const ResultSlot& slot, int slotIndex) {
  const Op& op = *ops_[opIndex];
  Unit& unit = units_[factsOf(*op.result(slot.first)).unit];
  if (!mayTakeOver(unit, op, slot)) return;
  for (int binding = 0; binding < op.numOperands(); ++binding) {
    Value* first = bindingSources(op, binding)[0];
    const Unit* source = unitOf(*first);
    // Other readers of the bytes must be in an earlier interval, separated by a barrier.
    if (!source || source->last != opIndex || source->taken ||
        lastOther(*source, opIndex) >= intervalStart(opIndex) || !mayShare(opIndex, binding, slotIndex, unit))
      continue;
    unit.inplace = first;
    unit.takesOver = factsOf(*first).unit;
    units_[unit.takesOver].taken = true;
    return;
  }
}

/// Lets each result slot of a region take the bytes of an operand that dies there, if possible.
void FunctionPlan::chooseInPlace() {
  for (int index = 0; index < static_cast<int>(ops_.size()); ++index) {
    const Op& op = *ops_[index];
    if (op.code != Opcode::fused) continue;
    std::vector<ResultSlot> slots = resultSlots(op);
    for (int slot = 0; slot < static_cast<int>(slots.size()); ++slot) tryInPlace(index, slots[slot], slot);
  }
}

/// For a target that prefers texel reads: bytes that a result takes over cannot be read through a texel view. Keeps only
/// the in-place results without which the arena would grow.
void FunctionPlan::dropNeedlessInPlace() {
  if (target_.reads != "texel") return;
  std::vector<Unit> all = units_;
  int64_t budget = arenaBytes_;
  for (Unit& unit : units_) unit.takesOver = -1;
  std::vector<int64_t> live = liveBytes(allocations());
  for (size_t index = 0; index < units_.size(); ++index) {
    Unit& unit = units_[index];
    bool needed = unit.first < static_cast<int>(live.size()) && live[unit.first] > budget;
    // A custom kernel reads no texels, and an inout that is not in place costs a copy.
    const Op* def = unit.members[0]->def;
    needed = needed || (def && def->code == Opcode::fused && customOf(*def));
    if (needed)
      unit.takesOver = all[index].takesOver;
    else
      unit.inplace = nullptr;
  }
  pack();
  if (arenaBytes_ <= budget) return;
  units_ = std::move(all);
  pack();
}

/// Fails if values, bindings or units have more bytes than the target allows.
Result<void> FunctionPlan::checkRanges() const {
  Error errors;
  const int64_t most = mostBytes(target_);
  int64_t together = 0;
  for (const Unit& unit : units_) together = std::min(together + unit.bytes, kMaxBytes);
  if (together == kMaxBytes)
    return failAt(func_.loc, "the values of @{} take {} bytes together, or more", func_.name, kMaxBytes);
  std::vector<Unit> bound(units_.size());  // for each unit, the largest range of it that one binding spans
  const auto bind = [&](std::vector<Value*> values, bool group) {
    const int at = factsOf(*values[0]).unit;
    const int64_t bytes = bytesOf(values, group);
    if (at < 0 || bound[at].bytes >= bytes) return;
    Unit& largest = bound[at];
    largest.members = std::move(values);
    largest.bytes = bytes;
    largest.group = group;
  };
  for (const Op* op : ops_) {
    if (op->code != Opcode::fused) continue;
    for (int binding = 0; binding < op->numOperands(); ++binding)
      bind(bindingSources(*op, binding), op->operands[binding].bindsGroup());
    for (const ResultSlot& slot : resultSlots(*op)) bind(valuesOf(*op, slot), slot.group);
  }
  const Unit* worst = nullptr;
  int64_t others = -1;
  for (size_t index = 0; index < units_.size(); ++index) {
    const Unit &unit = units_[index], &largest = bound[index];
    if (largest.bytes > most) {
      ++others;
      if (!worst || largest.bytes > worst->bytes) worst = &largest;
    } else if (unit.bytes > target_.allocation) {
      errors.append(failAt(unit.members[0]->loc,
                           "{} takes {} bytes, more than the {} of one buffer on target '{}'", describe(unit),
                           unit.bytes, target_.allocation, target_.name));
    }
  }
  if (worst)
    errors.append(overBinding(worst->members[0]->loc, describe(*worst), worst->bytes, most, target_, others));
  if (!errors.empty()) return errors;
  return {};
}

/// Computes everything except the offsets in the arena.
Result<void> FunctionPlan::findPlaces() {
  units_.clear();
  facts_.clear();
  reads_.clear();
  held_.clear();
  findReadings();
  TG_CHECK(findUnits());
  setLifetimes();
  setRooms();
  setFills();
  setBlocks();
  setIntervals();
  chooseInPlace();
  return {};
}

Result<void> FunctionPlan::analyse(std::optional<int64_t> slack, int64_t room) {
  TG_CHECK(findPlaces());
  TG_CHECK(checkRanges());
  chooseHeld();
  if (!holds_.empty()) TG_CHECK(findPlaces());
  return order(slack, room);
}

/// A result in a home that its region also reads, as the old value or as a step of the update, gets an `inplace` like those
/// in the arena.
void FunctionPlan::markHomesInPlace() {
  for (Op* op : func_.body.ops) {
    if (op->code != Opcode::fused) continue;
    for (const ResultSlot& slot : resultSlots(*op)) {
      int64_t start = op->result(slot.first)->place->offset;
      if (op->result(slot.first)->place->buffer != "persistent") continue;
      for (int binding = 0; binding < op->numOperands(); ++binding) {
        Value* source = bindingSources(*op, binding)[0];
        const std::optional<Place>& at = source->place;
        if (!at || at->buffer != "persistent" || at->offset != start) continue;
        for (int member = 0; member < slot.count; ++member)
          op->result(slot.first + member)->place->inplace = source;
      }
    }
  }
}

void FunctionPlan::insertFills() {
  for (const Unit& unit : units_)
    for (const Unit::Fill& bytes : unit.fills) {
      const Place& first = *unit.members[0]->place;
      Operand range = Operand::range(first.buffer, first.offset + bytes.from, bytes.to - bytes.from);
      Builder builder(func_.body.ops);
      builder.setBefore(ops_[static_cast<size_t>(bytes.before)])
          .setLoc(derivedLoc("plan", unit.members[bytes.member]->loc));
      builder.create(Opcode::fill, {Operand::keyword("args", {Operand::keyword("out", {range})})});
    }
}

int64_t FunctionPlan::ioEnd(int64_t ioOffset) const {
  for (const Unit& unit : units_)
    if (unit.room == Unit::Room::io)
      ioOffset = alignTo(target_.place(ioOffset, unit.bytes) + unit.bytes, target_.alignment);
  return ioOffset;
}

/// The results of a tg.disjoin are the bytes of the argument.
static void placePieces(Op& disjoin) {
  Place at = *disjoin.in(0)->place;
  for (const auto& result : disjoin.results) {
    result->place = at;
    at.offset += result->type.bytes();
  }
}

int64_t FunctionPlan::apply(int64_t ioOffset) {
  constexpr const char* kBuffers[] = {"persistent", "io", "arena"};  // by Room
  for (Unit& unit : units_) {
    if (unit.room == Unit::Room::io) {
      unit.offset = target_.place(ioOffset, unit.bytes);
      ioOffset = alignTo(unit.offset + unit.bytes, target_.alignment);
    }
    for (size_t member = 0; member < unit.members.size(); ++member)
      unit.members[member]->place =
          Place{kBuffers[static_cast<int>(unit.room)], unit.offset + unit.offsets[member], unit.inplace};
  }
  for (Op* op : func_.body.ops)
    for (int i = 0; op->code == Opcode::all_reduce && i < op->numOperands(); ++i) {
      op->in(i)->place = takenOverBy(op->in(i))->place;
      op->in(i)->place->inplace = nullptr;
    }
  for (Op* op : func_.body.ops) {
    if (op->code == Opcode::adjoin) op->result()->place = op->in(0)->place;
    if (readsSymbol(*op)) op->result()->place = homeOf(*op);
    if (op->code == Opcode::disjoin) placePieces(*op);
  }
  markHomesInPlace();
  insertFills();
  return ioOffset;
}

}  // namespace tg::plan
