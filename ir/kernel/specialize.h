// SPDX-License-Identifier: Apache-2.0
// Makes a kernel with open extents static: the extents that a call knows replace the open ones.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "ir/module.h"
#include "ir/result.h"

namespace tg {

/// Checks the form of a kernel's grid: one to three extents, each a literal from 1 to 2^32 - 1, `dim(%p, axis)` (the
/// extent of a parameter's axis, in elements of the buffer), or ceildiv, div, add, sub, mul, min or max of two
/// extents. Errors are labelled [kernel.grid].
Result<void> checkGrid(const Item& kernel);

/// Evaluates a function of the grid, given by name, on any integers: div rounds down, ceildiv up. Nothing for a
/// division by 0 or a result beyond 64 bits.
std::optional<int64_t> combineExtents(std::string_view function, int64_t a, int64_t b);

/// The grid, in workgroups, for the given shapes of the parameters: in order, in elements of the buffer (a vec4 is
/// one), without open extents. Missing axes are 1. Errors, located at the kernel: an extent below 1 or above 2^32 -
/// 1, a division by zero, or a bad form.
Result<std::array<int64_t, 3>> evaluateGrid(const Item& kernel, const std::vector<Shape>& shapes);

/// Checks the accesses that every invocation executes, outside of ifs and loops: a literal index beyond these shapes
/// is an error, located at the op, that names index and extent.
Result<void> checkIndices(const Item& kernel, const std::vector<Shape>& shapes);

/// A copy of the kernel in which the parameters have these shapes and the grid is literal. A literal index beyond
/// these shapes becomes a value, because a guard around it may exclude the access. The shapes must agree with the
/// parameters' static extents, and evaluateGrid must accept them.
std::unique_ptr<Item> specialize(const Item& kernel, const std::vector<Shape>& shapes);

}  // namespace tg
