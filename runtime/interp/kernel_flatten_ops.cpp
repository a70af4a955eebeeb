// SPDX-License-Identifier: Apache-2.0
// Which instructions each op becomes.
#include "runtime/interp/kernel_flattener.h"

namespace tg {

void Flattener::identity(const Op& op, uint32_t first) {
  base_[op.result()] = first + static_cast<uint32_t>(op.operands[0].integer);
}

void Flattener::extent(const Op& op) {
  const Memory& memory = program_.memories[memoryOf_.at(op.in(0))];
  base_[op.result()] =
      constant(static_cast<uint32_t>(memory.extents[static_cast<size_t>(op.operands[1].integer)]));
}

/// One instruction for each lane of the result.
void Flattener::lanes(const Op& op, Code code) {
  for (int lane = 0; lane < op.result()->type.lanes; ++lane) {
    Instr instr{code, base(op.result()) + static_cast<uint32_t>(lane)};
    uint32_t* slots[] = {&instr.a, &instr.b, &instr.c};
    for (int index = 0; index < op.numOperands(); ++index) *slots[index] = operand(op, index, lane);
    emit(instr);
  }
}

void Flattener::arithmetic(const Op& op, Code ofFloat, Code ofInt, Code ofUint) {
  DType dtype = operandType(op, op.operands[0]).dtype;
  lanes(op, isFloat(dtype) ? ofFloat : dtype == DType::i32 ? ofInt : ofUint);
}

void Flattener::compare(const Op& op, Code ofFloat, Code ofInt, Code ofUint, bool swapped) {
  DType dtype = operandType(op, op.operands[0]).dtype;
  Code code = isFloat(dtype) ? ofFloat : dtype == DType::i32 ? ofInt : ofUint;
  for (int lane = 0; lane < op.result()->type.lanes; ++lane)
    emit({code, base(op.result()) + static_cast<uint32_t>(lane), operand(op, swapped, lane),
          operand(op, !swapped, lane)});
}

/// A function of the scalar table, of one or two operands.
void Flattener::scalar(const Op& op) {
  auto function = static_cast<uint32_t>(op.info().scalar);
  for (int lane = 0; lane < op.result()->type.lanes; ++lane)
    emit({Code::scalar, base(op.result()) + static_cast<uint32_t>(lane), operand(op, 0, lane),
          op.numOperands() > 1 ? operand(op, 1, lane) : 0, function});
}

void Flattener::cast(const Op& op) {
  DType from = op.in(0)->type.dtype, to = op.result()->type.dtype;
  bool fromFloat = isFloat(from), toFloat = isFloat(to);
  Code code = Code::move;  // between integers, from bool, and to the same type the word stays
  if (to == DType::i1 && from != DType::i1)
    code = fromFloat ? Code::notZeroF : Code::notZeroW;
  else if (fromFloat && !toFloat)
    code = to == DType::i32 ? Code::toI : Code::toU;
  else if (!fromFloat && toFloat)
    code = from == DType::i32 ? Code::fromI : Code::fromU;
  lanes(op, code);
}

void Flattener::bitcast(const Op& op) {
  bool fromFloat = isFloat(op.in(0)->type.dtype), toFloat = isFloat(op.result()->type.dtype);
  lanes(op, fromFloat == toFloat ? Code::move : fromFloat ? Code::toBits : Code::fromBits);
}

void Flattener::vector(const Op& op) {
  for (int lane = 0; lane < op.result()->type.lanes; ++lane)
    emit({Code::move, base(op.result()) + static_cast<uint32_t>(lane),
          operand(op, op.numOperands() == 1 ? 0 : lane, 0)});
}

void Flattener::op(const Op& op) {
  using enum KernelOp;
  current_ = &op;
  switch (kernelOp(op.code)) {
  case k_global_id: identity(op, 0); break;
  case k_local_id: identity(op, 3); break;
  case k_workgroup_id: identity(op, 6); break;
  case k_num_workgroups: identity(op, 9); break;
  case k_dim: extent(op); break;
  case k_add: arithmetic(op, Code::addF, Code::addI, Code::addI); break;
  case k_sub: arithmetic(op, Code::subF, Code::subI, Code::subI); break;
  case k_mul: arithmetic(op, Code::mulF, Code::mulI, Code::mulI); break;
  case k_mulhi: lanes(op, Code::mulHi); break;
  case k_div: arithmetic(op, Code::divF, Code::divI, Code::divU); break;
  case k_mod: arithmetic(op, Code::modU, Code::modI, Code::modU); break;
  case k_min: arithmetic(op, Code::minF, Code::minI, Code::minU); break;
  case k_max: arithmetic(op, Code::maxF, Code::maxI, Code::maxU); break;
  case k_pow: lanes(op, Code::powF); break;
  case k_fma: lanes(op, Code::fmaF); break;
  case k_neg: arithmetic(op, Code::negF, Code::negI, Code::negI); break;
  case k_abs: arithmetic(op, Code::absF, Code::absI, Code::move); break;
  case k_sign: arithmetic(op, Code::signF, Code::signI, Code::signU); break;
  case k_floor: lanes(op, Code::floorF); break;
  case k_round_f16: lanes(op, Code::roundF16); break;
  case k_round_bf16: lanes(op, Code::roundBf16); break;
  case k_sqrt: lanes(op, Code::sqrtF); break;
  case k_rsqrt: lanes(op, Code::rsqrtF); break;
  case k_exp: lanes(op, Code::expF); break;
  case k_log: lanes(op, Code::logF); break;
  case k_and: lanes(op, Code::andW); break;
  case k_or: lanes(op, Code::orW); break;
  case k_xor: lanes(op, Code::xorW); break;
  case k_not: lanes(op, op.result()->type.dtype == DType::i1 ? Code::notB : Code::notI); break;
  case k_shl: lanes(op, Code::shl); break;
  case k_shr: arithmetic(op, Code::shrU, Code::shrI, Code::shrU); break;
  case k_lt: compare(op, Code::ltF, Code::ltI, Code::ltU, false); break;
  case k_le: compare(op, Code::leF, Code::leI, Code::leU, false); break;
  case k_gt: compare(op, Code::ltF, Code::ltI, Code::ltU, true); break;
  case k_ge: compare(op, Code::leF, Code::leI, Code::leU, true); break;
  case k_eq: compare(op, Code::eqF, Code::eqW, Code::eqW, false); break;
  case k_ne: compare(op, Code::neF, Code::neW, Code::neW, false); break;
  case k_select: lanes(op, Code::select); break;
  case k_cast: cast(op); break;
  case k_bitcast: bitcast(op); break;
  case k_vec: vector(op); break;
  case k_extract:
    emit({Code::move, base(op.result()), operand(op, 0, static_cast<int>(op.operands[1].integer))});
    break;
  case k_load: load(op); break;
  case k_store: store(op); break;
  case k_atomic_add: atomic(op, Atomic::Kind::add); break;
  case k_atomic_and: atomic(op, Atomic::Kind::bitAnd); break;
  case k_atomic_or: atomic(op, Atomic::Kind::bitOr); break;
  case k_atomic_xor: atomic(op, Atomic::Kind::bitXor); break;
  case k_atomic_min: atomic(op, Atomic::Kind::min); break;
  case k_atomic_max: atomic(op, Atomic::Kind::max); break;
  case k_atomic_exchange: atomic(op, Atomic::Kind::exchange); break;
  case k_atomic_compare_exchange: atomic(op, Atomic::Kind::compareExchange); break;
  case k_accumulate: accumulate(op); break;
  case k_exact_add:
    emit({Code::exactAdd, 0, access(op, op.operands[1], kExactWords), operand(op, 0, 0)});
    break;
  case k_exact_store:
    emit({Code::exactStore, 0, access(op, op.operands[1], kExactWords), operand(op, 0, 0)});
    break;
  case k_exact_load:
    emit({Code::exactLoad, base(op.result()), access(op, op.operands[0], kExactWords)});
    break;
  case k_shared:
  case k_local: memory(op.result(), op.result()->type.shape); break;
  case k_if: branch(op); break;
  case k_for: loop(op); break;
  case k_yield: break;
  case k_barrier: emit({Code::barrier}); break;
  case k_workgroup_reduce:
    program_.reductions.push_back(reduction(op));
    emit({Code::reduce, 0, static_cast<uint32_t>(program_.reductions.size() - 1)});
    break;
  case k_subgroup_size: base_[op.result()] = constant(subgroupSize_); break;
  case k_subgroup_id: base_[op.result()] = Program::kSubgroupId; break;
  case k_subgroup_lane: base_[op.result()] = Program::kSubgroupLane; break;
  case k_subgroup_reduce: collective(op, Collective::Kind::reduce); break;
  case k_subgroup_shuffle: collective(op, Collective::Kind::shuffle); break;
  case k_subgroup_ballot: collective(op, Collective::Kind::ballot); break;
  case k_ceil:
  case k_round:
  case k_trunc:
  case k_exp2:
  case k_log2:
  case k_reciprocal:
  case k_sin:
  case k_cos:
  case k_tan:
  case k_asin:
  case k_acos:
  case k_atan:
  case k_atan2:
  case k_log1p:
  case k_expm1:
  case k_sinh:
  case k_cosh:
  case k_tanh:
  case k_erf: scalar(op); break;
  case k_stop_gradient: lanes(op, Code::move); break;
  case k_isnan: lanes(op, Code::isNan); break;
  case k_isinf: lanes(op, Code::isInf); break;
  case k_isfinite: lanes(op, Code::isFinite); break;
  case k_popcount: lanes(op, Code::popcount); break;
  case k_clz: lanes(op, Code::clz); break;
  case k_ctz: lanes(op, Code::ctz); break;
  case k_reverse_bits: lanes(op, Code::reverseBits); break;
  case k_rotl: lanes(op, Code::rotl); break;
  case k_rotr: lanes(op, Code::rotr); break;
  case k_add_sat: lanes(op, Code::addSat); break;
  case k_sub_sat: lanes(op, Code::subSat); break;
  case k_mul_sat: lanes(op, Code::mulSat); break;
  case k_abs_diff: lanes(op, Code::absDiff); break;
  case k_coopmat_splat: matrixSplat(op); break;
  case k_coopmat_load: matrixLoad(op); break;
  case k_coopmat_mma: matrixProduct(op); break;
  case k_coopmat_add: matrixAdd(op); break;
  case k_coopmat_store: matrixStore(op); break;
  case k_call: assert(false); break;  // runKernel inlines or refuses it
  }
}

}  // namespace tg
