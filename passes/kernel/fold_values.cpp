// SPDX-License-Identifier: Apache-2.0
#include "passes/kernel/fold_values.h"

#include <bit>
#include <cmath>

#include "ir/kernel/semantics.h"

namespace tg {
namespace {

using Word = uint32_t;
Word bits(float x) { return std::bit_cast<Word>(x); }
float asFloat(Word word) { return std::bit_cast<float>(word); }
int32_t asInt(Word word) { return std::bit_cast<int32_t>(word); }

/// Identities of one op: what it equals for all values of its unknown operands.
class Identities {
 public:
  Identities(const Op& op, const std::vector<KnownOperand>& in, const Item& kernel)
      : op_(op), in_(in), kernel_(kernel) {}
  std::optional<Operand> run() const;

 private:
  std::optional<Operand> operand(int index) const;
  std::optional<Operand> constant(Word word) const;
  std::optional<Operand> integer() const;
  std::optional<Operand> boolean() const;
  std::optional<Operand> real() const;
  std::optional<Operand> comparison() const;
  std::optional<Operand> lane() const;
  const Op* source(int index) const { return in_[index].value ? in_[index].value->def : nullptr; }
  bool is(int index, Word word) const { return in_[index].word == word; }
  bool is(int index, float x) const { return in_[index].word == bits(x); }
  bool same(int a, int b) const {
    return in_[a].word ? in_[a].word == in_[b].word && in_[a].type == in_[b].type
                       : in_[a].value && in_[a].value == in_[b].value;
  }
  std::pair<int64_t, int64_t> range(int index) const;

  const Op& op_;
  const std::vector<KnownOperand>& in_;
  const Item& kernel_;
};

/// Operand `index` as the result, if it has the result's type.
std::optional<Operand> Identities::operand(int index) const {
  const KnownOperand& known = in_[index];
  if (known.type.dtype != op_.result()->type.dtype || known.type.lanes != op_.result()->type.lanes) return {};
  if (known.word) return constant(*known.word);
  return Operand::of(known.value);
}

std::optional<Operand> Identities::constant(Word word) const {
  if (op_.result()->type.lanes != 1) return {};
  return wordLiteral(word, op_.result()->type.dtype);
}

std::optional<Operand> Identities::integer() const {
  Word ones = UINT32_MAX;
  switch (op_.code) {
  case Opcode::k_add:
  case Opcode::k_or:
  case Opcode::k_xor:
  case Opcode::k_add_sat:
  case Opcode::k_abs_diff:
    if (is(0, 0u)) return operand(1);
    if (is(1, 0u)) return operand(0);
    break;
  case Opcode::k_mul:
  case Opcode::k_mul_sat:
    if (is(0, 1u)) return operand(1);
    if (is(1, 1u)) return operand(0);
    if (is(0, 0u) || is(1, 0u)) return constant(0);
    break;
  case Opcode::k_mulhi:
    if (is(0, 0u) || is(1, 0u) || is(0, 1u) || is(1, 1u)) return constant(0);
    break;
  case Opcode::k_and:
    if (is(0, 0u) || is(1, 0u)) return constant(0);
    if (is(0, ones)) return operand(1);
    if (is(1, ones)) return operand(0);
    break;
  case Opcode::k_sub:
  case Opcode::k_sub_sat:
    if (is(1, 0u)) return operand(0);
    break;
  case Opcode::k_div:
    if (is(1, 1u)) return operand(0);
    break;
  case Opcode::k_mod:
    if (is(1, 1u)) return constant(0);
    break;
  case Opcode::k_shl:
  case Opcode::k_shr:
  case Opcode::k_rotl:
  case Opcode::k_rotr:
    if (in_[1].word && (*in_[1].word & 31) == 0) return operand(0);
    break;
  case Opcode::k_abs:
    if (op_.result()->type.dtype == DType::u32) return operand(0);
    break;
  default: break;
  }
  if (in_.size() != 2 || !same(0, 1)) return {};
  switch (op_.code) {
  case Opcode::k_sub:
  case Opcode::k_sub_sat:
  case Opcode::k_xor:
  case Opcode::k_abs_diff: return constant(0);
  case Opcode::k_and:
  case Opcode::k_or: return operand(0);
  default: return {};
  }
}

std::optional<Operand> Identities::boolean() const {
  bool both = op_.code == Opcode::k_and, either = op_.code == Opcode::k_or;
  if (op_.code == Opcode::k_not && source(0) && source(0)->code == Opcode::k_not &&
      !source(0)->operands[0].isLiteral())
    return Operand::of(source(0)->in(0));
  if (in_.size() != 2 || (!both && !either && op_.code != Opcode::k_xor)) return {};
  for (int index : {0, 1}) {
    if (is(index, both ? 1u : 0u)) return operand(1 - index);
    if (both && is(index, 0u)) return constant(0);
    if (either && is(index, 1u)) return constant(1);
  }
  if (!same(0, 1)) return {};
  return both || either ? operand(0) : constant(0);
}

/// Not folded: x + 0 is not x for x = -0, and x·0 is not 0 for an infinite x.
std::optional<Operand> Identities::real() const {
  switch (op_.code) {
  case Opcode::k_mul:
    if (is(0, 1.0f)) return operand(1);
    [[fallthrough]];
  case Opcode::k_div:
    if (is(1, 1.0f)) return operand(0);
    break;
  case Opcode::k_add:
    if (is(0, -0.0f)) return operand(1);
    if (is(1, -0.0f)) return operand(0);
    break;
  case Opcode::k_sub:
    if (is(1, 0.0f)) return operand(0);
    break;
  case Opcode::k_neg:
    if (source(0) && source(0)->code == Opcode::k_neg && !source(0)->operands[0].isLiteral())
      return Operand::of(source(0)->in(0));
    break;
  default: break;
  }
  return {};
}

/// The range of values of a u32 operand.
std::pair<int64_t, int64_t> Identities::range(int index) const {
  if (in_[index].word) return {*in_[index].word, *in_[index].word};
  if (const Op* from = source(index); from && from->code == Opcode::k_local_id)
    return {0, kernel_.workgroup[static_cast<size_t>(from->operands[0].integer)] - 1};
  return {0, UINT32_MAX};
}

std::optional<Operand> Identities::comparison() const {
  Opcode code = op_.code;
  bool differs = code == Opcode::k_ne || code == Opcode::k_lt || code == Opcode::k_gt;
  if (same(0, 1) && (!isFloat(in_[0].type.dtype) || code == Opcode::k_lt || code == Opcode::k_gt))
    return constant(!differs);
  if (in_[0].type.dtype != DType::u32) return {};
  bool swapped = code == Opcode::k_gt || code == Opcode::k_le;  // a > b is b < a, a <= b is not b < a
  auto [leastA, mostA] = range(swapped);
  auto [leastB, mostB] = range(!swapped);
  bool negated = code == Opcode::k_le || code == Opcode::k_ge;
  if (code == Opcode::k_eq || code == Opcode::k_ne) {
    if (mostA < leastB || mostB < leastA) return constant(differs);
  } else {
    if (mostA < leastB) return constant(!negated);
    if (leastA >= mostB) return constant(negated);
  }
  return {};
}

/// The lane of a vector that was built from scalars.
std::optional<Operand> Identities::lane() const {
  const Op* made = source(0);
  if (!made || made->code != Opcode::k_vec) return {};
  return made->operands[made->numOperands() == 1 ? 0 : static_cast<size_t>(op_.operands[1].integer)];
}

std::optional<Operand> Identities::run() const {
  switch (op_.code) {
  case Opcode::k_local_id:
    return kernel_.workgroup[static_cast<size_t>(op_.operands[0].integer)] == 1 ? constant(0) : std::nullopt;
  case Opcode::k_dim: {
    int64_t extent = op_.in(0)->type.shape[static_cast<int>(op_.operands[1].integer)];
    return extent == Shape::kDynamic ? std::nullopt : constant(static_cast<Word>(extent));
  }
  case Opcode::k_extract: return lane();
  case Opcode::k_select:
    if (in_[0].word) return operand(*in_[0].word ? 1 : 2);
    return same(1, 2) ? operand(1) : std::nullopt;
  case Opcode::k_cast:
  case Opcode::k_bitcast:
    if (op_.code == Opcode::k_bitcast && source(0) && source(0)->code == Opcode::k_bitcast &&
        source(0)->in(0)->type == op_.result()->type)
      return Operand::of(source(0)->in(0));
    return operand(0);
  case Opcode::k_min:
  case Opcode::k_max: return same(0, 1) ? operand(0) : std::nullopt;
  case Opcode::k_lt:
  case Opcode::k_le:
  case Opcode::k_gt:
  case Opcode::k_ge:
  case Opcode::k_eq:
  case Opcode::k_ne: return comparison();
  default: break;
  }
  DType dtype = op_.result()->type.dtype;
  return dtype == DType::i1 ? boolean() : isFloat(dtype) ? real() : integer();
}

}  // namespace

uint32_t literalWord(const Operand& literal, DType dtype) {
  if (isFloat(dtype)) return bits(static_cast<float>(literal.number()));
  return static_cast<Word>(literal.integer);
}

std::optional<Operand> wordLiteral(uint32_t word, DType dtype) {
  if (isFloat(dtype)) {
    if (std::isnan(asFloat(word))) return {};
    return Operand::literal(static_cast<double>(asFloat(word)));
  }
  return Operand::literal(dtype == DType::i32 ? int64_t{asInt(word)} : int64_t{word});
}

std::optional<Operand> foldOp(const Op& op, const std::vector<KnownOperand>& in, const Item& kernel) {
  std::vector<Word> words;
  for (const KnownOperand& known : in)
    if (known.word) words.push_back(*known.word);
  if (!in.empty() && words.size() == in.size() && op.result()->type.lanes == 1) {
    const DType from = in[op.code == Opcode::k_select ? 1 : 0].type.dtype, to = op.result()->type.dtype;
    if (auto word = kernelWord(op.code, from, to, words)) return wordLiteral(*word, to);
  }
  return Identities(op, in, kernel).run();
}

}  // namespace tg
