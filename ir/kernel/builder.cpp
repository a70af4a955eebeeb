#include "ir/kernel/builder.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace tg {

KernelBuilder::KernelBuilder(Item* kernel) : kernel_(kernel) {
  scopes_.push_back({&kernel->body, false, nextId_++, {}});
}

KV KernelBuilder::literal(DType dtype, double value) {
  KV out;
  out.type = Type::scalar(dtype);
  out.number = isFloat(dtype) ? static_cast<double>(static_cast<float>(value)) : value;
  return out;
}

Value* KernelBuilder::parameter(Type type, std::string_view hint) {
  return kernel_->body.addArg(type, names_.unique(hint));
}

Operand KernelBuilder::operand(const KV& value) const {
  if (value.value) return Operand::of(value.value);
  if (isFloat(value.type.dtype)) return Operand::literal(value.number);
  return Operand::literal(static_cast<int64_t>(value.number));
}

Op* KernelBuilder::place(int level, Opcode code, std::vector<Operand> operands, std::vector<Type> results,
                         AttrList attrs) {
  auto op = std::make_unique<Op>(code);
  op->operands = std::move(operands);
  op->attrs = std::move(attrs);
  std::string_view bare = op->info().name.substr(4);
  for (const Type& type : results) {
    auto value = std::make_unique<Value>();
    value->type = type;
    value->name = names_.unique(hint_.empty() ? bare : hint_);
    value->def = op.get();
    op->results.push_back(std::move(value));
  }
  hint_.clear();
  Block* block = scopes_[static_cast<size_t>(level)].block;
  block->ops.push_back(std::move(op));
  return block->ops.back().get();
}

KV KernelBuilder::result(Op* op, int level, int index) {
  KV out;
  out.value = op->result(index);
  out.type = out.value->type;
  out.level = level;
  return out;
}

static std::string keyOf(Opcode code, const std::vector<KV>& operands, DType dtype) {
  std::string key = fmt::format("{}:{}", static_cast<int>(code), static_cast<int>(dtype));
  for (const KV& operand : operands) {
    if (operand.value)
      key += '%' + operand.value->name;
    else
      key += fmt::format("#{}:{}", operand.number, std::signbit(operand.number));
  }
  return key;
}

/// A comparison of two literals, which as text would say nothing of their type.
static bool foldComparison(Opcode code, double a, double b, KV& out) {
  bool holds = false;
  switch (code) {
  case Opcode::k_lt: holds = a < b; break;
  case Opcode::k_le: holds = a <= b; break;
  case Opcode::k_gt: holds = a > b; break;
  case Opcode::k_ge: holds = a >= b; break;
  case Opcode::k_eq: holds = a == b; break;
  case Opcode::k_ne: holds = a != b; break;
  default: return false;
  }
  return out = KernelBuilder::literal(DType::i1, holds), true;
}

/// Integer arithmetic and comparisons on literals, and identities that hold for every value of the type.
static bool fold(Opcode code, const std::vector<KV>& in, DType dtype, KV& out) {
  if (in.size() != 2) return false;
  const KV &a = in[0], &b = in[1];
  bool integer = !isFloat(dtype);
  if (code == Opcode::k_add && integer && b.is(0)) return out = a, true;
  if (code == Opcode::k_add && integer && a.is(0)) return out = b, true;
  if (code == Opcode::k_sub && integer && b.is(0)) return out = a, true;
  if (code == Opcode::k_xor && integer && b.is(0)) return out = a, true;
  if (code == Opcode::k_xor && integer && a.is(0)) return out = b, true;
  if (code == Opcode::k_mul && b.is(1)) return out = a, true;
  if (code == Opcode::k_mul && a.is(1)) return out = b, true;
  if (code == Opcode::k_div && b.is(1)) return out = a, true;
  if (a.isLiteral() && b.isLiteral() && foldComparison(code, a.number, b.number, out)) return true;
  if (!integer || dtype == DType::i1 || !a.isLiteral() || !b.isLiteral()) return false;
  // 32 bits each, so that the product fits; results wrap as a device's do.
  const uint64_t x = static_cast<uint32_t>(static_cast<int64_t>(a.number)),
                 y = static_cast<uint32_t>(static_cast<int64_t>(b.number));
  uint64_t bits = 0;
  switch (code) {
  case Opcode::k_add: bits = x + y; break;
  case Opcode::k_mul: bits = x * y; break;
  case Opcode::k_mulhi: bits = x * y >> 32; break;
  case Opcode::k_xor: bits = x ^ y; break;
  default: return false;
  }
  const auto word = static_cast<uint32_t>(bits);
  double value = dtype == DType::i32 ? static_cast<double>(static_cast<int32_t>(word)) : word;
  return out = KernelBuilder::literal(dtype, value), true;
}

KV KernelBuilder::op(Opcode code, std::vector<KV> operands, DType dtype) {
  KV folded;
  if (fold(code, operands, dtype, folded)) return folded;
  int lanes = 1, level = 0;
  bool literals = true;
  for (const KV& operand : operands) {
    lanes = std::max(lanes, operand.lanes());
    level = std::max(level, operand.level);
    literals = literals && operand.isLiteral();
  }
  auto& known = scopes_[static_cast<size_t>(level)].known;
  std::string key = keyOf(code, operands, dtype);
  if (auto it = known.find(key); it != known.end()) return it->second;
  std::vector<Operand> slots;
  for (const KV& value : operands) slots.push_back(operand(value));
  KV out = result(place(level, code, std::move(slots), {Type::scalar(dtype, lanes)}), level);
  known.emplace(std::move(key), out);
  return out;
}

KV KernelBuilder::select(const KV& cond, const KV& a, const KV& b) {
  if (cond.isLiteral()) return cond.number != 0 ? a : b;
  return op(Opcode::k_select, {cond, a, b}, a.type.dtype);
}

KV KernelBuilder::cast(const KV& x, DType dtype) {
  if (x.type.dtype == dtype) return x;
  if (x.isLiteral())
    return literal(dtype, dtype == DType::i1 ? x.number != 0
                          : isFloat(dtype)   ? x.number
                                             : std::trunc(x.number));
  return op(Opcode::k_cast, {x}, dtype);
}

KV KernelBuilder::vec(const std::vector<KV>& lanes) {
  bool same = std::all_of(lanes.begin(), lanes.end(), [&](const KV& lane) {
    return lane.value == lanes[0].value && (lane.value || lane.number == lanes[0].number);
  });
  if (same && lanes[0].isLiteral()) return lanes[0];
  DType dtype = lanes[0].type.dtype;
  int level = 0;
  for (const KV& lane : lanes) level = std::max(level, lane.level);
  auto& known = scopes_[static_cast<size_t>(level)].known;
  std::string key = keyOf(Opcode::k_vec, lanes, dtype);
  if (auto it = known.find(key); it != known.end()) return it->second;
  std::vector<Operand> slots;
  for (const KV& lane : lanes) slots.push_back(operand(lane));
  KV out = result(
      place(level, Opcode::k_vec, std::move(slots), {Type::scalar(dtype, static_cast<int>(lanes.size()))}),
      level);
  known.emplace(std::move(key), out);
  return out;
}

KV KernelBuilder::extract(const KV& vector, int lane) {
  if (vector.lanes() == 1) return vector;
  auto& known = scopes_[static_cast<size_t>(vector.level)].known;
  std::string key = fmt::format("x{}%{}", lane, vector.value->name);
  if (auto it = known.find(key); it != known.end()) return it->second;
  Op* op =
      place(vector.level, Opcode::k_extract, {operand(vector), Operand::literal(static_cast<int64_t>(lane))},
            {Type::scalar(vector.type.dtype)});
  return known.emplace(std::move(key), result(op, vector.level)).first->second;
}

KV KernelBuilder::splat(const KV& x) {
  if (x.lanes() == 4) return x;
  auto& known = scopes_[static_cast<size_t>(x.level)].known;
  std::string key = keyOf(Opcode::k_vec, {x}, x.type.dtype);
  if (auto it = known.find(key); it != known.end()) return it->second;
  Op* op = place(x.level, Opcode::k_vec, {operand(x)}, {Type::scalar(x.type.dtype, 4)});
  return known.emplace(std::move(key), result(op, x.level)).first->second;
}

KV KernelBuilder::id(Opcode code, int axis) {
  auto& known = scopes_[0].known;
  std::string key = fmt::format("{}@{}", static_cast<int>(code), axis);
  if (auto it = known.find(key); it != known.end()) return it->second;
  Op* op = place(0, code, {Operand::literal(static_cast<int64_t>(axis))}, {Type::scalar(DType::u32)});
  return known.emplace(std::move(key), result(op, 0)).first->second;
}

int KernelBuilder::guardDepth() const {
  for (int level = depth(); level > 0; --level)
    if (scopes_[static_cast<size_t>(level)].guard) return level;
  return 0;
}

KV KernelBuilder::load(Value* buffer, const KV& index) {
  int level = std::max(index.level, guardDepth());
  auto& known = scopes_[static_cast<size_t>(level)].known;
  std::string key = fmt::format("load%{}{}", buffer->name, keyOf(Opcode::k_load, {index}, DType::u32));
  if (auto it = known.find(key); it != known.end()) return it->second;
  Op* op = place(level, Opcode::k_load, {Operand::element(buffer, {operand(index)})},
                 {Type::scalar(buffer->type.dtype, buffer->type.lanes)});
  return known.emplace(std::move(key), result(op, level)).first->second;
}

KV KernelBuilder::loadHere(Value* buffer, const KV& index) {
  Op* op = place(depth(), Opcode::k_load, {Operand::element(buffer, {operand(index)})},
                 {Type::scalar(buffer->type.dtype, buffer->type.lanes)});
  return result(op, depth());
}

void KernelBuilder::store(const KV& value, Value* buffer, const KV& index) {
  KV stored = value.lanes() < buffer->type.lanes ? splat(value) : value;
  place(depth(), Opcode::k_store, {operand(stored), Operand::element(buffer, {operand(index)})}, {});
}

void KernelBuilder::barrier() { place(depth(), Opcode::k_barrier, {}, {}); }

Value* KernelBuilder::sharedBuffer(Type type, std::string_view hint) {
  hint_ = hint;
  return place(0, Opcode::k_shared, {}, {type})->result();
}

KV KernelBuilder::workgroupReduce(const KV& x, std::string_view kind) {
  AttrList attrs;
  if (kind != "add") attrs.push_back({"kind", Attr::word(std::string(kind))});
  return result(place(depth(), Opcode::k_workgroup_reduce, {operand(x)}, {x.type}, std::move(attrs)),
                depth());
}

void KernelBuilder::at(int level, const std::function<void()>& fn) {
  std::vector<Scope> aside(std::make_move_iterator(scopes_.begin() + level + 1),
                           std::make_move_iterator(scopes_.end()));
  scopes_.resize(static_cast<size_t>(level) + 1);
  fn();
  for (Scope& scope : aside) scopes_.push_back(std::move(scope));
}

std::vector<KV> KernelBuilder::bodyOf(Block* block, bool guard,
                                      const std::function<std::vector<KV>()>& body) {
  scopes_.push_back({block, guard, nextId_++, {}});
  std::vector<KV> yielded = body();
  std::vector<Operand> slots;
  for (const KV& value : yielded) slots.push_back(operand(value));
  place(depth(), Opcode::k_yield, std::move(slots), {});
  scopes_.pop_back();
  return yielded;
}

std::vector<KV> KernelBuilder::loop(int level, const KV& from, const KV& to, int64_t step,
                                    const std::vector<KV>& init, const LoopBody& body) {
  std::vector<KV> results;
  std::string loopHint = hint_;
  hint_.clear();
  at(level, [&] {
    auto op = std::make_unique<Op>(Opcode::k_for);
    auto block = std::make_unique<Block>();
    Value* index = block->addArg(Type::scalar(DType::u32), names_.unique(loopHint.empty() ? "k" : loopHint));
    op->operands = {Operand::binding(index, operand(from)), Operand::keyword("to", {operand(to)})};
    if (step != 1) op->operands.push_back(Operand::keyword("step", {Operand::literal(step)}));
    std::vector<KV> carried;
    std::vector<Operand> bindings;
    for (const KV& start : init) {
      Value* arg = block->addArg(start.type, names_.unique("acc"));
      KV inside;
      inside.value = arg;
      inside.type = arg->type;
      inside.level = level + 1;
      carried.push_back(inside);
      bindings.push_back(Operand::binding(arg, operand(start)));
    }
    if (!init.empty()) op->operands.push_back(Operand::keyword("iter_args", std::move(bindings)));
    KV at;
    at.value = index;
    at.type = index->type;
    at.level = level + 1;
    bodyOf(block.get(), false, [&] { return body(at, carried); });
    for (const KV& start : init) {
      auto value = std::make_unique<Value>();
      value->type = start.type;
      value->name = names_.unique("sum");
      value->def = op.get();
      op->results.push_back(std::move(value));
    }
    op->regions.push_back(std::move(block));
    Block* outer = scopes_.back().block;
    outer->ops.push_back(std::move(op));
    for (size_t i = 0; i < init.size(); ++i)
      results.push_back(result(outer->ops.back().get(), level, static_cast<int>(i)));
  });
  return results;
}

void KernelBuilder::guard(const KV& cond, const std::function<void()>& body) {
  if (cond.isLiteral() && cond.number != 0) return body();
  auto block = std::make_unique<Block>();
  bodyOf(block.get(), true, [&] { return body(), std::vector<KV>{}; });
  Op* op = place(depth(), Opcode::k_if, {operand(cond)}, {});
  op->regions.push_back(std::move(block));
}

KV KernelBuilder::guarded(const KV& cond, const KV& otherwise, const std::function<KV()>& body) {
  auto then = std::make_unique<Block>(), other = std::make_unique<Block>();
  Type type = otherwise.type;
  bodyOf(then.get(), true, [&] {
    KV value = body();
    type = value.lanes() > type.lanes ? value.type : type;
    return std::vector<KV>{value.lanes() < type.lanes ? splat(value) : value};
  });
  bodyOf(other.get(), true,
         [&] { return std::vector<KV>{otherwise.lanes() < type.lanes ? splat(otherwise) : otherwise}; });
  Op* op = place(depth(), Opcode::k_if, {operand(cond)}, {type});
  op->regions.push_back(std::move(then));
  op->regions.push_back(std::move(other));
  return result(op, depth());
}

}  // namespace tg
