// SPDX-License-Identifier: Apache-2.0
// Bounds the code size of a region before it is lowered: drivers' compilers take minutes for kernels of tens of
// thousands of operations.
#include <map>
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

/// The number of kernel operations of a scalar function.
int64_t countedSize(Scalar scalar) {
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

/// The same, counted once for each function: passes choose schedules again and again.
int64_t scalarSize(Scalar scalar) {
  static constexpr Scalar all[] = {
#define SCALAR(id, arity, value, grads, lower, lo, hi, ulps) Scalar::id,
#include "ir/scalar.def"
#undef SCALAR
  };
  static const std::map<Scalar, int64_t> sizes = [] {
    std::map<Scalar, int64_t> out;
    for (Scalar each : all) out.emplace(each, countedSize(each));
    return out;
  }();
  return sizes.at(scalar);
}

/// The number of operations for one element of an op's result; 0 if the op is no map.
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
  for (const Op* part : parts) size += elementSize(*part);
  return size;
}

/// The number of results that an invocation computes by straight-line code.
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

/// Halves an extent, or makes it 1 if it is odd, so that it still divides what it divided; false if it is 1.
bool halve(int64_t& extent) {
  if (extent <= 1) return false;
  extent = extent % 2 == 0 ? extent / 2 : 1;
  return true;
}

/// The next schedule with less code: a smaller tile, or scalars in place of vectors. Nothing if there is none.
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

template <class Ops>
static int64_t sizeOf(const Ops& ops) {
  int64_t size = 0;
  for (const Op* op : ops) size += elementSize(*op);
  return size;
}

int64_t sizeOfMaps(std::span<const Op* const> ops) { return sizeOf(ops); }

int64_t sizeOfMaps(const Op& fused) { return sizeOf(fused.regions[0]->ops); }

Schedule withinBudget(const Op& fused, const Target& target, Schedule schedule) {
  const int64_t size = sizeOfMaps(fused);
  auto atOnce = [&] { return std::visit([](const auto& kind) { return elementsAtOnce(kind); }, schedule); };
  while (size * atOnce() > target.kernelOps) {
    const std::optional<Schedule> next = std::visit([](const auto& kind) { return smaller(kind); }, schedule);
    if (!next) break;
    schedule = *next;
  }
  return schedule;
}

}  // namespace tg
