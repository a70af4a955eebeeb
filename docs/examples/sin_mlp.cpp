// SPDX-License-Identifier: Apache-2.0
// A 1-64-64-1 network learns sin(x) on [-π, π]; the worst error between the training points is the figure.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <memory>
#include <numbers>

#include "docs/examples/example.h"
#include "ir/trace/trace.h"
#include "runtime/session.h"

using namespace tg::nn;

struct Mlp : Module {
  Linear l1 = child("l1", Linear(1, 64, {.init = Init::kaiming()}));
  Linear l2 = child("l2", Linear(64, 64, {.init = Init::kaiming()}));
  Linear l3 = child("l3", Linear(64, 1, {.init = Init::xavier()}));

  Tensor operator()(const Tensor& x) const {
    Tensor h1 = capture("h1", relu(l1(x)));
    Tensor h2 = relu(l2(h1));
    return l3(h2);
  }
};

static tg::Result<std::unique_ptr<tg::Module>> sinModule() {
  Mlp mlp;
  auto train = [&](const Inputs& in) { return mean(square(mlp(in["x"]) - in["y"])); };
  auto predict = [&](const Inputs& in) { return Outputs{{"y", mlp(in["x"])}}; };
  return trace(mlp,
               {{"train", {{"x", {256, 1}}, {"y", {256, 1}}}, train}, {"predict", {{"x", {16, 1}}}, predict}},
               {.name = "sin"});
}

/// `count` points from -π to π, both ends included.
static tg::HostArray points(int64_t count) {
  tg::HostArray x = tg::HostArray::zeros(tg::DType::f32, {count, 1});
  for (int64_t i = 0; i < count; ++i)
    x.set(i, std::numbers::pi * (2.0 * static_cast<double>(i) / static_cast<double>(count - 1) - 1));
  return x;
}
static tg::HostArray sinOf(tg::HostArray x) {
  for (float& value : x.f32()) value = std::sin(value);
  return x;
}

int main(int argc, char** argv) {
  tg::example::Call call = tg::example::parseCall(argc, argv);
  if (call.wrong) return tg::example::misused();
  auto module = sinModule();
  if (!module) return tg::example::failed(module.error());
  if (call.text) return tg::example::printed(**module, "sin_mlp.tgir: what sin_mlp.cpp traces.");

  tg::SessionOptions options;
  options.device = call.device;
  options.seed = 1;
  options.trainPipeline = "append-grad,append-adam{lr=5e-3}";
  auto session = tg::Session::create(*std::move(module), options);
  if (!session) return tg::example::failed(session.error());
  tg::HostArray x = points(256), y = sinOf(x);
  for (int step = 1; step <= 1000; ++step) {
    auto done = (*session)->step({{"x", x}, {"y", y}});
    if (!done) return tg::example::failed(done.error());
    if (step % 250 == 0) std::printf("step %d: loss %.6f\n", step, done->loss);
  }

  tg::HostArray asked = points(16), expected = sinOf(asked);
  auto predicted = (*session)->run("predict", {{"x", asked}});
  if (!predicted) return tg::example::failed(predicted.error());
  double worst = 0;
  for (int64_t i = 0; i < 16; ++i)
    worst = std::max(worst, std::fabs(predicted->result("y")->at(i) - expected.at(i)));
  return tg::example::judged("worst error", worst, 0.05, true);
}
