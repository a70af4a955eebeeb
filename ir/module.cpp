#include "ir/module.h"

#include <algorithm>

#include "ir/parser.h"

namespace tg {

Operand Operand::of(Value* value) {
  Operand operand;
  operand.value = value;
  return operand;
}
Operand Operand::symbol(std::string name) {
  Operand operand;
  operand.kind = Kind::symbol;
  operand.text = std::move(name);
  return operand;
}
Operand Operand::literal(int64_t value) {
  Operand operand;
  operand.kind = Kind::literal;
  operand.isInteger = true;
  operand.integer = value;
  return operand;
}
Operand Operand::literal(double value) {
  Operand operand;
  operand.kind = Kind::literal;
  operand.real = value;
  return operand;
}
Operand Operand::element(Value* buffer, std::vector<Operand> indices) {
  Operand operand;
  operand.kind = Kind::element;
  operand.value = buffer;
  operand.items = std::move(indices);
  return operand;
}
Operand Operand::range(std::string buffer, int64_t offset, int64_t bytes) {
  Operand operand;
  operand.kind = Kind::range;
  operand.text = std::move(buffer);
  operand.items = {literal(offset), literal(bytes)};
  return operand;
}
Operand Operand::group(const std::vector<Value*>& members) {
  Operand operand;
  operand.kind = Kind::group;
  for (Value* member : members) operand.items.push_back(of(member));
  return operand;
}
Operand Operand::binding(Value* target, Operand source) {
  Operand operand;
  operand.kind = Kind::binding;
  operand.value = target;
  operand.items.push_back(std::move(source));
  return operand;
}
Operand Operand::keyword(std::string name, std::vector<Operand> args) {
  Operand operand;
  operand.kind = Kind::keyword;
  operand.text = std::move(name);
  operand.items = std::move(args);
  return operand;
}

Op* Block::terminator() const {
  if (ops.empty() || !ops.back()->info().has(table::terminator)) return nullptr;
  return ops.back().get();
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

/// A row's default as an attribute value; none when the attribute is required.
static Attr fallbackOf(const table::AttrRow& row) {
  if (row.fallback.empty()) return {};
  Result<Attr> parsed = parseAttr(row.fallback);
  assert(parsed && "a default in the op table does not parse");
  return *parsed;
}

Attr Op::attr(std::string_view name) const {
  if (const Attr* own = find(attrs, name)) return *own;
  const table::AttrRow* row = info().attr(name);
  return row ? fallbackOf(*row) : Attr{};
}
int64_t Op::intAttr(std::string_view name) const { return attr(name).integer; }
double Op::realAttr(std::string_view name) const { return attr(name).number(); }
bool Op::flag(std::string_view name) const { return attr(name).integer != 0; }
std::string Op::word(std::string_view name) const { return attr(name).text; }
std::vector<int64_t> Op::ints(std::string_view name) const { return attr(name).asInts(); }

void Op::setAttr(std::string_view name, Attr value) {
  erase(attrs, name);
  const table::AttrRow* row = info().attr(name);
  if (row && value == fallbackOf(*row)) return;
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

Item* Module::find(ItemKind kind, std::string_view name) const {
  for (const auto& item : items)
    if (item->kind == kind && item->name == name) return item.get();
  return nullptr;
}
bool isKernelFunc(const Item& item) {
  if (item.kind != ItemKind::func || item.results.empty()) return false;
  return std::all_of(item.body.args.begin(), item.body.args.end(),
                     [](const auto& arg) { return arg->type.isScalar(); }) &&
         std::all_of(item.results.begin(), item.results.end(),
                     [](const NamedType& result) { return result.type.isScalar(); });
}

Item* Module::func(std::string_view name) const {
  Item* found = find(ItemKind::func, name);
  return found && !isKernelFunc(*found) ? found : nullptr;
}
Item* Module::kernelFunc(std::string_view name) const {
  Item* found = find(ItemKind::func, name);
  return found && isKernelFunc(*found) ? found : nullptr;
}
Item* Module::storage(std::string_view name) const {
  for (const auto& item : items)
    if ((item->kind == ItemKind::param || item->kind == ItemKind::state) && item->name == name)
      return item.get();
  return nullptr;
}
Item* Module::add(ItemKind kind, std::string name) {
  items.push_back(std::make_unique<Item>());
  items.back()->kind = kind;
  items.back()->name = std::move(name);
  return items.back().get();
}
std::vector<Item*> Module::all(ItemKind kind) const {
  std::vector<Item*> out;
  for (const auto& item : items)
    if (item->kind == kind && !isKernelFunc(*item)) out.push_back(item.get());
  return out;
}

static void eachUse(Operand& operand, const std::function<void(Value*&)>& fn) {
  if (operand.value && operand.kind != Operand::Kind::binding) fn(operand.value);
  for (Operand& item : operand.items) eachUse(item, fn);
}
void forEachUse(Op& op, const std::function<void(Value*&)>& fn) {
  for (Operand& operand : op.operands) eachUse(operand, fn);
}
static void eachUse(const Operand& operand, const std::function<void(Value*)>& fn) {
  if (operand.value && operand.kind != Operand::Kind::binding) fn(operand.value);
  for (const Operand& item : operand.items) eachUse(item, fn);
}
void forEachUse(const Op& op, const std::function<void(Value*)>& fn) {
  for (const Operand& operand : op.operands) eachUse(operand, fn);
}

void walk(const Block& block, const std::function<void(Op&)>& fn) {
  for (const auto& op : block.ops) {
    fn(*op);
    for (const auto& region : op->regions) walk(*region, fn);
  }
}

UseDef::UseDef(const Block& body) {
  walk(body, [&](Op& op) {
    forEachUse(static_cast<const Op&>(op), [&](Value* value) {
      auto& users = users_[value];
      if (users.empty() || users.back() != &op) users.push_back(&op);
    });
  });
}
const std::vector<Op*>& UseDef::users(const Value* value) const {
  auto it = users_.find(value);
  return it == users_.end() ? none_ : it->second;
}

int64_t groupBytes(const std::vector<Type>& members, std::vector<int64_t>* offsets) {
  constexpr int64_t kMemberAlignment = 16;
  int64_t at = 0;
  for (const Type& member : members) {
    if (offsets) offsets->push_back(at);
    at += (member.bytes() + kMemberAlignment - 1) / kMemberAlignment * kMemberAlignment;
  }
  return at;
}

}  // namespace tg
