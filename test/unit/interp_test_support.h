// SPDX-License-Identifier: Apache-2.0
// Running a few lines of .tgir on the interpreter.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "runtime/interp/interp.h"
#include "test/unit/module_text.h"

namespace tg::test {

using Inputs = std::map<std::string, NdArray>;

inline NdArray array(DType dtype, Shape shape, std::vector<double> data) {
  return {Type::tensor(dtype, shape), std::move(data)};
}
inline NdArray f32(Shape shape, std::vector<double> data) {
  return array(DType::f32, shape, std::move(data));
}
inline NdArray i32(Shape shape, std::vector<double> data) {
  return array(DType::i32, shape, std::move(data));
}

/// Distinct values without a pattern that an index error would keep: (i * 37 mod 101) / 16 - 3.
inline NdArray scattered(Shape shape) {
  NdArray out = NdArray::zeros(Type::tensor(DType::f32, shape));
  for (size_t i = 0; i < out.data.size(); ++i) out.data[i] = static_cast<double>(i * 37 % 101) / 16 - 3;
  return out;
}

/// Runs the lines of a body over the inputs and gives the value %r; `type` is its printed type.
inline NdArray evaluate(const std::string& lines, const std::string& type, const Inputs& inputs,
                        InterpMode mode = InterpMode::automatic, RunCounters* counters = nullptr) {
  std::string args;
  for (const auto& [name, value] : inputs)
    args += (args.empty() ? "%" : ", %") + name + ": " + value.type.str();
  auto module = verified("module @m {\n func @f(" + args + ") -> (r: " + type + ") {\n" + lines +
                         "\n return %r : " + type + "\n }\n}\n");
  if (!module) return {};
  InterpOptions options;
  options.mode = mode;
  auto interp = Interpreter::create(*module, options);
  auto run = interp->run("f", inputs);
  if (!run) {
    ADD_FAILURE() << run.error().str();
    return {};
  }
  if (counters) *counters = run->counters;
  return *run->result("r");
}

/// Elements within a few ulps of f64, relative to the larger of 1 and the expected value.
inline void expectNear(const NdArray& got, const std::vector<double>& expected, double ulps = 64) {
  ASSERT_EQ(got.data.size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i)
    EXPECT_NEAR(got.data[i], expected[i], ulps * 0x1p-52 * std::max(1.0, std::fabs(expected[i])))
        << "element " << i;
}

}  // namespace tg::test
