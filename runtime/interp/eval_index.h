// SPDX-License-Identifier: Apache-2.0
// Evaluation of ops with indices. An id outside [0, n) reads as zero, its update is dropped, and it is counted. Part of
// eval_ops.cpp.
#pragma once

#include <algorithm>

#include "ir/cross_entropy.h"
#include "ir/infer.h"
#include "ir/op_view.h"
#include "runtime/interp/eval_ops.h"

namespace tg {

/// Calls fn(position, id) for every id inside [0, extent), and counts the others.
template <class Fn>
void forEachId(EvalCall& call, const NdArray& ids, int64_t extent, Fn&& fn) {
  for (size_t at = 0; at < ids.data.size(); ++at) {
    const double id = ids.data[at];
    if (id >= 0 && id < static_cast<double>(extent))
      fn(static_cast<int64_t>(at), static_cast<int64_t>(id));
    else
      ++call.context.outOfRange;
  }
}

inline void evaluate(at::gather, EvalCall& call) {
  const NdArray& table = *call.in[0];
  const int64_t rows = table.shape()[0], width = table.type.elements() / rows;
  forEachId(call, *call.in[at::gather::ids], rows, [&](int64_t at, int64_t id) {
    std::copy_n(table.data.begin() + id * width, width, call.out[0].data.begin() + at * width);
  });
}

inline void evaluate(at::scatter_add, EvalCall& call) {
  const NdArray &ids = *call.in[at::scatter_add::ids], &updates = *call.in[at::scatter_add::updates];
  const int64_t width = updates.type.elements() / ids.type.elements();
  forEachId(call, ids, as::scatter_add(call.op).rows(), [&](int64_t at, int64_t id) {
    for (int64_t i = 0; i < width; ++i) call.out[0].data[id * width + i] += updates.data[at * width + i];
  });
}

/// Calls fn(position, place) for every element of `ids`, which index an axis of `shape`: its offset in a tensor of that
/// shape. Ids outside are counted.
template <class Fn>
void forEachAlong(EvalCall& call, const NdArray& ids, const Shape& shape, int axis, Fn&& fn) {
  int64_t after = 1;
  for (int i = axis + 1; i < shape.rank(); ++i) after *= shape[i];
  forEachId(call, ids, shape[axis], [&](int64_t at, int64_t id) {
    const int64_t before = at / (after * ids.shape()[axis]);
    fn(at, (before * shape[axis] + id) * after + at % after);
  });
}

inline void evaluate(at::take_along_axis, EvalCall& call) {
  const NdArray& x = *call.in[0];
  forEachAlong(call, *call.in[at::take_along_axis::ids], x.shape(),
               normalAxis(as::take_along_axis(call.op).axis(), x.type.rank()),
               [&](int64_t at, int64_t place) { call.out[0].data[at] = x.data[place]; });
}

inline void evaluate(at::take_along_axis_grad, EvalCall& call) {
  NdArray& out = call.out[0];
  forEachAlong(
      call, *call.in[0], out.shape(), normalAxis(as::take_along_axis_grad(call.op).axis(), out.type.rank()),
      [&](int64_t at, int64_t place) { out.data[place] += call.in[at::take_along_axis_grad::dy]->data[at]; });
}

inline void evaluate(at::one_hot, EvalCall& call) {
  const int64_t depth = as::one_hot(call.op).depth();
  forEachId(call, *call.in[0], depth, [&](int64_t at, int64_t id) { call.out[0].data[at * depth + id] = 1; });
}

/// For a composite that compares its targets with class numbers instead of reading by them. Its decomposition cannot
/// count invalid targets, so they are counted here, except for ignored ones.
inline void countTargets(EvalCall& call) {
  if (call.op.code != Opcode::cross_entropy && call.op.code != Opcode::cross_entropy_grad) return;
  NdArray targets = *call.in[at::cross_entropy::targets];
  if (std::optional<int64_t> ignored = ignoredTarget(call.op))
    std::erase(targets.data, static_cast<double>(*ignored));
  forEachId(call, targets, call.in[0]->shape().back(), [](int64_t, int64_t) {});
}

}  // namespace tg
