// SPDX-License-Identifier: Apache-2.0
// Parses a module, runs a pipeline with a pass of its own in it, traces a model and trains it: step by step,
// and with the trainer on files.
#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include "ir/parser.h"
#include "ir/trace/trace.h"
#include "ir/verify.h"
#include "passes/pass.h"
#include "runtime/data/npy.h"
#include "runtime/session.h"
#include "runtime/train/trainer.h"

std::string compiled(const std::string& text);  // wrapped.cpp

namespace {

constexpr const char* kText = R"(
module @square {
  param @w : tensor<3xf32> {init = ones}
  func @train(%x: tensor<3xf32>) -> (loss: tensor<f32>) {
    %w = tg.param @w : tensor<3xf32>
    %z = tg.mul %w, %x : tensor<3xf32>
    %s = tg.square %z : tensor<3xf32>
    %loss = tg.sum %s {axes = [0]} : tensor<f32>
    return %loss : tensor<f32>
  }
}
)";

bool check(bool good, const char* what) {
  if (!good) std::fprintf(stderr, "FAILED: %s\n", what);
  return good;
}
template <class T>
bool check(const tg::Result<T>& result, const char* what) {
  if (!result) std::fprintf(stderr, "%s", result.error().str().c_str());
  return check(bool(result), what);
}

/// Turns each square into a product.
tg::Result<void> squaresToProducts(tg::Module& module, const tg::PassContext& context) {
  for (tg::Item* func : module.all(tg::ItemKind::func))
    for (tg::Op* op : func->body.ops)
      if (op->code == tg::Opcode::square) {
        op->code = tg::Opcode::mul;
        op->operands.push_back(op->operands[0]);
        context.remark(op->loc, "a square became a product");
      }
  return {};
}

bool runsAPassOfItsOwn() {
  tg::PassInfo info;
  info.name = "squares-to-products";
  info.summary = "Turns tg.square into tg.mul.";
  info.make = [](const tg::AttrList&) { return tg::PassFunction(squaresToProducts); };
  if (!check(tg::registerPass(info), "register a pass")) return false;
  auto module = tg::parse(kText, "square.tgir");
  if (!check(module, "parse")) return false;
  int remarks = 0;
  auto pipeline = tg::PassManager::parse("squares-to-products,append-grad,append-adam{lr=1e-2}");
  if (!check(pipeline, "parse a pipeline")) return false;
  pipeline->onDiagnostic([&](const tg::Diagnostic&) { ++remarks; });
  if (!check(pipeline->run(*module), "run the pipeline")) return false;
  std::string text = tg::print(**module);
  return check(tg::verify(**module), "verify") && check(remarks == 1, "the pass's remark") &&
         check(text.find("%s = tg.mul %z, %z") != std::string::npos, "the square became a product") &&
         check(text.find("tg.update @w") != std::string::npos, "the parameter is updated");
}

/// Here and in a shared library, nobody having registered the passes that make kernels.
bool compiles() {
  auto module = tg::parse(kText, "square.tgir");
  auto pipeline = tg::PassManager::parse("append-grad,append-adam,fuse,plan,spirv-emit");
  if (!check(module, "parse") || !check(pipeline, "parse a pipeline") ||
      !check(pipeline->run(*module), "compile"))
    return false;
  std::string text = tg::print(**module);
  return check(text.find("stage(spirv)") != std::string::npos, "SPIR-V") &&
         check(text == compiled(kText), "the same SPIR-V in a shared library");
}

struct Line : tg::nn::Module {
  tg::nn::Linear fc = child("fc", tg::nn::Linear(2, 1));
};

tg::Result<std::unique_ptr<tg::Module>> traceLine() {
  static Line line;
  return tg::nn::trace(line, {{"train", {{"x", {8, 2}}, {"y", {8, 1}}}, [](const tg::nn::Inputs& in) {
                                 return mean(square(line.fc(in["x"]) - in["y"]));
                               }}});
}

constexpr const char* kPipeline = "append-grad,append-adam{lr=5e-2}";

/// Rows (a, b) and 2a - b + 0.5.
void fill(tg::HostArray& x, tg::HostArray& y) {
  int64_t rows = y.elements();
  for (int64_t i = 0; i < rows; ++i) {
    double a = static_cast<double>(i % 3), b = static_cast<double>(i) / static_cast<double>(rows);
    x.set(2 * i, a);
    x.set(2 * i + 1, b);
    y.set(i, 2 * a - b + 0.5);
  }
}

bool tracesAndTrains() {
  auto module = traceLine();
  if (!check(module, "trace")) return false;
  auto session = tg::Session::create(std::move(*module), {.seed = 1, .trainPipeline = kPipeline});
  if (!check(session, "make a session")) return false;
  tg::HostArray x = tg::HostArray::zeros(tg::DType::f32, {8, 2}),
                y = tg::HostArray::zeros(tg::DType::f32, {8, 1});
  fill(x, y);
  double first = 0, last = 0;
  for (int step = 0; step < 300; ++step) {
    auto done = (*session)->step({{"x", x}, {"y", y}});
    if (!done) return check(false, "a step");
    (step == 0 ? first : last) = done->loss;
  }
  std::printf("loss %.4f, then %.6f\n", first, last);
  return check(last < 0.01 * first, "the loss falls");
}

struct Losses : tg::TrainObserver {
  std::vector<double> seen;
  std::vector<int64_t> saved;
  tg::Result<void> onStep(const tg::StepResult& step) override {
    seen.push_back(step.loss);
    return {};
  }
  void onSave(const std::string&, int64_t step) override { saved.push_back(step); }
};

/// Trains on files until `steps` steps are done, from the newest checkpoint in `folder` when there is one.
bool trainsIn(const std::string& folder, int64_t steps, Losses& losses) {
  auto module = traceLine();
  if (!check(module, "trace")) return false;
  tg::FeedOptions data;
  data.train = "x=@" + folder + "/x.npy,y=@" + folder + "/y.npy";
  data.seed = 3;
  auto feed = tg::openFeed(data, *(*module)->func("train"), nullptr);
  if (!check(feed, "open the data")) return false;
  auto session = tg::Session::create(std::move(*module), {.seed = 1, .trainPipeline = kPipeline});
  if (!check(session, "make a session")) return false;
  tg::TrainState state;
  auto latest = tg::latestCheckpoint(folder);
  if (!check(latest, "look for checkpoints")) return false;
  if (latest->good) {
    auto checkpoint = tg::readCheckpoint(latest->good->path);
    if (!check(checkpoint, "read a checkpoint") ||
        !check((*session)->uploadParams(checkpoint->params), "upload parameters") ||
        !check((*session)->uploadStates(checkpoint->states), "upload states") ||
        !check((*session)->setSteps(checkpoint->state.step), "set the step"))
      return false;
    state = checkpoint->state;
  }
  tg::TrainerOptions options;
  options.steps = steps;
  options.checkpointEvery = 100;
  options.runDir = folder;
  tg::TrainControl control;
  tg::Trainer trainer(**session, **feed, options, state);
  auto summary = trainer.run(losses, control);
  return check(summary, "train") &&
         check(summary->end == tg::TrainEnd::done && summary->step == steps, "all steps");
}

/// The same losses in one part and in two.
bool trainsWithTheTrainer() {
  namespace fs = std::filesystem;
  tg::HostArray x = tg::HostArray::zeros(tg::DType::f32, {32, 2}),
                y = tg::HostArray::zeros(tg::DType::f32, {32, 1});
  fill(x, y);
  Losses whole, parts;
  for (const char* folder : {"whole", "parts"}) {
    fs::remove_all(folder);
    fs::create_directories(folder);
    if (!check(tg::writeNpy(std::string(folder) + "/x.npy", x), "write x.npy") ||
        !check(tg::writeNpy(std::string(folder) + "/y.npy", y), "write y.npy"))
      return false;
  }
  if (!trainsIn("whole", 300, whole) || !trainsIn("parts", 100, parts) || !trainsIn("parts", 300, parts))
    return false;
  std::printf("trainer: loss %.4f, then %.6f\n", whole.seen.front(), whole.seen.back());
  return check(whole.seen.size() == 300 && whole.seen.back() < 0.01 * whole.seen.front(), "the loss falls") &&
         check(whole.seen == parts.seen, "a resumed run has the same losses") &&
         check(whole.saved == std::vector<int64_t>{100, 200, 300}, "checkpoints every 100 steps");
}

}  // namespace

int main() {
  return runsAPassOfItsOwn() && compiles() && tracesAndTrains() && trainsWithTheTrainer() ? 0 : 1;
}
