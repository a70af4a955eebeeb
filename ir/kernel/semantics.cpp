// SPDX-License-Identifier: Apache-2.0
#include "ir/kernel/semantics.h"

namespace tg {
namespace kernel_table {
namespace {

struct Row {
  KernelOp op;
  KernelSemantics semantics;
};

constexpr uint8_t approximate = KernelSemantics::approximate, pole = KernelSemantics::pole,
                  expanded = KernelSemantics::expanded;

constexpr Row kWritten[] = {
#define OTHER(id, effect, uniform) \
  {KernelOp::id, {LaneTypes::none, LaneGives::same, 0, 0, KernelEffect::effect, KernelUniform::uniform}},
#define LANES(id, types, gives, flags, flops, value, range, glsl) \
  {KernelOp::id,                                                  \
   {LaneTypes::types, LaneGives::gives, flags, flops, KernelEffect::pure, KernelUniform::ofOperands}},
#include "ir/kernel/semantics.def"
};

constexpr int kKernelOps = kOpcodeCount - kFirstKernelOp;

constexpr int rowsOf(KernelOp op) {
  int count = 0;
  for (const Row& row : kWritten) count += row.op == op;
  return count;
}

constexpr bool isComplete() {
  for (int op = 0; op < kKernelOps; ++op)
    if (rowsOf(static_cast<KernelOp>(op)) != 1) return false;
  return true;
}
static_assert(isComplete(), "each row of ir/kernel/ops.def has one in ir/kernel/semantics.def");

/// The rows in the order of the enumeration.
constexpr auto kRows = [] {
  std::array<KernelSemantics, kKernelOps> rows;
  for (const Row& row : kWritten) rows[static_cast<size_t>(row.op)] = row.semantics;
  return rows;
}();

template <class T>
T fromWord(uint32_t word) {
  if constexpr (std::same_as<T, bool>)
    return word != 0;
  else
    return std::bit_cast<T>(word);
}

template <class T>
uint32_t toWord(T value) {
  if constexpr (std::same_as<T, bool>)
    return value;
  else
    return std::bit_cast<uint32_t>(value);
}

/// The result of a lane-wise op whose operands have the C++ type T.
template <class T>
std::optional<uint32_t> laneWord(KernelOp op, std::span<const uint32_t> in) {
  auto operand = [&](size_t index) { return fromWord<T>(index < in.size() ? in[index] : 0); };
  [[maybe_unused]] const T x = operand(0), y = operand(1), z = operand(2);
  switch (op) {
#define OTHER(...)
#define LANES(id, ...)                                                                   \
  case KernelOp::id: {                                                                   \
    using Value = lane_math::LaneValue<KernelOp::id>;                                    \
    if constexpr (lane_math::admits<T>(Value::types)) return toWord(Value::of(x, y, z)); \
    break;                                                                               \
  }
#include "ir/kernel/semantics.def"
  default: break;
  }
  return {};
}

/// Calls `body` with a default value of the C++ type for a lane.
template <class Body>
auto withLane(DType dtype, Body body) {
  if (isFloat(dtype)) return body(float{});
  if (dtype == DType::i32) return body(int32_t{});
  if (dtype == DType::i1) return body(bool{});
  return body(uint32_t{});
}

uint32_t castWord(uint32_t word, DType from, DType to) {
  return withLane(from, [&](auto x) {
    using From = decltype(x);
    return withLane(to,
                    [&](auto y) { return toWord(lane_math::converted<decltype(y)>(fromWord<From>(word))); });
  });
}

}  // namespace
}  // namespace kernel_table

const KernelSemantics& semantics(KernelOp op) { return kernel_table::kRows[static_cast<size_t>(op)]; }

const KernelSemantics& semantics(Opcode code) {
  static constexpr KernelSemantics kForeign{LaneTypes::none,       LaneGives::same,          0, 0,
                                            KernelEffect::control, KernelUniform::ofOperands};
  return isKernelOp(code) ? semantics(kernelOp(code)) : kForeign;
}

bool takes(LaneTypes types, DType dtype) {
  return kernel_table::withLane(dtype, [&](auto x) { return lane_math::admits<decltype(x)>(types); });
}

std::optional<uint32_t> kernelWord(Opcode code, DType from, DType to, std::span<const uint32_t> operands) {
  switch (code) {
  case Opcode::k_constant:
  case Opcode::k_bitcast: return operands[0];
  case Opcode::k_select: return operands[0] ? operands[1] : operands[2];
  case Opcode::k_cast: return kernel_table::castWord(operands[0], from, to);
  default: break;
  }
  if (semantics(code).has(KernelSemantics::approximate)) return {};
  return kernel_table::withLane(
      from, [&](auto x) { return kernel_table::laneWord<decltype(x)>(kernelOp(code), operands); });
}

}  // namespace tg
