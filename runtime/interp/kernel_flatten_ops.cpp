// SPDX-License-Identifier: Apache-2.0
// Chooses the instructions for each op.
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

/// A lane-wise op of the table (ir/kernel/semantics.def).
void Flattener::arithmetic(const Op& op) {
  lanes(op, laneCode(kernelOp(op.code), operandType(op, op.operands[0]).dtype));
}

/// Emits one instruction for each lane of the result, or for each matrix element that an invocation holds.
void Flattener::lanes(const Op& op, Code code) {
  for (int lane = 0; lane < width(op.result()->type); ++lane) {
    Instr instr{code, base(op.result()) + static_cast<uint32_t>(lane)};
    uint32_t* slots[] = {&instr.a, &instr.b, &instr.c};
    for (int index = 0; index < op.numOperands(); ++index) *slots[index] = operand(op, index, lane);
    emit(instr);
  }
}

void Flattener::cast(const Op& op) {
  DType from = op.in(0)->type.dtype, to = op.result()->type.dtype;
  bool fromFloat = isFloat(from), toFloat = isFloat(to);
  Code code = Code::move;  // a move keeps the word: between integers, from bool, to the same type
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
  case k_constant: lanes(op, Code::move); break;
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
  case k_coopmat_splat: matrixSplat(op); break;
  case k_coopmat_load: matrixLoad(op); break;
  case k_coopmat_mma: matrixProduct(op); break;
  case k_coopmat_index: matrixIndex(op); break;
  case k_coopmat_repeat: matrixRepeat(op); break;
  case k_coopmat_row_reduce: matrixRowReduce(op); break;
  case k_coopmat_any_above: matrixAnyAbove(op); break;
  case k_coopmat_convert: matrixConvert(op); break;
  case k_coopmat_store: matrixStore(op); break;
  case k_call: assert(false); break;  // runKernel has inlined or rejected it
#define OTHER(...)
#define LANES(id, ...) case id:
#include "ir/kernel/semantics.def"
    arithmetic(op);
    break;
  }
}

}  // namespace tg
