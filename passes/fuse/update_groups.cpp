// SPDX-License-Identifier: Apache-2.0
#include "passes/fuse/update_groups.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "ir/access.h"
#include "ir/collective.h"
#include "ir/op_view.h"
#include "passes/fuse/flat_copies.h"
#include "passes/fuse/inline_ops.h"

namespace tg::fuse {

std::optional<Form> formOf(const Op& op) {
  if (op.code == Opcode::adam_update)
    return Form{
        {0, 2, 3}, {"p", "m", "v"}, op.numOperands() > 6 ? std::vector<int>{4, 6} : std::vector<int>{4}, 5};
  if (op.code != Opcode::sgd_update) return std::nullopt;
  if (op.numOperands() > 4) return Form{{0, 4}, {"p", "v"}, {2}, 3};
  return Form{{0}, {"p"}, {2}, 3};
}

/// The decay of an update, or null: none, or a constant zero.
Value* decayOf(const Op& op) {
  int index = formOf(op)->decay;
  if (index < 0 || index >= op.numOperands() || isNumber(*op.in(index), 0)) return nullptr;
  return op.in(index);
}

UpdateGroups::UpdateGroups(Module& module, Item& func, const Target& target, int64_t mostBytes)
    : module_(module), func_(func), target_(target), mostBytes_(mostBytes),
      copied_(copiedParameters(module, target)), places_(func.body.ops) {}

std::vector<UpdateGroup> UpdateGroups::find() {
  collect();
  std::vector<Updates*> cut;
  for (auto& [key, updates] : byKey_)
    if (!fits(updates)) cut.push_back(&updates);
  // All moves come first: only then is it known where updates may go.
  for (const Updates* updates : cut) moveNumbers(*updates);
  for (Updates* updates : cut) findNeeds(*updates);
  std::vector<UpdateGroup> groups;
  for (auto& [key, updates] : byKey_) {
    const bool isCut = contains(cut, &updates);
    for (Updates& part : adjoining(std::move(updates), isCut))
      if (Op* place = placeFor(part)) groups.push_back({std::move(part), isCut, place});
  }
  return groups;
}

/// Whether an update's parameter and states are read from different symbols that no other update reads, and its decay is
/// one number. Only then a group can lay out their homes; any other update is an ordinary map.
bool UpdateGroups::joins(const Op& update) const {
  const Form form = *formOf(update);
  const Value* decay = decayOf(update);
  if (decay && decay->type.rank() != 0) return false;
  std::unordered_set<std::string> read;
  for (int index : form.kept) {
    const Op* def = readOf(*update.in(index));
    if (!def) return false;
    read.insert(rowsKey(*def));
  }
  return read.size() == form.kept.size() &&
         std::ranges::none_of(read, [&](const std::string& name) { return taken_.contains(name); });
}

void UpdateGroups::collect() {
  std::map<std::string, std::string> decays;  // by key: the one decay that its updates share
  for (Op* op : func_.body.ops) {
    const std::optional<Form> form = formOf(*op);
    if (!form || !joins(*op)) continue;
    for (int index : form->kept) taken_.insert(rowsKey(*readOf(*op->in(index))));
    // Updates join when everything but the tensors is the same; those without decay join any.
    std::string key(op->info().name);
    for (int index : form->shared) key += '|' + op->in(index)->name;
    for (const NamedAttr& attr : op->attrs) key += '|' + attr.name + attr.value.str();
    if (op->in(0)->def != readOf(*op->in(0))) key += "|part";  // a part of a symbol, in another buffer
    const Value* decay = decayOf(*op);
    if (decay && decays.try_emplace(key, decay->name).first->second != decay->name)
      key += "|decay " + decay->name;
    byKey_[key].push_back({op, op->in(at::adam_update::g), {}, {}});
  }
}

/// Whether the member of a group behind this parameter starts where another kernel can bind it by itself. Members start at
/// multiples of 16 bytes; the target may need larger multiples.
bool UpdateGroups::fillsItsPlace(const Update& update) const {
  return groupBytes({update.op->in(0)->type}) % target_.alignment == 0;
}

/// Whether a group may hold the symbols of `after` directly behind those of `before`. Not if a kernel could not bind the
/// second by itself. Homes that plan chooses may have any order; homes that are given, because another module shares them,
/// must already have this order.
bool UpdateGroups::follows(const Update& before, const Update& after) const {
  if (!fillsItsPlace(before)) return false;
  const Form form = *formOf(*before.op);
  for (int index : form.kept) {
    const Op *one = readOf(*before.op->in(index)), *other = readOf(*after.op->in(index));
    if (before.op->in(index)->def != one) continue;  // a part has no home
    // Rows of a symbol lie beside its other rows, in a group of their own.
    if (namesRows(*one) || namesRows(*other)) return false;
    const Item* first = module_.storage(one->operands[0].text);
    const Item* second = module_.storage(other->operands[0].text);
    if (first->place.has_value() != second->place.has_value()) return false;
    if (first->place && second->place->offset != first->place->offset + groupBytes({first->type}))
      return false;
  }
  return true;
}

/// Whether all updates may be one group.
bool UpdateGroups::fits(const Updates& updates) const {
  std::vector<Type> types;
  for (const Update& update : updates) types.push_back(update.op->in(0)->type);
  return groupBytes(types) <= mostBytes_;
}

/// Moves the rate and other numbers that depend on arguments and symbols to the front of the function.
void UpdateGroups::moveNumbers(const Updates& updates) {
  for (const Update& update : updates)
    forEachUse(*update.op, [&](Value* value) { places_.moveToFront(value->def); });
}

/// Finds the op behind which each update may stand at the earliest: the last of the ops that define its operands and of
/// those that read what it overwrites. Not for a gradient from a collective: its update stays at the end, so that kernels
/// run until the collective is done.
void UpdateGroups::findNeeds(Updates& updates) {
  for (Update& update : updates) {
    const Op* gradient = throughReshapes(update.gradient)->def;
    if (gradient && isCollective(*gradient)) continue;
    Op* last = places_.lastAtFront();
    forEachUse(*update.op, [&](Value* value) { last = places_.later(last, value->def); });
    const Form form = *formOf(*update.op);
    for (int index : form.kept)
      for (const Use& use : update.op->in(index)->uses)
        if (use.user() != update.op) last = places_.later(last, use.user());
    if (last && places_.of(last) < places_.of(update.op)) update.needs = last;
  }
}

/// Sorts updates: decayed parameters first, so that decay depends on the index; then by given homes; last those that no
/// member may follow. Among equals those with 16-bit copies come first, so that the copies are one group; then, if there
/// are several groups, those whose gradients are computed first.
void UpdateGroups::sort(Updates& updates, bool isCut) {
  using Rank = std::tuple<bool, int64_t, bool, bool, size_t>;
  std::vector<std::pair<Rank, Update>> ranked;
  for (Update& update : updates) {
    const Item* symbol = module_.storage(readOf(*update.op->in(0))->operands[0].text);
    const size_t when = isCut ? places_.of(update.needs ? update.needs : update.op) : 0;
    ranked.emplace_back(Rank(!decayOf(*update.op), symbol->place ? symbol->place->offset : -1,
                             !fillsItsPlace(update), !copied_.contains(symbol->name), when),
                        std::move(update));
  }
  std::ranges::stable_sort(ranked, [](const auto& a, const auto& b) { return a.first < b.first; });
  std::ranges::transform(ranked, updates.begin(), [](auto& each) { return std::move(each.second); });
}

/// Sorts the updates and cuts them into groups, where one may not follow the other and where a group would have too many
/// bytes.
std::vector<UpdateGroups::Updates> UpdateGroups::adjoining(Updates updates, bool isCut) {
  sort(updates, isCut);
  std::vector<Updates> parts;
  int64_t bytes = 0;  // of the last part
  for (Update& update : updates) {
    const bool starts = parts.empty() || !follows(parts.back().back(), update);
    const int64_t own = groupBytes({update.op->in(0)->type});
    if (starts || (isCut && bytes + own > mostBytes_)) parts.emplace_back(), bytes = 0;
    parts.back().push_back(std::move(update));
    bytes += own;
  }
  return parts;
}

/// The op before which a group's region goes, or null if one of its results is read earlier.
Op* UpdateGroups::placeFor(const Updates& updates) const {
  Op* needs = nullptr;
  for (const Update& update : updates) {
    if (!update.needs) return lastOf(updates);
    needs = places_.later(update.needs, needs);
  }
  return needs->next();
}

/// The last of the updates in the text, or null when one of their results is read before it.
Op* UpdateGroups::lastOf(const Updates& updates) const {
  Op* last = nullptr;
  for (const Update& update : updates) last = places_.later(update.op, last);
  auto readBefore = [&](const auto& result) {
    return std::ranges::any_of(result->uses,
                               [&](const Use& use) { return places_.of(use.user()) <= places_.of(last); });
  };
  for (const Update& update : updates)
    if (std::ranges::any_of(update.op->results, readBefore)) return nullptr;
  return last;
}

}  // namespace tg::fuse
