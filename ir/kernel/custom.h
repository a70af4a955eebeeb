// SPDX-License-Identifier: Apache-2.0
// How tg.custom binds tensors to the parameters of a kernel. Shared by inference, the plan and every executor.
#pragma once

#include <optional>
#include <vector>

#include "ir/module.h"
#include "ir/result.h"

namespace tg {

/// The input and the result of a tg.custom that one parameter of its kernel is bound to; -1 for none. An inout
/// parameter has both.
struct CustomParam {
  int input = -1;   ///< operand `input + 1` of the op: operand 0 names the kernel
  int result = -1;  ///< index into Op::results
};

/// One entry for each parameter. in and inout take the inputs in order; out, inout, accum and tape take the results
/// in order.
std::vector<CustomParam> customParams(const Item& kernel);

/// The extents of a buffer bound to a tensor, in elements of the buffer: the tensor's own, with the last one divided
/// by the lanes of a vector; a rank-0 tensor is one element on one axis. Nothing if the rank or a static extent
/// differs, or if the lanes do not divide the last extent. Does not compare element types.
std::optional<Shape> boundShape(const Type& tensor, const Type& buffer);

/// The extents of all parameters of the kernel, as specialize takes them. The types of the tg.custom must fit.
std::vector<Shape> boundShapes(const Op& custom, const Item& kernel);

/// The shapes of a tg.custom's results, in which open extents are those of axes of the same names of its inputs; nothing
/// for a result with an open axis that has no such name.
std::vector<std::optional<Shape>> namedResults(const Op& custom, const Item& kernel);

/// The kernel that a tg.custom names, or null.
const Item* customKernel(const Op& custom, const Module& module);

/// The tg.custom in a tg.fused that contains one, or null. The only other ops in the region are reshapes of its
/// inputs.
const Op* customOf(const Op& fused);

/// The binding of such a tg.fused that input `input` of its tg.custom reads, possibly through reshapes.
int customBinding(const Op& fused, const Op& custom, int input);

}  // namespace tg
