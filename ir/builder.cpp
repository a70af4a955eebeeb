// SPDX-License-Identifier: Apache-2.0
#include "ir/builder.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "ir/infer.h"
#include "ir/verify.h"

namespace tg {

void NameTable::takeAll(const Block& block) {
  for (const auto& arg : block.args) take(arg->name);
  for (Op* op : block.ops) {
    for (const auto& result : op->results) take(result->name);
    for (const auto& region : op->regions) takeAll(*region);
  }
}

std::string NameTable::unique(std::string_view hint) {
  if (hint.empty()) hint = "v";
  auto known = taken_.find(hint);
  if (known == taken_.end()) {
    take(hint);
    return std::string(hint);
  }
  int& next = known->second;
  std::string candidate;
  candidate.reserve(hint.size() + 8);
  candidate += hint;
  candidate += '_';
  const size_t stem = candidate.size();
  for (;;) {
    candidate.resize(stem);
    candidate += std::to_string(next++);
    if (taken_.emplace(candidate, kFirst).second) return candidate;
  }
}

/// The name of a value without a hint: the op's name without its dialect.
static std::string_view bareName(const OpInfo& row) {
  size_t dot = row.name.find('.');
  return dot == std::string_view::npos ? row.name : row.name.substr(dot + 1);
}

std::unique_ptr<Op> Builder::untyped(Opcode code, OperandList operands, AttrList attrs,
                                     const std::vector<Type>& declared) const {
  auto op = Op::create(code, loc_, std::move(operands));
  for (NamedAttr& attr : attrs) op->setAttr(attr.name, std::move(attr.value));
  for (const Type& type : declared) op->addResult(type);
  return op;
}

Op* Builder::typed(std::unique_ptr<Op> op, const std::vector<Type>& types) {
  op->results.clear();
  for (const Type& type : types) op->addResult(type, hint_);
  return append(std::move(op));
}

Op* Builder::create(Opcode code, OperandList operands, AttrList attrs, std::vector<Type> declared) {
  auto op = untyped(code, std::move(operands), std::move(attrs), declared);
  Result<std::vector<Type>> types = inferAnySize(*op, module_);
  if (!types) {
    std::fprintf(stderr, "invariant: built op does not infer: %s", types.error().str().c_str());
    std::abort();
  }
  return typed(std::move(op), *types);
}

Result<Op*> Builder::tryCreate(Opcode code, OperandList operands, AttrList attrs,
                               std::vector<Type> declared) {
  auto op = untyped(code, std::move(operands), std::move(attrs), declared);
  TG_CHECK(verifyForm(*op));
  TG_TRY(std::vector<Type> types, infer(*op, module_));
  return typed(std::move(op), types);
}

Op* Builder::append(std::unique_ptr<Op> op) {
  for (auto& result : op->results) {
    result->name = names_->unique(result->name.empty() ? bareName(op->info()) : result->name);
    result->def = op.get();
    if (!result->loc) result->loc = op->loc;
  }
  return ops_->insert(before_, std::move(op));
}

Value* Builder::op(Opcode code, const std::vector<Value*>& operands, AttrList attrs,
                   std::vector<Type> declared) {
  OperandList slots;
  slots.reserve(operands.size());
  for (Value* value : operands) slots.push_back(Operand::of(value));
  Op* made = create(code, std::move(slots), std::move(attrs), std::move(declared));
  return made->results.empty() ? nullptr : made->result();
}

Value* Builder::constant(double value, Type type) {
  Operand literal = isFloat(type.dtype) ? Operand::literal(roundedTo(type.dtype, value))
                                        : Operand::literal(static_cast<int64_t>(value));
  return create(Opcode::constant, {literal}, {}, {type})->result();
}

Value* Builder::reduce(Opcode code, Value* x, std::vector<int64_t> axes, bool keepdims) {
  return op(code, {x}, {{"axes", Attr::ints(axes)}, {"keepdims", Attr::boolean(keepdims)}});
}
Value* Builder::sum(Value* x, std::vector<int64_t> axes, bool keepdims) {
  return reduce(Opcode::sum, x, std::move(axes), keepdims);
}

static bool areAll(const std::vector<int64_t>& numbers, int64_t number) {
  return std::ranges::all_of(numbers, [&](int64_t each) { return each == number; });
}
static Attr shapeAttr(const Shape& shape) { return Attr::ints({shape.begin(), shape.end()}); }

Value* Builder::reshape(Value* x, const Shape& shape) {
  if (x->type.shape == shape) return x;
  return op(Opcode::reshape, {x}, {{"shape", shapeAttr(shape)}});
}
Value* Builder::broadcastTo(Value* x, const Shape& shape) {
  if (x->type.shape == shape) return x;
  return op(Opcode::broadcast_to, {x}, {{"shape", shapeAttr(shape)}});
}
Value* Builder::transpose(Value* x, std::vector<int64_t> perm) {
  return op(Opcode::transpose, {x}, {{"perm", Attr::ints(perm)}});
}
Value* Builder::slice(Value* x, const std::vector<int64_t>& starts, const std::vector<int64_t>& limits,
                      std::vector<int64_t> strides) {
  if (areAll(strides, 1)) strides.clear();
  if (areAll(starts, 0) && std::ranges::equal(limits, x->type.shape) && strides.empty()) return x;
  return op(
      Opcode::slice, {x},
      {{"starts", Attr::ints(starts)}, {"limits", Attr::ints(limits)}, {"strides", Attr::ints(strides)}});
}
Value* Builder::part(Value* x, int axis, int64_t from, int64_t to) {
  std::vector<int64_t> starts(static_cast<size_t>(x->type.rank()));
  std::vector<int64_t> limits(x->type.shape.begin(), x->type.shape.end());
  starts[static_cast<size_t>(axis)] = from;
  limits[static_cast<size_t>(axis)] = to;
  return slice(x, starts, limits);
}
Value* Builder::pad(Value* x, const std::vector<int64_t>& low, const std::vector<int64_t>& high, double value,
                    std::vector<int64_t> interior) {
  if (areAll(interior, 0)) interior.clear();
  if (areAll(low, 0) && areAll(high, 0) && interior.empty()) return x;
  return op(Opcode::pad, {x},
            {{"low", Attr::ints(low)},
             {"high", Attr::ints(high)},
             {"interior", Attr::ints(interior)},
             {"value", Attr::of(value)}});
}
Value* Builder::cast(Value* x, DType dtype) {
  if (x->type.dtype == dtype) return x;
  return op(Opcode::cast, {x}, {}, {Type::tensor(dtype, x->type.shape)});
}

Value* Builder::sumTo(Value* x, const Shape& shape) {
  const Shape& from = x->type.shape;
  if (from == shape) return x;
  int added = from.rank() - shape.rank();
  std::vector<int64_t> axes;
  for (int axis = 0; axis < from.rank(); ++axis)
    if (axis < added || (shape[axis - added] == 1 && from[axis] != 1)) axes.push_back(axis);
  Value* summed = axes.empty() ? x : sum(x, axes, false);
  return reshape(summed, shape);
}

static std::unique_ptr<Block> cloneBlock(const Block& block, std::unordered_map<const Value*, Value*>& map);

static Operand cloneOperand(const Operand& operand, const std::unordered_map<const Value*, Value*>& map) {
  Operand copy = operand;
  if (Value* const* other = copy.value ? valueIn(map, copy.value) : nullptr) copy.value = *other;
  for (Operand& item : copy.items) item = cloneOperand(item, map);
  return copy;
}

static std::unique_ptr<Value> cloneValue(const Value& value, std::unordered_map<const Value*, Value*>& map) {
  auto copy = std::make_unique<Value>(value);
  if (copy->place && copy->place->inplace)
    if (Value* const* other = valueIn(map, copy->place->inplace)) copy->place->inplace = *other;
  map[&value] = copy.get();
  return copy;
}

std::unique_ptr<Op> cloneOp(const Op& op, std::unordered_map<const Value*, Value*>& map) {
  auto copy = Op::create(op.code, op.loc, {}, op.attrs);
  copy->groups = op.groups;
  // Regions first: bindings define their arguments, which operands map to.
  for (const auto& region : op.regions) copy->regions.push_back(cloneBlock(*region, map));
  for (const Operand& operand : op.operands) copy->operands.push_back(cloneOperand(operand, map));
  for (const auto& result : op.results) {
    copy->results.push_back(cloneValue(*result, map));
    copy->results.back()->def = copy.get();
  }
  return copy;
}

static void cloneInto(const Block& from, Block& to, std::unordered_map<const Value*, Value*>& map) {
  for (const auto& arg : from.args) {
    to.args.push_back(cloneValue(*arg, map));
    to.args.back()->block = &to;
  }
  for (Op* op : from.ops) to.ops.push_back(cloneOp(*op, map));
}

static std::unique_ptr<Block> cloneBlock(const Block& block, std::unordered_map<const Value*, Value*>& map) {
  auto copy = std::make_unique<Block>();
  cloneInto(block, *copy, map);
  return copy;
}

std::unique_ptr<Item> cloneItem(const Item& item) {
  auto to = std::make_unique<Item>();
  to->kind = item.kind;
  to->name = item.name;
  to->attrs = item.attrs;
  to->loc = item.loc;
  to->type = item.type;
  to->place = item.place;
  to->results = item.results;
  to->workgroup = item.workgroup;
  to->bytes = item.bytes;
  to->code = item.code;
  std::unordered_map<const Value*, Value*> map;
  cloneInto(item.body, to->body, map);
  for (const Operand& extent : item.grid) to->grid.push_back(cloneOperand(extent, map));
  return to;
}

std::unique_ptr<Module> clone(const Module& module) {
  auto copy = std::make_unique<Module>();
  copy->name = module.name;
  copy->stage = module.stage;
  copy->attrs = module.attrs;
  copy->loc = module.loc;
  for (const auto& item : module.items) copy->items.push_back(cloneItem(*item));
  return copy;
}

}  // namespace tg
