// SPDX-License-Identifier: Apache-2.0
// Convolutions whose images stand in memory with channels last, for split-reductions.
#pragma once

#include <functional>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "ir/target.h"
#include "ir/tensor_expr.h"

namespace tg::fuse {

/// Matrix units read vectors of eight 16-bit elements, which windows of NxCxHxW have nowhere. Of NxHxWxC, stored once for
/// all convolutions that read the image, eight channels of each of a window's elements are such a vector.
class ChannelsLast {
 public:
  /// `store` gives what a kernel of its own stores of a view of a value that stands in memory.
  using Store = std::function<Value*(Value* source, const Value& view)>;
  ChannelsLast(Builder& builder, const Target& target, Store store)
      : builder_(builder), target_(target), store_(std::move(store)) {}

  /// What a convolution or a gradient of one gives, in place of its decomposition. Empty where that is right: without units
  /// for what memory holds, with groups, with channels that are no multiple of eight, for gradients of strided convolutions
  /// and for kernels of 1x1. On an H200 no convolution was too small for it: of 64 images of 14 x 14 with 16 channels a step
  /// took 0.040 ms, 0.057 with windows of NxCxHxW.
  TensorExpr convolution(const Op& op);

 private:
  /// An axis order and so many zeros before and behind its axes 1 and 2.
  struct Layout {
    std::vector<int64_t> perm, before{0, 0}, behind{0, 0};
    bool operator<(const Layout& other) const {
      return std::tie(perm, before, behind) < std::tie(other.perm, other.before, other.behind);
    }
  };
  TensorExpr stored(const Value& operand, const Layout& layout);
  TensorExpr kernels(const Value& w, std::vector<int64_t> perm);
  TensorExpr forward(const Op& op);
  TensorExpr gathered(const Op& op, int kernels, int gradient);
  TensorExpr weight(const Op& op);

  Builder& builder_;
  const Target& target_;
  Store store_;
  std::map<std::pair<Value*, Layout>, Value*> stored_;
};

}  // namespace tg::fuse
