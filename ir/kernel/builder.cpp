// SPDX-License-Identifier: Apache-2.0
#include "ir/kernel/builder.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <utility>

#include "ir/kernel/inline.h"
#include "ir/kernel/semantics.h"

namespace tg {

KernelBuilder::KernelBuilder(Block& body) : names_(body) {
  scopes_.push_back({&body, false, nextId_++, KnownOps(&memory_)});
}

void KernelBuilder::hint(std::string_view text) { hint_ = text; }

KV KernelBuilder::literal(DType dtype, double value) {
  KV out;
  out.type = Type::scalar(computeType(dtype));
  out.number = roundedTo(dtype, value);
  return out;
}

Value* KernelBuilder::parameter(Type type, std::string_view hint) {
  return scopes_[0].block->addArg(type, names_.unique(hint));
}

Operand KernelBuilder::operand(const KV& value) {
  if (value.value) return Operand::of(value.value);
  if (isFloat(value.type.dtype)) return Operand::literal(value.number);
  return Operand::literal(static_cast<int64_t>(value.number));
}

OperandList KernelBuilder::slotsOf(std::span<const KV> values) {
  OperandList slots;
  slots.reserve(values.size());
  for (const KV& value : values) slots.push_back(operand(value));
  return slots;
}

Op* KernelBuilder::place(int level, Opcode code, OperandList operands, std::span<const Type> results,
                         AttrList attrs) {
  auto op = Op::create(code, loc_, std::move(operands), std::move(attrs));
  std::string_view bare = op->info().name.substr(4);
  op->results.reserve(results.size());
  for (const Type& type : results) op->addResult(type, names_.unique(hint_.empty() ? bare : hint_));
  hint_.clear();
  return scopes_[static_cast<size_t>(std::min(level, depth()))].block->ops.push_back(std::move(op));
}

KV KernelBuilder::valueAt(Value* value, int level) {
  KV out;
  out.value = value;
  out.type = value->type;
  out.level = level;
  return out;
}

void KernelBuilder::OpKey::add(const Value* value) {
  whole = whole && count < operands.size();
  if (whole) operands[count++] = std::bit_cast<uintptr_t>(value);
}

void KernelBuilder::OpKey::add(const KV& operand) {
  if (!operand.isLiteral()) return add(operand.value);
  whole = whole && count < operands.size();
  if (!whole) return;
  literals |= static_cast<uint16_t>(1u << count);
  operands[count++] = std::bit_cast<uint64_t>(operand.number);
}

size_t KernelBuilder::OpKeyHash::operator()(const OpKey& key) const {
  constexpr uint64_t kFactor = 0x9E3779B97F4A7C15;  // 2^64 over the golden ratio: spreads close numbers
  uint64_t hash =
      static_cast<uint64_t>(key.code) << 32 | static_cast<uint64_t>(key.detail) << 16 | key.literals;
  for (size_t index = 0; index < key.count; ++index) {
    hash = (hash ^ key.operands[index]) * kFactor;
    hash ^= hash >> 32;
  }
  return static_cast<size_t>(hash);
}

/// The 32-bit pattern of a literal, and the literal of a pattern.
static uint32_t wordOf(const KV& literal) {
  if (isFloat(literal.type.dtype)) return std::bit_cast<uint32_t>(static_cast<float>(literal.number));
  return static_cast<uint32_t>(static_cast<int64_t>(literal.number));
}
static KV literalOf(uint32_t word, DType dtype) {
  const double number = isFloat(dtype)        ? std::bit_cast<float>(word)
                        : dtype == DType::i32 ? static_cast<int32_t>(word)
                                              : static_cast<double>(word);
  return KernelBuilder::literal(dtype, number);
}

/// Whether the builder folds an op on literals: the arithmetic of indices and random words, and comparisons and
/// tests, which printed on literals alone would not show the type of their operands. All else is left to constant
/// folding.
static bool foldsLiterals(Opcode code, DType dtype) {
  if (semantics(code).givesCondition()) return true;
  const bool plain = code == Opcode::k_add || code == Opcode::k_sub || code == Opcode::k_mul ||
                     code == Opcode::k_mulhi || code == Opcode::k_xor;
  return plain && !isFloat(dtype) && dtype != DType::i1;
}

/// Whether x, or the literal if x is null, is known to be exact in a 16-bit type, so that rounding does not change it:
/// an element of a buffer of that type, or the result of ops that only select among such elements.
static bool isOf(DType narrow, const Value* x, double literal) {
  if (!x) return roundedTo(narrow, literal) == literal;
  const Op* op = x->def;
  if (!op || op->results.size() != 1) return false;
  auto operandsFrom = [&](int first) {
    return std::all_of(op->operands.begin() + first, op->operands.end(), [&](const Operand& each) {
      return each.isLiteral() ? isOf(narrow, nullptr, each.real) : isOf(narrow, each.value, 0);
    });
  };
  switch (op->code) {
  case Opcode::k_load: return op->operands[0].value->type.dtype == narrow;
  case Opcode::k_unpack_f16: return narrow == DType::f16;
  case Opcode::k_unpack_bf16: return narrow == DType::bf16;
  case Opcode::k_round_f16:
  case Opcode::k_round_bf16: return op->code == roundOp(narrow);
  case Opcode::k_extract: return isOf(narrow, op->operands[0].value, 0);
  case Opcode::k_select: return operandsFrom(1);
  case Opcode::k_vec: return operandsFrom(0);
  default: return false;
  }
}

/// Identities that hold for every value of the type, and ops on literals alone. True if `out` was set.
static bool fold(Opcode code, std::span<const KV> in, DType dtype, KV& out) {
  const bool integer = !isFloat(dtype);
  for (const DType narrow : {DType::f16, DType::bf16})
    if (code == roundOp(narrow) && isOf(narrow, in[0].value, in[0].number)) return out = in[0], true;
  if (in.size() == 2) {
    const KV &a = in[0], &b = in[1];
    const bool conjunction = code == Opcode::k_and && dtype == DType::i1;
    if (conjunction && (a.is(1) || b.is(0))) return out = b, true;
    if (conjunction && (b.is(1) || a.is(0))) return out = a, true;
    if (code == Opcode::k_add && integer && b.is(0)) return out = a, true;
    if (code == Opcode::k_add && integer && a.is(0)) return out = b, true;
    if (code == Opcode::k_sub && integer && b.is(0)) return out = a, true;
    if (code == Opcode::k_xor && integer && b.is(0)) return out = a, true;
    if (code == Opcode::k_xor && integer && a.is(0)) return out = b, true;
    if (code == Opcode::k_mul && b.is(1)) return out = a, true;
    if (code == Opcode::k_mul && a.is(1)) return out = b, true;
    if (code == Opcode::k_div && b.is(1)) return out = a, true;
  }
  if (!foldsLiterals(code, dtype)) return false;
  std::array<uint32_t, 3> words{};
  for (size_t index = 0; index < in.size(); ++index) {
    if (!in[index].isLiteral()) return false;
    words[index] = wordOf(in[index]);
  }
  const auto word = kernelWord(code, in[0].type.dtype, dtype, std::span(words).first(in.size()));
  if (word) out = literalOf(*word, dtype);
  return word.has_value();
}

/// Whether an op has as many operands as its row, all of one element type except a select's condition.
static bool suits(Opcode code, std::span<const KV> operands) {
  const size_t first = code == Opcode::k_select;
  return operands.size() == static_cast<size_t>(info(code).slots.size()) &&
         std::all_of(operands.begin() + first, operands.end(),
                     [&](const KV& each) { return each.type.dtype == operands[first].type.dtype; });
}

KV KernelBuilder::op(Opcode code, std::span<const KV> operands, DType dtype) {
  dtype = computeType(dtype);
  KV folded;
  if (suits(code, operands) && fold(code, operands, dtype, folded)) return folded;
  int level = 0;
  Type type = Type::scalar(dtype);
  for (const KV& operand : operands) {
    if (operand.type.isCoopmat()) type = operand.type, type.dtype = dtype;
    type.lanes = std::max(type.lanes, operand.type.lanes);
    level = std::max(level, operand.level);
  }
  OpKey key(code, static_cast<int>(dtype));
  key.add(operands);
  return once(level, key, [&] { return place(level, code, slotsOf(operands), {type}); });
}

KV KernelBuilder::op(Opcode code, std::span<const KV> operands) {
  const size_t like = code == Opcode::k_select;
  return op(code, operands,
            semantics(code).given(like < operands.size() ? operands[like].type.dtype : DType::f32));
}

KV KernelBuilder::select(const KV& cond, const KV& a, const KV& b) {
  if (cond.isLiteral()) return cond.number != 0 ? a : b;
  return op(Opcode::k_select, {cond, a, b}, a.type.dtype);
}

/// An integer that rounds to the same bf16 and, unlike those from 2^24 on, is exact in f32: the last 8 bits of these
/// become one, set if any of them is.
static KV exactForBf16(KernelBuilder& b, const KV& x) {
  auto number = [&](int64_t value) { return literalOf(static_cast<uint32_t>(value), x.type.dtype); };
  const KV last = b.op(Opcode::k_and, {x, number(255)}), carry = b.add(last, number(255));
  const KV shorter = b.op(Opcode::k_and, {b.op(Opcode::k_or, {x, carry}), number(-256)});
  return b.select(b.op(Opcode::k_lt, {b.op(Opcode::k_abs, {x}), number(1 << 24)}), x, shorter);
}

KV KernelBuilder::cast(const KV& x, DType dtype) {
  const DType to = computeType(dtype);
  if (x.isLiteral() && isFloat(to)) return literal(dtype, x.number);
  if (dtype == DType::bf16 && x.type.dtype != DType::f32 && x.type.dtype != DType::i1)
    return cast(cast(exactForBf16(*this, x), to), dtype);
  if (x.isLiteral()) {
    const std::array<uint32_t, 1> word = {wordOf(x)};
    return literal(dtype, literalOf(*kernelWord(Opcode::k_cast, x.type.dtype, to, word), to).number);
  }
  const KV wide = x.type.dtype == to ? x : op(Opcode::k_cast, {x}, to);
  if (!isNarrow(dtype)) return wide;
  return op(roundOp(dtype), {wide}, to);
}

KV KernelBuilder::bitcast(const KV& x, DType dtype) {
  if (x.type.dtype == dtype) return x;
  if (!x.isLiteral()) return op(Opcode::k_bitcast, {x}, dtype);
  return literalOf(wordOf(x), dtype);
}

KV KernelBuilder::stopGradient(const KV& x) {
  return x.isLiteral() ? x : op(Opcode::k_stop_gradient, {x}, x.type.dtype);
}

KV KernelBuilder::vec(const std::vector<KV>& lanes) {
  if (lanes.empty()) return op(Opcode::k_vec, lanes, DType::f32);
  bool same = std::ranges::all_of(lanes, [&](const KV& lane) {
    return lane.value == lanes[0].value && (lane.value || lane.number == lanes[0].number);
  });
  if (same && lanes[0].isLiteral()) return lanes[0];
  DType dtype = lanes[0].type.dtype;
  int level = 0;
  for (const KV& lane : lanes) level = std::max(level, lane.level);
  // A vec of one operand is a splat, so that the key must contain the width.
  OpKey key(Opcode::k_vec, static_cast<int>(lanes.size()) << 8 | static_cast<int>(dtype));
  key.add(lanes);
  return once(level, key, [&] {
    return place(level, Opcode::k_vec, slotsOf(lanes), {Type::scalar(dtype, static_cast<int>(lanes.size()))});
  });
}

KV KernelBuilder::extract(const KV& vector, int lane) {
  if (vector.lanes() == 1) return vector;
  OpKey key(Opcode::k_extract, lane);
  key.add(vector);
  return once(vector.level, key, [&] {
    return place(vector.level, Opcode::k_extract,
                 {operand(vector), Operand::literal(static_cast<int64_t>(lane))},
                 {Type::scalar(vector.type.dtype)});
  });
}

KV KernelBuilder::splat(const KV& x, int lanes) {
  if (x.lanes() == lanes) return x;
  OpKey key(Opcode::k_vec, lanes << 8 | static_cast<int>(x.type.dtype));
  key.add(x);
  return once(x.level, key, [&] {
    return place(x.level, Opcode::k_vec, {operand(x)}, {Type::scalar(x.type.dtype, lanes)});
  });
}

KV KernelBuilder::id(Opcode code, int axis) {
  return once(0, OpKey(code, axis), [&] {
    return place(0, code, {Operand::literal(static_cast<int64_t>(axis))}, {Type::scalar(DType::u32)});
  });
}

int KernelBuilder::guardDepth() const {
  for (int level = depth(); level > 0; --level)
    if (scopes_[static_cast<size_t>(level)].guard) return level;
  return 0;
}

void KernelBuilder::at(int level, const std::function<void()>& fn) {
  level = std::min(level, depth());
  std::vector<Scope> aside(std::make_move_iterator(scopes_.begin() + level + 1),
                           std::make_move_iterator(scopes_.end()));
  scopes_.erase(scopes_.begin() + level + 1, scopes_.end());
  fn();
  for (Scope& scope : aside) scopes_.push_back(std::move(scope));
}

std::vector<KV> KernelBuilder::bodyOf(Block* block, bool guard,
                                      const std::function<std::vector<KV>()>& body) {
  scopes_.push_back({block, guard, nextId_++, KnownOps(&memory_)});
  std::vector<KV> yielded = body();
  place(depth(), Opcode::k_yield, slotsOf(yielded), {});
  scopes_.pop_back();
  return yielded;
}

std::vector<KV> KernelBuilder::loop(int level, const KV& from, const KV& to, const KV& step,
                                    const std::vector<KV>& init, const LoopBody& body) {
  std::vector<KV> results;
  std::string loopHint = hint_;
  hint_.clear();
  const bool rolled = std::exchange(rolled_, false);
  at(level, [&] {
    auto block = std::make_unique<Block>();
    const KV index = valueAt(
        block->addArg(Type::scalar(DType::u32), names_.unique(loopHint.empty() ? "k" : loopHint)), level + 1);
    std::vector<KV> carried;
    for (const KV& start : init)
      carried.push_back(valueAt(block->addArg(start.type, names_.unique("acc")), level + 1));
    auto op = makeLoop(std::move(block), operand(from), operand(to), operand(step), slotsOf(init), loc_);
    if (rolled) op->attrs.push_back({"rolled", Attr::boolean(true)});
    bodyOf(op->regions[0].get(), false, [&] { return body(index, carried); });
    for (const KV& start : init)
      results.push_back(valueAt(op->addResult(start.type, names_.unique("sum")), level));
    scopes_.back().block->ops.push_back(std::move(op));
  });
  return results;
}

/// A length that divides the count, from half of `block` to twice it, close to `block`; else `block`.
static int64_t blockLength(int64_t count, int64_t block) {
  for (int64_t factor = 0; factor < block / 2; ++factor)
    for (int64_t length : {block - factor, block + 2 * factor})
      if (count % length == 0) return length;
  return block;
}

std::vector<KV> KernelBuilder::sumLoop(int level, int64_t count, int64_t block, const std::vector<KV>& zeros,
                                       const LoopBody& body) {
  assert(block >= 4 && "blocks of fewer may be of one round");
  if (count <= 2 * block) return loop(level, u32(0), count, 1, zeros, body);
  const std::string name = hint_;
  auto sums = [&](const std::vector<KV>& totals, const KV& first, int64_t length) {
    hint(name);
    std::vector<KV> out =
        loop(depth(), u32(0), length, 1, zeros,
             [&](const KV& at, const std::vector<KV>& in) { return body(add(first, at), in); });
    for (size_t i = 0; i < out.size(); ++i) out[i] = add(totals[i], out[i]);
    return out;
  };
  const int64_t length = blockLength(count, block), blocks = count / length, rest = count % length;
  hint("block");
  std::vector<KV> out =
      sumLoop(level, blocks, block, zeros, [&](const KV& at, const std::vector<KV>& totals) {
        return sums(totals, op(Opcode::k_mul, {at, u32(length)}), length);
      });
  if (rest) this->at(level, [&] { out = sums(out, u32(blocks * length), rest); });
  return out;
}

void KernelBuilder::guard(const KV& cond, const std::function<void()>& body) {
  if (cond.isLiteral() && cond.number != 0) return body();
  auto block = std::make_unique<Block>();
  bodyOf(block.get(), true, [&] { return body(), std::vector<KV>{}; });
  Op* op = place(depth(), Opcode::k_if, {operand(cond)}, {});
  op->regions.push_back(std::move(block));
}

std::vector<KV> KernelBuilder::branch(const KV& cond, const std::vector<Type>& types, const BranchBody& then,
                                      const BranchBody& otherwise) {
  auto run = [&](const BranchBody& body) {
    std::vector<KV> values = body();
    for (size_t i = 0; i < std::min(values.size(), types.size()); ++i)
      values[i] = widened(values[i], types[i]);
    return values;
  };
  if (cond.isLiteral()) {
    if (cond.number != 0) return run(then);
    return otherwise ? run(otherwise) : std::vector<KV>{};
  }
  std::string branchHint = hint_;
  hint_.clear();
  auto thenBlock = std::make_unique<Block>(), elseBlock = std::make_unique<Block>();
  bodyOf(thenBlock.get(), true, [&] { return run(then); });
  if (otherwise) bodyOf(elseBlock.get(), true, [&] { return run(otherwise); });
  hint_ = branchHint;
  Op* op = place(depth(), Opcode::k_if, {operand(cond)}, types);
  op->regions.push_back(std::move(thenBlock));
  if (otherwise) op->regions.push_back(std::move(elseBlock));
  std::vector<KV> results;
  for (size_t i = 0; i < types.size(); ++i) results.push_back(result(op, depth(), static_cast<int>(i)));
  return results;
}

KV KernelBuilder::guarded(const KV& cond, const KV& otherwise, const std::function<KV()>& body) {
  if (cond.isLiteral()) return cond.number != 0 ? body() : otherwise;
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
