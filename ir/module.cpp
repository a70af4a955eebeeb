// SPDX-License-Identifier: Apache-2.0
#include "ir/module.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "ir/divide.h"
#include "ir/parser.h"

namespace tg {

Operand Operand::of(Value* value) {
  Operand operand;
  operand.value = value;
  return operand;
}
Operand Operand::symbol(std::string name) { return {.kind = Kind::symbol, .text = std::move(name)}; }
Operand Operand::literal(int64_t value) {
  return {.kind = Kind::literal, .isInteger = true, .integer = value};
}
Operand Operand::literal(double value) { return {.kind = Kind::literal, .real = value}; }
Operand Operand::element(Value* buffer, OperandList indices) {
  Operand operand{.kind = Kind::element, .items = std::move(indices)};
  operand.value = buffer;
  return operand;
}
Operand Operand::range(std::string buffer, int64_t offset, int64_t bytes) {
  return {.kind = Kind::range, .text = std::move(buffer), .items = {literal(offset), literal(bytes)}};
}
Operand Operand::group(const std::vector<Value*>& members) {
  Operand operand{.kind = Kind::group};
  operand.items.reserve(members.size());
  for (Value* member : members) operand.items.push_back(of(member));
  return operand;
}
Operand Operand::binding(Value* target, Operand source) {
  Operand operand{.kind = Kind::binding};
  operand.value.define(target);
  operand.items.push_back(std::move(source));
  return operand;
}
Operand Operand::keyword(std::string name, OperandList args) {
  return {.kind = Kind::keyword, .text = std::move(name), .items = std::move(args)};
}

std::string_view hostRole(const Value& argument) {
  const Attr* host = find(argument.attrs, "host");
  return host ? std::string_view(host->text) : std::string_view();
}

Value* hostArgument(const Item& func, std::string_view role) {
  for (const auto& arg : func.body.args)
    if (hostRole(*arg) == role) return arg.get();
  return nullptr;
}

OperandList::OperandList(std::initializer_list<Operand> operands) : operands_(operands) {}
OperandList::OperandList(const OperandList& other) : operands_(other.operands_) {}
OperandList::OperandList(OperandList&& other) noexcept
    : operands_(std::move(other.operands_)), user_(other.user_) {}
OperandList::~OperandList() = default;

OperandList& OperandList::operator=(const OperandList& other) {
  if (this == &other) return *this;
  operands_ = other.operands_;
  belongTo(user_);
  return *this;
}
OperandList& OperandList::operator=(OperandList&& other) noexcept {
  if (this == &other) return *this;
  operands_ = std::move(other.operands_);
  other.operands_.clear();
  belongTo(user_);
  return *this;
}

void OperandList::reserve(size_t size) { operands_.reserve(size); }
void OperandList::push_back(Operand operand) {
  operands_.push_back(std::move(operand));
  operands_.back().belongTo(user_);
}
OperandList::iterator OperandList::insert(const_iterator before, Operand operand) {
  auto placed = operands_.insert(before, std::move(operand));
  placed->belongTo(user_);
  return placed;
}
OperandList::iterator OperandList::erase(const_iterator at) { return operands_.erase(at); }
OperandList::iterator OperandList::erase(const_iterator first, const_iterator last) {
  return operands_.erase(first, last);
}
void OperandList::pop_back() { operands_.pop_back(); }
void OperandList::resize(size_t size) {
  operands_.resize(size);
  belongTo(user_);
}
void OperandList::clear() { operands_.clear(); }

void OperandList::belongTo(Op* user) {
  user_ = user;
  for (Operand& operand : operands_) operand.belongTo(user);
}

OpList::OpList(OpList&& other) noexcept { append(std::move(other)); }
OpList& OpList::operator=(OpList&& other) noexcept {
  if (this == &other) return *this;
  clear();
  append(std::move(other));
  return *this;
}

Op* OpList::insert(Op* before, std::unique_ptr<Op> op) {
  Op* placed = op.release();
  placed->list_ = this;
  placed->next_ = before;
  placed->previous_ = before ? before->previous_ : last_;
  (placed->previous_ ? placed->previous_->next_ : first_) = placed;
  (before ? before->previous_ : last_) = placed;
  ++size_;
  return placed;
}

std::unique_ptr<Op> OpList::take(Op* op) {
  (op->previous_ ? op->previous_->next_ : first_) = op->next_;
  (op->next_ ? op->next_->previous_ : last_) = op->previous_;
  op->list_ = nullptr;
  op->next_ = nullptr;
  op->previous_ = nullptr;
  --size_;
  return std::unique_ptr<Op>(op);
}

void OpList::splice(Op* before, OpList& from, Op* first, Op* last) {
  while (first != last) {
    Op* next = first->next_;
    insert(before, from.take(first));
    first = next;
  }
}

/// From the end, so that uses are destroyed before the values they read.
void OpList::clear() {
  while (last_) erase(last_);
}

Op* Block::terminator() const {
  if (ops.empty() || !ops.back()->info().has(table::terminator)) return nullptr;
  return ops.back();
}

Value* Block::addArg(Type type, std::string name) {
  auto value = std::make_unique<Value>();
  value->type = type;
  value->name = std::move(name);
  value->block = this;
  args.push_back(std::move(value));
  return args.back().get();
}

const Operand* Op::keyword(std::string_view name) const {
  for (const Operand& operand : operands)
    if (operand.kind == Operand::Kind::keyword && operand.text == name) return &operand;
  return nullptr;
}
Operand* Op::keyword(std::string_view name) {
  return const_cast<Operand*>(static_cast<const Op*>(this)->keyword(name));
}

std::unique_ptr<Op> Op::create(Opcode code, const Loc& loc, OperandList operands, AttrList attrs) {
  auto op = std::make_unique<Op>(code);
  op->loc = loc;
  op->operands = std::move(operands);
  op->attrs = std::move(attrs);
  return op;
}

Value* Op::addResult(const Type& type, std::string name) {
  auto value = std::make_unique<Value>();
  value->type = type;
  value->name = std::move(name);
  value->def = this;
  value->loc = loc;
  results.push_back(std::move(value));
  return results.back().get();
}

Block* Op::addRegion() {
  regions.push_back(std::make_unique<Block>());
  return regions.back().get();
}

/// The defaults of the op table as attribute values, parsed once. Those of one opcode's rows are adjacent.
static std::vector<Attr> parseFallbacks() {
  std::vector<Attr> fallbacks;
  for (int code = 0; code < kOpcodeCount; ++code)
    for (const table::AttrRow& row : info(static_cast<Opcode>(code)).attrs.items) {
      fallbacks.emplace_back();
      if (row.fallback.empty()) continue;
      Result<Attr> parsed = parseAttr(row.fallback);
      assert(parsed && "a default in the op table does not parse");
      fallbacks.back() = *std::move(parsed);
    }
  return fallbacks;
}

/// A row's default; none if the attribute is required.
static const Attr& fallbackOf(const OpInfo& info, const table::AttrRow& row) {
  static const std::vector<Attr> fallbacks = parseFallbacks();
  const size_t first = static_cast<size_t>(info.code) * info.attrs.items.size();
  return fallbacks[first + static_cast<size_t>(&row - info.attrs.begin())];
}

const Attr& Op::attr(std::string_view name) const {
  static const Attr none;
  if (const Attr* own = find(attrs, name)) return *own;
  const table::AttrRow* row = info().attr(name);
  return row ? fallbackOf(info(), *row) : none;
}
int64_t Op::intAttr(std::string_view name) const { return attr(name).integer; }
double Op::realAttr(std::string_view name) const { return attr(name).number(); }
bool Op::flag(std::string_view name) const { return attr(name).integer != 0; }
std::string Op::word(std::string_view name) const { return attr(name).text; }
std::vector<int64_t> Op::ints(std::string_view name) const { return attr(name).asInts(); }

void Op::setAttr(std::string_view name, Attr value) {
  erase(attrs, name);
  const table::AttrRow* row = info().attr(name);
  if (row && value == fallbackOf(info(), *row)) return;
  auto rank = [&](std::string_view key) { return info().attr(key) - info().attrs.begin(); };
  auto at = attrs.begin();
  while (row && at != attrs.end() && rank(at->name) < rank(name)) ++at;
  attrs.insert(row ? at : attrs.end(), {std::string(name), std::move(value)});
}

std::string_view name(ItemKind kind) {
  constexpr std::string_view names[] = {"param", "state", "func", "kernel", "buffer", "binary"};
  return names[static_cast<int>(kind)];
}

Value* Item::arg(std::string_view name) const {
  for (const auto& value : body.args)
    if (value->name == name) return value.get();
  return nullptr;
}

void ItemList::remember(Item& item) { named_.emplace(item.name, &item); }

void ItemList::forget(const Item& item) {
  auto [from, to] = named_.equal_range(item.name);
  auto entry = std::find_if(from, to, [&](const auto& each) { return each.second == &item; });
  assert(entry != to && "an item was renamed in its list");
  named_.erase(entry);
}

void ItemList::push_back(std::unique_ptr<Item> item) {
  remember(*item);
  items_.push_back(std::move(item));
}

ItemList::const_iterator ItemList::insert(const_iterator before, std::unique_ptr<Item> item) {
  remember(*item);
  return items_.insert(before, std::move(item));
}

void ItemList::replace(const Item& old, std::unique_ptr<Item> item) {
  auto at = std::ranges::find_if(items_, [&](const auto& each) { return each.get() == &old; });
  forget(old);
  remember(*item);
  *at = std::move(item);
}

ItemList::Items ItemList::take() {
  named_.clear();
  return std::exchange(items_, {});
}

/// The first item of a wanted kind by name; only an invalid module has several.
template <class Wanted>
Item* ItemList::first(std::string_view name, Wanted wanted) const {
  Item* found = nullptr;
  bool several = false;
  for (auto [entry, end] = named_.equal_range(name); entry != end; ++entry) {
    if (!wanted(*entry->second)) continue;
    several = found != nullptr;
    found = entry->second;
  }
  auto isIt = [&](const auto& item) { return wanted(*item) && item->name == name; };
  auto search = [&] {
    auto at = std::ranges::find_if(items_, isIt);
    return at == items_.end() ? nullptr : at->get();
  };
  if (several) return search();
  assert(found == search() && "an item was renamed in its list");
  return found;
}

Item* ItemList::find(ItemKind kind, std::string_view name) const {
  return first(name, [&](const Item& item) { return item.kind == kind; });
}
Item* ItemList::storage(std::string_view name) const {
  return first(name, [](const Item& item) { return isStorage(item.kind); });
}

Item* Module::find(ItemKind kind, std::string_view name) const { return items.find(kind, name); }
bool isKernelFunc(const Item& item) {
  if (item.kind != ItemKind::func || item.results.empty()) return false;
  return std::ranges::all_of(item.body.args, [](const auto& arg) { return arg->type.isScalar(); }) &&
         std::ranges::all_of(item.results, [](const NamedType& result) { return result.type.isScalar(); });
}

Item* Module::func(std::string_view name) const {
  Item* found = find(ItemKind::func, name);
  return found && !isKernelFunc(*found) ? found : nullptr;
}
Item* Module::kernelFunc(std::string_view name) const {
  Item* found = find(ItemKind::func, name);
  return found && isKernelFunc(*found) ? found : nullptr;
}
Item* Module::storage(std::string_view name) const { return items.storage(name); }

static std::unique_ptr<Item> newItem(ItemKind kind, std::string name) {
  auto item = std::make_unique<Item>();
  item->kind = kind;
  item->name = std::move(name);
  return item;
}
Item* Module::add(ItemKind kind, std::string name) {
  items.push_back(newItem(kind, std::move(name)));
  return items.back().get();
}
Item* Module::addStorage(ItemKind kind, std::string name) {
  auto behind = items.end();
  while (behind != items.begin() && !isStorage((*std::prev(behind))->kind)) --behind;
  return items.insert(behind, newItem(kind, std::move(name)))->get();
}
Item* Module::addBuffer(std::string name, int64_t bytes) {
  auto firstFunc = std::ranges::find_if(items, [](const auto& item) { return item->kind == ItemKind::func; });
  Item* buffer = items.insert(firstFunc, newItem(ItemKind::buffer, std::move(name)))->get();
  buffer->bytes = bytes;
  buffer->loc = loc;
  return buffer;
}
std::vector<Item*> Module::all(ItemKind kind) const {
  std::vector<Item*> out;
  for (const auto& item : items)
    if (item->kind == kind && !isKernelFunc(*item)) out.push_back(item.get());
  return out;
}

int64_t groupBytes(const std::vector<Type>& members, std::vector<int64_t>* offsets) {
  int64_t at = 0;
  for (const Type& member : members) {
    if (offsets) offsets->push_back(at);
    at += alignTo(member.bytes(), kMemberAlignment);
  }
  return at;
}

}  // namespace tg
