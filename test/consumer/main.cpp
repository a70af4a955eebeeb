// Parses a module, runs a pipeline with a pass of its own in it, traces a model and trains it.
#include <cstdio>
#include <string>

#include "ir/parser.h"
#include "ir/trace/trace.h"
#include "ir/verify.h"
#include "passes/pass.h"
#include "runtime/session.h"

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
    for (auto& op : func->body.ops)
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

struct Line : tg::nn::Module {
  tg::nn::Linear fc = child("fc", tg::nn::Linear(2, 1));
};

bool tracesAndTrains() {
  Line line;
  auto module = tg::nn::trace(line, {{"train", {{"x", {8, 2}}, {"y", {8, 1}}}, [&](const tg::nn::Inputs& in) {
                                        return mean(square(line.fc(in["x"]) - in["y"]));
                                      }}});
  if (!check(module, "trace")) return false;
  auto session =
      tg::Session::create(std::move(*module), {.trainPipeline = "append-grad,append-adam{lr=5e-2}"});
  if (!check(session, "make a session")) return false;
  tg::HostArray x = tg::HostArray::zeros(tg::DType::f32, {8, 2}),
                y = tg::HostArray::zeros(tg::DType::f32, {8, 1});
  for (int64_t i = 0; i < 8; ++i) {
    double a = static_cast<double>(i % 3), b = static_cast<double>(i) / 8;
    x.set(2 * i, a);
    x.set(2 * i + 1, b);
    y.set(i, 2 * a - b + 0.5);
  }
  double first = 0, last = 0;
  for (int step = 0; step < 300; ++step) {
    auto done = (*session)->step({{"x", x}, {"y", y}});
    if (!done) return check(false, "a step");
    (step == 0 ? first : last) = done->loss;
  }
  std::printf("loss %.4f, then %.6f\n", first, last);
  return check(last < 0.01 * first, "the loss falls");
}

}  // namespace

int main() { return runsAPassOfItsOwn() && tracesAndTrains() ? 0 : 1; }
