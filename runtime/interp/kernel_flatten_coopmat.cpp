// SPDX-License-Identifier: Apache-2.0
// Translates cooperative matrices to instructions: each invocation of the subgroup holds some of the elements.
#include "ir/divide.h"
#include "runtime/interp/kernel_flattener.h"

namespace tg {

uint32_t Flattener::computed(Code code, uint32_t a, uint32_t b) {
  uint32_t made = allocate(1);
  emit({code, made, a, b});
  return made;
}

uint32_t Flattener::access(const Op& op, const Value* buffer, std::vector<uint32_t> index) {
  std::vector<bool> whole(index.size(), false);
  program_.accesses.push_back(
      {&op, buffer, memoryOf_.at(buffer), buffer->type.lanes, std::move(index), std::move(whole)});
  return static_cast<uint32_t>(program_.accesses.size() - 1);
}

void Flattener::matrixSplat(const Op& op) {
  for (int slot = 0; slot < width(op.result()->type); ++slot)
    emit({Code::move, base(op.result()) + static_cast<uint32_t>(slot), operand(op, 0, 0)});
}

uint32_t Flattener::matrixAxis(const Type& matrix, bool columns, uint32_t slot) {
  uint32_t number = computed(Code::k_add_u, Program::kSubgroupLane, constant(slot * subgroupSize_));
  return computed(columns ? Code::k_mod_u : Code::k_div_u, number,
                  constant(static_cast<uint32_t>(matrix.shape[1])));
}

void Flattener::matrixIndex(const Op& op) {
  const Type& matrix = op.result()->type;
  for (uint32_t slot = 0; slot < matrixRegisters(matrix, subgroupSize_); ++slot)
    emit({Code::fromU, base(op.result()) + slot, matrixAxis(matrix, op.flag("columns"), slot)});
}

void Flattener::matrixRepeat(const Op& op) {
  const Operand& element = op.operands[0];
  const Type& matrix = op.result()->type;
  const uint32_t first = reg(element.items[0], Type::scalar(DType::u32), 0);
  for (uint32_t slot = 0; slot < matrixRegisters(matrix, subgroupSize_); ++slot) {
    const uint32_t at = computed(Code::k_add_u, first, matrixAxis(matrix, op.flag("columns"), slot));
    emit({Code::load, base(op.result()) + slot, access(op, element.value, {at})});
  }
}

/// Reduces the operands element by element first, and then along the rows.
void Flattener::matrixRowReduce(const Op& op) {
  Collective made{Collective::Kind::rows, reduction(op), 0, 0, 0, 0, 0, 0, loops_};
  const auto count = static_cast<uint32_t>(width(op.result()->type));
  const Code fold = laneCode(op.word("kind") == "max" ? KernelOp::k_max : KernelOp::k_add, DType::f32);
  for (int i = 1; i < op.numOperands(); ++i) {
    const uint32_t folded = allocate(count);
    for (uint32_t slot = 0; slot < count; ++slot)
      emit({fold, folded + slot, made.reduction.source + slot, operand(op, i, static_cast<int>(slot))});
    made.reduction.source = folded;
  }
  made.m = static_cast<uint32_t>(op.in(0)->type.shape[0]);
  made.n = static_cast<uint32_t>(op.in(0)->type.shape[1]);
  emitCollective(std::move(made));
}

/// Tests whether this invocation has an element above the limit, and then combines the answers with a ballot.
void Flattener::matrixAnyAbove(const Op& op) {
  constexpr uint32_t kWords = 4;
  const uint32_t own = allocate(1), any = base(op.result()), bits = allocate(kWords);
  emit({Code::move, own, constant(0)});
  for (int i = 1; i < op.numOperands(); ++i)
    for (int slot = 0; slot < width(op.in(i)->type); ++slot) {
      const uint32_t above =
          computed(laneCode(KernelOp::k_gt, DType::f32), operand(op, i, slot), operand(op, 0, 0));
      emit({laneCode(KernelOp::k_or, DType::i1), own, own, above});
    }
  Collective made{Collective::Kind::ballot, {}, 0, 0, 0, 0, 0, 0, loops_};
  made.reduction = {{Folding::Kind::add, DType::u32}, bits, own, kWords, false};
  emitCollective(std::move(made));
  for (uint32_t word = 1; word < kWords; ++word) emit({Code::k_or_u, bits, bits, bits + word});
  emit({Code::k_ne_u, any, bits, constant(0)});
}

void Flattener::matrixProduct(const Op& op) {
  Collective made{Collective::Kind::product, {}, 0, base(op.in(1)), base(op.in(2)), 0, 0, 0, loops_};
  made.reduction = {{Folding::Kind::add, DType::f32}, base(op.result()), base(op.in(0)), 0, false};
  made.m = static_cast<uint32_t>(op.in(0)->type.shape[0]);
  made.k = static_cast<uint32_t>(op.in(0)->type.shape[1]);
  made.n = static_cast<uint32_t>(op.in(1)->type.shape[1]);
  emitCollective(std::move(made));
}

/// The position in the buffer of this invocation's element in a matrix register, if the matrix begins at `element`.
Flattener::Place Flattener::matrixPlace(const Operand& element, const Type& matrix, bool columnMajor,
                                        uint32_t slot) {
  Type index = Type::scalar(DType::u32);
  uint32_t number = computed(Code::k_add_u, Program::kSubgroupLane, constant(slot * subgroupSize_));
  uint32_t columns = constant(static_cast<uint32_t>(matrix.shape[1]));
  uint32_t row = computed(Code::k_div_u, number, columns), column = computed(Code::k_mod_u, number, columns);
  if (columnMajor) std::swap(row, column);
  uint32_t scalars = constant(static_cast<uint32_t>(matrixScalars(element.value->type, matrix)));
  return {computed(Code::k_add_u, reg(element.items[0], index, 0), row),
          computed(Code::k_add_u, reg(element.items[1], index, 0), computed(Code::k_div_u, column, scalars)),
          computed(Code::k_mod_u, column, scalars)};
}

void Flattener::matrixLoad(const Op& op) {
  const Operand& element = op.operands[0];
  const Value* buffer = element.value;
  const Type& matrix = op.result()->type;
  for (uint32_t slot = 0; slot < matrixRegisters(matrix, subgroupSize_); ++slot) {
    Place place = matrixPlace(element, matrix, op.flag("column_major"), slot);
    uint32_t loaded = allocate(buffer->type.lanes), to = base(op.result()) + slot;
    emit({Code::load, loaded, access(op, buffer, {place.row, place.column})});
    // The lane of the element; where a word holds two scalars, the lane of the word that holds the scalar's bits.
    const bool halves = buffer->type.dtype == DType::u32 && isNarrow(matrix.dtype);
    const uint32_t of = halves ? computed(Code::k_shr_u, place.lane, constant(1)) : place.lane;
    emit({Code::move, to, loaded});
    for (uint32_t lane = 1; lane < buffer->type.lanes; ++lane)
      emit({Code::select, to, computed(Code::k_eq_u, of, constant(lane)), loaded + lane, to});
    if (!halves) continue;
    const uint32_t half = computed(Code::k_and_u, place.lane, constant(1));
    const uint32_t bits = computed(Code::k_shr_u, to, computed(Code::k_mul_u, half, constant(16)));
    emit({matrix.dtype == DType::f16 ? Code::k_unpack_f16_u : Code::k_unpack_bf16_u, to, bits});
  }
}

void Flattener::matrixConvert(const Op& op) {
  if (op.flag("truncate")) {  // the upper half of an f32's bits is a bf16
    for (uint32_t slot = 0; slot < matrixRegisters(op.result()->type, subgroupSize_); ++slot)
      emit({Code::k_and_u, base(op.result()) + slot, base(op.in(0)) + slot, constant(0xffff0000)});
    return;
  }
  switch (op.result()->type.dtype) {
  case DType::f16: return lanes(op, laneCode(KernelOp::k_round_f16, DType::f32));
  case DType::bf16: return lanes(op, laneCode(KernelOp::k_round_bf16, DType::f32));
  default: return lanes(op, Code::move);
  }
}

/// Two 16-bit elements share a word: the subgroup packs the matrix, and then each invocation stores some of the
/// buffer's elements whole.
void Flattener::matrixStoreWords(const Op& op) {
  const Operand& element = op.operands[1];
  const Type &matrix = op.in(0)->type, &buffer = element.value->type;
  const auto scalars = static_cast<uint32_t>(matrixScalars(buffer, matrix)),
             lanes = static_cast<uint32_t>(buffer.lanes),
             count = static_cast<uint32_t>(matrix.elements()) / scalars,
             perRow = static_cast<uint32_t>(matrix.shape[1]) / scalars;
  const uint32_t slots = divideCeil(count, subgroupSize_);
  Collective made{Collective::Kind::words, {}, 0, 0, 0, 0, 0, 0, loops_};
  made.reduction = {{Folding::Kind::add, matrix.dtype},
                    allocate(static_cast<int>(slots * lanes)),
                    base(op.in(0)),
                    lanes,
                    false};
  made.m = static_cast<uint32_t>(matrix.shape[0]);
  made.n = static_cast<uint32_t>(matrix.shape[1]);
  const uint32_t packed = made.reduction.dst;
  emitCollective(std::move(made));
  const Type index = Type::scalar(DType::u32);
  for (uint32_t slot = 0; slot < slots; ++slot) {
    const uint32_t number = computed(Code::k_add_u, Program::kSubgroupLane, constant(slot * subgroupSize_));
    const uint32_t row = computed(Code::k_div_u, number, constant(perRow)),
                   column = computed(Code::k_mod_u, number, constant(perRow));
    const uint32_t less = computed(Code::k_lt_u, number, constant(count)), test = here();
    emit({Code::jumpUnless, 0, 0, less});
    emit({Code::store, 0,
          access(op, element.value,
                 {computed(Code::k_add_u, reg(element.items[0], index, 0), row),
                  computed(Code::k_add_u, reg(element.items[1], index, 0), column)}),
          packed + slot * lanes});
    program_.code[test].a = here();
  }
}

void Flattener::matrixStore(const Op& op) {
  const Operand& element = op.operands[1];
  const Type& matrix = op.in(0)->type;
  if (element.value->type.dtype == DType::u32) return matrixStoreWords(op);
  for (uint32_t slot = 0; slot < matrixRegisters(matrix, subgroupSize_); ++slot) {
    Place place = matrixPlace(element, matrix, false, slot);
    emit({Code::store, 0, access(op, element.value, {place.row, place.column}), base(op.in(0)) + slot});
  }
}

}  // namespace tg
