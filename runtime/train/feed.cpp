// SPDX-License-Identifier: Apache-2.0
#include "runtime/train/feed.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "ir/divide.h"
#include "ir/text.h"
#include "runtime/batch.h"
#include "runtime/data/spec.h"
#include "runtime/train/source.h"

namespace tg {

namespace {

/// Data for training, for evaluation or for both. One of the two may be null.
class JoinedFeed : public Feed {
 public:
  JoinedFeed(std::unique_ptr<Source> train, std::unique_ptr<Source> eval, std::string fingerprint,
             std::optional<std::string> evalPrint, bool oneBatch)
      : train_(std::move(train)), eval_(std::move(eval)), fingerprint_(std::move(fingerprint)),
        evalPrint_(std::move(evalPrint)), oneBatch_(oneBatch) {}

  Result<Inputs> batch(int64_t step, Inputs used) const override {
    if (!train_) return fail("there is no data for training");
    if (step < 1) return fail("there is no batch of step {}; the first is 1", step);
    return train_->batch(oneBatch_ ? 1 : step, std::move(used));
  }
  std::string notFinite(int64_t step) const override {
    return train_ && step > 0 ? train_->notFinite(oneBatch_ ? 1 : step) : "";
  }
  int64_t itemsPerStep() const override { return main().itemsPerStep(); }
  std::string unit() const override { return main().unit(); }
  int64_t stepsIn(int64_t epochs) const override { return train_ ? train_->stepsPerEpoch() * epochs : 0; }
  int64_t evalBatches() const override { return eval_ ? eval_->evalBatches() : 0; }
  Result<Inputs> evalBatch(int64_t index, Inputs used) const override {
    if (index < 0 || index >= evalBatches())
      return fail("there are {} batches for evaluation, got index {}", evalBatches(), index);
    return eval_->evalBatch(index, std::move(used));
  }
  const Vocabulary* vocabulary() const override { return main().vocabulary(); }
  std::string fingerprint() const override { return fingerprint_; }
  std::optional<std::string> evalFingerprint() const override { return evalPrint_; }
  std::vector<std::string> describe() const override {
    std::vector<std::string> out = main().describe();
    if (train_ && eval_)
      for (std::string& line : eval_->describe()) out.push_back("evaluation: " + std::move(line));
    return out;
  }

 private:
  const Source& main() const { return train_ ? *train_ : *eval_; }

  std::unique_ptr<Source> train_, eval_;
  std::string fingerprint_;
  std::optional<std::string> evalPrint_;
  bool oneBatch_;
};

/// The fingerprint of all data of a training; `evaluated` is that of evaluation, if there is one.
Result<std::string> fingerprintOf(const FeedOptions& options, const Source& train,
                                  const std::optional<std::string>& evaluated) {
  Fingerprint print;
  TG_TRY(const std::string trained, train.fingerprint());
  print.add(trained);
  print.add(fmt::format("{} {}", options.shuffle, options.valFraction));
  if (options.oneBatch) print.add("one batch");
  // Evaluation data counts, since it determines which checkpoint is the best.
  if (evaluated) print.add(*evaluated);
  return print.str();
}

constexpr std::string_view kText = "text:", kTokens = "tokens:";

Result<std::unique_ptr<Source>> openSource(const SourceOptions& options, const Item& func) {
  const std::string& text = options.bindings;
  if (text.starts_with(kText)) return openText(options, func, text.substr(kText.size()));
  if (text.starts_with(kTokens)) return openTokens(options, func, text.substr(kTokens.size()));
  if (text.empty() && !dataArguments(func).empty())
    return fail("give the sources of the inputs: --data=text:FILE or --data 'x=@x.npy,y=@y.npy'");
  return openColumns(options, func);
}

Result<void> checkOptions(const FeedOptions& options, const Item* eval) {
  if (!(options.valFraction >= 0 && options.valFraction < 1))
    return fail("the fraction kept for evaluation is at least 0 and below 1, got {}", options.valFraction);
  if (options.valFraction > 0 && !options.val.empty())
    return fail("evaluation has data of its own, so no fraction of the training data is kept for it");
  if (!eval && (options.valFraction > 0 || !options.val.empty()))
    return fail("there is data for evaluation, but no function that evaluates");
  if (options.val.starts_with(kText) && !options.train.starts_with(kText))
    return fail("evaluation on a text needs training on one, whose vocabulary it takes");
  if (options.val.starts_with(kTokens) && options.train.starts_with(kText))
    return fail("training on a text needs evaluation on one: its ids stand for characters");
  if (options.vocabulary && !options.train.starts_with(kText))
    return fail("the vocabulary of {} is that of a text, but the data is '{}'",
                countText(options.vocabulary->size(), "character"), options.train);
  return {};
}

}  // namespace

bool isText(const std::string& source) { return source.starts_with(kText); }

int64_t heldOutOf(int64_t total, double fraction) {
  const auto wanted = static_cast<int64_t>(std::llround(fraction * static_cast<double>(total)));
  return std::clamp<int64_t>(wanted, 1, std::max<int64_t>(1, total - 1));
}

Result<void> checkBindings(const std::string& text) {
  if (text.empty() || text.starts_with(kText) || text.starts_with(kTokens)) return {};
  std::set<std::string> known;
  for (const std::string& binding : splitBindings(text)) {
    TG_TRY(const auto spec, parseInputSpec(binding));
    if (!known.insert(spec.first).second) return fail("there are two sources for '{}'", spec.first);
  }
  return {};
}

Result<std::unique_ptr<Feed>> openFeed(const FeedOptions& options, const Item& func, const Item* eval) {
  TG_CHECK(checkOptions(options, eval));
  std::map<std::string, Table> opened;
  SourceOptions source;
  source.bindings = options.train;
  source.seed = options.seed;
  source.shuffle = options.shuffle;
  source.heldOut = options.valFraction;
  source.vocabulary = options.vocabulary;
  source.opened = &opened;
  TG_TRY(auto training, openSource(source, func));
  std::unique_ptr<Source> evaluation;
  const bool own = !options.val.empty();
  if (eval && (own || options.valFraction > 0)) {
    if (own) source.bindings = options.val;
    source.evaluates = true;
    source.extraNames = !own;
    if (training->vocabulary()) source.vocabulary = *training->vocabulary();
    auto made = openSource(source, *eval);
    if (!made) return fail("evaluation: " + made.error().message());
    evaluation = std::move(*made);
  }
  std::optional<std::string> evalPrint;
  if (evaluation) {
    TG_TRY(evalPrint, evaluation->fingerprint());
  }
  TG_TRY(std::string print, fingerprintOf(options, *training, evalPrint));
  if (!own) evalPrint.reset();
  if (options.evalOnly && evaluation) training.reset();
  return std::unique_ptr<Feed>(new JoinedFeed(std::move(training), std::move(evaluation), std::move(print),
                                              std::move(evalPrint), options.oneBatch));
}

Result<std::unique_ptr<Feed>> openEvalFeed(const FeedOptions& options, const Item& eval) {
  std::map<std::string, Table> opened;
  SourceOptions source;
  source.opened = &opened;
  source.bindings = options.val;
  source.seed = options.seed;
  source.shuffle = options.shuffle;
  source.evaluates = true;
  source.vocabulary = options.vocabulary;
  TG_TRY(auto made, openSource(source, eval));
  TG_TRY(std::string print, made->fingerprint());
  return std::unique_ptr<Feed>(
      new JoinedFeed(nullptr, std::move(made), std::move(print), std::nullopt, /*oneBatch=*/false));
}

namespace {

class RankFeed : public Feed {
 public:
  RankFeed(std::unique_ptr<Feed> whole, int rank, int ranks, int64_t split, const Module& source)
      : whole_(std::move(whole)), rank_(rank / split), ranks_(ranks / split), part_(rank % split),
        split_(split), source_(split > 1 ? clone(source) : nullptr) {}

  Result<Inputs> batch(int64_t step, Inputs used) const override {
    if (step < 1) return whole_->batch(step);  // returns the error
    if (split_ == 1) return whole_->batch(stepOfOne(step), std::move(used));
    TG_TRY(Inputs inputs, whole_->batch(stepOfOne(step)));
    Inputs part;
    TG_TRY(const InputViews views, partOf(*source_->func("train"), inputs, part_, split_, part));
    for (const auto& [name, view] : views)
      if (!part.contains(name))
        part.emplace(name, HostArray{view.dtype, view.shape, {view.bytes.begin(), view.bytes.end()}});
    return part;
  }
  /// Checks the inputs of all ranks, since all of them skip the step or end at it.
  std::string notFinite(int64_t step) const override {
    std::string found;
    for (int64_t rank = 0; rank < ranks_ && found.empty(); ++rank)
      found = whole_->notFinite((step - 1) * ranks_ + rank + 1);
    return found;
  }
  int64_t itemsPerStep() const override { return whole_->itemsPerStep() * ranks_; }
  std::string unit() const override { return whole_->unit(); }
  /// The last batches of an epoch are drawn beside the first of the next, so only the last step is rounded up.
  int64_t stepsIn(int64_t epochs) const override {
    const int64_t each = whole_->stepsIn(1);
    return epochs / ranks_ * each + divideCeil(epochs % ranks_ * each, ranks_);
  }
  int64_t evalBatches() const override { return whole_->evalBatches(); }
  Result<Inputs> evalBatch(int64_t index, Inputs used) const override {
    return whole_->evalBatch(index, std::move(used));
  }
  const Vocabulary* vocabulary() const override { return whole_->vocabulary(); }
  std::string fingerprint() const override { return whole_->fingerprint(); }
  std::optional<std::string> evalFingerprint() const override { return whole_->evalFingerprint(); }
  std::vector<std::string> describe() const override { return whole_->describe(); }

 private:
  int64_t stepOfOne(int64_t step) const { return (step - 1) * ranks_ + rank_ + 1; }

  std::unique_ptr<Feed> whole_;
  int64_t rank_, ranks_;  ///< counted in groups that take whole batches
  int64_t part_, split_;
  std::unique_ptr<Module> source_;
};

}  // namespace

std::unique_ptr<Feed> rankFeed(std::unique_ptr<Feed> whole, int rank, int ranks, int64_t split,
                               const Module& source) {
  return std::make_unique<RankFeed>(std::move(whole), rank, ranks, split, source);
}

Result<HostArray> randomInput(const Item& func, const Value& argument, uint64_t seed) {
  InputSpec spec;
  spec.kind = InputSpec::Kind::rand;
  spec.seed = seed;
  if (int64_t limit = idLimit(func, &argument)) spec.below = static_cast<int32_t>(limit);
  return load(spec, argument.type, argument.name);
}

Result<Inputs> randomInputs(const Item& func) {
  Inputs inputs;
  uint64_t seed = 1;
  for (const auto& arg : func.body.args) {
    if (find(arg->attrs, "host")) continue;
    TG_TRY(HostArray value, randomInput(func, *arg, seed++));
    inputs.emplace(arg->name, std::move(value));
  }
  return inputs;
}

}  // namespace tg
