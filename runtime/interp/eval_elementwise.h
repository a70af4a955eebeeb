// SPDX-License-Identifier: Apache-2.0
// Evaluation of elementwise and random ops that are not in the scalar table. Part of eval_ops.cpp.
#pragma once

#include <algorithm>
#include <cmath>

#include "ir/infer.h"
#include "ir/op_view.h"
#include "ir/philox.h"
#include "ir/scalar.h"
#include "runtime/interp/eval_ops.h"
#include "runtime/interp/strided.h"

namespace tg {

/// Evaluates ops of the scalar table, with NumPy broadcasting of up to three operands.
inline void evalByScalar(EvalCall& call) {
  const Scalar scalar = call.op.info().scalar;
  NdArray& out = call.out[0];
  std::array<Strides, 3> strides{};
  std::array<const double*, 3> data{};
  for (size_t k = 0; k < 3; ++k) {
    const NdArray& operand = *call.in[std::min(k, call.in.size() - 1)];
    strides[k] = broadcastStrides(operand.shape(), out.shape());
    data[k] = operand.data.data();
  }
  // A product of integers may need more bits than f64 has. Only its low 32 bits are used.
  const bool product = scalar == Scalar::mul || scalar == Scalar::square;
  const bool integers = !isFloat(out.type.dtype) && product;
  visit<3>(out.shape(), strides, {}, [&](int64_t at, const std::array<int64_t, 3>& from) {
    const double x = data[0][from[0]], y = data[1][from[1]], z = data[2][from[2]];
    if (integers)
      out.data[at] =
          roundTo(out.type.dtype, static_cast<double>(static_cast<uint32_t>(static_cast<int64_t>(x)) *
                                                      static_cast<uint32_t>(static_cast<int64_t>(y))));
    else
      out.data[at] = evalScalar(scalar, x, y, z);
  });
}

inline void evaluate(at::cast, EvalCall& call) {
  const NdArray& x = *call.in[0];
  for (size_t i = 0; i < x.data.size(); ++i)
    call.out[0].data[i] = castTo(call.out[0].type.dtype, x.type.dtype, x.data[i]);
}

inline void evaluate(at::one_minus_pow, EvalCall& call) {
  const double logBase = std::log(as::one_minus_pow(call.op).base());
  for (size_t i = 0; i < call.in[0]->data.size(); ++i)
    call.out[0].data[i] = -std::expm1(call.in[0]->data[i] * logBase);
}

inline void evaluate(at::iota, EvalCall& call) {
  Strides strides{};
  strides[normalAxis(as::iota(call.op).axis(), call.out[0].type.rank())] = 1;
  visit(call.out[0].shape(), strides, 0,
        [&](int64_t at, int64_t index) { call.out[0].data[at] = static_cast<double>(index); });
}

inline void evaluate(at::causal_mask, EvalCall& call) {
  const Shape& shape = call.out[0].shape();
  const int64_t rows = shape[shape.rank() - 2], columns = shape.back();
  for (size_t i = 0; i < call.out[0].data.size(); ++i) {
    const auto at = static_cast<int64_t>(i);
    call.out[0].data[i] = at % columns <= at / columns % rows + columns - rows ? 1 : 0;
  }
}

/// Appends the number of a literal, or all numbers of a nested list.
inline void flatten(const Operand& operand, std::vector<double>& into) {
  if (operand.isLiteral()) into.push_back(operand.number());
  for (const Operand& item : operand.items) flatten(item, into);
}

inline void evaluate(at::constant, EvalCall& call) {
  std::vector<double> numbers;
  flatten(call.op.operands[0], numbers);
  for (size_t i = 0; i < call.out[0].data.size(); ++i)
    call.out[0].data[i] = call.op.operands[0].isLiteral() ? numbers[0] : numbers[i];
}

/// Calls fn(element, words of its quad, place in the quad) for every element of the result.
template <class Fn>
void forEachDraw(EvalCall& call, Fn&& fn) {
  const NdArray& rng = *call.in[0];
  auto word = [&](size_t i) { return static_cast<uint32_t>(static_cast<int32_t>(rng.data[i])); };
  const PhiloxKey key{word(0), word(1)};
  const auto salt = static_cast<uint32_t>(as::random_uniform(call.op).salt());
  const auto before = static_cast<size_t>(as::random_uniform(call.op).first()) / 4;
  std::vector<double>& out = call.out[0].data;
  for (size_t first = 0; first < out.size(); first += 4) {
    const auto words = philoxQuad(before + first / 4, salt, key);
    for (size_t lane = 0; lane < 4 && first + lane < out.size(); ++lane)
      fn(out[first + lane], words, static_cast<int>(lane));
  }
}

/// The product and the sum are f32 even if floats stay f64 elsewhere, because the op is defined that way. (f64 holds
/// the product exactly, and a sum rounded first to f64 and then to f32 gives the same f32.)
inline void evaluate(at::random_uniform, EvalCall& call) {
  const double low = as::random_uniform(call.op).low();
  const auto width = static_cast<float>(as::random_uniform(call.op).high() - low),
             start = static_cast<float>(low);
  forEachDraw(call, [&](double& value, const auto& words, int lane) {
    const double u = philoxUniform(words[static_cast<size_t>(lane)]);
    value = static_cast<float>(static_cast<double>(static_cast<float>(u * width)) + start);
  });
}

inline void evaluate(at::random_normal, EvalCall& call) {
  const double mean = as::random_normal(call.op).mean(), std = as::random_normal(call.op).std();
  forEachDraw(call, [&](double& value, const auto& words, int lane) {
    value = mean + std * philoxNormalOf(words, lane);
  });
}

}  // namespace tg
