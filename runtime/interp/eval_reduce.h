// SPDX-License-Identifier: Apache-2.0
// Evaluation rules of reductions and the matrix product. Part of eval_ops.cpp.
#pragma once

#include <algorithm>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "ir/infer.h"
#include "ir/op_view.h"
#include "ir/scalar.h"
#include "runtime/interp/eval_ops.h"
#include "runtime/interp/strided.h"

namespace tg {

/// Strides of the reduced tensor along the axes of `shape`: 0 for the reduced axes.
inline Strides reducedStrides(const Shape& shape, const std::vector<int64_t>& axes) {
  Shape kept = shape;
  for (int64_t axis : axes) kept[normalAxis(axis, shape.rank())] = 1;
  return broadcastStrides(kept, shape);
}

/// Calls fn(element of x, offset in the result) in row-major order of x.
template <class Fn>
void forEachReduced(EvalCall& call, Fn&& fn) {
  const NdArray& x = *call.in[0];
  visit(x.shape(), reducedStrides(x.shape(), as::sum(call.op).axes()), 0,
        [&](int64_t from, int64_t to) { fn(x.data[from], call.out[0].data[to]); });
}

inline void evaluate(at::sum, EvalCall& call) {
  // Integer sums wrap at each addition, so that they never exceed what f64 holds exactly.
  const DType dtype = call.out[0].type.dtype;
  if (isFloat(dtype))
    forEachReduced(call, [](double x, double& total) { total += x; });
  else
    forEachReduced(call, [&](double x, double& total) { total = roundTo(dtype, total + x); });
}

inline void evaluate(at::mean, EvalCall& call) {
  evaluate(at::sum{}, call);
  const auto count = static_cast<double>(call.in[0]->data.size() / call.out[0].data.size());
  for (double& value : call.out[0].data) value /= count;
}

inline void evaluate(at::max_reduce, EvalCall& call) {
  std::ranges::fill(call.out[0].data, -std::numeric_limits<double>::infinity());
  forEachReduced(call, [](double x, double& most) { most = scalar_math::max2(x, most); });
}

inline void evaluate(at::min_reduce, EvalCall& call) {
  std::ranges::fill(call.out[0].data, std::numeric_limits<double>::infinity());
  forEachReduced(call, [](double x, double& least) { least = scalar_math::min2(x, least); });
}

/// Calls fn(first element, stride, length) for each line of x along the axis.
template <class Fn>
void forEachLine(const NdArray& x, int axis, Fn&& fn) {
  const int64_t step = denseStrides(x.shape())[axis];
  Shape kept = x.shape();
  kept[axis] = 1;
  visit(kept, broadcastStrides(x.shape(), x.shape()), 0,
        [&](int64_t at, int64_t from) { fn(from, step, at); });
}

/// argmax and argmin: the first element that no other one exceeds.
inline void evalArgExtremum(EvalCall& call) {
  const NdArray& x = *call.in[0];
  const int axis = normalAxis(as::argmax(call.op).axis(), x.type.rank());
  const bool least = call.op.code == Opcode::argmin;
  forEachLine(x, axis, [&](int64_t from, int64_t step, int64_t at) {
    int64_t best = 0;
    for (int64_t i = 1; i < x.shape()[axis]; ++i) {
      const double candidate = x.data[from + i * step], holder = x.data[from + best * step];
      if (least ? candidate < holder : candidate > holder) best = i;
    }
    call.out[0].data[at] = static_cast<double>(best);
  });
}
inline void evaluate(at::argmax, EvalCall& call) { evalArgExtremum(call); }
inline void evaluate(at::argmin, EvalCall& call) { evalArgExtremum(call); }

inline void evaluate(at::cumsum, EvalCall& call) {
  const NdArray& x = *call.in[0];
  const int axis = normalAxis(as::cumsum(call.op).axis(), x.type.rank());
  const int64_t extent = x.shape()[axis];
  const bool reverse = as::cumsum(call.op).reverse(), exclusive = as::cumsum(call.op).exclusive();
  const DType dtype = x.type.dtype;
  forEachLine(x, axis, [&](int64_t from, int64_t step, int64_t) {
    double total = 0;
    for (int64_t i = 0; i < extent; ++i) {
      const int64_t at = from + (reverse ? extent - 1 - i : i) * step;
      const double next = isFloat(dtype) ? total + x.data[at] : roundTo(dtype, total + x.data[at]);
      call.out[0].data[at] = exclusive ? total : next;
      total = next;
    }
  });
}

/// One operand of a matrix product: the positions of its matrices, and their strides.
struct MatrixOperand {
  Strides batch{};           ///< from one matrix to the next, for each batch axis
  int64_t rowStep, colStep;  ///< strides of the matrix after any transposition
  int64_t rows, cols;

  MatrixOperand(const Shape& shape, const Shape& batchShape, bool transposed) {
    const int rank = shape.rank();
    rows = shape[rank - 2], cols = shape[rank - 1];
    rowStep = cols, colStep = 1;
    if (transposed) std::swap(rows, cols), std::swap(rowStep, colStep);
    Shape leading = shape;
    leading.resize(rank - 2);
    batch = broadcastStrides(leading, batchShape);
    for (int64_t& step : batch) step *= shape[rank - 2] * shape[rank - 1];
  }
};

/// An operand of a matrix product at the precision of the op: each element rounded to f16 or bf16. For f32x3, also the
/// rounded remainder.
inline std::vector<double> narrowed(const std::vector<double>& from, DType narrow) {
  std::vector<double> out(from.size());
  std::ranges::transform(from, out.begin(), [narrow](double value) { return roundedTo(narrow, value); });
  return out;
}
inline std::vector<double> remainders(const std::vector<double>& from, const std::vector<double>& high) {
  std::vector<double> out(from.size());
  for (size_t i = 0; i < from.size(); ++i) out[i] = roundedTo(DType::f16, from[i] - high[i]);
  return out;
}

inline void evaluate(at::matmul, EvalCall& call) {
  NdArray& out = call.out[0];
  Shape batch = out.shape();
  batch.resize(out.type.rank() - 2);
  const MatrixOperand a(call.in[0]->shape(), batch, as::matmul(call.op).transpose_a());
  const MatrixOperand b(call.in[at::matmul::rhs]->shape(), batch, as::matmul(call.op).transpose_b());
  auto addProduct = [&](const std::vector<double>& left, const std::vector<double>& right) {
    visit<2>(batch, {a.batch, b.batch}, {}, [&](int64_t index, const std::array<int64_t, 2>& from) {
      const double* lhs = left.data() + from[0];
      const double* rhs = right.data() + from[1];
      double* to = out.data.data() + index * a.rows * b.cols;
      for (int64_t i = 0; i < a.rows; ++i)
        for (int64_t j = 0; j < b.cols; ++j)
          for (int64_t k = 0; k < a.cols; ++k)
            to[i * b.cols + j] += lhs[i * a.rowStep + k * a.colStep] * rhs[k * b.rowStep + j * b.colStep];
    });
  };
  const std::string precision = as::matmul(call.op).precision();
  if (precision == "f32") return addProduct(call.in[at::matmul::lhs]->data, call.in[at::matmul::rhs]->data);
  const DType narrow = precision == "bf16" ? DType::bf16 : DType::f16;
  const std::vector<double> left = narrowed(call.in[at::matmul::lhs]->data, narrow),
                            right = narrowed(call.in[at::matmul::rhs]->data, narrow);
  addProduct(left, right);
  if (precision != "f32x3") return;
  addProduct(left, remainders(call.in[at::matmul::rhs]->data, right));
  addProduct(remainders(call.in[0]->data, left), right);
}

}  // namespace tg
