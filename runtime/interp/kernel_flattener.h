// SPDX-License-Identifier: Apache-2.0
// Translates kernel text to flat instructions: the state that all parts of the translation share.
#pragma once

#include <unordered_map>

#include "runtime/interp/kernel_program.h"

namespace tg {

class Flattener {
 public:
  Flattener(const std::vector<Shape>& shapes, uint32_t subgroupSize)
      : shapes_(shapes), subgroupSize_(subgroupSize) {}
  Program run(const Item& kernel);

 private:
  // kernel_flatten.cpp: registers, memory, control, cooperation.
  void memory(const Value* buffer, const Shape& shape);
  uint32_t access(const Op& op, const Operand& element, uint32_t width);
  uint32_t access(const Op& op, const Value* buffer, std::vector<uint32_t> index);
  uint32_t access(const Op& op, const Operand& element) {
    return access(op, element, element.value->type.lanes);
  }
  uint32_t storedValue(const Op& op);
  void load(const Op& op);
  void store(const Op& op);
  void accumulate(const Op& op);
  void atomic(const Op& op, Atomic::Kind kind);
  void branch(const Op& op);
  void loop(const Op& op);
  void yieldToLoop(const Op& op);
  Reduction reduction(const Op& op);
  void collective(const Op& op, Collective::Kind kind);
  void emitCollective(Collective made);
  void body(const Block& block);

  // kernel_flatten_coopmat.cpp: matrices of a subgroup.
  void matrixSplat(const Op& op);
  void matrixIndex(const Op& op);
  void matrixRepeat(const Op& op);
  void matrixRowReduce(const Op& op);
  void matrixAnyAbove(const Op& op);
  void matrixProduct(const Op& op);
  void matrixLoad(const Op& op);
  void matrixConvert(const Op& op);
  void matrixStoreWords(const Op& op);
  void matrixStore(const Op& op);
  struct Place {
    uint32_t row, column;  ///< registers with the indices of the buffer's element
    uint32_t lane;         ///< register with the index of the scalar in that element
  };
  /// A register with the row (or column) of this invocation's element in matrix register `slot`.
  uint32_t matrixAxis(const Type& matrix, bool columns, uint32_t slot);
  Place matrixPlace(const Operand& element, const Type& matrix, bool columnMajor, uint32_t slot);
  uint32_t computed(Code code, uint32_t a, uint32_t b);

  /// The number of registers in each invocation that a value takes.
  int width(const Type& type) const {
    return type.isCoopmat() ? static_cast<int>(matrixRegisters(type, subgroupSize_)) : type.lanes;
  }
  uint32_t allocate(int count);
  uint32_t base(const Value* value);
  uint32_t constant(uint32_t word);
  uint32_t literal(const Operand& operand, DType dtype);
  uint32_t reg(const Operand& operand, const Type& type, int lane);
  uint32_t operand(const Op& op, int index, int lane) {
    return reg(op.operands[index], operandType(op, op.operands[index]), lane);
  }
  void emit(Instr instr) {
    program_.code.push_back(instr);
    program_.ops.push_back(current_);
  }
  void assign(const Value* target, const Operand& source);
  uint32_t here() const { return static_cast<uint32_t>(program_.code.size()); }

  // kernel_flatten_ops.cpp: one op each.
  void op(const Op& op);
  void identity(const Op& op, uint32_t first);
  void extent(const Op& op);
  void lanes(const Op& op, Code code);
  void arithmetic(const Op& op);
  void cast(const Op& op);
  void bitcast(const Op& op);
  void vector(const Op& op);

  const std::vector<Shape>& shapes_;
  uint32_t subgroupSize_;
  Program program_;
  std::unordered_map<const Value*, uint32_t> base_, memoryOf_;
  std::unordered_map<uint32_t, uint32_t> words_;  // registers of constants, by their bits
  std::unordered_map<uint64_t, uint32_t> reals_;
  // The open loops that contain collectives, as in Collective.
  std::vector<std::pair<uint32_t, uint32_t>> loops_;
  const Op* current_ = nullptr;
};

}  // namespace tg
