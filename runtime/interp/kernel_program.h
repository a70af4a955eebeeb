// SPDX-License-Identifier: Apache-2.0
// A kernel as a flat list of instructions over registers, so that an invocation can stop at any instruction and
// continue later. Vectors are unrolled; constants and invocation ids are registers.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "ir/divide.h"
#include "ir/kernel/kernel.h"
#include "runtime/interp/kernel_codes.h"

namespace tg {

/// An instruction; runtime/interp/kernel_codes.h says what its members mean for each code.
struct Instr {
  Code code;
  uint32_t dst = 0, a = 0, b = 0, c = 0;
};

/// One load, store or atomic in the kernel's text.
struct Access {
  const Op* op;
  const Value* buffer;
  uint32_t memory;              ///< index into Program::memories
  uint32_t width;               ///< words accessed: the lanes of an element, or the words of an exact sum
  std::vector<uint32_t> index;  ///< a register for each axis
  std::vector<bool> isSigned;   ///< for each index
  bool ofSum = false;           ///< the load of an accumulation; its store is checked for both
};

/// A memory of the kernel: first the parameters' buffers, then shared and local memory.
struct Memory {
  const Value* buffer;
  BufMode mode;
  std::vector<int64_t> extents;
  uint32_t start = 0;  ///< for shared and local: the first word among the workgroup's or invocation's
  int64_t words = 0;   ///< lanes of all elements together

  /// Whether its contents are undefined until the kernel writes it.
  bool startsUndefined() const {
    return mode == BufMode::shared || mode == BufMode::local || mode == BufMode::tape;
  }
};

struct Atomic {
  enum class Kind : uint8_t { add, bitAnd, bitOr, bitXor, min, max, exchange, compareExchange };
  Kind kind;
  DType dtype;
  uint32_t access, value, expected;
  uint32_t old;    ///< register for the old value
  bool oldIsRead;  ///< the kernel uses the old value
};

/// How values of several invocations are combined into one.
struct Folding {
  enum class Kind : uint8_t { add, mul, max, min, bitAnd, bitOr, bitXor };
  Kind kind;
  DType dtype;
};

/// A reduction of `width` registers from `source` on; the result goes to all invocations.
struct Reduction {
  Folding folding;
  uint32_t dst, source, width;
  bool repeated;  ///< the source is the same register for all lanes
};

/// The elements of a matrix are spread over the invocations of a subgroup: element e, in row-major order, is in lane e
/// % size, in that lane's register e / size.
inline uint32_t matrixRegisters(const Type& matrix, uint32_t subgroupSize) {
  return divideCeil(static_cast<uint32_t>(matrix.elements()), subgroupSize);
}

/// An op of a subgroup. It runs with the invocations that are at the same instruction, in the same iteration of each
/// enclosing loop.
struct Collective {
  enum class Kind : uint8_t { reduce, shuffle, ballot, product, rows, words };
  Kind kind;
  Reduction reduction;    ///< reduce, rows: all members; otherwise dst, source, width; words: also the type
  uint32_t lane = 0;      ///< shuffle: register with the source lane
  uint32_t b = 0, c = 0;  ///< product: first registers of B and C; the source has those of A
  uint32_t m = 0, n = 0, k = 0;  ///< product: A is m x k, B is k x n; rows, words: the matrix is m x n
  std::vector<std::pair<uint32_t, uint32_t>> loops;  ///< first instruction, register of the iteration
};

/// A register with a constant value.
struct Constant {
  uint32_t reg;
  bool real;
  uint32_t word;  ///< the value, unless real
  double number;  ///< the value, if real
};

struct Program {
  /// Registers of ids: global id, local id, workgroup id and number of workgroups, three each; then subgroup id and
  /// lane.
  static constexpr uint32_t kSubgroupId = 12, kSubgroupLane = 13, kIds = 14;

  std::vector<Instr> code;
  std::vector<const Op*> ops;       ///< of each instruction
  uint32_t registers = kIds;        ///< per invocation: ids, constants, values
  std::vector<Constant> constants;  ///< their initial values; other registers start as 0
  std::vector<Access> accesses;
  std::vector<Memory> memories;
  std::vector<Atomic> atomics;
  std::vector<Reduction> reductions;
  std::vector<Collective> collectives;
  uint32_t sharedWords = 0, localWords = 0;
};

/// Flattens a verified kernel without calls. `shapes` are the parameters' shapes, without open extents.
Program flatten(const Item& kernel, const std::vector<Shape>& shapes, uint32_t subgroupSize);

}  // namespace tg
