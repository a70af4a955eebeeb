// SPDX-License-Identifier: Apache-2.0
// The parts of split-reductions that have files of their own: products, scatters, attention and convolutions.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "ir/builder.h"
#include "ir/target.h"
#include "ir/tensor_expr.h"
#include "passes/fuse/region_writer.h"

namespace tg::fuse {

// Products (split_products.cpp) get shapes that keep a device busy:
//
//   rows         %y = tg.matmul %a, %w : tensor<32x14x14x96xf32>   // blocks of 64 rows would hold 14
//                → %y' = tg.matmul %a', %w : tensor<6272x96xf32>, where ' are reshapes, which cost nothing
//   columns      %y = tg.matmul %w, %b : tensor<128x512x16xf32>    // a convolution of 128 images of 4x4
//                → %y' = tg.matmul %w, %b' : tensor<512x2048xf32>, %y is its view {perm = [1, 0, 2]}
//   split-K      %y = tg.matmul %a, %b : tensor<8x8xf32>           // 65536 terms for each of 64 elements
//                → %p = tg.matmul %a_cut, %b_cut : tensor<512x8x8xf32>   %y = tg.sum %p {axes = [0]}

/// Whether a tg.matmul multiplies several matrices by the same one, and blocks of rows would be partly empty.
bool wantsFlatRows(const Op& op);
/// The same product with the rows of all matrices as the rows of one, reshaped to the result's shape.
Value* flatRows(Builder& builder, const Op& op);

/// Whether a tg.matmul on matrix units multiplies one matrix by several of 16 bits, and blocks of columns would be partly
/// empty, or half empty if a product of few terms has an epilogue.
bool wantsFlatColumns(const Op& op, const Target& target);
/// The same product with the columns of all matrices side by side, as a view with the result's shape. If its only reader
/// rounds it, the product is rounded before the view.
Value* flatColumns(Builder& builder, const Op& op);

/// Split-K: a product with few elements and a long inner axis, such as a convolution's weight gradient, leaves the device
/// idle. It becomes products of slices of the axis, then their sum. Null if one product is better.
Value* splitProduct(Builder& builder, const Op& op, const Target& target);

// Large scatters (split_scatter.cpp) become kernels that do not compare each row with each id:
//
//   sorted       a tg.scatter_add with many rows and ids gets the sorted ids, so that each row visits only its own
//   pieces       a tg.scatter_add to few rows adds each piece of the ids to its own rows, which are then summed
//   along        the gradient of a tg.take_along_axis along a long axis becomes a sorted tg.scatter_add

/// The replacement of a large tg.scatter_add of two operands or tg.take_along_axis_grad: with many rows and ids, a scatter with
/// sorted ids; with few rows, a sum over pieces. Null where one kernel is better.
Value* splitScatter(Builder& builder, const Op& op, const Target& target);

// The heads of attention (whole_heads.cpp) are padded to a width that kernels are fast with.

/// Whether an attention, or a part of its gradient, is faster with wider heads: in 16 bits if matrix units would compute
/// it with heads of a multiple of 16, in f32 if scores are streamed and the width is no power of two.
/// Not if one that is padded would exceed a binding.
bool wantsWholeHeads(const Op& op, const Target& target);

/// Computes the results of such an op by an attention with wider heads. Its operands are stored with zeros behind each row,
/// which do not change the scores, and its results are sliced.
///
///   %o = attention %q, %k, %v : 8x40    %q_48 = tg.fused (q) { pad }, …   %o_48 = attention %q_48, %k_48, %v_48 : 8x48
///   %o_bf16 = cast %o                →  %o_bf16 = slice (cast %o_48)
std::vector<Value*> wholeHeads(Builder& builder, const Op& op, const StoreView& store);

// Convolutions on images stored with channels last, NxHxWxC (channels_last.cpp), and 3x3 convolutions with fewer
// multiplications (winograd.cpp).

/// Computes a convolution, or one of its gradients, on an NxHxWxC copy of the image instead of by its decomposition. Matrix
/// units load vectors of eight 16-bit elements. Windows of NxCxHxW have no eight such elements side by side. In NxHxWxC
/// eight channels of one window element are such a vector; the copy is stored once for all convolutions that read the image.
///
/// Empty where the decomposition is better: the target has no matrix units for the stored type, the convolution has groups,
/// channels are no multiple of eight, the product is too small for a matrix, the op is an input gradient at a stride beyond
/// the kernel's size, or the kernel is 1x1 at stride 1 and eight divides the positions of an image. On an H200 no
/// convolution was too small for it: of 64 images of 14 x 14 with 16 channels a step took 0.040 ms, 0.057 with windows
/// of NxCxHxW.
TensorExpr channelsLast(Builder& builder, const Op& op, const Target& target, const StoreView& store);

/// What all calls for one module share.
struct WinogradContext {
  int64_t most = 0;  ///< bytes that a transformed image may take
  std::map<std::string, std::string>
      kernels;  ///< the module's transforms: names, by what they compute on which shapes
};

/// Computes a 3x3 convolution of f32 at stride 1, or a gradient of one, by Winograd's algorithm (A. Lavin and S. Gray, Fast
/// algorithms for convolutional neural networks, 2016): 16 multiplications for a tile of 2x2 results instead of 36. The
/// transforms are kernels that it adds to the builder's module. Tiles are not larger because rounding errors grow with them:
/// with 2x2 the largest error is 1.5 to 3 times that of a sum over windows, the root mean square 1.7 to 2.4 times.
///
/// Empty for other convolutions; for few channels or tiles, where a sum over windows is faster; on targets that multiply in
/// registers; and if a transformed image, which has four times the elements, would take more than `context.most` bytes.
TensorExpr winograd(Builder& builder, const Op& op, const Target& target, WinogradContext& context);

}  // namespace tg::fuse
