// SPDX-License-Identifier: Apache-2.0
// Gives products shapes that keep a device busy; a part of split-reductions:
//
//   rows         %y = tg.matmul %a, %w : tensor<32x14x14x96xf32>   // blocks of 64 rows would hold 14
//                → %y' = tg.matmul %a', %w : tensor<6272x96xf32>, where ' are reshapes, which cost nothing
//   columns      %y = tg.matmul %w, %b : tensor<128x512x16xf32>    // a convolution of 128 images of 4x4
//                → %y' = tg.matmul %w, %b' : tensor<512x2048xf32>, %y is its view {perm = [1, 0, 2]}
//   split-K      %y = tg.matmul %a, %b : tensor<8x8xf32>           // 65536 terms for each of 64 elements
//                → %p = tg.matmul %a_cut, %b_cut : tensor<512x8x8xf32>   %y = tg.sum %p {axes = [0]}
#pragma once

#include "ir/builder.h"
#include "ir/target.h"

namespace tg::fuse {

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

}  // namespace tg::fuse
