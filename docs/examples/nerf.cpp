// SPDX-License-Identifier: Apache-2.0
// A coordinate network in the manner of NeRF: it gets a point of the plane, as sines and cosines of doubling
// frequencies, and gives the colour of a picture there. The picture is a formula.

#include <cmath>
#include <numbers>
#include <random>
#include <vector>

#include "docs/examples/example.h"
#include "ir/trace/trace.h"
#include "runtime/session.h"

using namespace tg::nn;

namespace {

constexpr int64_t kSide = 32, kPoints = kSide * kSide, kFrequencies = 5, kHidden = 64, kBatch = 512;

struct Field : Module {
  Linear in = child("in", Linear(4 * kFrequencies, kHidden, {.init = Init::kaiming()}));
  Linear hidden = child("hidden", Linear(kHidden, kHidden, {.init = Init::kaiming()}));
  Linear out = child("out", Linear(kHidden, 3, {.init = Init::kaiming(1)}));
  /// Points [n, 2] in [-1, 1] to colours [n, 3] in [0, 1].
  Tensor operator()(const Tensor& points) const {
    std::vector<Tensor> features;
    for (int64_t octave = 0; octave < kFrequencies; ++octave) {
      Tensor angle = points * (std::numbers::pi / 2 * std::pow(2.0, octave));
      features.push_back(sin(angle));
      features.push_back(cos(angle));
    }
    return sigmoid(out(relu(hidden(relu(in(concat(features, 1)))))));
  }
};

/// The picture: rings, a chequered floor, a slope of blue.
void colourAt(float x, float y, std::vector<float>& rgb) {
  float radius = std::sqrt(x * x + y * y);
  rgb.push_back(0.5f + 0.5f * std::cos(9 * radius));
  rgb.push_back((std::sin(5 * x) * std::sin(5 * y) > 0) ? 0.8f : 0.2f);
  rgb.push_back(0.5f + 0.4f * x);
}

/// Points and their colours: `count` of them at random, or those of a grid.
tg::Inputs drawPoints(std::mt19937* random, int64_t count) {
  std::uniform_real_distribution<float> coordinate(-1, 1);
  std::vector<float> points, colours;
  for (int64_t i = 0; i < count; ++i) {
    auto middle = [](int64_t cell) { return (2 * static_cast<float>(cell) + 1) / kSide - 1; };
    float x = random ? coordinate(*random) : middle(i % kSide);
    float y = random ? coordinate(*random) : middle(i / kSide);
    points.insert(points.end(), {x, y});
    colourAt(x, y, colours);
  }
  return {{"points", tg::example::floats({count, 2}, points)},
          {"colours", tg::example::floats({count, 3}, colours)}};
}

tg::Result<std::unique_ptr<tg::Module>> fieldModule() {
  Field model;
  auto train = [&](const Inputs& in) { return mean(square(model(in["points"]) - in["colours"])); };
  auto predict = [&](const Inputs& in) { return model(in["points"]); };
  return trace(model,
               {{"train", {{"points", {kBatch, 2}}, {"colours", {kBatch, 3}}}, train},
                {"predict", {{"points", {kPoints, 2}}}, predict}},
               {.name = "nerf"});
}

}  // namespace

int main(int argc, char** argv) {
  tg::example::Call call = tg::example::parseCall(argc, argv);
  if (call.wrong) return tg::example::misused();
  auto module = fieldModule();
  if (!module) return tg::example::failed(module.error());
  if (call.text) return tg::example::printed(**module, "nerf.tgir: what nerf.cpp traces.");

  tg::SessionOptions options;
  options.device = call.device;
  options.seed = 1;
  options.trainPipeline = "append-grad,append-adam{lr=4e-3}";
  auto session = tg::Session::create(*std::move(module), options);
  if (!session) return tg::example::failed(session.error());
  std::mt19937 random(1);
  auto trained = tg::example::train(**session, 1200, [&] { return drawPoints(&random, kBatch); });
  if (!trained) return tg::example::failed(trained.error());

  tg::Inputs grid = drawPoints(nullptr, kPoints);
  tg::HostArray colours = grid.at("colours");
  grid.erase("colours");
  auto picture = (*session)->run("predict", grid);
  if (!picture) return tg::example::failed(picture.error());
  double squares = 0;
  for (int64_t i = 0; i < colours.elements(); ++i) {
    double difference = picture->results[0].second.at(i) - colours.at(i);
    squares += difference * difference;
  }
  double decibels = -10 * std::log10(squares / static_cast<double>(colours.elements()));
  return tg::example::judged("peak signal-to-noise ratio in dB", decibels, 28, false);
}
