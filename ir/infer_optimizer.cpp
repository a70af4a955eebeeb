// SPDX-License-Identifier: Apache-2.0
// Types of the optimizer updates.
#include <cmath>

#include "ir/infer.h"
#include "ir/infer_context.h"
#include "ir/op_view.h"

namespace tg::inference {

static bool broadcastsToP(const Context& c, int operand) {
  const Shape& p = c.shape(0);
  auto joined = broadcast(p, c.shape(operand));
  return joined && *joined == p;
}

Result<Types> types(at::adam_update, const Context& c) {
  const Type& p = c.in(0);
  for (int operand = 1; operand < 4; ++operand) TG_CHECK(c.isLikeFirst(operand, 1));
  if (c.in(at::adam_update::lr_t).rank() != 0)
    return c.errorAt(4, 2, "lr_t is {}, not rank 0", c.in(at::adam_update::lr_t).str());
  if (c.op.numOperands() > 5 && !broadcastsToP(c, 5))
    return c.errorAt(5, 3, "shrink {} does not broadcast to {}", c.in(at::adam_update::shrink).str(),
                     p.str());
  if (c.op.numOperands() > 6 && c.in(at::adam_update::eps_scale).rank() != 0)
    return c.errorAt(6, 4, "eps_scale is {}, not rank 0", c.in(at::adam_update::eps_scale).str());
  return Types{p, p, p};
}

Result<Types> types(at::sum_of_squares, const Context& c) {
  if (c.op.numOperands() == 0) return c.error(1, "it has no operand");
  const DType dtype = c.in(0).dtype;
  for (int operand = 1; operand < c.op.numOperands(); ++operand)
    if (c.in(operand).dtype != dtype)
      return c.errorAt(operand, 1, "types differ: {} and {}", c.in(0).str(), c.in(operand).str());
  return Types{Type::tensor(dtype, {})};
}

Result<Types> types(at::sgd_update, const Context& c) {
  const Type& p = c.in(0);
  const Type &lr = c.in(at::sgd_update::lr), &decay = c.in(at::sgd_update::decay);
  const bool hasVelocity = c.op.numOperands() > 4;
  TG_CHECK(c.isLikeFirst(1, 1));
  if (hasVelocity) TG_CHECK(c.isLikeFirst(4, 1));
  if (lr.rank() != 0 || lr.dtype != p.dtype)
    return c.errorAt(2, 2, "lr is {}, not {}", lr.str(), Type::tensor(p.dtype, {}).str());
  if (decay.dtype != p.dtype || !broadcastsToP(c, 3))
    return c.errorAt(3, 3, "decay {} does not broadcast to {}", decay.str(), p.str());
  const double momentum = as::sgd_update(c.op).momentum();
  if (!std::isfinite(momentum) || momentum < 0) return c.error(4, "momentum {} is not 0 or more", momentum);
  if (momentum > 0 && !hasVelocity) return c.error(4, "momentum {} needs the velocity v", momentum);
  if (momentum == 0 && hasVelocity) return c.errorAt(4, 4, "a velocity v needs a momentum above 0");
  if (as::sgd_update(c.op).nesterov() && momentum == 0) return c.error(5, "nesterov needs a momentum");
  if (!hasVelocity) return Types{p};
  return Types{p, p};
}

}  // namespace tg::inference
