// SPDX-License-Identifier: Apache-2.0
// The geometry of windows that slide over H and W, as inference checks it and decompositions use it.
#pragma once

#include <array>
#include <cstdint>

#include "ir/module.h"

namespace tg {

/// Sliding windows along one axis; all sizes in elements.
struct WindowAxis {
  int64_t size = 1, step = 1, padding = 0, dilation = 1;

  /// Elements from a window's first to its last, both included.
  int64_t span() const { return dilation * (size - 1) + 1; }
  /// The number of windows over `extent` elements with padding on both sides; 0 if none fits.
  int64_t count(int64_t extent) const {
    int64_t room = extent + 2 * padding - span();
    return room < 0 ? 0 : room / step + 1;
  }
};

/// The windows along H and along W.
using Window = std::array<WindowAxis, 2>;

/// The windows of a verified convolution or pooling. `sizes` gives the kernel's extents for ops without an attribute
/// `kernel` or `kernel_size`, such as convolutions, whose weight has them. The default stride is the kernel's size.
Window windowOf(const Op& op, std::array<int64_t, 2> sizes = {1, 1});

/// Whether maxima over windows are taken along W and then, of these maxima, along H: where windows overlap so much that each
/// element is in 25 or more. This takes kh + kw steps for a window instead of kh·kw, and memory for the maxima of rows.
inline bool areSeparated(const Window& window) {
  const auto& [rows, columns] = window;
  return rows.size > 1 && columns.size > 1 && rows.size * columns.size >= 25 * rows.step * columns.step;
}

/// Whether an op is a convolution, a transposed one, or a gradient of one.
inline bool isConvolution(const Op& op) {
  return op.info().fusion == table::Fusion::contraction && op.code != Opcode::matmul;
}

/// The position in the window of element 0 of tg.unfold: its far end if it is read backwards.
inline int64_t firstOfWindow(int64_t size, int64_t dilation) {
  return dilation < 0 ? -dilation * (size - 1) : 0;
}

}  // namespace tg
