// SPDX-License-Identifier: Apache-2.0
// The network of docs/examples/sin.tgir, written by hand there, against the one that a model in C++ gives:
// the same loss, gradients and updates.
#include <map>
#include <memory>
#include <string>

#include <gtest/gtest.h>

#include "ir/parser.h"
#include "ir/trace/trace.h"
#include "passes/pass.h"
#include "runtime/interp/interp.h"
#include "test/unit/trace_support.h"

namespace trace_user {
namespace {

using namespace tg::nn;

struct Mlp : Module {
  Linear l1 = child("l1", Linear(1, 64, {.init = Init::kaiming()}));
  Linear l2 = child("l2", Linear(64, 64, {.init = Init::kaiming()}));
  Linear l3 = child("l3", Linear(64, 1, {.init = Init::xavier()}));
  Tensor operator()(const Tensor& x) const { return l3(relu(l2(capture("h1", relu(l1(x)))))); }
};

/// Three steps of Adam from fixed parameters; the loss and every parameter after each.
std::map<std::string, std::vector<double>> trained(std::unique_ptr<tg::Module> module) {
  auto passes = tg::PassManager::parse("append-grad,append-adam{lr=1e-2}");
  auto run = passes->run(module);
  if (!run) {
    ADD_FAILURE() << run.error().str();
    return {};
  }
  auto interp = tg::Interpreter::create(*module);
  for (const tg::Item* param : module->all(tg::ItemKind::param)) {
    tg::NdArray value = tg::NdArray::zeros(param->type);
    for (size_t i = 0; i < value.data.size(); ++i)
      value.data[i] = static_cast<double>((i * 37 + param->name[1] * 11) % 101) / 500 - 0.1;
    EXPECT_TRUE(interp->setStorage(param->name, value));
  }
  std::map<std::string, tg::NdArray> inputs;
  for (const auto& arg : module->func("train")->body.args) {
    inputs[arg->name] = tg::NdArray::zeros(arg->type);
    for (size_t i = 0; i < inputs[arg->name].data.size(); ++i)
      inputs[arg->name].data[i] = static_cast<double>(i % 17) / (arg->name == "x" ? 5 : 9) - 1;
  }
  inputs["lr"] = tg::NdArray::scalar(1e-2);
  std::map<std::string, std::vector<double>> out;
  for (int step = 1; step <= 3; ++step) {
    auto done = interp->run("train", inputs);
    if (!done) {
      ADD_FAILURE() << done.error().str();
      return {};
    }
    std::string at = "step " + std::to_string(step) + " ";
    out[at + "loss"] = done->result("loss")->data;
    out[at + "h1"] = done->captures.at("h1").data;
    for (const tg::Item* param : module->all(tg::ItemKind::param))
      out[at + param->name] = interp->storage(param->name)->data;
  }
  return out;
}

TEST(TraceSin, TrainsAsTheTextDoes) {
  auto text = tg::parseFile(TG_SOURCE_DIR "/docs/examples/sin.tgir");
  ASSERT_TRUE(text);
  Mlp mlp;
  auto model = traced(trace(mlp, {{"train", {{"x", {256, 1}}, {"y", {256, 1}}}, [&](const Inputs& in) {
                                     return mean(square(mlp(in["x"]) - in["y"]));
                                   }}}));
  ASSERT_TRUE(model);
  for (const tg::Item* param : (*text)->all(tg::ItemKind::param)) {
    const tg::Item* own = model->storage(param->name);
    ASSERT_TRUE(own) << param->name;
    EXPECT_EQ(own->attrs, param->attrs) << param->name;
  }
  auto expected = trained(*std::move(text)), got = trained(std::move(model));
  ASSERT_FALSE(expected.empty());
  EXPECT_NE(expected["step 1 loss"], expected["step 3 loss"]);
  EXPECT_EQ(got, expected);  // the same f64 operations in the same order
}

}  // namespace
}  // namespace trace_user
