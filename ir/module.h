// SPDX-License-Identifier: Apache-2.0
// The in-memory form of a program: values, ops, blocks and the items of a module. Plain data with few invariants:
// builder.h builds ops, verify.h checks modules.
#pragma once

#include <algorithm>
#include <array>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "ir/attr.h"
#include "ir/find.h"
#include "ir/location.h"
#include "ir/op_info.h"
#include "ir/type.h"
#include "ir/use.h"

namespace tg {

class Op;
struct Block;
struct Operand;
struct Value;

/// Where a value is stored, from stage planned on: `@arena[1024] inplace(%a)`.
struct Place {
  std::string buffer;        ///< "persistent", "io" or "arena"
  int64_t offset = 0;        ///< bytes
  Value* inplace = nullptr;  ///< the operand, not read later, whose bytes the value takes over
  bool operator==(const Place&) const = default;
};

/// One SSA value: a result of an op, or an argument of a block (def is null then).
struct Value {
  Type type;
  std::string name;  ///< without '%'; unique in its function or kernel
  Op* def = nullptr;
  Block* block = nullptr;  ///< of an argument: the block it belongs to
  AttrList attrs;          ///< of a function's argument: host, schedule, batch, dims
  std::optional<Place> place;
  Loc loc;
  UseList uses;  ///< the operands that read it
};

/// Operands in text order. The list of an op, and the lists nested in its operands, belong to that op, and each value
/// that they read has them in its use list.
class OperandList {
 public:
  using Operands = std::vector<Operand>;
  using iterator = Operands::iterator;
  using const_iterator = Operands::const_iterator;
  using value_type = Operand;

  OperandList() = default;
  OperandList(std::initializer_list<Operand> operands);
  template <class Iterator>
  OperandList(Iterator first, Iterator last);
  OperandList(const OperandList& other);
  OperandList(OperandList&& other) noexcept;
  OperandList& operator=(const OperandList& other);
  OperandList& operator=(OperandList&& other) noexcept;
  ~OperandList();

  iterator begin();
  iterator end();
  const_iterator begin() const;
  const_iterator end() const;
  size_t size() const;
  bool empty() const;
  Operand& operator[](size_t index);
  const Operand& operator[](size_t index) const;
  Operand& front();
  Operand& back();
  const Operand& front() const;
  const Operand& back() const;

  void reserve(size_t size);
  void push_back(Operand operand);
  iterator insert(const_iterator before, Operand operand);
  template <class Iterator>
  iterator insert(const_iterator before, Iterator first, Iterator last);
  iterator erase(const_iterator at);
  iterator erase(const_iterator first, const_iterator last);
  void pop_back();
  void resize(size_t size);
  void clear();

  /// From now on the list belongs to this op; null: to none.
  void belongTo(Op* user);

 private:
  Operands operands_;
  Op* user_ = nullptr;
};

/// One operand of an op.
struct Operand {
  enum class Kind : uint8_t { value, symbol, element, range, group, binding, literal, keyword };
  Kind kind = Kind::value;
  bool isInteger = false;  ///< literal: written as an integer
  Use value{};             ///< value; element: the buffer; binding: the block argument that it defines
  std::string text{};      ///< symbol, keyword, range: the name
  int64_t integer = 0;     ///< literal
  double real = 0;         ///< literal
  OperandList items{};     ///< element: indices; group: members; binding: the source;
                           ///< keyword: arguments; range: literals offset and bytes

  static Operand of(Value* value);
  static Operand symbol(std::string name);
  static Operand literal(int64_t value);
  static Operand literal(double value);
  static Operand element(Value* buffer, OperandList indices);
  static Operand range(std::string buffer, int64_t offset, int64_t bytes);
  static Operand group(const std::vector<Value*>& members);
  static Operand binding(Value* target, Operand source);
  static Operand keyword(std::string name, OperandList args);
  bool isLiteral() const { return kind == Kind::literal; }
  /// A binding of a region: to one value, or to a group of values.
  bool bindsValue() const { return items[0].kind == Kind::value; }
  bool bindsGroup() const { return items[0].kind == Kind::group; }
  /// From now on the operand with all its items belongs to this op; null: to none.
  void belongTo(Op* user) {
    value.belongTo(user);
    items.belongTo(user);
  }
  /// A literal as a real; an integer `-0` is -0.0.
  double number() const { return isInteger && integer != 0 ? static_cast<double>(integer) : real; }
};

template <class Iterator>
OperandList::OperandList(Iterator first, Iterator last) : operands_(first, last) {}
inline OperandList::iterator OperandList::begin() { return operands_.begin(); }
inline OperandList::iterator OperandList::end() { return operands_.end(); }
inline OperandList::const_iterator OperandList::begin() const { return operands_.begin(); }
inline OperandList::const_iterator OperandList::end() const { return operands_.end(); }
inline size_t OperandList::size() const { return operands_.size(); }
inline bool OperandList::empty() const { return operands_.empty(); }
inline Operand& OperandList::operator[](size_t index) { return operands_[index]; }
inline const Operand& OperandList::operator[](size_t index) const { return operands_[index]; }
inline Operand& OperandList::front() { return operands_.front(); }
inline Operand& OperandList::back() { return operands_.back(); }
inline const Operand& OperandList::front() const { return operands_.front(); }
inline const Operand& OperandList::back() const { return operands_.back(); }
template <class Iterator>
OperandList::iterator OperandList::insert(const_iterator before, Iterator first, Iterator last) {
  const auto at = before - operands_.cbegin();
  operands_.insert(before, first, last);
  belongTo(user_);
  return operands_.begin() + at;
}

/// Owns the ops of a block in text order. A list linked through the ops, so that pointers and iterators to ops stay
/// valid while other ops are inserted and removed.
class OpList {
 public:
  class iterator {
   public:
    using iterator_category = std::bidirectional_iterator_tag;
    using value_type = Op*;
    using difference_type = std::ptrdiff_t;
    using pointer = Op* const*;
    using reference = Op*;
    iterator() = default;
    iterator(const OpList* list, Op* op) : list_(list), op_(op) {}
    Op* operator*() const { return op_; }
    Op* operator->() const { return op_; }
    iterator& operator++();
    iterator& operator--();
    iterator operator++(int) { return std::exchange(*this, std::next(*this)); }
    iterator operator--(int) { return std::exchange(*this, std::prev(*this)); }
    bool operator==(const iterator&) const = default;

   private:
    const OpList* list_ = nullptr;
    Op* op_ = nullptr;  ///< null: the end
  };
  using const_iterator = iterator;
  using reverse_iterator = std::reverse_iterator<iterator>;
  using value_type = Op*;

  OpList() = default;
  OpList(OpList&& other) noexcept;
  OpList& operator=(OpList&& other) noexcept;
  ~OpList() { clear(); }

  iterator begin() const { return {this, first_}; }
  iterator end() const { return {this, nullptr}; }
  reverse_iterator rbegin() const { return reverse_iterator(end()); }
  reverse_iterator rend() const { return reverse_iterator(begin()); }
  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  Op* front() const { return first_; }
  Op* back() const { return last_; }
  /// The ops as a vector, for analyses that refer to positions.
  std::vector<Op*> all() const { return {begin(), end()}; }

  Op* push_back(std::unique_ptr<Op> op) { return insert(nullptr, std::move(op)); }
  /// Inserts an op before another op of the list, or at the end if that is null.
  Op* insert(Op* before, std::unique_ptr<Op> op);
  /// Moves the ops of another list from `first` up to `last`, which stays there, before an op of this list.
  void splice(Op* before, OpList& from, Op* first, Op* last = nullptr);
  /// Moves all ops of another list to the end of this one.
  void append(OpList&& from) { splice(nullptr, from, from.first_); }
  /// Removes an op from the list and returns it.
  std::unique_ptr<Op> take(Op* op);
  std::unique_ptr<Op> takeFront() { return take(first_); }
  std::unique_ptr<Op> takeBack() { return take(last_); }
  /// Moves out all ops; the list is empty afterwards.
  OpList takeAll() { return std::move(*this); }
  /// Destroys an op. Uses of its results become null.
  void erase(Op* op) { take(op); }
  /// Destroys the ops for which `gone(Op*)` is true.
  template <class Predicate>
  void eraseIf(Predicate gone) {
    for (iterator it = begin(); it != end();) {
      Op* op = *it++;
      if (gone(op)) erase(op);
    }
  }
  void clear();

 private:
  Op* first_ = nullptr;
  Op* last_ = nullptr;
  size_t size_ = 0;
};

struct Block {
  std::vector<std::unique_ptr<Value>> args;
  OpList ops;
  Op* terminator() const;
  Value* addArg(Type type, std::string name);
};

/// One operation. Its form is described by its row of the op table; see OpInfo.
class Op {
 public:
  explicit Op(Opcode code) : code(code) { operands.belongTo(this); }
  Op(const Op&) = delete;
  Op& operator=(const Op&) = delete;
  const OpInfo& info() const { return tg::info(code); }
  /// The list that the op is in, and its neighbours there; null if there is none.
  OpList* list() const { return list_; }
  Op* next() const { return next_; }
  Op* previous() const { return previous_; }

  Opcode code;
  OperandList operands;
  AttrList attrs;                               ///< in the order of the row; defaults are omitted
  std::vector<std::unique_ptr<Value>> results;  ///< all of them in one list; see groups
  /// Empty when no result is in a group; else one entry for each result slot: 0 for a single value, n for a group
  /// `[%a, …]` of n members.
  std::vector<int> groups;
  std::vector<std::unique_ptr<Block>> regions;
  Loc loc;

  /// An op that is in no list. To build a typed op in its place use Builder or KernelBuilder.
  static std::unique_ptr<Op> create(Opcode code, const Loc& loc, OperandList operands = {},
                                    AttrList attrs = {});

  Value* result(int index = 0) const { return results[index].get(); }
  /// Adds a result with the op's location.
  Value* addResult(const Type& type, std::string name = {});
  Block* addRegion();
  /// The value of operand `index`, which must be of kind value.
  Value* in(int index) const { return operands[index].value; }
  int numOperands() const { return static_cast<int>(operands.size()); }
  /// The operand with this keyword, or null.
  const Operand* keyword(std::string_view name) const;
  Operand* keyword(std::string_view name);

  /// An attribute; if absent, the row's default; none if there is no default.
  const Attr& attr(std::string_view name) const;
  int64_t intAttr(std::string_view name) const;
  double realAttr(std::string_view name) const;
  bool flag(std::string_view name) const;
  std::string word(std::string_view name) const;  ///< words and strings
  std::vector<int64_t> ints(std::string_view name) const;
  void setAttr(std::string_view name, Attr value);  ///< keeps row order, drops defaults

 private:
  friend class OpList;
  OpList* list_ = nullptr;
  Op* next_ = nullptr;
  Op* previous_ = nullptr;
};

inline OpList::iterator& OpList::iterator::operator++() { return op_ = op_->next(), *this; }
inline OpList::iterator& OpList::iterator::operator--() {
  return op_ = op_ ? op_->previous() : list_->back(), *this;
}

enum class ItemKind : uint8_t { param, state, func, kernel, buffer, binary };
std::string_view name(ItemKind kind);
/// Whether items of this kind hold tensors from call to call.
constexpr bool isStorage(ItemKind kind) { return kind == ItemKind::param || kind == ItemKind::state; }

struct NamedType {
  std::string name;
  Type type;
};

/// One item of a module. Which members are used depends on the kind.
struct Item {
  ItemKind kind = ItemKind::param;
  std::string name;  ///< without '@'
  AttrList attrs;
  Loc loc;
  Type type;                                  ///< param, state
  std::optional<Place> place;                 ///< param, state: home
  Block body;                                 ///< func, kernel; its args are the parameters
  std::vector<NamedType> results;             ///< func
  std::array<int64_t, 3> workgroup{1, 1, 1};  ///< kernel: local size
  OperandList grid;                           ///< kernel: 1..3 extents in workgroups
  int64_t bytes = 0;                          ///< buffer: size
  std::vector<uint32_t> code;                 ///< binary: SPIR-V words

  Value* arg(std::string_view name) const;
};

/// Whether an item is a func whose arguments, if any, and results, at least one, are all kernel scalars or short
/// vectors: a helper that kernels call, not a function of the model.
bool isKernelFunc(const Item& item);

/// Hashes names, and can look a name up by string_view without a copy.
struct NameHash {
  using is_transparent = void;
  size_t operator()(std::string_view name) const { return std::hash<std::string_view>()(name); }
};

/// The items of a module in text order, with an index by kind and name. Items are inserted and removed only by the
/// list's functions; an item in the list must keep its kind and name.
class ItemList {
 public:
  using Items = std::vector<std::unique_ptr<Item>>;
  using const_iterator = Items::const_iterator;

  const_iterator begin() const { return items_.begin(); }
  const_iterator end() const { return items_.end(); }
  size_t size() const { return items_.size(); }
  bool empty() const { return items_.empty(); }
  const std::unique_ptr<Item>& operator[](size_t index) const { return items_[index]; }
  const std::unique_ptr<Item>& back() const { return items_.back(); }

  void push_back(std::unique_ptr<Item> item);
  /// Inserts an item before another, or at the end; returns its position.
  const_iterator insert(const_iterator before, std::unique_ptr<Item> item);
  /// Replaces an item by one of the same kind and name; the old one is destroyed.
  void replace(const Item& old, std::unique_ptr<Item> item);
  /// Removes the items for which `gone(const std::unique_ptr<Item>&)` is true.
  template <class Predicate>
  void eraseIf(Predicate gone) {
    std::erase_if(items_, [&](const std::unique_ptr<Item>& item) {
      if (!gone(item)) return false;
      forget(*item);
      return true;
    });
  }
  /// Moves out all items; the list is empty afterwards.
  Items take();

  /// The first item of a kind with a name, or null.
  Item* find(ItemKind kind, std::string_view name) const;
  /// The first param or state with a name, or null.
  Item* storage(std::string_view name) const;

 private:
  void remember(Item& item);
  void forget(const Item& item);
  template <class Wanted>
  Item* first(std::string_view name, Wanted wanted) const;

  Items items_;
  std::unordered_multimap<std::string, Item*, NameHash, std::equal_to<>> named_;
};

/// A program at one stage.
struct Module {
  std::string name;
  Stage stage = Stage::tensor;
  AttrList attrs;  ///< target, plan, train_pipeline
  ItemList items;
  Loc loc;

  Item* find(ItemKind kind, std::string_view name) const;
  /// A function over tensors; for the others see kernelFunc.
  Item* func(std::string_view name) const;
  /// A func of kernel scalars, which kernels call.
  Item* kernelFunc(std::string_view name) const;
  /// A param or state by name.
  Item* storage(std::string_view name) const;
  /// Adds an item at the end.
  Item* add(ItemKind kind, std::string name);
  /// Adds a param or state after the existing ones.
  Item* addStorage(ItemKind kind, std::string name);
  /// Adds a buffer after the existing ones, before the functions.
  Item* addBuffer(std::string name, int64_t bytes);
  /// The items of a kind; for funcs only those over tensors.
  std::vector<Item*> all(ItemKind kind) const;
};

/// Removes the functions over tensors for which `kept(const Item&)` is false.
template <class Predicate>
void keepFunctions(Module& module, Predicate kept) {
  module.items.eraseIf([&](const std::unique_ptr<Item>& item) {
    return item->kind == ItemKind::func && !isKernelFunc(*item) && !kept(*item);
  });
}

/// Calls fn on every value that an operand reads, see below.
template <class Function>
void forEachValue(const Operand& operand, Function& fn) {
  if (operand.value && operand.kind != Operand::Kind::binding) fn(operand.value.get());
  for (const Operand& item : operand.items) forEachValue(item, fn);
}
template <class Function>
void forEachValue(Operand& operand, Function& fn) {
  if (operand.value && operand.kind != Operand::Kind::binding) {
    Value* value = operand.value;
    fn(value);
    if (value != operand.value) operand.value = value;
  }
  for (Operand& item : operand.items) forEachValue(item, fn);
}
/// Calls fn on every value that an op reads, in text order, including sources of bindings and indices. fn may replace
/// the pointer if the op is not const. Does not enter nested regions.
template <class Function>
void forEachUse(Op& op, Function&& fn) {
  for (Operand& operand : op.operands) forEachValue(operand, fn);
}
template <class Function>
void forEachUse(const Op& op, Function&& fn) {
  for (const Operand& operand : op.operands) forEachValue(operand, fn);
}
/// Whether `holds` is true of a value that an op reads. Does not enter nested regions.
template <class Predicate>
bool anyUse(const Op& op, Predicate&& holds) {
  bool any = false;
  forEachUse(op, [&](const Value* value) { any = any || holds(value); });
  return any;
}
/// Whether it is true of all of them.
template <class Predicate>
bool everyUse(const Op& op, Predicate&& holds) {
  return !anyUse(op, [&](const Value* value) { return !holds(value); });
}
/// Calls fn on every op of the block and of nested regions, in text order.
template <class Function>
void walk(const Block& block, Function&& fn) {
  for (const auto& op : block.ops) {
    fn(*op);
    for (const auto& region : op->regions) walk(*region, fn);
  }
}
/// Whether `holds` is true of an op in the regions of an op, at any depth.
template <class Predicate>
bool anyInside(const Op& op, Predicate&& holds) {
  return std::ranges::any_of(op.regions, [&](const auto& region) { return anyOp(*region, holds); });
}
/// Whether `holds` is true of an op of the block or of nested regions.
template <class Predicate>
bool anyOp(const Block& block, Predicate&& holds) {
  return std::ranges::any_of(block.ops, [&](const Op* op) { return holds(*op) || anyInside(*op, holds); });
}

/// The host scalar that an argument of a function is, such as `lr` or `rng`; "" if the caller gives it.
std::string_view hostRole(const Value& argument);
/// The argument of a function that is this host scalar; null if there is none.
Value* hostArgument(const Item& func, std::string_view role);

/// A deep copy, with names, locations and attributes.
std::unique_ptr<Module> clone(const Module& module);

/// The members of a group, and of other values that adjoin, begin at multiples of so many bytes.
inline constexpr int64_t kMemberAlignment = 16;
/// The bytes of a group: its members one after the other. The group's flat tensor has that many bytes. `offsets`, if
/// given, receives the start of each member.
int64_t groupBytes(const std::vector<Type>& members, std::vector<int64_t>* offsets = nullptr);

}  // namespace tg
