// SPDX-License-Identifier: Apache-2.0
// The geometry of windows that slide over H and W: what inference checks and decompositions build from.
#pragma once

#include <array>
#include <cstdint>

#include "ir/module.h"

namespace tg {

/// Windows along one axis, in elements.
struct WindowAxis {
  int64_t size = 1, step = 1, padding = 0, dilation = 1;

  /// From a window's first element to its last, both counted.
  int64_t span() const { return dilation * (size - 1) + 1; }
  /// Windows over `extent` elements and the padding on both sides; 0 when none fits.
  int64_t count(int64_t extent) const {
    int64_t room = extent + 2 * padding - span();
    return room < 0 ? 0 : room / step + 1;
  }
};

/// Along H and along W.
using Window = std::array<WindowAxis, 2>;

/// The window of a verified convolution or pooling. `sizes` is the kernel's extents where they are no
/// attribute `kernel` or `kernel_size`, as for a convolution's weight; an absent stride is the kernel.
Window windowOf(const Op& op, std::array<int64_t, 2> sizes = {1, 1});

/// Whether an op is a convolution, a transposed one, or a gradient of one.
inline bool isConvolution(const Op& op) {
  return op.info().fusion == table::Fusion::contraction && op.code != Opcode::matmul;
}

/// Where window element 0 of tg.unfold stands: at the window's far end when it is read backwards.
inline int64_t firstOfWindow(int64_t size, int64_t dilation) {
  return dilation < 0 ? -dilation * (size - 1) : 0;
}

}  // namespace tg
