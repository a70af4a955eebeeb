// SPDX-License-Identifier: Apache-2.0
// A small variational autoencoder of 12x12 images of a bright spot: two latent numbers, the reparametrised
// normal sample, the KL divergence to the standard normal.

#include <cmath>
#include <random>
#include <vector>

#include "docs/examples/example.h"
#include "ir/trace/trace.h"
#include "runtime/session.h"

using namespace tg::nn;

namespace {

constexpr int64_t kSide = 12, kPixels = kSide * kSide, kHidden = 64, kLatent = 2, kBatch = 64, kTests = 256;

struct Vae : Module {
  Linear in = child("in", Linear(kPixels, kHidden, {.init = Init::kaiming()}));
  Linear mean = child("mean", Linear(kHidden, kLatent)), logVar = child("log_var", Linear(kHidden, kLatent));
  Linear up = child("up", Linear(kLatent, kHidden, {.init = Init::kaiming()}));
  Linear out = child("out", Linear(kHidden, kPixels, {.init = Init::kaiming(1)}));
};

/// Squared error and KL divergence, each summed over an image, averaged over images.
struct Terms {
  Tensor reconstruction, kl;
};
Terms termsOf(const Vae& model, const Tensor& images, bool sample) {
  Tensor h = relu(model.in(images));
  Tensor mu = model.mean(h), logVar = model.logVar(h);
  Tensor z = sample ? mu + exp(logVar * 0.5) * randomNormal(mu.shape()) : mu;
  Tensor back = model.out(relu(model.up(z)));
  Tensor error = mean(sum(square(back - images), {1}));
  Tensor kl = mean(sum((square(mu) + exp(logVar) - 1 - logVar) * 0.5, {1}));
  return {error, kl};
}

tg::HostArray draw(std::mt19937& random, int64_t rows) {
  std::uniform_real_distribution<float> middle(3, 9);
  std::vector<float> pixels;
  for (int64_t row = 0; row < rows; ++row) {
    float cx = middle(random), cy = middle(random);
    for (int64_t y = 0; y < kSide; ++y)
      for (int64_t x = 0; x < kSide; ++x) {
        float dx = static_cast<float>(x) - cx, dy = static_cast<float>(y) - cy;
        pixels.push_back(std::exp(-(dx * dx + dy * dy) / 4));
      }
  }
  return tg::example::floats({rows, kPixels}, pixels);
}

tg::Result<std::unique_ptr<tg::Module>> vaeModule() {
  Vae model;
  auto train = [&](const Inputs& in) {
    Terms terms = termsOf(model, in["images"], true);
    return Outputs{{"loss", terms.reconstruction + terms.kl * 0.05},
                   {"reconstruction", terms.reconstruction},
                   {"kl", terms.kl}};
  };
  auto eval = [&](const Inputs& in) { return termsOf(model, in["images"], false).reconstruction; };
  return trace(
      model,
      {{"train", {{"images", {kBatch, kPixels}}}, train}, {"eval", {{"images", {kTests, kPixels}}}, eval}},
      {.name = "vae"});
}

/// What the best constant image leaves: the variance of the pixels, summed over an image.
double spreadOf(const tg::HostArray& images) {
  double spread = 0;
  for (int64_t pixel = 0; pixel < kPixels; ++pixel) {
    double total = 0, squares = 0;
    for (int64_t row = 0; row < kTests; ++row) {
      double value = images.at(row * kPixels + pixel);
      total += value, squares += value * value;
    }
    spread += squares / kTests - (total / kTests) * (total / kTests);
  }
  return spread;
}

}  // namespace

int main(int argc, char** argv) {
  tg::example::Call call = tg::example::parseCall(argc, argv);
  if (call.wrong) return tg::example::misused();
  auto module = vaeModule();
  if (!module) return tg::example::failed(module.error());
  if (call.text) return tg::example::printed(**module, "vae.tgir: what vae.cpp traces.");

  tg::SessionOptions options;
  options.device = call.device;
  options.seed = 1;
  options.trainPipeline = "append-grad,append-adam{lr=2e-3}";
  auto session = tg::Session::create(*std::move(module), options);
  if (!session) return tg::example::failed(session.error());
  std::mt19937 random(1);
  auto trained = tg::example::train(**session, 1500, [&] {
    return tg::Inputs{{"images", draw(random, kBatch)}};
  });
  if (!trained) return tg::example::failed(trained.error());

  tg::HostArray fresh = draw(random, kTests);
  auto error = (*session)->run("eval", {{"images", fresh}});
  if (!error) return tg::example::failed(error.error());
  double left = error->results[0].second.at(0) / spreadOf(fresh);
  return tg::example::judged("squared error, as a part of what the mean image leaves,", left, 0.2, true);
}
