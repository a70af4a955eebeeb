// SPDX-License-Identifier: Apache-2.0
// The cases of the gradient sweep: for every differentiable op each operand, broadcasting, and each
// attribute combination that changes the rule.
#pragma once

#include <string>
#include <vector>

#include "ir/op_info.h"

namespace tg::test {

/// One tensor argument: `2x4xf32`, and the range its elements are drawn from (both ends possible for
/// integers).
struct CaseInput {
  std::string type;
  double lo = -2, hi = 2;
};

/// A function body over %a, %b, … (the inputs in order) that defines %r0, %r1, … of the given types.
struct GradCase {
  Opcode code;
  std::string body;
  std::vector<CaseInput> inputs;
  std::vector<std::string> results;
};

/// Cases of every row: elementwise ones from the scalar table, the others written down. A row
/// without a case is left out, which the sweep reports.
std::vector<GradCase> gradCases();

/// Adds those of random ops, rms_norm, rope and cross_entropy's options.
void addRandomGradCases(std::vector<GradCase>& out);

}  // namespace tg::test
