// SPDX-License-Identifier: Apache-2.0
// Rewrites of kernels: open extents made static, ops made legal, loops clamped, watched and unrolled, buffers
// trimmed.
#pragma once

#include <array>
#include <cstdint>
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

/// Whether an op can stand in a shader as it is. Illegal are calls, and functions that Vulkan computes too loosely or
/// leaves to the compiler (sin cos tan asin acos atan sinh cosh tanh erf round).
bool isLegal(const Op& op);

/// Makes every op of a verified kernel legal: inlines calls of helper funcs, which `module` must hold, and replaces
/// those functions by the scalar table's kernel form. New values have free names and the location of the op they
/// replace. A legal kernel is unchanged.
void legalize(const Module* module, Item& kernel);

/// For a device that runs `width` lanes at once and limits the iterations of all of them together. If the workgroup's size
/// is no multiple of `width`, lanes without an invocation run along: their ids are out of range, so a loop to `4 - %local`
/// may run 2^32 times in them. Clamps the ends of loops to the most iterations that any invocation makes. Loops with
/// literal or uniform bounds, and those whose trip count is not known, stay as they are. The kernel must verify, its calls
/// be inlined.
void clampLoops(Item& kernel, int64_t width);

/// Shrinks buffers that a kernel only loads from, if all indices add a constant: a buffer then begins at the first element
/// that is read and ends behind the last, and `%x[%i + 640]` becomes `%x[%i]`. Kernels that read different slices of a value,
/// such as those of the steps of a recurrent network, become equal. Returns the new offset of each parameter in bytes, a
/// multiple of `alignment`. Long kernels are not changed, nor the parameters at which `whole` is true. The kernel must
/// verify, its calls be inlined.
std::vector<int64_t> trimReads(Item& kernel, int64_t alignment, const std::vector<bool>& whole);

/// The name of the buffer of words for watched kernels: one word for each dispatch, zero before it runs.
inline constexpr std::string_view kLoopsBuffer = "loops";

/// Adds a parameter `%cut : buf<1xu32, inout>` to a kernel. Its word becomes 1 when a loop ends before its index has
/// reached its limit, as on Mesa's CPU device, which ends long loops without an error.
void watchLoops(Item& kernel);

/// An upper bound of the iterations that all loops of one invocation make together, in a verified kernel whose calls
/// are inlined; nullopt if it depends on loaded data or is not known. Each entry into a loop counts one more: the
/// final check of the limit is an iteration to a device that counts.
std::optional<int64_t> loopIterations(const Item& kernel);

/// Unrolls loops, those with the most iterations first, until an invocation makes at most `most` iterations. The
/// computations and their order do not change. Returns whether the limit is certainly kept; false where trip counts
/// depend on data or on the invocation. An error, located at the kernel, if the loops with known trip counts would
/// have to be unrolled beyond all limits of size: `kernel @k0: its loops make 9000000 iterations in an invocation …`.
Result<bool> unroll(Item& kernel, int64_t most);

}  // namespace tg
