// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>

#include "ir/access.h"
#include "ir/byte_owners.h"
#include "ir/op_view.h"
#include "ir/target.h"
#include "ir/verify.h"

namespace tg {
namespace {

/// Simulates a planned module's memory in text order: for each byte, which value wrote it last. A value is intact if
/// it owns all its bytes at every read. If all values are, no two live values overlap.
class PlanVerifier {
 public:
  explicit PlanVerifier(const Module& module) : module_(module) {
    target_ = *targetOf(module.attrs);  // the verifier has checked that it can be read
  }
  Result<void> run();
  Result<void> runHomes();

 private:
  struct Owner {
    std::string name;
    Loc loc;
  };

  template <class... Args>
  void report(const Loc& loc, fmt::format_string<Args...> format, Args&&... args) {
    errors_.append(failAt(loc, fmt::format(format, std::forward<Args>(args)...)));
  }
  /// The same with a note at the definition of `value`.
  template <class... Args>
  void reportWith(const Value& value, const Loc& loc, fmt::format_string<Args...> format, Args&&... args) {
    report(loc, format, std::forward<Args>(args)...);
    errors_.addNote(value.loc, "%{} is defined here", value.name);
  }
  std::string label(const Op& op, std::string_view name) const {
    return fmt::format("{} [plan.{}]", op.info().name, name);
  }
  bool inBuffer(const Loc& loc, std::string_view what, const Place& place, int64_t bytes);
  bool inOneAllocation(const Loc& loc, std::string_view what, const ByteRange& range);
  void homes();
  void ioAcrossFunctions();

  void function(const Item& func);
  void start(const Item& func);
  void arguments(const Item& func);
  bool placed(const Op& op);
  void operation(const Op& op);
  void region(const Op& op);
  void allReduce(const Op& op);
  void parts(const Op& op);
  void adjoin(const Op& op);
  void disjoin(const Op& op);
  void groupOperand(const Op& op, int binding);
  void read(const Op& op, const Value& value);
  void resultRoom(const Op& op, const Value& value);
  void overlapsOperands(const Op& op, int slotIndex, const ResultSlot& slot, const ByteRange& range);
  bool inPlaceLegal(const Op& op, int slotIndex, const Value& result, int binding, const ByteRange& range);
  void write(const Op& op, const ResultSlot& slot, const ByteRange& range);
  void fill(const Op& op);
  void update(const Op& op);
  void mustBeIo(const Op& op);

  ByteRange rangeOf(const Value& value) const {
    return {value.place->buffer, value.place->offset, value.type.bytes()};
  }
  ByteRange slotRange(const Op& op, const ResultSlot& slot) const;
  ByteRange sourceRange(const Op& op, int binding) const;
  int newOwner(std::string name, Loc loc) {
    owners_.push_back({std::move(name), std::move(loc)});
    return static_cast<int>(owners_.size()) - 1;
  }

  const Module& module_;
  Target target_;
  Error errors_;
  // State of the current function.
  const Item* func_ = nullptr;
  ByteOwners bytes_;
  std::vector<Owner> owners_;
  std::unordered_map<const Value*, int> ownerOf_;
  std::unordered_map<std::string, int> entryOf_;  ///< owner of the value that a symbol has at entry
  std::unordered_map<const Op*, int> position_;
  std::unordered_map<const Value*, int> lastUse_;
  std::unordered_map<const Value*, const Value*>
      inPlaceOf_;  ///< value -> the result that takes over its bytes
  std::unordered_map<const Value*, std::vector<const Op*>> updates_;
  std::vector<std::pair<ByteRange, const Item*>> io_;
};

bool PlanVerifier::inBuffer(const Loc& loc, std::string_view what, const Place& place, int64_t bytes) {
  const Item* buffer = module_.find(ItemKind::buffer, place.buffer);
  if (!buffer) {
    report(loc, "{} [plan.range]: there is no buffer @{}", what, place.buffer);
    return false;
  }
  if (place.offset < 0 || place.offset + bytes > buffer->bytes) {
    report(loc, "{} [plan.range]: bytes {} to {} are outside of @{}, which has {}", what, place.offset,
           place.offset + bytes, place.buffer, buffer->bytes);
    return false;
  }
  if (!inOneAllocation(loc, what, {place.buffer, place.offset, bytes})) return false;
  if (place.offset % kMemberAlignment == 0) return true;
  report(loc, "{} [plan.align]: offset {} is not a multiple of {}", what, place.offset, kMemberAlignment);
  return false;
}

/// Checks that a binding lies inside one allocation: a large buffer is made of several.
bool PlanVerifier::inOneAllocation(const Loc& loc, std::string_view what, const ByteRange& range) {
  if (target_.fit(range.offset, range.bytes) == range.offset) return true;
  report(loc, "{} [plan.allocation]: bytes {} to {} of @{} cross a multiple of {}, where one buffer ends",
         what, range.offset, range.offset + range.bytes, range.buffer, target_.allocation);
  return false;
}

/// Checks that parameters and states have homes that do not overlap.
void PlanVerifier::homes() {
  ByteOwners taken;
  std::vector<const Item*> items;
  for (const auto& item : module_.items) {
    if (!isStorage(item->kind)) continue;
    std::string what = fmt::format("@{}", item->name);
    if (!item->place || item->place->buffer != "persistent") {
      report(item->loc, "{} [plan.home]: has no home in @persistent", what);
      continue;
    }
    if (!inBuffer(item->loc, what, *item->place, item->type.bytes())) continue;
    ByteRange range{"persistent", item->place->offset, item->type.bytes()};
    if (auto other = taken.foreign(range, -1); other && other->owner >= 0) {
      report(item->loc, "{} [plan.home]: its home overlaps that of @{}", what, items[other->owner]->name);
      errors_.addNote(items[other->owner]->loc, "which is here");
    }
    taken.write(range, static_cast<int>(items.size()));
    items.push_back(item.get());
  }
}

/// Checks that functions do not overwrite each other's inputs and results, which stay valid until the next call of
/// the same function.
void PlanVerifier::ioAcrossFunctions() {
  std::ranges::sort(io_, [](const auto& a, const auto& b) { return a.first.offset < b.first.offset; });
  int64_t end = 0;
  const Item* holder = nullptr;
  for (const auto& [range, func] : io_) {
    if (holder && func != holder && range.offset < end) {
      report(func->loc, "@{} [plan.io]: its bytes {} to {} of @io are also those of @{}", func->name,
             range.offset, range.offset + range.bytes, holder->name);
      errors_.addNote(holder->loc, "which is here");
    }
    if (range.offset + range.bytes <= end) continue;
    end = range.offset + range.bytes;
    holder = func;
  }
}

ByteRange PlanVerifier::slotRange(const Op& op, const ResultSlot& slot) const {
  const Value& first = *op.result(slot.first);
  if (!slot.group) return rangeOf(first);
  std::vector<Type> types;
  for (int member = 0; member < slot.count; ++member) types.push_back(op.result(slot.first + member)->type);
  return {first.place->buffer, first.place->offset, groupBytes(types)};
}

ByteRange PlanVerifier::sourceRange(const Op& op, int binding) const {
  std::vector<Value*> sources = bindingSources(op, binding);
  if (!op.operands[binding].bindsGroup()) return rangeOf(*sources[0]);
  return {sources[0]->place->buffer, sources[0]->place->offset, groupBytes(typesOf(sources))};
}

/// Resets the state for a function: the homes hold their symbols' values; all else of @persistent is zero.
void PlanVerifier::start(const Item& func) {
  func_ = &func;
  bytes_ = ByteOwners();
  owners_.clear();
  ownerOf_.clear();
  entryOf_.clear();
  position_.clear();
  lastUse_.clear();
  updates_.clear();
  inPlaceOf_.clear();
  newOwner("a fill", nullptr);  // becomes ByteOwners::kZero
  if (const Item* persistent = module_.find(ItemKind::buffer, "persistent"))
    bytes_.write({"persistent", 0, persistent->bytes}, ByteOwners::kZero);
  for (const auto& item : module_.items) {
    if (!isStorage(item->kind)) continue;
    entryOf_[item->name] = newOwner("@" + item->name, item->loc);
    bytes_.write({"persistent", item->place->offset, item->type.bytes()}, entryOf_[item->name]);
  }
  int index = 0;
  for (const Op* op : func.body.ops) {
    position_[op] = index;
    forEachUse(*op, [&](Value* value) { lastUse_[value] = index; });
    if (op->code == Opcode::update) updates_[as::update(*op).value()].push_back(op);
    for (const auto& result : op->results) {
      const Value* source = result->place ? result->place->inplace : nullptr;
      if (source && source->def != op && position_.contains(source->def)) inPlaceOf_[source] = result.get();
    }
    ++index;
  }
}

void PlanVerifier::arguments(const Item& func) {
  for (const auto& arg : func.body.args) {
    std::string what = fmt::format("argument %{}", arg->name);
    if (!arg->place || arg->place->buffer != "io") {
      report(arg->loc, "{} [plan.home]: has no place in @io", what);
      continue;
    }
    if (!inBuffer(arg->loc, what, *arg->place, arg->type.bytes())) continue;
    ByteRange range = rangeOf(*arg);
    if (auto other = bytes_.foreign(range, ByteOwners::kNone)) {
      report(arg->loc, "{} [plan.overlap]: its bytes are also those of {}", what, owners_[other->owner].name);
      errors_.addNote(owners_[other->owner].loc, "which is here");
    }
    ownerOf_[arg.get()] = newOwner("%" + arg->name, arg->loc);
    bytes_.write(range, ownerOf_[arg.get()]);
    io_.push_back({range, func_});
  }
}

/// Whether all results of an op have places, which further checks need.
bool PlanVerifier::placed(const Op& op) {
  bool good = true;
  for (const auto& result : op.results) {
    if (!result->place) {
      report(result->loc, "{}: %{} has no place", label(op, "place"), result->name);
      good = false;
    } else {
      good = inBuffer(result->loc, fmt::format("%{}", result->name), *result->place, result->type.bytes()) &&
             good;
    }
  }
  return good;
}

void PlanVerifier::read(const Op& op, const Value& value) {
  const auto* owner = valueIn(ownerOf_, &value);
  if (!owner) return;  // reported where it was defined without a valid place
  if (value.def && value.def->code == Opcode::adjoin)
    return forEachUse(std::as_const(*value.def), [&](const Value* part) { read(op, *part); });
  auto other = bytes_.foreign(rangeOf(value), *owner);
  if (!other) return;
  const Owner& writer = owners_[other->owner];
  report(op.loc, "{}: %{} is read here, after {} has overwritten its bytes {} to {} of @{}",
         label(op, "overlap"), value.name, writer.name, other->begin, other->end, value.place->buffer);
  errors_.addNote(writer.loc, "overwritten here");
}

/// Checks that the members of a group lie as groupBytes has them, in one allocation, with padding that reads as zero.
void PlanVerifier::groupOperand(const Op& op, int binding) {
  std::vector<Value*> members = bindingSources(op, binding);
  std::vector<int64_t> offsets;
  int64_t total = groupBytes(typesOf(members), &offsets);
  const Place& first = *members[0]->place;
  for (size_t index = 0; index < members.size(); ++index) {
    const Place& at = *members[index]->place;
    if (at.buffer != first.buffer || at.offset != first.offset + offsets[index])
      return reportWith(*members[index], op.loc,
                        "{}: %{} is at @{}[{}], not at @{}[{}] where the group has it", label(op, "group"),
                        members[index]->name, at.buffer, at.offset, first.buffer,
                        first.offset + offsets[index]);
    int64_t from = first.offset + offsets[index] + members[index]->type.bytes();
    int64_t to = first.offset + (index + 1 < members.size() ? offsets[index + 1] : total);
    bool zero = from == to || bytes_.owns({first.buffer, from, to - from}, ByteOwners::kZero);
    if (!zero)
      return report(op.loc, "{}: the padding after %{}, bytes {} to {} of @{}, does not read as zero",
                    label(op, "padding"), members[index]->name, from, to, first.buffer);
  }
  if (!inOneAllocation(op.loc, fmt::format("the group of %{}", members[0]->name),
                       {first.buffer, first.offset, total}))
    return;
  if (const Item* buffer = module_.find(ItemKind::buffer, first.buffer);
      buffer && first.offset + total > buffer->bytes)
    report(op.loc, "{}: the group of %{} ends outside of @{}", label(op, "range"), members[0]->name,
           first.buffer);
}

/// @persistent holds only homes: a result there must be the new value of that home's symbol, or be updated in place
/// to it.
void PlanVerifier::resultRoom(const Op& op, const Value& value) {
  const std::string& buffer = value.place->buffer;
  if (buffer == "io") io_.push_back({rangeOf(value), func_});
  if (buffer != "persistent") return;
  for (const Value* each = &value; each;) {
    if (const auto* symbols = valueIn(updates_, each))
      for (const Op* update : *symbols)
        if (const Item* symbol = module_.storage(update->operands[0].text);
            symbol && rowsHome(*update, *symbol).offset == value.place->offset)
          return;
    const auto* next = valueIn(inPlaceOf_, each);
    each = next ? *next : nullptr;
  }
  report(value.loc, "{}: %{} is at @persistent[{}], which is not a home of a symbol it updates",
         label(op, "home"), value.name, value.place->offset);
}

/// Checks that a result may be written over the bytes of a binding of its own region.
bool PlanVerifier::inPlaceLegal(const Op& op, int slotIndex, const Value& result, int binding,
                                const ByteRange& range) {
  std::vector<Value*> sources = bindingSources(op, binding);
  auto bad = [&](std::string why) {
    reportWith(*sources[0], result.loc, "{}: %{} in place of %{}: {}", label(op, "inplace"), result.name,
               sources[0]->name, why);
    return false;
  };
  ByteRange source = sourceRange(op, binding);
  if (source.offset != range.offset || source.bytes != range.bytes)
    return bad("their bytes are not the same");
  for (Value* value : sources)
    if (lastUse_[value] > position_[&op]) return bad(fmt::format("%{} is read again later", value->name));
  if (!readsOnlyWrittenElement(op, binding, slotIndex, module_))
    return bad("the region reads it not only at the element it writes");
  return true;
}

/// Checks that a result overlaps no binding of its region, unless it is written in place of it and may be.
void PlanVerifier::overlapsOperands(const Op& op, int slotIndex, const ResultSlot& slot,
                                    const ByteRange& range) {
  const Value& result = *op.result(slot.first);
  const Value* inplace = result.place->inplace;
  bool named = false;
  for (int binding = 0; binding < op.numOperands(); ++binding) {
    std::vector<Value*> sources = bindingSources(op, binding);
    const bool overlaps = overlap(sourceRange(op, binding), range);
    // Another binding may read other rows of the same symbol.
    const bool here = inplace && ownerOf_.contains(inplace) &&
                      ownerOf_.at(sources[0]) == ownerOf_.at(inplace) && (overlaps || sources[0] == inplace);
    named |= here;
    if (!here && !overlaps) continue;
    if (!here) {
      reportWith(*sources[0], result.loc, "{}: %{} overwrites %{}, which its region reads",
                 label(op, "overlap"), result.name, sources[0]->name);
      return;
    }
    if (!inPlaceLegal(op, slotIndex, result, binding, range)) return;
  }
  if (inplace && !named)
    report(result.loc, "{}: %{} in place of %{}, which is not an operand", label(op, "inplace"), result.name,
           inplace->name);
}

void PlanVerifier::write(const Op& op, const ResultSlot& slot, const ByteRange& range) {
  // The kernel that writes a group also writes zeros to the padding between its members.
  if (slot.group) bytes_.write(range, ByteOwners::kZero);
  for (int member = 0; member < slot.count; ++member) {
    const Value& value = *op.result(slot.first + member);
    ownerOf_[&value] = newOwner("%" + value.name, value.loc);
    bytes_.write(rangeOf(value), ownerOf_[&value]);
  }
}

/// Checks a tg.fused: its sources are intact, its results lie in valid places and apart from each other. Then marks
/// the results' bytes as written.
void PlanVerifier::region(const Op& op) {
  for (int binding = 0; binding < op.numOperands(); ++binding) {
    std::vector<Value*> sources = bindingSources(op, binding);
    bool known = std::ranges::all_of(sources, [&](Value* value) { return ownerOf_.contains(value); });
    if (!known) return;  // reported where the source was defined
    for (Value* value : sources) read(op, *value);
    if (op.operands[binding].bindsGroup()) groupOperand(op, binding);
  }
  std::vector<ResultSlot> slots = resultSlots(op);
  for (int index = 0; index < static_cast<int>(slots.size()); ++index) {
    ByteRange range = slotRange(op, slots[index]);
    if (slots[index].group)
      inOneAllocation(op.loc, fmt::format("the group of %{}", op.result(slots[index].first)->name), range);
    overlapsOperands(op, index, slots[index], range);
    for (int other = 0; other < index; ++other)
      if (overlap(slotRange(op, slots[other]), range))
        report(op.result(slots[index].first)->loc,
               "{}: %{} and %{} are written by one region to the same bytes", label(op, "overlap"),
               op.result(slots[other].first)->name, op.result(slots[index].first)->name);
    std::vector<Type> members;
    for (int member = 0; member < slots[index].count; ++member)
      members.push_back(op.result(slots[index].first + member)->type);
    std::vector<int64_t> offsets;
    groupBytes(members, &offsets);
    for (int member = 0; member < slots[index].count; ++member) {
      resultRoom(op, *op.result(slots[index].first + member));
      const Place& at = *op.result(slots[index].first + member)->place;
      if (at.buffer != range.buffer || at.offset != range.offset + offsets[static_cast<size_t>(member)])
        report(op.loc, "{}: %{} is not where its group has it", label(op, "group"),
               op.result(slots[index].first + member)->name);
    }
  }
  for (const ResultSlot& slot : slots) write(op, slot, slotRange(op, slot));
}

/// The results of an all-reduce are in place of the operands, which must not be read later.
void PlanVerifier::allReduce(const Op& op) {
  for (int index = 0; index < op.numOperands(); ++index) {
    const Value &source = *op.in(index), &result = *op.result(index);
    if (!ownerOf_.contains(&source)) return;  // reported where it was defined
    read(op, source);
    if (!(rangeOf(source) == rangeOf(result)))
      return reportWith(source, result.loc, "{}: %{} is not in the bytes of %{}", label(op, "inplace"),
                        result.name, source.name);
    if (lastUse_[&source] > position_[&op])
      return report(result.loc, "{}: %{} in place of %{}, which is read again later", label(op, "inplace"),
                    result.name, source.name);
    resultRoom(op, result);
    ownerOf_[&result] = newOwner("%" + result.name, result.loc);
    bytes_.write(rangeOf(result), ownerOf_[&result]);
  }
}

/// The results of reduce-scatter and all-gather must not overlap the operands or each other.
void PlanVerifier::parts(const Op& op) {
  for (int index = 0; index < op.numOperands(); ++index) {
    if (!ownerOf_.contains(op.in(index))) return;  // reported where it was defined
    read(op, *op.in(index));
  }
  for (const auto& result : op.results) {
    const auto overlaps = [&](const Value& other) {
      if (!overlap(rangeOf(*result), rangeOf(other))) return false;
      reportWith(other, result->loc, "{}: %{} overwrites %{}, which ranks read", label(op, "overlap"),
                 result->name, other.name);
      return true;
    };
    for (int index = 0; index < op.numOperands(); ++index)
      if (overlaps(*op.in(index))) return;
    for (const auto& other : op.results) {
      if (other == result) break;
      if (overlaps(*other)) return;
    }
    resultRoom(op, *result);
  }
  for (const auto& result : op.results) {
    ownerOf_[result.get()] = newOwner("%" + result->name, result->loc);
    bytes_.write(rangeOf(*result), ownerOf_[result.get()]);
  }
}

/// The operands must lie side by side. They must be intact whenever the result is read, which owns no bytes itself.
void PlanVerifier::adjoin(const Op& op) {
  const Value& whole = *op.result();
  int64_t offset = whole.place->offset;
  for (int index = 0; index < op.numOperands(); ++index) {
    const Value& part = *op.in(index);
    if (!ownerOf_.contains(&part)) return;  // reported where it was defined
    read(op, part);
    if (part.place->buffer != whole.place->buffer || part.place->offset != offset)
      return reportWith(part, op.loc, "{}: %{} is at @{}[{}], not at @{}[{}] where %{} has it",
                        label(op, "adjoin"), part.name, part.place->buffer, part.place->offset,
                        whole.place->buffer, offset, whole.name);
    offset += part.type.bytes();
  }
  resultRoom(op, whole);
  ownerOf_[&whole] = newOwner("%" + whole.name, whole.loc);
}

/// The results must be the bytes of the argument, one behind the other.
void PlanVerifier::disjoin(const Op& op) {
  const Value& whole = *op.in(0);
  const auto known = ownerOf_.find(&whole);
  if (known == ownerOf_.end()) return;  // reported where it was defined
  const int owner = known->second;
  int64_t offset = whole.place->offset;
  for (const auto& part : op.results) {
    if (part->place->buffer != whole.place->buffer || part->place->offset != offset)
      return report(op.loc, "{}: %{} is at @{}[{}], not at @{}[{}] where %{} has it", label(op, "disjoin"),
                    part->name, part->place->buffer, part->place->offset, whole.place->buffer, offset,
                    whole.name);
    offset += part->type.bytes();
    ownerOf_[part.get()] = owner;
  }
}

void PlanVerifier::fill(const Op& op) {
  const Operand* args = op.keyword("args");
  bool formed = args && args->items.size() == 1 && args->items[0].items.size() == 1 &&
                args->items[0].text == "out" && args->items[0].items[0].kind == Operand::Kind::range;
  if (!formed) return report(op.loc, "{}: needs args(out(@buffer[offset:bytes]))", label(op, "fill"));
  const ByteRange range = byteRangeOf(args->items[0]);
  const Item* buffer = module_.find(ItemKind::buffer, range.buffer);
  if (!buffer || range.offset < 0 || range.bytes <= 0 || range.offset + range.bytes > buffer->bytes)
    return report(op.loc, "{}: bytes {} to {} are outside of @{}", label(op, "range"), range.offset,
                  range.offset + range.bytes, range.buffer);
  constexpr int64_t kWord = 4;  // devices fill whole words
  if (range.offset % kWord != 0)
    return report(op.loc, "{}: offset {} is not a multiple of {}", label(op, "align"), range.offset, kWord);
  if (!inOneAllocation(op.loc, op.info().name, range)) return;
  if (range.buffer == "persistent")
    return report(op.loc, "{}: @persistent holds homes alone", label(op, "home"));
  bytes_.write(range, ByteOwners::kZero);
}

void PlanVerifier::update(const Op& op) {
  const Value& value = *as::update(op).value();
  const Item* symbol = module_.storage(op.operands[0].text);
  if (!symbol || !ownerOf_.contains(&value)) return;
  read(op, value);
  ByteRange home{"persistent", rowsHome(op, *symbol).offset, rowsType(op, symbol->type).bytes()};
  ByteRange from = rangeOf(value);
  if (from == home) return;
  bytes_.write(home, newOwner(fmt::format("the update of @{}", symbol->name), op.loc));
}

/// Checks that values that the host reads after the step are in @io.
void PlanVerifier::mustBeIo(const Op& op) {
  forEachUse(op, [&](Value* value) {
    if (!ownerOf_.contains(value)) return;
    if (value->place->buffer != "io")
      reportWith(*value, op.loc, "{}: %{} is in @{}; what the host reads lives in @io", label(op, "home"),
                 value->name, value->place->buffer);
  });
}

/// Checks one op and updates the owners of bytes.
void PlanVerifier::operation(const Op& op) {
  if (!placed(op)) return;
  switch (op.code) {
  case Opcode::param:
  case Opcode::state: {
    const Item* symbol = module_.storage(op.operands[0].text);
    if (!symbol) return;
    if (const Place home = rowsHome(op, *symbol); !(*op.result()->place == home))
      return report(op.loc, "{}: %{} is at @{}[{}], the home of @{} is @persistent[{}]", label(op, "home"),
                    op.result()->name, op.result()->place->buffer, op.result()->place->offset, rowsKey(op),
                    home.offset);
    ownerOf_[op.result()] = entryOf_[symbol->name];
    return;
  }
  case Opcode::fused: return region(op);
  case Opcode::all_reduce: return allReduce(op);
  case Opcode::reduce_scatter:
  case Opcode::all_gather: return parts(op);
  case Opcode::adjoin: return adjoin(op);
  case Opcode::disjoin: return disjoin(op);
  case Opcode::fill: return fill(op);
  case Opcode::update: return update(op);
  case Opcode::param_grad:
  case Opcode::capture:
  case Opcode::return_: return mustBeIo(op);
  default: return;
  }
}

void PlanVerifier::function(const Item& func) {
  start(func);
  arguments(func);
  for (Op* op : func.body.ops) operation(*op);
  // After the step nothing may have overwritten the values that the host reads.
  for (Op* op : func.body.ops)
    if (hostReads(*op)) forEachUse(static_cast<const Op&>(*op), [&](Value* value) { read(*op, *value); });
}

Result<void> PlanVerifier::runHomes() {
  homes();
  if (!errors_.empty()) return std::move(errors_);
  return {};
}

Result<void> PlanVerifier::run() {
  TG_CHECK(runHomes());
  for (const Item* func : module_.all(ItemKind::func)) function(*func);
  ioAcrossFunctions();
  if (!errors_.empty()) return std::move(errors_);
  return {};
}

}  // namespace

Result<void> verifyPlan(const Module& module) {
  if (module.stage < Stage::planned) return {};
  if (module.stage == Stage::planned) return PlanVerifier(module).run();
  TG_CHECK(PlanVerifier(module).runHomes());
  return verifyDispatches(module);
}

}  // namespace tg
