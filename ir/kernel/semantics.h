// SPDX-License-Identifier: Apache-2.0
// The semantics of kernel ops, ir/kernel/semantics.def, as data and as functions.
#pragma once

#include <optional>
#include <span>

#include "ir/kernel/kernel.h"
#include "ir/kernel/lane_math.h"

namespace tg {

/// What a kernel op does besides computing its results.
enum class KernelEffect : uint8_t {
  pure,          ///< nothing: it may be repeated, merged, moved and dropped
  reads,         ///< reads an element of a buffer
  writes,        ///< stores to an element, or updates it
  declares,      ///< defines a buffer
  control,       ///< runs bodies, or ends one
  synchronizes,  ///< a barrier or a reduction of the workgroup
  subgroupOp,    ///< exchanges values between the active invocations of a subgroup
  matrix,        ///< a cooperative matrix op: needs all invocations of a subgroup
  calls,         ///< calls a func of the module, whose effects are not known here
};

/// Among which invocations the results of an op are the same.
enum class KernelUniform : uint8_t {
  workgroup,         ///< all of a workgroup
  subgroup,          ///< all of a subgroup
  onUnitAxis,        ///< all of a workgroup that has one invocation along the axis named
  ofOperands,        ///< those for which all operands are the same
  ofReadOnlyMemory,  ///< those for which all indices are the same, if the buffer is only read
  never,
};

/// The element types of a lane-wise op's operands.
enum class LaneTypes : uint8_t { none, number, real, integer, word, bits };

/// The element type of a lane-wise op's result.
enum class LaneGives : uint8_t { same, condition, word, real };

/// The row of a kernel op, without the value, range and glsl columns.
struct KernelSemantics {
  enum Flag : uint8_t { approximate = 1, pole = 2, expanded = 4 };
  LaneTypes types = LaneTypes::none;  ///< none: not lane-wise
  LaneGives gives = LaneGives::same;  ///< which type a lane-wise op gives
  uint8_t flags = 0;
  int flops = 0;  ///< in one lane; 0 for integers
  KernelEffect effect = KernelEffect::pure;
  KernelUniform uniform = KernelUniform::ofOperands;

  bool isLaneWise() const { return types != LaneTypes::none; }
  bool has(Flag flag) const { return flags & flag; }
  bool givesCondition() const { return gives == LaneGives::condition; }
  /// The result's element type for operands of this one. Where it differs, an op on literals alone would not say the
  /// type of its operands.
  DType given(DType operands) const {
    return gives == LaneGives::condition ? DType::i1
           : gives == LaneGives::word    ? DType::u32
           : gives == LaneGives::real    ? DType::f32
                                         : operands;
  }
};

/// The row of a kernel op.
const KernelSemantics& semantics(KernelOp op);
/// The same by Opcode; an op of the tensor dialect, such as the `return` of a func, counts as control.
const KernelSemantics& semantics(Opcode code);
/// Whether an op computes its results from its operands alone: it may be repeated, merged, moved and dropped.
inline bool isArithmetic(const Op& op) { return semantics(op.code).effect == KernelEffect::pure; }
/// Whether an op reads an element of a buffer and does nothing else.
inline bool isLoad(const Op& op) { return semantics(op.code).effect == KernelEffect::reads; }
/// Whether an op stores to an element or updates it: stores, accumulations and atomics.
inline bool writesElement(const Op& op) { return semantics(op.code).effect == KernelEffect::writes; }
/// Whether an op is a barrier or reduction of the workgroup.
inline bool synchronizes(const Op& op) { return semantics(op.code).effect == KernelEffect::synchronizes; }
/// Whether an op exchanges values between the invocations of a subgroup.
inline bool isSubgroupOp(const Op& op) { return semantics(op.code).effect == KernelEffect::subgroupOp; }
/// Whether an op works on matrices that a subgroup holds.
inline bool isCoopmatOp(Opcode code) { return semantics(code).effect == KernelEffect::matrix; }
/// Whether a lane-wise op takes operands of an element type.
bool takes(LaneTypes types, DType dtype);

namespace lane_math {

/// Whether a lane-wise op is defined on a C++ type.
template <class T>
constexpr bool admits(LaneTypes types) {
  switch (types) {
  case LaneTypes::none: return false;
  case LaneTypes::number: return Real<T> || Integer<T>;
  case LaneTypes::real: return Real<T>;
  case LaneTypes::integer: return Integer<T>;
  case LaneTypes::word: return std::same_as<T, uint32_t>;
  case LaneTypes::bits: return Integer<T> || std::same_as<T, bool>;
  }
  return false;
}

/// The C++ type of the result of a lane-wise op on operands of type T.
template <LaneGives gives, class T>
using Given =
    std::conditional_t<gives == LaneGives::same, T,
                       std::conditional_t<gives == LaneGives::condition, bool,
                                          std::conditional_t<gives == LaneGives::word, uint32_t, float>>>;

/// The value column: LaneValue<KernelOp::k_add>::of(x, y, z) for each type that the op admits.
template <KernelOp op>
struct LaneValue;
#define OTHER(...)
#define LANES(id, laneTypes, gives, flags, flops, value, range, glsl)                  \
  template <>                                                                          \
  struct LaneValue<KernelOp::id> {                                                     \
    static constexpr LaneTypes types = LaneTypes::laneTypes;                           \
    template <class T>                                                                 \
    static auto of([[maybe_unused]] T x, [[maybe_unused]] T y, [[maybe_unused]] T z) { \
      return static_cast<Given<LaneGives::gives, T>>(value);                           \
    }                                                                                  \
  };
#include "ir/kernel/semantics.def"

}  // namespace lane_math

/// The result of an op on scalars, computed from its operands; both as 32-bit words: the bits of a float, 0 or 1 for
/// bool. `from` is the element type of the operands (of a select's branches), `to` that of the result. Nothing for
/// ops of other kinds and for those that devices approximate.
std::optional<uint32_t> kernelWord(Opcode code, DType from, DType to, std::span<const uint32_t> operands);

}  // namespace tg
