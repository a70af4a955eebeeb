// SPDX-License-Identifier: Apache-2.0
// Type inference of the kernel dialect: one case for each row of ir/kernel/ops.def. The ops on memory, control flow
// and matrices are in infer_memory.cpp, infer_control.cpp and infer_coopmat.cpp.

#include <algorithm>

#include "ir/infer.h"
#include "ir/kernel/infer_detail.h"

namespace tg {
namespace kernel_inference {

using table::TypeClass;

static std::string_view nameOf(TypeClass wanted) {
  switch (wanted) {
  case TypeClass::any: return "a scalar or short vector";
  case TypeClass::num: return "a number";
  case TypeClass::flt: return "a float";
  case TypeClass::integer: return "an integer";
  case TypeClass::boolean: return "bool";
  }
  return "";
}

static bool isPlain(const Operand& operand) {
  return operand.kind == Operand::Kind::value || operand.kind == Operand::Kind::literal;
}

Error violationText(const Op& op, std::string_view constraint, const std::string& why) {
  static constexpr std::string_view kIds[] = {
#define OP(id, ...) #id,
#include "ir/kernel/ops.def"
#undef OP
  };
  std::string_view id = kIds[static_cast<int>(kernelOp(op.code))];
  return failAt(op.loc, "{} [{}.{}]: {}", op.info().name, id, constraint, why);
}

Result<Type> plainOperand(const Op& op, int index) {
  const auto& slots = op.info().slots;
  const auto& slot = slots[index < slots.size() ? index : slots.size() - 1];
  if (index >= op.numOperands() || !isPlain(op.operands[index]))
    return violation(op, slot.name, "operand `{}` is missing or not a value", slot.name);
  Type type = operandType(op, op.operands[index]);
  if (type.kind == Type::Kind::none)
    return violation(op, slot.name, "the literal `{}` has no known type; declare the result's type",
                     slot.name);
  if (!type.isScalar() || !admits(slot.type, type.dtype))
    return violation(op, slot.name, "`{}` must be {}, not {}", slot.name, nameOf(slot.type), type.str());
  if (op.operands[index].isLiteral() && !represents(op.operands[index], type.dtype))
    return violation(op, slot.name, "{} is not a value of type {}", literalText(op.operands[index]),
                     type.str());
  return type;
}

namespace {

/// The common type of two lane-wise operands; a scalar beside a vector is repeated.
Result<Type> common(const Op& op, const Type& a, const Type& b) {
  if (a.dtype != b.dtype) return violation(op, "c1", "the element types differ: {} and {}", a.str(), b.str());
  if (a.lanes != b.lanes && a.lanes != 1 && b.lanes != 1)
    return violation(op, "c1", "the widths differ: {} and {}", a.str(), b.str());
  return a.lanes >= b.lanes ? a : b;
}

/// The declared vector type if all operands are literals, which are then repeated; else `type`.
Type widened(const Op& op, Type type) {
  for (const Operand& operand : op.operands)
    if (!operand.isLiteral()) return type;
  if (!op.results.empty() && op.result()->type.isScalar()) type.lanes = op.result()->type.lanes;
  return type;
}

Result<Types> laneWise(const Op& op, int first = 0) {
  TG_TRY(Type type, plainOperand(op, first));
  for (int index = first + 1; index < op.info().slots.size(); ++index) {
    TG_TRY(Type other, plainOperand(op, index));
    TG_TRY(type, common(op, type, other));
  }
  return Types{first == 0 ? widened(op, type) : type};
}

/// A lane-wise op of the table. An op on literals alone whose result has another element type is an error: its text
/// would not say the type of the operands.
Result<Types> arithmetic(const Op& op) {
  if (takesMatrices(op)) return coopmatLanes(op);
  const KernelSemantics& row = semantics(op.code);
  bool literals = row.gives != LaneGives::same;
  for (const Operand& operand : op.operands) literals = literals && operand.isLiteral();
  if (literals && op.numOperands() == 1) return violation(op, "x", "`x` must be a value, not a literal");
  if (literals && op.numOperands() == 2)
    return violation(op, "c1", "two literals have no known type; make one a tgk.constant");
  TG_TRY(Types types, laneWise(op));
  if (row.types == LaneTypes::bits && isFloat(types[0].dtype))
    return violation(op, "c1", "{} has no bitwise operations", types[0].str());
  if (row.types == LaneTypes::word && types[0].dtype != DType::u32)
    return violation(op, "c2", "{} is not u32", types[0].str());
  types[0].dtype = row.given(types[0].dtype);
  return types;
}

Result<Types> reduction(const Op& op, std::string_view label) {
  TG_TRY(Types types, laneWise(op));
  std::string kind = op.word("kind");
  if (isFloat(types[0].dtype) && (kind == "and" || kind == "or" || kind == "xor"))
    return violation(op, label, "{} has no bitwise operations", types[0].str());
  return types;
}

Result<Types> shuffle(const Op& op) {
  TG_TRY(Type type, plainOperand(op, 0));
  TG_TRY(Type lane, plainOperand(op, 1));
  if (op.operands[1].isLiteral() ? !op.operands[1].isInteger : lane != Type::scalar(DType::u32))
    return violation(op, "c1", "the lane is {}, not u32", lane.str());
  return Types{type};
}

Result<Types> ballot(const Op& op) {
  TG_TRY(Type cond, plainOperand(op, 0));
  if (cond.lanes != 1) return violation(op, "c1", "{} is not one bool", cond.str());
  return Types{Type::scalar(DType::u32, 4)};
}

Result<Types> select(const Op& op) {
  if (takesMatrices(op)) return coopmatLanes(op);
  TG_TRY(Type cond, plainOperand(op, 0));
  TG_TRY(Types types, laneWise(op, 1));
  Type& type = types[0];
  bool literals = op.operands[1].isLiteral() && op.operands[2].isLiteral();
  if (literals) type.lanes = op.result()->type.lanes;
  if (cond.lanes != 1 && type.lanes == 1) type.lanes = cond.lanes;
  if (cond.lanes != 1 && cond.lanes != type.lanes)
    return violation(op, "c1", "the condition {} has another width than {}", cond.str(), type.str());
  return types;
}

Result<Type> declared(const Op& op) {
  if (op.results.size() != 1 || !op.result()->type.isScalar())
    return violation(op, "result", "the result's type must be given, a scalar or short vector");
  return op.result()->type;
}

Result<Types> constant(const Op& op) {
  TG_TRY(Type type, declared(op));
  if (op.numOperands() != 1 || !op.operands[0].isLiteral() || !represents(op.operands[0], type.dtype))
    return violation(op, "c1", "`value` must be a literal of {}", type.str());
  return Types{type};
}

Result<Types> conversion(const Op& op, bool bits) {
  TG_TRY(Type type, declared(op));
  if (op.numOperands() != 1 || op.operands[0].kind != Operand::Kind::value)
    return violation(op, "x", "`x` must be a value");
  TG_TRY(Type from, plainOperand(op, 0));
  if (from.lanes != type.lanes)
    return violation(op, "c1", "the lanes change: {} to {}", from.str(), type.str());
  if (bits && (from.dtype == DType::i1 || type.dtype == DType::i1))
    return violation(op, "c2", "bool cannot be bitcast");
  return Types{type};
}

Result<Types> vector(const Op& op) {
  TG_TRY(Type type, declared(op));
  int count = op.numOperands();
  if (type.lanes == 1) return violation(op, "c1", "{} is not a vector", type.str());
  if (count != 1 && count != type.lanes)
    return violation(op, "c1", "{} needs 1 or {} scalars, not {}", type.str(), type.lanes, count);
  for (int index = 0; index < count; ++index) {
    TG_TRY(Type lane, plainOperand(op, index));
    if (lane != Type::scalar(type.dtype))
      return violation(op, "c1", "lane {} is {}, not {}", index, lane.str(), Type::scalar(type.dtype).str());
  }
  return Types{type};
}

/// The literal operand `index` as an integer in 0..count-1.
Result<int64_t> position(const Op& op, int index, int64_t count, std::string_view what) {
  if (index >= op.numOperands() || !op.operands[index].isLiteral() || !op.operands[index].isInteger)
    return violation(op, "c1", "the {} must be an integer literal", what);
  int64_t at = op.operands[index].integer;
  if (at >= 0 && at < count) return at;
  if (count > 1) return violation(op, "c1", "{} {} is not in 0..{}", what, at, count - 1);
  return violation(op, "c1", "there is no {} {}{}", what, at, count ? fmt::format(", only {} 0", what) : "");
}

Result<Types> extract(const Op& op) {
  TG_TRY(Type type, plainOperand(op, 0));
  TG_TRY([[maybe_unused]] int64_t lane, position(op, 1, type.lanes, "lane"));
  return Types{Type::scalar(type.dtype)};
}

Result<Types> identity(const Op& op) {
  TG_TRY([[maybe_unused]] int64_t axis, position(op, 0, 3, "axis"));
  return Types{Type::scalar(DType::u32)};
}

Result<Types> extent(const Op& op) {
  if (op.numOperands() != 2 || op.operands[0].kind != Operand::Kind::value || !op.in(0)->type.isBuffer())
    return violation(op, "buffer", "`buffer` must be a buffer");
  TG_TRY([[maybe_unused]] int64_t axis, position(op, 1, op.in(0)->type.rank(), "axis"));
  return Types{Type::scalar(DType::u32)};
}

}  // namespace
}  // namespace kernel_inference

const Op* yieldOf(const Block& body) {
  if (body.ops.empty() || body.ops.back()->code != Opcode::k_yield) return nullptr;
  return body.ops.back();
}

LoopRange rangeOf(const Op& loop) {
  static const Operand kOne = Operand::literal(int64_t{1});
  const Operand* step = loop.keyword("step");
  return {loop.operands[0].items[0], loop.keyword("to")->items[0], step ? step->items[0] : kOne};
}

const OperandList& iterArgs(const Op& loop) {
  static const OperandList kNone;
  const Operand* keyword = loop.keyword("iter_args");
  return keyword ? keyword->items : kNone;
}

Type literalType(const Op& op) {
  if (op.code == Opcode::k_exact_add || op.code == Opcode::k_exact_store ||
      op.code == Opcode::k_coopmat_splat || op.code == Opcode::k_coopmat_any_above)
    return Type::scalar(DType::f32);
  if (op.numOperands() >= 2 && op.operands.back().kind == Operand::Kind::element && op.operands.back().value)
    return Type::scalar(elementType(op.operands.back().value->type).dtype);  // what is stored or added
  if (op.code == Opcode::k_yield || op.code == Opcode::k_cast || op.code == Opcode::k_bitcast ||
      op.code == Opcode::k_call)
    return {};
  if (op.code == Opcode::k_if || op.code == Opcode::k_subgroup_ballot) return Type::scalar(DType::i1);
  size_t first = op.code == Opcode::k_select ? 1 : 0, end = op.operands.size();
  if (op.code == Opcode::k_subgroup_shuffle) end = std::min<size_t>(end, 1);  // the lane is of another type
  for (size_t index = first; index < end; ++index)
    if (op.operands[index].kind == Operand::Kind::value)
      return Type::scalar(op.operands[index].value->type.dtype);
  if (op.results.empty() || !op.result()->type.isScalar()) return {};
  return Type::scalar(op.result()->type.dtype);
}

Type operandType(const Op& op, const Operand& operand) {
  if (!operand.isLiteral()) return operand.value->type;
  if (op.code == Opcode::k_subgroup_shuffle && &operand != &op.operands[0]) return Type::scalar(DType::u32);
  if (op.code == Opcode::k_select && &operand == &op.operands[0]) return Type::scalar(DType::i1);
  return literalType(op);
}

// Dispatches on the opcode. Ops of the semantics table are inferred from their row.
Result<std::vector<Type>> inferKernelOp(const Op& op) {
  using enum KernelOp;
  using namespace kernel_inference;
  switch (kernelOp(op.code)) {
  case k_global_id:
  case k_local_id:
  case k_workgroup_id:
  case k_num_workgroups: return identity(op);
  case k_dim: return extent(op);
  case k_constant: return constant(op);
  case k_workgroup_reduce: return reduction(op, "c2");
  case k_subgroup_reduce: return reduction(op, "c1");
  case k_subgroup_shuffle: return shuffle(op);
  case k_subgroup_ballot: return ballot(op);
  case k_subgroup_size:
  case k_subgroup_id:
  case k_subgroup_lane: return Types{Type::scalar(DType::u32)};
  case k_select: return select(op);
  case k_cast: return conversion(op, false);
  case k_bitcast: return conversion(op, true);
  case k_vec: return vector(op);
  case k_extract: return extract(op);
  case k_load: return load(op);
  case k_store: return store(op);
  case k_atomic_add:
  case k_atomic_and:
  case k_atomic_or:
  case k_atomic_xor:
  case k_atomic_min:
  case k_atomic_max:
  case k_atomic_exchange: return atomic(op);
  case k_atomic_compare_exchange: return compareExchange(op);
  case k_accumulate: return accumulate(op);
  case k_exact_add: return exactAdd(op);
  case k_exact_load: return exactLoad(op);
  case k_exact_store: return exactStore(op);
  case k_coopmat_splat: return coopmatSplat(op);
  case k_coopmat_load: return coopmatLoad(op);
  case k_coopmat_mma: return coopmatMma(op);
  case k_coopmat_index: return coopmatIndex(op);
  case k_coopmat_repeat: return coopmatRepeat(op);
  case k_coopmat_row_reduce: return coopmatRowReduce(op);
  case k_coopmat_any_above: return coopmatAnyAbove(op);
  case k_coopmat_convert: return coopmatConvert(op);
  case k_coopmat_store: return coopmatStore(op);
  case k_call: return call(op);
  case k_shared: return memory(op, BufMode::shared);
  case k_local: return memory(op, BufMode::local);
  case k_if: return branch(op);
  case k_for: return loop(op);
  case k_yield:
  case k_barrier: return Types{};
#define OTHER(...)
#define LANES(id, ...) case id:
#include "ir/kernel/semantics.def"
    return arithmetic(op);
  }
  return Types{};
}

}  // namespace tg
