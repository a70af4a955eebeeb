// tg-run sample: a trained language model continues a text.
#include <algorithm>
#include <cmath>
#include <cstdio>

#include <fmt/format.h>

#include "ir/philox.h"
#include "runtime/data/text_data.h"
#include "runtime/train/run_dir.h"
#include "tools/driver/run_setup.h"

namespace tg {

namespace {

constexpr const char* kPredict = "predict";

struct SampleFlags {
  std::string prompt = "\n";
  int64_t tokens = 500;
  double temperature = 0.8;
};

/// @predict(%tokens: 1xT i32) -> 1xTxV f32.
Result<const Item*> predictor(const Module& module) {
  const Item* func = module.func(kPredict);
  bool fits = func && func->body.args.size() == 1 && func->results.size() == 1;
  if (fits) {
    const Type& ids = func->body.args[0]->type;
    const Type& logits = func->results[0].type;
    fits = ids.dtype == DType::i32 && ids.rank() == 2 && ids.shape[0] == 1 && logits.dtype == DType::f32 &&
           logits.rank() == 3 && logits.shape[0] == 1 && logits.shape[1] == ids.shape[1];
  }
  if (fits) return func;
  return fail("sampling calls @predict(%tokens: tensor<1xTxi32>) -> tensor<1xTxVxf32>, which the module does "
              "not have");
}

/// One of the first `count` logits of a position, drawn by e^(logit/temperature); the largest at 0.
int32_t draw(std::span<const float> logits, double temperature, float uniform) {
  auto largest = std::max_element(logits.begin(), logits.end());
  if (temperature <= 0) return static_cast<int32_t>(largest - logits.begin());
  std::vector<double> sums;
  double total = 0;
  for (float logit : logits)
    sums.push_back(total += std::exp((static_cast<double>(logit) - *largest) / temperature));
  auto found = std::upper_bound(sums.begin(), sums.end(), static_cast<double>(uniform) * total);
  return static_cast<int32_t>(std::min(found - sums.begin(), static_cast<std::ptrdiff_t>(logits.size()) - 1));
}

class Sampler {
 public:
  Sampler(Session& session, const Item& func, const Vocabulary& vocabulary, const SampleFlags& flags,
          uint64_t seed)
      : session_(session), vocabulary_(vocabulary), flags_(flags), seed_(seed),
        argument_(func.body.args[0]->name), ids_(func.body.args[0]->type),
        classes_(func.results[0].type.shape.back()) {}

  /// Prints the prompt and what follows it, as it comes.
  Result<void> run() {
    TG_TRY(std::vector<int32_t> ids, vocabulary_.encode(flags_.prompt));
    if (ids.empty()) return fail("the prompt is empty");
    fmt::print("{}", flags_.prompt);
    for (int64_t i = 0; i < flags_.tokens; ++i) {
      TG_TRY(int32_t id, next(ids, i));
      ids.push_back(id);
      TG_TRY(std::string text, vocabulary_.decode({&id, 1}));
      fmt::print("{}", text);
      std::fflush(stdout);
    }
    fmt::print("\n");
    return {};
  }

 private:
  // The window holds the last T ids from its start; what lies behind them cannot be seen by a causal model.
  Result<int32_t> next(const std::vector<int32_t>& ids, int64_t index) {
    HostArray window = HostArray::zeros(ids_);
    auto length = static_cast<size_t>(ids_.shape[1]), count = std::min(ids.size(), length);
    std::copy(ids.end() - static_cast<std::ptrdiff_t>(count), ids.end(), window.i32().begin());
    Inputs inputs;
    inputs.emplace(argument_, std::move(window));
    TG_TRY(CallOutputs out, session_.run(kPredict, inputs));
    auto classes = static_cast<size_t>(std::min<int64_t>(classes_, vocabulary_.size()));
    auto logits = std::as_const(out.results[0].second)
                      .f32()
                      .subspan((count - 1) * static_cast<size_t>(classes_), classes);
    auto i = static_cast<uint64_t>(index);
    auto words = philox({lowWord(i), highWord(i), 0x73616d70u, 0}, {lowWord(seed_), highWord(seed_)});
    return draw(logits, flags_.temperature, philoxUniform(words[0]));
  }

  Session& session_;
  const Vocabulary& vocabulary_;
  const SampleFlags& flags_;
  uint64_t seed_;
  std::string argument_;
  Type ids_;
  int64_t classes_;
};

Result<Vocabulary> vocabularyOf(const std::string& path) {
  TG_TRY(ResolvedWeights found, resolveWeights(path));
  TG_TRY(Weights weights, readWeights(found));
  if (!weights.vocabulary) return fail(found.file + " does not say what its tokens stand for");
  return Vocabulary::parse(*weights.vocabulary);
}

struct Sample : Verb {
  ModelFlags model;
  SampleFlags flags;

  void describe(CLI::App& app) override {
    app.description("Continues a text with @predict. FILE may be a run or one of its checkpoints.");
    addModelFlags(app, model);
    app.add_option("--prompt", flags.prompt, "the text to continue (default: a line break)")
        ->option_text("TEXT");
    app.add_option("--tokens", flags.tokens, "how many to add")
        ->capture_default_str()
        ->check(CLI::NonNegativeNumber);
    app.add_option("--temperature", flags.temperature, "0 takes the likeliest, 1 the model's own odds")
        ->capture_default_str()
        ->check(CLI::NonNegativeNumber);
  }
  int run(CLI::App& app, const Arguments&) override {
    const TrainedKind kind = trainedKind(model.file);
    if (kind == TrainedKind::run || kind == TrainedKind::checkpoint) {
      auto trained = resolveWeights(model.file);
      if (!trained) return report(app, exitInput, trained.error());
      if (trained->run.empty())
        return report(app, exitUsage,
                      model.file + " belongs to no run, so give the module as FILE and this as --weights");
      if (model.weights.empty()) model.weights = model.file;
      model.file = RunDir{trained->run}.model();
    }
    if (model.weights.empty())
      return report(app, exitUsage,
                    "say which parameters: --weights=PATH of a run, checkpoint or safetensors");

    std::unique_ptr<Module> module;
    if (int code = loadModule(app, model, module)) return code;
    auto func = predictor(*module);
    if (!func) return report(app, exitInput, func.error());
    auto vocabulary = vocabularyOf(model.weights);
    if (!vocabulary) return report(app, exitInput, vocabulary.error());
    OpenModel open;
    if (int code = openModel(app, model, std::move(module), {kPredict}, open)) return code;
    const Item& predict = *open.source->func(kPredict);
    auto done = Sampler(*open.session, predict, *vocabulary, flags, model.seed).run();
    return done ? exitOk : report(app, exitInput, done.error());
  }
};

}  // namespace

std::unique_ptr<Verb> makeSample() { return std::make_unique<Sample>(); }

}  // namespace tg
