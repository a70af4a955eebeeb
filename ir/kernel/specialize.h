// SPDX-License-Identifier: Apache-2.0
// Makes a kernel with open extents static: what a call knows about its buffers, written into the kernel.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "ir/module.h"
#include "ir/result.h"

namespace tg {

/// Judges the form of a kernel's grid: one to three extents, each a literal from 1 to 2^32 - 1, `dim(%p,
/// axis)` (the extent of a parameter's axis, in elements of the buffer), or ceildiv, div, add, sub, mul, min
/// or max of two extents. Errors are labelled [kernel.grid].
Result<void> checkGrid(const Item& kernel);

/// What a function of two extents gives, by its name there, for any integers: div rounds down, ceildiv up. Nothing for a
/// division by 0 and beyond 64 bits.
std::optional<int64_t> combineExtents(std::string_view function, int64_t a, int64_t b);

/// The grid, in workgroups, for the given shapes of the parameters: in their order, in elements of the
/// buffer (a vec4 is one), nothing open. Missing axes are 1; div rounds down. The error, located at the
/// kernel, is an extent below 1 or above 2^32 - 1, a division by zero, or a bad form.
Result<std::array<int64_t, 3>> evaluateGrid(const Item& kernel, const std::vector<Shape>& shapes);

/// An access that every invocation does, outside of ifs and loops, with a literal index beyond these shapes:
/// the error, located at the op, names index and extent.
Result<void> checkIndices(const Item& kernel, const std::vector<Shape>& shapes);

/// A copy with these shapes as the parameters' and literals as the grid. A literal index beyond these shapes
/// becomes a value, which the guard around may exclude. Precondition: the shapes agree with the parameters'
/// where those are not open, and evaluateGrid accepts them.
std::unique_ptr<Item> specialize(const Item& kernel, const std::vector<Shape>& shapes);

}  // namespace tg
