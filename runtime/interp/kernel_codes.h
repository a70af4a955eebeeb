// SPDX-License-Identifier: Apache-2.0
// The instruction set of flattened kernels, whose registers hold values of a real type. The table
// ir/kernel/semantics.def defines what each lane-wise op of the kernel language computes.
#pragma once

#include <cassert>

#include "ir/kernel/semantics.h"

namespace tg {

/// A register or word of memory; the instruction determines its type. A bool is 0 or 1. Real is float if results are
/// rounded as on a device, and double if nothing is rounded.
template <class Real>
union LaneWord {
  uint32_t u;
  int32_t i;
  Real f;
};

/// The C++ type of a register's value: bool, int32_t, uint32_t or the real type.
template <class T, class Real>
T laneOf(LaneWord<Real> word) {
  if constexpr (std::same_as<T, bool>)
    return word.u != 0;
  else if constexpr (std::same_as<T, uint32_t>)
    return word.u;
  else if constexpr (std::same_as<T, int32_t>)
    return word.i;
  else
    return word.f;
}
template <class T, class Real>
void setLane(LaneWord<Real>& word, T value) {
  if constexpr (std::same_as<T, int32_t>)
    word.i = value;
  else if constexpr (std::floating_point<T>)
    word.f = value;
  else
    word.u = value;
}

/// The bits of the f32 nearest to a register's value, and the register whose f32 has the given bits.
template <class Real>
uint32_t bitsOf(LaneWord<Real> x) {
  if constexpr (std::is_same_v<Real, float>)
    return x.u;
  else
    return std::bit_cast<uint32_t>(static_cast<float>(x.f));
}
template <class Real>
LaneWord<Real> ofBits(uint32_t bits) {
  LaneWord<Real> out{bits};
  if constexpr (!std::is_same_v<Real, float>) out.f = std::bit_cast<float>(bits);
  return out;
}

enum class Code : uint16_t {
// dst = op(a, b, c), as floats, i32, u32 or bool; operands that the op does not have are ignored.
#define OTHER(...)
#define LANES(id, ...) id##_f, id##_i, id##_u, id##_b,
#include "ir/kernel/semantics.def"
  move,    // dst = a, the whole register
  select,  // dst = b where a, else c
  toI,     // dst = a, a float, as i32; and so on
  toU,
  fromI,
  fromU,
  notZeroF,  // dst = whether a, a float, is not 0
  notZeroW,
  toBits,      // dst: the bits of the float a
  fromBits,    // dst: the float whose bits a has
  load,        // dst = memory, a: access
  store,       // a: access, b: value
  atomic,      // a: atomic
  exactAdd,    // a: access, b: value
  exactStore,  // a: access, b: value
  exactLoad,   // dst = memory, a: access
  jump,        // a: target
  jumpUnless,  // a: target, b: condition
  checkStep,   // b: a loop's step
  barrier,
  reduce,      // a: reduction over the workgroup
  collective,  // a: collective of a subgroup
  end,
};

/// The instruction for a lane-wise op on operands of an element type.
inline Code laneCode(KernelOp op, DType dtype) {
  const int offset = isFloat(dtype) ? 0 : dtype == DType::i32 ? 1 : dtype == DType::u32 ? 2 : 3;
  switch (op) {
#define OTHER(...)
#define LANES(id, ...) \
  case KernelOp::id:   \
    return static_cast<Code>(static_cast<int>(Code::id##_f) + offset);
#include "ir/kernel/semantics.def"
  default: assert(false && "not lane-wise"); return Code::end;
  }
}

}  // namespace tg
