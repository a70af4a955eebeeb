// SPDX-License-Identifier: Apache-2.0
#include "ir/scalar.h"

namespace tg {

static constexpr ScalarInfo kScalars[] = {
    {"none", 0, "", "", 0, 0, 0},
#define SCALAR(id, arity, value, grads, lower, lo, hi, ulps) {#id, arity, #value, #grads, lo, hi, ulps},
#include "ir/scalar.def"
#undef SCALAR
};

const ScalarInfo& info(Scalar scalar) { return kScalars[static_cast<int>(scalar)]; }

bool hasNoGradient(Scalar scalar) {
  const std::string_view grads = info(scalar).grads;
  return grads == "(zero)" || grads == "(zero, zero)";
}

double evalScalar(Scalar scalar, double x, double y, double z) {
  using namespace scalar_math;
  switch (scalar) {
  case Scalar::none: break;
#define SCALAR(id, arity, value, grads, lower, lo, hi, ulps) \
  case Scalar::id:                                           \
    return value;
#include "ir/scalar.def"
#undef SCALAR
  }
  return 0;
}

}  // namespace tg
