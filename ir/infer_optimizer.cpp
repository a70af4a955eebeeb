#include "ir/infer_optimizer.h"

#include <cmath>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "ir/infer.h"

namespace tg {

namespace {

/// A labelled error; notes where operand `note` was defined.
Error broken(const Op& op, int constraint, std::string message, int note = -1) {
  std::string_view name = op.info().name;
  Error out = failAt(
      op.loc, fmt::format("{} [{}.c{}]: {}", name, name.substr(name.find('.') + 1), constraint, message));
  if (note < 0) return out;
  const Value& value = *op.in(note);
  return std::move(out).note(value.loc, fmt::format("%{} is defined here", value.name));
}

Result<void> sameAsP(const Op& op, int operand) {
  const Type &p = op.in(0)->type, &other = op.in(operand)->type;
  if (other == p) return {};
  return broken(op, 1, fmt::format("types differ: {} and {}", p.str(), other.str()), operand);
}

bool broadcastsToP(const Op& op, int operand) {
  const Shape& p = op.in(0)->type.shape;
  auto joined = broadcast(p, op.in(operand)->type.shape);
  return joined && *joined == p;
}

Result<std::vector<Type>> adam(const Op& op) {
  const Type& p = op.in(0)->type;
  for (int operand = 1; operand < 4; ++operand) TG_CHECK(sameAsP(op, operand));
  if (op.in(4)->type.rank() != 0)
    return broken(op, 2, fmt::format("lr_t is {}, not rank 0", op.in(4)->type.str()), 4);
  if (op.numOperands() > 5 && !broadcastsToP(op, 5))
    return broken(op, 3, fmt::format("shrink {} does not broadcast to {}", op.in(5)->type.str(), p.str()), 5);
  return std::vector<Type>{p, p, p};
}

Result<std::vector<Type>> sgd(const Op& op) {
  const Type& p = op.in(0)->type;
  const Type &lr = op.in(2)->type, &decay = op.in(3)->type;
  const bool hasVelocity = op.numOperands() > 4;
  TG_CHECK(sameAsP(op, 1));
  if (hasVelocity) TG_CHECK(sameAsP(op, 4));
  if (lr.rank() != 0 || lr.dtype != p.dtype)
    return broken(op, 2, fmt::format("lr is {}, not {}", lr.str(), Type::tensor(p.dtype, {}).str()), 2);
  if (decay.dtype != p.dtype || !broadcastsToP(op, 3))
    return broken(op, 3, fmt::format("decay {} does not broadcast to {}", decay.str(), p.str()), 3);
  const double momentum = op.realAttr("momentum");
  if (!std::isfinite(momentum) || momentum < 0)
    return broken(op, 4, fmt::format("momentum {} is not a number from 0 on", momentum));
  if (momentum > 0 && !hasVelocity)
    return broken(op, 4, fmt::format("momentum {} needs the velocity v", momentum));
  if (momentum == 0 && hasVelocity) return broken(op, 4, "a velocity v without a momentum", 4);
  if (op.flag("nesterov") && momentum == 0) return broken(op, 5, "nesterov needs a momentum");
  if (!hasVelocity) return std::vector<Type>{p};
  return std::vector<Type>{p, p};
}

}  // namespace

Result<std::vector<Type>> inferOptimizer(const Op& op) {
  return op.code == Opcode::adam_update ? adam(op) : sgd(op);
}

}  // namespace tg
