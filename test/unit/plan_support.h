// SPDX-License-Identifier: Apache-2.0
// Modules for the planner's tests, from text.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "ir/parser.h"
#include "ir/verify.h"
#include "passes/pass.h"
#include "test/unit/module_text.h"

namespace tg::test {

inline const std::string kT = "tensor<64xf32>";  ///< 256 bytes

/// A region `name = relu(source)`, or another unary op.
inline std::string unary(const std::string& name, const std::string& source, const std::string& type,
                         const std::string& op = "relu", const std::string& schedule = "map{vec = 1}") {
  return fmt::format("    %{0} = tg.fused (%{0}_in = %{1}) {{schedule = {4}}} : {2} {{\n"
                     "      %{0}_out = tg.{3} %{0}_in : {2}\n"
                     "      tg.yield %{0}_out : {2}\n    }}\n",
                     name, source, type, op, schedule);
}

/// A region `name = a + b`.
inline std::string added(const std::string& name, const std::string& a, const std::string& b,
                         const std::string& type, const std::string& schedule = "map{vec = 1}") {
  return fmt::format("    %{0} = tg.fused (%{0}_a = %{1}, %{0}_b = %{2}) {{schedule = {4}}} : {3} {{\n"
                     "      %{0}_out = tg.add %{0}_a, %{0}_b : {3}\n"
                     "      tg.yield %{0}_out : {3}\n    }}\n",
                     name, a, b, type, schedule);
}

inline std::string fusedModule(const std::string& items, const std::string& target = "alignment = 16") {
  return fmt::format("module @m stage(fused) attributes {{target = {{{}}}}} {{\n{}}}\n", target, items);
}

/// Plans a verified module and checks everything a plan promises, the text form included.
inline std::unique_ptr<Module> planned(const std::string& text, const PlanOptions& options = {}) {
  auto module = parsed(text);
  if (!module) return nullptr;
  auto before = verify(*module);
  EXPECT_TRUE(before) << (before ? "" : before.error().str());
  auto ran = run_plan(*module, options, {});
  EXPECT_TRUE(ran) << (ran ? "" : ran.error().str());
  if (!before || !ran) return nullptr;
  auto after = verify(*module);
  EXPECT_TRUE(after) << (after ? "" : after.error().str()) << print(*module);
  auto again = parse(print(*module), "again.tgir");
  EXPECT_TRUE(again) << (again ? "" : again.error().str()) << print(*module);
  if (!again) return nullptr;
  EXPECT_EQ(print(**again), print(*module));
  auto verified = verify(**again);
  EXPECT_TRUE(verified) << (verified ? "" : verified.error().str());
  return module;
}

inline Value* valueOf(const Module& module, const std::string& func, const std::string& name) {
  const Item& item = *module.func(func);
  for (const auto& arg : item.body.args)
    if (arg->name == name) return arg.get();
  for (Op* op : item.body.ops)
    for (const auto& result : op->results)
      if (result->name == name) return result.get();
  return nullptr;
}

inline std::string placeText(const Value* value) {
  if (!value || !value->place) return "none";
  return fmt::format("@{}[{}]{}", value->place->buffer, value->place->offset,
                     value->place->inplace ? " inplace(%" + value->place->inplace->name + ")" : "");
}

inline int64_t planSize(const Module& module, const std::string& member) {
  return find(module.attrs, "plan")->find(member)->integer;
}

}  // namespace tg::test
