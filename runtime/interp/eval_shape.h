// SPDX-License-Identifier: Apache-2.0
// Evaluation of ops that only move elements, and of folds. Part of eval_ops.cpp.
#pragma once

#include <algorithm>

#include "ir/infer.h"
#include "ir/op_view.h"
#include "ir/window.h"
#include "runtime/interp/eval_ops.h"
#include "runtime/interp/strided.h"

namespace tg {

/// out[i] = x[start + Σ index·strides].
inline void readStrided(EvalCall& call, const Strides& strides, int64_t start) {
  const NdArray& x = *call.in[0];
  visit(call.out[0].shape(), strides, start,
        [&](int64_t at, int64_t from) { call.out[0].data[at] = x.data[from]; });
}

inline void evaluate(at::reshape, EvalCall& call) { call.out[0].data = call.in[0]->data; }

inline void evaluate(at::broadcast_to, EvalCall& call) {
  readStrided(call, broadcastStrides(call.in[0]->shape(), call.out[0].shape()), 0);
}

inline void evaluate(at::transpose, EvalCall& call) {
  const Strides dense = denseStrides(call.in[0]->shape());
  const std::vector<int64_t> perm = as::transpose(call.op).perm();
  Strides strides{};
  for (size_t axis = 0; axis < perm.size(); ++axis)
    strides[axis] = dense[normalAxis(perm[axis], call.in[0]->type.rank())];
  readStrided(call, strides, 0);
}

inline void evaluate(at::slice, EvalCall& call) {
  const std::vector<int64_t> starts = as::slice(call.op).starts(), steps = as::slice(call.op).strides();
  Strides strides = denseStrides(call.in[0]->shape());
  int64_t start = 0;
  for (size_t axis = 0; axis < starts.size(); ++axis) {
    start += starts[axis] * strides[axis];
    if (!steps.empty()) strides[axis] *= steps[axis];
  }
  readStrided(call, strides, start);
}

/// Reads each reversed axis from its last element backwards.
inline void evaluate(at::flip, EvalCall& call) {
  const Shape& shape = call.in[0]->shape();
  Strides strides = denseStrides(shape);
  int64_t start = 0;
  for (int64_t given : as::flip(call.op).axes()) {
    const int axis = normalAxis(given, shape.rank());
    start += (shape[axis] - 1) * strides[axis];
    strides[axis] = -strides[axis];
  }
  readStrided(call, strides, start);
}

/// Writes all elements of x: out[corner + (interior + 1)·position of x's element] = x.
inline void writeBlock(const NdArray& x, NdArray& out, const std::vector<int64_t>& corner,
                       const std::vector<int64_t>& interior = {}) {
  Strides strides = denseStrides(out.shape());
  int64_t start = 0;
  for (size_t axis = 0; axis < corner.size(); ++axis) {
    start += corner[axis] * strides[axis];
    if (!interior.empty()) strides[axis] *= interior[axis] + 1;
  }
  visit(x.shape(), strides, start, [&](int64_t from, int64_t at) { out.data[at] = x.data[from]; });
}

inline void evaluate(at::pad, EvalCall& call) {
  std::ranges::fill(call.out[0].data, as::pad(call.op).value());
  writeBlock(*call.in[0], call.out[0], as::pad(call.op).low(), as::pad(call.op).interior());
}

inline void evaluate(at::concat, EvalCall& call) {
  const int axis = normalAxis(as::concat(call.op).axis(), call.out[0].type.rank());
  std::vector<int64_t> corner(static_cast<size_t>(call.out[0].type.rank()), 0);
  for (const NdArray* part : call.in) {
    writeBlock(*part, call.out[0], corner);
    corner[axis] += part->shape()[axis];
  }
}

/// The strides of x along the axes of its windows' shape; sets `start` to the offset of the first window.
inline Strides windowStrides(const Op& op, const Shape& x, int64_t size, int64_t* start) {
  const int axis = normalAxis(as::unfold(op).axis(), x.rank());
  const int64_t dilation = as::unfold(op).dilation();
  Strides strides = denseStrides(x);
  *start = firstOfWindow(size, dilation) * strides[axis];
  strides[x.rank()] = dilation * strides[axis];
  strides[axis] *= as::unfold(op).step();
  return strides;
}

inline void evaluate(at::unfold, EvalCall& call) {
  int64_t start = 0;
  const Strides strides = windowStrides(call.op, call.in[0]->shape(), as::unfold(call.op).size(), &start);
  visit(call.out[0].shape(), strides, start,
        [&](int64_t at, int64_t from) { call.out[0].data[at] = call.in[0]->data[from]; });
}

inline void evaluate(at::fold, EvalCall& call) {
  int64_t start = 0;
  const NdArray& p = *call.in[0];
  const Strides strides = windowStrides(call.op, call.out[0].shape(), p.shape().back(), &start);
  visit(p.shape(), strides, start, [&](int64_t from, int64_t at) { call.out[0].data[at] += p.data[from]; });
}

}  // namespace tg
