// SPDX-License-Identifier: Apache-2.0
// Evaluation rules of random ops. Part of eval_ops.cpp.
#pragma once

#include "ir/op_view.h"
#include "ir/philox.h"
#include "runtime/interp/eval_ops.h"

namespace tg {

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
