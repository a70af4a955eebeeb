// SPDX-License-Identifier: Apache-2.0
// What the files of kernel type inference share. Errors carry the label of the constraint that is violated.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ir/kernel/semantics.h"

namespace tg::kernel_inference {

using Types = std::vector<Type>;

/// An error of `op` for a constraint of its row; the label is the row's id and the constraint's name.
Error violationText(const Op& op, std::string_view constraint, const std::string& why);
template <class... Args>
Error violation(const Op& op, std::string_view constraint, fmt::format_string<Args...> format,
                Args&&... args) {
  return violationText(op, constraint, fmt::format(format, std::forward<Args>(args)...));
}
/// The type of operand `index`, which must be a value or literal of the class that its slot names.
Result<Type> plainOperand(const Op& op, int index);

// Memory.
Result<Types> load(const Op& op);
Result<Types> store(const Op& op);
Result<Types> atomic(const Op& op);
Result<Types> compareExchange(const Op& op);
Result<Types> accumulate(const Op& op);
Result<Types> exactAdd(const Op& op);
Result<Types> exactLoad(const Op& op);
Result<Types> exactStore(const Op& op);
Result<Types> memory(const Op& op, BufMode mode);

// Matrices of a subgroup.
Result<Types> coopmatSplat(const Op& op);
Result<Types> coopmatLoad(const Op& op);
Result<Types> coopmatMma(const Op& op);
Result<Types> coopmatIndex(const Op& op);
Result<Types> coopmatRepeat(const Op& op);
Result<Types> coopmatRowReduce(const Op& op);
Result<Types> coopmatAnyAbove(const Op& op);
Result<Types> coopmatConvert(const Op& op);
/// A lane-wise op with a matrix operand.
Result<Types> coopmatLanes(const Op& op);
bool takesMatrices(const Op& op);
Result<Types> coopmatStore(const Op& op);

// Control.
Result<Types> branch(const Op& op);
Result<Types> loop(const Op& op);
Result<Types> call(const Op& op);

}  // namespace tg::kernel_inference
