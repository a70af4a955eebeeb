// SPDX-License-Identifier: Apache-2.0
// How much code a region becomes, before it is any: drivers' compilers take minutes for kernels of tens of
// thousands of operations.
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
int64_t elementsAtOnce(const Attr& schedule) {
  const Attr *tile = schedule.find("tile"), *vec = schedule.find("vec"), *lanes = schedule.find("lanes");
  if (schedule.text == "matmul" && tile) return tile->asInts()[0] * tile->asInts()[1];
  return (vec ? vec->integer : 1) * (lanes && lanes->integer > 1 ? kHeldRounds : 1);
}

/// Half of an extent, or 1, which divide what the extent does; false for 1.
bool halve(int64_t& extent) {
  if (extent <= 1) return false;
  extent = extent % 2 == 0 ? extent / 2 : 1;
  return true;
}

/// The next schedule that makes less code of a region: a smaller tile, or scalars in place of vectors.
/// Nothing where there is none.
std::optional<Attr> smaller(Attr schedule) {
  const Attr *tile = schedule.find("tile"), *depth = schedule.find("depth"), *vec = schedule.find("vec");
  if (schedule.text == "matmul" && tile && depth) {
    std::vector<int64_t> extents = tile->asInts();
    if (!halve(extents[0]) && !halve(extents[1])) return std::nullopt;
    set(schedule.dict, "tile", Attr::ints(extents));
    return schedule;
  }
  if (!vec || vec->integer == 1) return std::nullopt;
  set(schedule.dict, "vec", Attr::of(int64_t{1}));
  return schedule;
}

}  // namespace

Attr withinBudget(const Op& fused, const Target& target, Attr schedule) {
  int64_t size = 0;
  for (Op* op : fused.regions[0]->ops) size += elementSize(*op);
  while (size * elementsAtOnce(schedule) > target.kernelOps) {
    std::optional<Attr> next = smaller(schedule);
    if (!next) break;
    schedule = *std::move(next);
  }
  return schedule;
}

}  // namespace tg
