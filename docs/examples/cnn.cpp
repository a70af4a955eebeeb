// SPDX-License-Identifier: Apache-2.0
// A convolutional network tells shapes apart on 28x28 images that the program draws: disc, ring, square,
// cross, stripes, each somewhere, of some size, under noise.

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "docs/examples/example.h"
#include "ir/trace/trace.h"
#include "runtime/session.h"

using namespace tg::nn;

namespace {

constexpr int64_t kSide = 28, kClasses = 5, kBatch = 32, kTests = 200;

struct Cnn : Module {
  Conv2d first = child("first", Conv2d(1, 8, 3, {.padding = {1, 1}}));
  Conv2d second = child("second", Conv2d(8, 16, 3, {.padding = {1, 1}}));
  Linear head = child("head", Linear(16 * 7 * 7, kClasses));
  Tensor operator()(const Tensor& images) const {
    Tensor x = maxPool2d(relu(first(images)), {2, 2});  // 14x14
    x = maxPool2d(relu(second(x)), {2, 2});             // 7x7
    return head(flatten(x, 1));
  }
};

/// One image of a class, values around 0 and 1.
void drawShape(std::mt19937& random, int32_t kind, std::vector<float>& pixels) {
  std::uniform_real_distribution<float> middle(9, 18), radius(5, 8);
  std::normal_distribution<float> noise(0, 0.2f);
  float cx = middle(random), cy = middle(random), r = radius(random);
  for (int64_t y = 0; y < kSide; ++y)
    for (int64_t x = 0; x < kSide; ++x) {
      float dx = static_cast<float>(x) - cx, dy = static_cast<float>(y) - cy;
      float round = std::sqrt(dx * dx + dy * dy), square = std::max(std::abs(dx), std::abs(dy));
      bool on = false;
      if (kind == 0) on = round < r;
      if (kind == 1) on = round < r && round > r - 2.5f;
      if (kind == 2) on = square < r * 0.85f;
      if (kind == 3) on = square < r && std::min(std::abs(dx), std::abs(dy)) < 1.5f;
      if (kind == 4) on = square < r && static_cast<int>(std::floor(dy)) % 4 == 0;
      pixels.push_back((on ? 1.0f : 0.0f) + noise(random));
    }
}

tg::Inputs drawBatch(std::mt19937& random, int64_t rows) {
  std::uniform_int_distribution<int32_t> kind(0, kClasses - 1);
  std::vector<float> pixels;
  std::vector<int32_t> labels;
  for (int64_t row = 0; row < rows; ++row) {
    labels.push_back(kind(random));
    drawShape(random, labels.back(), pixels);
  }
  return {{"images", tg::example::floats({rows, 1, kSide, kSide}, pixels)},
          {"labels", tg::example::integers({rows}, labels)}};
}

tg::Result<std::unique_ptr<tg::Module>> cnnModule() {
  Cnn model;
  auto train = [&](const Inputs& in) { return crossEntropy(model(in["images"]), in["labels"]); };
  auto predict = [&](const Inputs& in) { return argmax(model(in["images"])); };
  return trace(
      model,
      {{"train", {{"images", {kBatch, 1, kSide, kSide}}, {"labels", {kBatch}, tg::DType::i32}}, train},
       {"predict", {{"images", {kTests, 1, kSide, kSide}}}, predict}},
      {.name = "cnn"});
}

}  // namespace

int main(int argc, char** argv) {
  tg::example::Call call = tg::example::parseCall(argc, argv);
  if (call.wrong) return tg::example::misused();
  auto module = cnnModule();
  if (!module) return tg::example::failed(module.error());
  if (call.text) return tg::example::printed(**module, "cnn.tgir: what cnn.cpp traces.");

  tg::SessionOptions options;
  options.device = call.device;
  options.seed = 1;
  options.trainPipeline = "append-grad,append-adam{lr=3e-3}";
  auto session = tg::Session::create(*std::move(module), options);
  if (!session) return tg::example::failed(session.error());
  std::mt19937 random(1);
  auto trained = tg::example::train(**session, 400, [&] { return drawBatch(random, kBatch); });
  if (!trained) return tg::example::failed(trained.error());

  tg::Inputs fresh = drawBatch(random, kTests);
  tg::HostArray labels = fresh.at("labels");
  fresh.erase("labels");
  auto answer = (*session)->run("predict", fresh);
  if (!answer) return tg::example::failed(answer.error());
  int64_t right = 0;
  for (int64_t i = 0; i < kTests; ++i) right += answer->results[0].second.at(i) == labels.at(i);
  return tg::example::judged("fresh images told right", static_cast<double>(right) / kTests, 0.95, false);
}
