// SPDX-License-Identifier: Apache-2.0
#include "ir/verify.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "ir/access.h"
#include "ir/infer.h"
#include "ir/lexer.h"
#include "ir/text.h"

namespace tg {
namespace {

using Kind = Operand::Kind;
using table::Slot;
using table::SlotKind;

bool isPlain(const Operand& operand) { return operand.kind == Kind::value || operand.kind == Kind::literal; }

/// What is wrong with an operand by itself: null values, parts that are missing or of another kind. "" if nothing is.
/// Does not dereference values.
std::string_view malformed(const Operand& operand, int depth) {
  if (depth > kMaxNesting) return "is nested too deeply";
  const bool valued =
      operand.kind == Kind::value || operand.kind == Kind::element || operand.kind == Kind::binding;
  const bool single =
      operand.kind == Kind::value || operand.kind == Kind::symbol || operand.kind == Kind::literal;
  if (operand.value && !valued) return "reads a value, which its kind does not";
  if (!operand.items.empty() && single) return "has parts, which its kind has not";
  auto all = [&](auto fits) { return std::ranges::all_of(operand.items, fits); };
  switch (operand.kind) {
  case Kind::value: return operand.value ? "" : "is null";
  case Kind::element:
    if (!operand.value) return "is an element of null";
    if (!all(isPlain)) return "has an index that is not a value";
    break;
  case Kind::binding:
    if (!operand.value || operand.items.size() != 1) return "binds no argument to a source";
    if (!isPlain(operand.items[0]) && operand.items[0].kind != Kind::group) return "is bound to no value";
    break;
  case Kind::group:
    if (operand.items.empty() || !all([](const Operand& item) { return item.kind == Kind::value; }))
      return "is a group of other things than values";
    break;
  case Kind::range:
    if (operand.items.size() != 2 || !all([](const Operand& item) { return item.isInteger; }))
      return "is no range of bytes";
    break;
  case Kind::keyword:
    if (operand.text == "iter_args" && !all([](const Operand& item) { return item.kind == Kind::binding; }))
      return "binds no arguments";
    break;
  case Kind::symbol:
  case Kind::literal: break;
  }
  for (const Operand& item : operand.items)
    if (std::string_view why = malformed(item, depth + 1); !why.empty()) return why;
  return "";
}

bool fits(const Slot& slot, const Operand& operand) {
  switch (slot.kind) {
  case SlotKind::callee:
  case SlotKind::symbol: return operand.kind == Kind::symbol;
  case SlotKind::element: return operand.kind == Kind::element;
  case SlotKind::literal:
    return operand.kind == Kind::literal || (operand.kind == Kind::keyword && operand.text == "dense");
  case SlotKind::bindings: return operand.kind == Kind::binding && operand.items[0].kind != Kind::literal;
  case SlotKind::binding: return operand.kind == Kind::binding && operand.items[0].kind != Kind::group;
  case SlotKind::keyword:
  case SlotKind::args: return operand.kind == Kind::keyword && operand.text == slot.name;
  default: return isPlain(operand);
  }
}

/// How the operands fail to fill the slots of the op's row in order; "" if they fill them.
std::string unfilled(const Op& op) {
  size_t next = 0;
  const auto takeAll = [&](const Slot& slot) {
    while (next < op.operands.size() && fits(slot, op.operands[next])) ++next;
  };
  for (const Slot& slot : op.info().slots) {
    const bool here = next < op.operands.size() && fits(slot, op.operands[next]);
    switch (slot.kind) {
    case SlotKind::values:
    case SlotKind::bindings: takeAll(slot); break;
    case SlotKind::optional:
    case SlotKind::keyword: next += here; break;
    default:
      if (here)
        ++next;
      else if (next < op.operands.size())
        return fmt::format("operand '{}' has the wrong form", slot.name);
      else
        return fmt::format("operand '{}' is missing", slot.name);
    }
  }
  if (next == op.operands.size()) return "";
  return fmt::format("{}, of which {} fill its slots", countText(op.operands.size(), "operand"), next);
}

/// The arguments that an op's bindings define, in the order of its first region's arguments.
void boundArguments(const OperandList& operands, std::vector<const Value*>& out) {
  for (const Operand& operand : operands) {
    if (operand.kind == Kind::binding) out.push_back(operand.value);
    if (operand.kind == Kind::keyword) boundArguments(operand.items, out);
  }
}

/// What is wrong with a type; "" if nothing is.
std::string wrongType(const Type& type) {
  const bool lanes = type.lanes == 1 || type.lanes == 2 || type.lanes == 4;
  Shape fixed = type.shape;
  for (int axis = 0; type.isBuffer() && axis < fixed.rank(); ++axis)
    if (fixed[axis] == Shape::kDynamic) fixed[axis] = 1;
  if (type.kind == Type::Kind::none) return "has no type";
  if (!lanes) return fmt::format("is a vector of {}", type.lanes);
  if (hasValidExtents(fixed)) return "";
  return fmt::format("is {}; extents are 1 or more and their product at most {}", type.str(), kMaxElements);
}

Error bad(const Op& op, std::string_view label, std::string_view why) {
  return failAt(op.loc, "{} [op.{}]: {}", op.info().name, label, why);
}

/// A set whose keys are removed in the reverse order of their insertion: a vector of keys and a hash table of their
/// numbers with linear probing. A key was never probed past one inserted later, so that removing the last key leaves
/// no gap in another's probe sequence.
template <class Key>
class ScopedSet {
 public:
  bool contains(const Key& key) const { return !table_.empty() && table_[find(key)] >= 0; }
  /// Inserts a key; false if it was in the set.
  bool insert(const Key& key) {
    if (2 * keys_.size() >= table_.size()) grow();
    int& at = table_[find(key)];
    if (at >= 0) return false;
    at = static_cast<int>(keys_.size());
    keys_.push_back(key);
    return true;
  }
  size_t size() const { return keys_.size(); }
  /// Removes all but the first `size` keys.
  void shrink(size_t size) {
    for (; keys_.size() > size; keys_.pop_back()) table_[find(keys_.back())] = -1;
  }

 private:
  /// The slot of a key in the table, or the free slot where it would be inserted.
  size_t find(const Key& key) const {
    constexpr uint64_t kSpread = 0x9e3779b97f4a7c15;  // addresses differ in their middle bits
    size_t at = (std::hash<Key>()(key) * kSpread >> 32) & (table_.size() - 1);
    while (table_[at] >= 0 && keys_[static_cast<size_t>(table_[at])] != key)
      at = (at + 1) & (table_.size() - 1);
    return at;
  }
  void grow() {
    table_.assign(std::max<size_t>(16, 2 * table_.size()), -1);
    for (size_t key = 0; key < keys_.size(); ++key) table_[find(keys_[key])] = static_cast<int>(key);
  }

  std::vector<Key> keys_;
  /// Numbers of keys, -1 for a free slot. The size is a power of two, at least twice the number of keys.
  std::vector<int> table_;
};

/// Checks one item in text order with the values and names in scope; stops at the first error.
class StructureVerifier {
 public:
  StructureVerifier(const Item& item, const Module& module) : item_(item), module_(module) {}
  Result<void> run();

 private:
  /// The values and names that are visible.
  struct Scope {
    ScopedSet<const Value*> values;
    ScopedSet<std::string_view> names;
    void shrink(size_t size) { values.shrink(size), names.shrink(size); }
  };

  Result<void> block(const Block& block, int depth);
  Result<void> op(const Op& op, int depth);
  Result<void> operands(const Op& op);
  Result<void> uses(const Op& op);
  Result<void> arguments(const Block& block, const Loc& loc, std::string_view owner);
  Result<void> results(const Op& op);
  Result<void> regions(const Op& op, int depth);
  Result<void> bindings(const Op& op);
  Result<void> define(const Value* value, const Loc& loc, std::string_view owner);
  Result<void> place(const Value& value, const Loc& loc, std::string_view owner);
  Result<void> storage(const std::string& owner);
  std::string missing(const Value* value) const;

  const Item& item_;
  const Module& module_;
  Scope scope_, isolated_;  ///< isolated_ is empty: its memory is reused for region after region
};

/// Whether a block, which may be malformed, defines a value.
bool holds(const Block& block, const Value* value, int depth = 0) {
  auto is = [&](const std::unique_ptr<Value>& each) { return each.get() == value; };
  if (std::ranges::any_of(block.args, is)) return true;
  for (Op* op : block.ops) {
    if (std::ranges::any_of(op->results, is)) return true;
    for (const auto& region : op->regions)
      if (region && depth <= kMaxNesting && holds(*region, value, depth + 1)) return true;
  }
  return false;
}

/// Why a value is not visible. The value may have been destroyed.
std::string StructureVerifier::missing(const Value* value) const {
  if (holds(item_.body, value)) return fmt::format("%{} is used where it is not defined yet", value->name);
  for (const auto& other : module_.items)
    if (holds(other->body, value)) return fmt::format("%{} is a value of @{}", value->name, other->name);
  return "an operand is a value that the module does not hold";
}

Result<void> StructureVerifier::define(const Value* value, const Loc& loc, std::string_view owner) {
  if (!value) return failAt(loc, "{} [op.result]: a value is null", owner);
  if (!isSymbolName(value->name))
    return failAt(loc, "{} [op.name]: '%{}' is not a valid name of a value", owner, value->name);
  if (!scope_.names.insert(value->name))
    return failAt(loc, "{} [op.name]: %{} names two values", owner, value->name);
  if (std::string why = wrongType(value->type); !why.empty())
    return failAt(loc, "{} [op.type]: %{} {}", owner, value->name, why);
  TG_CHECK(place(*value, loc, owner));
  scope_.values.insert(value);
  return {};
}

/// What is wrong with a place by itself, "" if nothing is: later checks compute with its numbers.
std::string_view wrongPlace(const Place& place) {
  if (!isSymbolName(place.buffer)) return "has a place in a buffer without a name";
  if (place.offset < 0 || place.offset > kMaxBytes) return "has an offset that is negative or too large";
  return "";
}

/// Checks a place: allowed only from stage planned on, and `inplace` names a visible value.
Result<void> StructureVerifier::place(const Value& value, const Loc& loc, std::string_view owner) {
  if (!value.place) return {};
  std::string_view why = wrongPlace(*value.place);
  if (why.empty() && (item_.kind == ItemKind::kernel || isKernelFunc(item_)))
    why = "has a place, and values of kernels have none";
  else if (why.empty() && module_.stage < Stage::planned)
    why = "has a place, which values have from stage planned on";
  if (!why.empty()) return failAt(loc, "{} [op.place]: %{} {}", owner, value.name, why);
  const Value* inplace = value.place->inplace;
  if (!inplace || scope_.values.contains(inplace)) return {};
  return failAt(loc, "{} [op.place]: %{} is in place of a value: {}", owner, value.name, missing(inplace));
}

Result<void> StructureVerifier::operands(const Op& op) {
  TG_CHECK(verifyOperands(op));
  return uses(op);
}

Result<void> StructureVerifier::uses(const Op& op) {
  const Value* unknown = nullptr;
  forEachUse(op, [&](const Value* value) {
    if (!unknown && !scope_.values.contains(value)) unknown = value;
  });
  if (unknown) return bad(op, "scope", missing(unknown));
  return {};
}

Result<void> StructureVerifier::results(const Op& op) {
  size_t members = 0;
  for (int count : op.groups) {
    if (count < 0) return bad(op, "result", fmt::format("a group of {}", countText(count, "result")));
    members += count == 0 ? 1 : static_cast<size_t>(count);
  }
  if (!op.groups.empty() && members != op.results.size())
    return bad(op, "result",
               fmt::format("groups of {}, it has {}", countText(members, "result"), op.results.size()));
  for (const auto& result : op.results) {
    TG_CHECK(define(result.get(), op.loc, op.info().name));
    if (result->def != &op)
      return bad(op, "result", fmt::format("%{} does not know that this op defines it", result->name));
  }
  return {};
}

/// Checks that an op's first region has the arguments that the op binds, in order, and the other regions none.
Result<void> StructureVerifier::bindings(const Op& op) {
  std::vector<const Value*> bound;
  boundArguments(op.operands, bound);
  const size_t taken = op.regions.empty() ? 0 : op.regions[0]->args.size();
  bool same = bound.size() == taken;
  for (size_t index = 0; same && index < bound.size(); ++index)
    same = bound[index] == op.regions[0]->args[index].get();
  if (!same)
    return bad(op, "region",
               fmt::format("{}, its region has {} or others",
                           countText(bound.size(), "argument is bound", "arguments are bound"), taken));
  if (op.code != Opcode::fused) return {};
  for (const Operand& operand : op.operands)
    if (const Type type = boundType(operand.items[0]); operand.value->type != type)
      return bad(op, "region",
                 fmt::format("%{} is {}, what it is bound to {}", operand.value->name,
                             operand.value->type.str(), type.str()));
  return {};
}

/// Checks an op's regions. That of a tg.fused starts with an empty scope.
Result<void> StructureVerifier::regions(const Op& op, int depth) {
  const int wanted = op.info().regions, given = static_cast<int>(op.regions.size());
  const int least = op.code == Opcode::k_if ? 1 : wanted;
  if (given < least || given > wanted)
    return bad(op, "region", fmt::format("{}, it takes {}", countText(given, "region"), wanted));
  for (const auto& region : op.regions)
    if (!region) return bad(op, "region", "a region is null");
  TG_CHECK(bindings(op));
  if (depth >= kMaxNesting && !op.regions.empty())
    return bad(op, "region", fmt::format("regions are nested deeper than {}", kMaxNesting));
  for (const auto& region : op.regions) {
    Scope outer;
    if (op.code == Opcode::fused) {  // the region is isolated from above
      outer = std::exchange(scope_, std::move(isolated_));
      isolated_ = {};
    }
    const size_t above = scope_.values.size();
    TG_CHECK(arguments(*region, op.loc, op.info().name));
    TG_CHECK(block(*region, depth + 1));
    scope_.shrink(above);
    if (op.code == Opcode::fused) isolated_ = std::exchange(scope_, std::move(outer));
  }
  return {};
}

Result<void> StructureVerifier::arguments(const Block& block, const Loc& loc, std::string_view owner) {
  for (const auto& arg : block.args) {
    TG_CHECK(define(arg.get(), loc, owner));
    if (arg->def || arg->block != &block)
      return failAt(loc, "{} [op.region]: %{} does not know the region it is an argument of", owner,
                    arg->name);
  }
  return {};
}

Result<void> StructureVerifier::op(const Op& op, int depth) {
  TG_CHECK(operands(op));
  TG_CHECK(regions(op, depth));
  return results(op);
}

Result<void> StructureVerifier::block(const Block& block, int depth) {
  for (Op* each : block.ops) TG_CHECK(op(*each, depth));
  return {};
}

/// Checks an item without code: its type, its home, its size.
Result<void> StructureVerifier::storage(const std::string& owner) {
  if (!item_.body.ops.empty() || !item_.body.args.empty())
    return failAt(item_.loc, "{} [item.body]: it holds ops or arguments, as only functions and kernels do",
                  owner);
  if (item_.kind == ItemKind::buffer && (item_.bytes < 0 || item_.bytes > kMaxBytes))
    return failAt(item_.loc, "{} [item.bytes]: a size of {} bytes, not 0 to {}", owner, item_.bytes,
                  kMaxBytes);
  if (!isStorage(item_.kind)) return {};
  if (std::string why = wrongType(item_.type); !why.empty())
    return failAt(item_.loc, "{} [item.type]: it {}", owner, why);
  if (!item_.place) return {};
  std::string_view why = wrongPlace(*item_.place);
  if (item_.place->inplace) why = "has a home in place of a value";
  if (!why.empty()) return failAt(item_.loc, "{} [item.place]: it {}", owner, why);
  return {};
}

Result<void> StructureVerifier::run() {
  const std::string owner = fmt::format("{} @{}", name(item_.kind), item_.name);
  if (item_.kind != ItemKind::func && item_.kind != ItemKind::kernel) return storage(owner);
  TG_CHECK(arguments(item_.body, item_.loc, owner));
  for (const Operand& extent : item_.grid) {
    std::string_view why = malformed(extent, 0);
    bool visible = true;
    auto look = [&](const Value* value) { visible = visible && scope_.values.contains(value); };
    if (why.empty()) forEachValue(extent, look);
    if (!why.empty() || !visible)
      return failAt(item_.loc, "{} [kernel.grid]: an extent {}", owner,
                    visible ? why : "reads a value that is not a parameter");
  }
  for (const NamedType& result : item_.results)
    if (std::string why = wrongType(result.type); !why.empty() || !isWord(result.name))
      return failAt(item_.loc, "{} [op.type]: result '{}' {}", owner, result.name,
                    why.empty() ? "has no name a text can spell" : why);
  return block(item_.body, 0);
}

}  // namespace

bool isSymbolName(std::string_view name) { return !name.empty() && std::ranges::all_of(name, isWordChar); }

Result<void> verifyOperands(const Op& op) {
  for (size_t index = 0; index < op.operands.size(); ++index)
    if (std::string_view why = malformed(op.operands[index], 0); !why.empty())
      return bad(op, "operand", fmt::format("operand {} {}", index, why));
  if (std::string why = unfilled(op); !why.empty()) return bad(op, "operand", why);
  return {};
}

Result<void> verifyStructure(const Item& item, const Module& module) {
  return StructureVerifier(item, module).run();
}

static void oversized(const Block& block, Error& errors, int depth = 0) {
  for (Op* op : block.ops) {
    for (const auto& result : op->results)
      if (result && result->type.isTensor() && result->type.elements() > kMaxElements)
        errors.append(failAt(op->loc, "{} [op.type]: %{} would be {}, of more than {} elements",
                             op->info().name, result->name, result->type.str(), kMaxElements));
    for (const auto& region : op->regions)
      if (region && depth < kMaxNesting) oversized(*region, errors, depth + 1);
  }
}

Result<void> verifySizes(const Module& module) {
  Error errors;
  for (const auto& item : module.items) oversized(item->body, errors);
  if (!errors.empty()) return errors;
  return {};
}

Result<void> verifyNames(const Module& module) {
  if (!isSymbolName(module.name))
    return failAt(module.loc, "module [module.name]: '@{}' is not a valid name of a module", module.name);
  std::set<std::pair<ItemKind, std::string_view>> seen;
  for (const auto& item : module.items) {
    if (!isSymbolName(item->name))
      return failAt(item->loc, "{} [item.name]: '@{}' is not a valid name of an item", name(item->kind),
                    item->name);
    const ItemKind kind = item->kind == ItemKind::state ? ItemKind::param : item->kind;
    if (!seen.insert({kind, item->name}).second)
      return failAt(item->loc, "{} [item.name]: @{} names two items", name(item->kind), item->name);
  }
  return {};
}

}  // namespace tg
