// SPDX-License-Identifier: Apache-2.0
// The kernel dialect apart from its table: what all code that handles kernel ops shares.
#pragma once

#include <unordered_set>
#include <vector>

#include "ir/module.h"
#include "ir/result.h"

namespace tg {

/// The kernel dialect's opcodes alone, so that a switch over them is exhaustive.
enum class KernelOp : uint8_t {
#define OP(id, ...) id,
#include "ir/kernel/ops.def"
#undef OP
};

/// The number of the first kernel op in Opcode: the tensor ops come before.
constexpr int kFirstKernelOp = 0
#define OP(id, ...) +1
#include "ir/ops.def"
#undef OP
    ;

constexpr bool isKernelOp(Opcode code) { return static_cast<int>(code) >= kFirstKernelOp; }
/// `code` must be a kernel op.
constexpr KernelOp kernelOp(Opcode code) {
  return static_cast<KernelOp>(static_cast<int>(code) - kFirstKernelOp);
}

/// The result types of a kernel op, or the labelled reason why it has none: `tgk.add [k_add.c1]: the element types
/// differ: f32 and i32`. Types that do not follow from the operands (cast, bitcast, vec, shared, local, if,
/// operations on literals alone) are read from the results the op already has. The bodies of if and for are checked
/// against the types once they end in a yield.
Result<std::vector<Type>> inferKernelOp(const Op& op);

/// The type that a literal operand of an op takes: that of a value operand beside it, else the result's; for a store,
/// the buffer's element type. Kind none where the op's text alone does not tell (yield, cast), and for conditions and
/// indices, which are bool and u32.
Type literalType(const Op& op);

/// The type of an operand of `op` that is a value or a literal.
Type operandType(const Op& op, const Operand& operand);

/// The type of one element of a buffer as kernels compute with it: 16-bit reals are for storage only, a load of one
/// gives f32.
inline Type elementType(const Type& buffer) { return Type::scalar(computeType(buffer.dtype), buffer.lanes); }

/// Scalars of a matrix in one element of a buffer: a word holds two scalars of 16 bits, or one of 32.
inline int64_t matrixScalars(const Type& buffer, const Type& matrix) {
  return buffer.lanes * byteSize(buffer.dtype) / byteSize(matrix.dtype);
}

/// Words of an exact sum (tgk.exact_add): 320 bits of two's complement fixed point whose lowest bit is 2^-149, least
/// significant word first, then a word of flags: 1 = NaN, 2 = +inf, 4 = -inf was added.
constexpr int64_t kExactWords = 11;

/// The yield at the end of a body, or null.
const Op* yieldOf(const Block& body);

/// The range of a `tgk.for`: `step` is the literal 1 where the text gives none.
struct LoopRange {
  const Operand &from, &to, &step;
};
/// `loop` must pass inference.
LoopRange rangeOf(const Op& loop);

/// The iter_args of a `tgk.for` as bindings (block argument, initial value); empty when there are none.
const OperandList& iterArgs(const Op& loop);

/// For each value of one kernel, whether all invocations of a workgroup, or of a subgroup, hold the same one.
///
/// Uniform in a workgroup: literals, workgroup ids, extents, the subgroup size, loads of `in` buffers at uniform
/// indices, reductions over the workgroup, and results computed or called with uniform values. Not uniform: other
/// invocation ids and loads, subgroup operations and the old values of atomics. In a subgroup its id, its reductions
/// and its ballots are uniform too.
class Uniformity {
 public:
  enum class Scope : uint8_t { workgroup, subgroup };
  explicit Uniformity(const Item& kernel, Scope scope = Scope::workgroup);
  bool uniform(const Value* value) const { return !divergent_.contains(value); }
  bool uniform(const Operand& operand) const;
  /// Whether all invocations enter the bodies of a `tgk.if` or `tgk.for` equally often.
  bool entersUniformly(const Op& op) const;

 private:
  bool resultUniform(const Op& op) const;
  void visit(const Block& body);
  void visitIf(const Op& op);
  void visitFor(const Op& op);
  void mark(const Value* value);

  std::array<int64_t, 3> workgroup_;
  Scope scope_;
  std::unordered_set<const Value*> divergent_;
  bool changed_ = false;
};

}  // namespace tg
