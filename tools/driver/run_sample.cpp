// SPDX-License-Identifier: Apache-2.0
// tg-run sample: continues a text with a trained language model.
#include <cstdio>

#include <fmt/format.h>

#include "runtime/compile.h"
#include "runtime/data/text_data.h"
#include "runtime/train/run_dir.h"
#include "runtime/train/sampler.h"
#include "tools/driver/batch_parts.h"
#include "tools/driver/ranks.h"
#include "tools/driver/run_setup.h"

namespace tg {

namespace {

Result<Vocabulary> vocabularyOf(const Weights& weights) {
  if (!weights.vocabulary) return fail(weights.file + " does not say which text its tokens stand for");
  return Vocabulary::parse(*weights.vocabulary);
}

/// An error if the vocabulary lacks a byte of the prompt; it says what to type.
Result<void> checkPrompt(const Vocabulary& vocabulary, const std::string& prompt, bool given) {
  auto known = vocabulary.check(prompt);
  if (known) return {};
  std::string bytes = vocabulary.printable();
  constexpr size_t kShown = 60;
  if (bytes.size() > kShown) bytes = bytes.substr(0, kShown) + "…";
  const std::string what = given ? "--prompt: " + known.error().message()
                                 : "the model does not know a line break, which is the default prompt";
  return fail("{}; type --prompt=TEXT with bytes of its vocabulary, {}", what, bytes);
}

struct Sample : Verb {
  ModelFlags model;
  SampleOptions flags;
  RankFlags rankFlags;

  void describe(CLI::App& app) override {
    app.description("Continues a text with @predict. FILE may be a run or one of its checkpoints.");
    addModelFlags(app, model);
    model.notes = false;  // print only the text, unless more is requested
    app.add_flag("-v,--verbose", model.notes, "print on standard error where the parameters come from");
    addValue(app, "--prompt", "TEXT", flags.prompt, "the text to continue (default: a line break)");
    addNumber(app, "--tokens", flags.tokens, "tokens to sample", atLeast(0));
    addNumber(app, "--temperature", flags.temperature,
              "0: the most likely token; 1: the model's probabilities", atLeast(0));
    addRankFlags(app, rankFlags, "Options");
  }
  Result<int> run(CLI::App& app, const Arguments&) override {
    // Only one rank writes the text; the others wait for it when they end.
    TG_TRY(const std::shared_ptr<collective::Engine> ranks, joinRanks(rankFlags));
    if (ranks && ranks->rank() > 0) return exitOk;
    TG_TRY(const std::string run, takeRun(model));
    if (!run.empty()) model.file = RunDir{run}.model();
    if (model.weights.empty()) return noParameters(app, model.file);

    TG_TRY(std::unique_ptr<Module> module, loadModule(app, model));
    TG_TRY(const bool sized, forOneText(module));
    if (sized && model.notes) fmt::print(stderr, "note: @predict is compiled for a batch of 1\n");
    TG_TRY(const Item* func, predictor(*module));
    if (model.pipeline.empty() && module->stage == Stage::tensor) {
      keepEntries(*module, {func->name});
      model.pipeline = gradPass(*func);
    }
    TG_TRY(model.given, givenWeights(model));
    if (model.notes && model.given->file == model.weights)
      fmt::print(stderr, "note: parameters of {}\n", model.weights);
    TG_TRY(const Vocabulary vocabulary, vocabularyOf(*model.given));
    TG_CHECK(checkPrompt(vocabulary, flags.prompt, app.count("--prompt") > 0));
    const std::string name = func->name;
    model.states = true;
    TG_TRY(const OpenModel open, openModel(model, std::move(module), {name}));
    model.given.reset();  // its checkpoint may be pruned now
    flags.seed = model.seed;
    TG_CHECK(write(Sampler(*open.session, *open.source->func(name), vocabulary, flags)));
    return exitOk;
  }

 private:
  /// Prints the prompt, and each following token when it is generated.
  static Result<void> write(Sampler sampler) {
    bool begun = false;
    auto sink = [&](const std::string& text) {
      fmt::print("{}{}", begun ? "" : sampler.options().prompt, text);
      begun = true;
      return std::fflush(stdout) == 0;
    };
    TG_CHECK(sampler.run(sink));
    fmt::print("{}\n", begun ? "" : sampler.options().prompt);
    return {};
  }
};

}  // namespace

std::unique_ptr<Verb> makeSample() { return std::make_unique<Sample>(); }

}  // namespace tg
