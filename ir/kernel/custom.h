// SPDX-License-Identifier: Apache-2.0
// How tg.custom binds tensors to the parameters of a kernel; what inference, the plan and every executor
// share.
#pragma once

#include <optional>
#include <vector>

#include "ir/module.h"
#include "ir/result.h"

namespace tg {

/// Which input and which result of a tg.custom one parameter of its kernel stands for; -1 for none. An
/// inout parameter has both.
struct CustomParam {
  int input = -1;   ///< operand `input + 1` of the op: the first names the kernel
  int result = -1;  ///< index into Op::results
};

/// One entry for each parameter: in and inout take the inputs in order; out, inout, accum and tape the
/// results.
std::vector<CustomParam> customParams(const Item& kernel);

/// The extents a tensor gives a buffer, in elements of the buffer: the tensor's own, the last one divided by
/// the lanes of a vector; a rank-0 tensor is one element on one axis. Nothing when rank or a static extent
/// differs, or the lanes do not divide. Element types are not looked at.
std::optional<Shape> boundShape(const Type& tensor, const Type& buffer);

/// The extents of all parameters of the kernel for a tg.custom whose types fit, as specialize wants them.
std::vector<Shape> boundShapes(const Op& custom, const Item& kernel);

/// The kernel a tg.custom names, or null.
const Item* customKernel(const Op& custom, const Module& module);

/// The tg.custom of a tg.fused that holds one, or null. Around it are nothing but reshapes of its inputs.
const Op* customOf(const Op& fused);

/// The binding of such a tg.fused that input `input` of its tg.custom reads, through reshapes.
int customBinding(const Op& fused, const Op& custom, int input);

}  // namespace tg
