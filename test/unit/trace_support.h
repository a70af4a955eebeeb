// SPDX-License-Identifier: Apache-2.0
// What the tests of the C++ front end share.
#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "ir/parser.h"
#include "ir/result.h"
#include "ir/trace/trace.h"
#include "ir/verify.h"
#include "passes/pass.h"
#include "runtime/interp/interp.h"

namespace trace_user {

/// The traced module, after its text was parsed again to the same text; null after an error.
inline std::unique_ptr<tg::Module> traced(tg::Result<std::unique_ptr<tg::Module>> result) {
  if (!result) {
    ADD_FAILURE() << result.error().str();
    return nullptr;
  }
  std::string text = tg::print(**result);
  auto again = tg::parse(text, "traced.tgir");
  if (!again) {
    ADD_FAILURE() << again.error().str() << text;
    return nullptr;
  }
  if (auto checked = tg::verify(**again); !checked) ADD_FAILURE() << checked.error().str() << text;
  EXPECT_EQ(tg::print(**again), text);
  return *std::move(result);
}

using Values = std::vector<double>;

/// What a function computes of these inputs, in f64.
inline Values evaluate(const std::function<tg::nn::Tensor()>& body,
                       const std::map<std::string, tg::NdArray>& inputs, std::vector<int64_t> shape) {
  auto module = traced(tg::nn::trace([&] { return tg::nn::Outputs{{"r", body()}}; }));
  if (!module) return {};
  const auto& ops = module->func("train")->body.ops;
  const bool differentiates =
      std::any_of(ops.begin(), ops.end(), [](const auto& op) { return op->code == tg::Opcode::grad; });
  if (auto passes = tg::PassManager::parse("append-grad"); differentiates) {
    auto expanded = passes->run(module);
    EXPECT_TRUE(expanded) << expanded.error().str();
  }
  auto interp = tg::Interpreter::create(*module);
  std::map<std::string, tg::NdArray> used;
  for (const auto& arg : module->func("train")->body.args)
    if (inputs.count(arg->name)) used[arg->name] = inputs.at(arg->name);
  auto run = interp->run("train", used);
  if (!run) {
    ADD_FAILURE() << run.error().str();
    return {};
  }
  const tg::Shape& got = run->result("r")->type.shape;
  EXPECT_EQ(std::vector<int64_t>(got.begin(), got.end()), shape);
  return run->result("r")->data;
}

inline tg::NdArray ramp(tg::Shape shape, double first, double step) {
  tg::NdArray out = tg::NdArray::zeros(tg::Type::tensor(tg::DType::f32, shape));
  for (size_t i = 0; i < out.data.size(); ++i) out.data[i] = first + step * static_cast<double>(i);
  return out;
}

inline void expectClose(const Values& got, const Values& expected) {
  ASSERT_EQ(got.size(), expected.size());
  for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], expected[i], 1e-12) << i;
}

}  // namespace trace_user
