// SPDX-License-Identifier: Apache-2.0
// gpt-gen: prints a GPT as a module.
#include <span>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "docs/examples/gpt_gen.h"
#include "ir/parser.h"
#include "tools/driver/listings.h"
#include "tools/driver/run_setup.h"
#include "tools/driver/streams.h"

static tg::Result<int> run(CLI::App& app, int argc, char** argv) {
  tg::GptConfig config;
  app.add_option("--vocab", config.vocab, "token ids")->capture_default_str();
  app.add_option("--block", config.block, "tokens a prediction sees")->capture_default_str();
  app.add_option("--layers", config.layers, "blocks")->capture_default_str();
  app.add_option("--heads", config.heads, "attention heads")->capture_default_str();
  app.add_option("--width", config.width, "channels, a multiple of the heads")->capture_default_str();
  app.add_option("--batch", config.batch, "sequences in a training step")->capture_default_str();
  app.add_option("--act", config.activation, "relu or gelu")->capture_default_str();
  app.add_option("--mixing", config.mixing, "attention: tg.attention; softmax: matmul, softmax, matmul")
      ->capture_default_str();
  app.add_flag("--tied-head", config.tiedHead, "the head is the embedding, transposed");
  app.add_flag("--scaled-residuals", config.scaledResiduals,
               "start projections into the residual stream 1/sqrt(2 layers) smaller");
  app.add_option("--pipeline", config.trainPipeline, "what tg-run train appends; '' writes none")
      ->capture_default_str();
  bool version = false;
  app.add_flag("--version", version, "print the version");
  // The empty value of `--pipeline=` becomes a word of its own.
  std::vector<std::string> args;
  for (const std::string arg : std::span(argv + 1, static_cast<size_t>(argc - 1))) {
    args.push_back(arg == "--pipeline=" ? "--pipeline" : arg);
    if (arg == "--pipeline=") args.emplace_back();
  }
  TG_TRY(const std::optional<int> exit, tg::parseVerb(app, args));
  if (exit) return *exit;
  if (version) return fmt::print("{}", tg::versionText()), 0;
  // It reads nothing, so what is wrong is an option.
  TG_TRY(const auto module, tg::withCode(tg::exitUsage, tg::makeGpt(config)));
  fmt::print("{}", tg::print(*module));
  return 0;
}

int main(int argc, char** argv) {
  CLI::App app("Prints a GPT of nanoGPT's shape as a module: @train and @predict over shared parameters.",
               "gpt-gen");
  return tg::runTool("gpt-gen", [&] {
    const tg::Result<int> code = run(app, argc, argv);
    return code ? *code : tg::report(app, code.error());
  });
}
