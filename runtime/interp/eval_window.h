// SPDX-License-Identifier: Apache-2.0
// Evaluation rules of unfold and its adjoint. Part of eval_ops.cpp.
#pragma once

#include "ir/infer.h"
#include "ir/op_view.h"
#include "ir/window.h"
#include "runtime/interp/eval_ops.h"
#include "runtime/interp/strided.h"

namespace tg {

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
