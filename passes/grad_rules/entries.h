// SPDX-License-Identifier: Apache-2.0
// How a family of gradient rules states its entries.
#pragma once

#include "passes/grad_rules/grad_rules.h"

namespace tg::grad_rules {

/// The entry of a row without a scalar. There is no primary definition: a missing row does not compile.
template <Opcode>
struct Entry;

#define TG_GRAD_RULE(id, formula, function)                               \
  template <>                                                             \
  struct Entry<Opcode::id> {                                              \
    static constexpr GradEntry kEntry{GradKind::rule, formula, function}; \
  }
#define TG_GRAD_DECOMPOSES(id)                                                                     \
  template <>                                                                                      \
  struct Entry<Opcode::id> {                                                                       \
    static constexpr GradEntry kEntry{GradKind::decomposes, "that of its decomposition", nullptr}; \
  }
#define TG_NO_GRAD(id, reason)                                                       \
  template <>                                                                        \
  struct Entry<Opcode::id> {                                                         \
    static constexpr GradEntry kEntry{GradKind::notDifferentiable, reason, nullptr}; \
  }
#define TG_GRAD_NOT_IN_STAGE(id, reason)                                      \
  template <>                                                                 \
  struct Entry<Opcode::id> {                                                  \
    static constexpr GradEntry kEntry{GradKind::notInStage, reason, nullptr}; \
  }

}  // namespace tg::grad_rules
