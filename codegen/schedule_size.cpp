// SPDX-License-Identifier: Apache-2.0
// How much code a region becomes, before it is any: drivers' compilers take minutes for kernels of tens of
// thousands of operations.
#include <optional>
#include <type_traits>
#include <utility>

#include "codegen/schedule.h"
#include "codegen/schedule_parts.h"
#include "ir/builder.h"
#include "ir/kernel/cost.h"
#include "ir/kernel/expr.h"

namespace tg {

namespace {

/// Operations of the kernel form of a scalar function.
int64_t scalarSize(Scalar scalar) {
  Item kernel;
  kernel.kind = ItemKind::kernel;
  KernelBuilder builder(&kernel);
  Value operands[3];
  std::vector<KV> given;
  for (int i = 0; i < info(scalar).arity; ++i) {
    const bool condition = (scalar == Scalar::select && i == 0) || scalar == Scalar::and_ ||
                           scalar == Scalar::or_ || scalar == Scalar::not_;
    operands[i].type = Type::scalar(condition ? DType::i1 : DType::f32);
    KV& operand = given.emplace_back();
    operand.value = &operands[i];
    operand.type = operands[i].type;
  }
  lowerScalar(builder, scalar, given);
  return codeSize(kernel);
}

/// Operations that an element of an op's result takes; of sums none.
int64_t elementSize(const Op& op) {
  if (op.info().scalar != Scalar::none) return scalarSize(op.info().scalar);
  if (op.info().fusion != table::Fusion::map) return 0;
  if (!op.info().has(table::composite)) return 1;
  OpList parts;
  Builder builder(parts);
  std::vector<Value*> operands;
  for (const Operand& operand : op.operands) operands.push_back(operand.value);
  decompose(op, operands, builder);
  int64_t size = 0;
  for (Op* part : parts) size += elementSize(*part);
  return size;
}

/// Results that an invocation computes by straight code.
int64_t elementsAtOnce(const MapSchedule& schedule) { return schedule.vec; }
int64_t elementsAtOnce(const RowSchedule& schedule) {
  return schedule.vec * (schedule.lanes > 1 ? kHeldRounds : 1);
}
int64_t elementsAtOnce(const ColumnSchedule& schedule) {
  return schedule.vec * (schedule.lanes > 1 ? kHeldRounds : 1);
}
int64_t elementsAtOnce(const MatmulSchedule& schedule) { return schedule.tile[0] * schedule.tile[1]; }
int64_t elementsAtOnce(const SharedMatmulSchedule& schedule) { return schedule.tile[0] * schedule.tile[1]; }
template <class Other>
int64_t elementsAtOnce(const Other&) {
  return 1;
}

/// Half of an extent, or 1, which divide what the extent does; false for 1.
bool halve(int64_t& extent) {
  if (extent <= 1) return false;
  extent = extent % 2 == 0 ? extent / 2 : 1;
  return true;
}

/// The next schedule that makes less code of a region: a smaller tile, or scalars in place of vectors.
/// Nothing where there is none.
template <class Kind>
std::optional<Schedule> smaller(Kind schedule) {
  if constexpr (std::is_same_v<Kind, MatmulSchedule>) {
    if (halve(schedule.tile[0]) || halve(schedule.tile[1])) return schedule;
  } else if constexpr (requires { schedule.vec; }) {
    if (std::exchange(schedule.vec, 1) != 1) return schedule;
  }
  return std::nullopt;
}

}  // namespace

Schedule withinBudget(const Op& fused, const Target& target, Schedule schedule) {
  int64_t size = 0;
  for (Op* op : fused.regions[0]->ops) size += elementSize(*op);
  auto atOnce = [&] { return std::visit([](const auto& kind) { return elementsAtOnce(kind); }, schedule); };
  while (size * atOnce() > target.kernelOps) {
    const std::optional<Schedule> next = std::visit([](const auto& kind) { return smaller(kind); }, schedule);
    if (!next) break;
    schedule = *next;
  }
  return schedule;
}

}  // namespace tg
