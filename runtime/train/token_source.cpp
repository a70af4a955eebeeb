// SPDX-License-Identifier: Apache-2.0
// Inputs from windows of texts and token files.
#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "ir/text.h"
#include "runtime/data/token_stream.h"
#include "runtime/train/feed.h"
#include "runtime/train/source.h"

namespace tg {

namespace {

class TokenSource : public Source {
 public:
  TokenSource(const SourceOptions& options, TokenStream tokens, const Value& inputs, const Value& targets)
      : options_(options), tokens_(std::move(tokens)), inputs_(inputs.name), targets_(targets.name),
        shape_(inputs.type.shape) {
    const int64_t held = options.heldOut > 0 ? heldOutOf(tokens_.size(), options.heldOut) : 0;
    training_ = tokens_.size() - held;
    evalFirst_ = held ? training_ : 0;
  }

  /// An error if there are not enough tokens.
  Result<void> check() const {
    if (options_.evaluates && evalBatches() == 0)
      return tooFew("for evaluation", tokens_.size() - evalFirst_);
    if (options_.evaluates) return {};
    if (!options_.shuffle && inOrder(training_) == 0) return tooFew("in a row", training_);
    auto probe = batch(1, {});
    if (probe) return {};
    return fail("{}: {}", tokens_.parts().front().path, probe.error().message());
  }

  Result<Inputs> batch(int64_t step, Inputs) const override {
    if (options_.shuffle)
      return named(sampleWindows(tokens_, training_, options_.seed, static_cast<uint64_t>(step), shape_[0],
                                 shape_[1]));
    return named(windowsFrom(tokens_, (step - 1) % stepsPerEpoch() * itemsPerStep(), shape_[0], shape_[1]));
  }
  int64_t itemsPerStep() const override { return shape_.elements(); }
  std::string unit() const override { return "tok"; }
  int64_t stepsPerEpoch() const override { return std::max<int64_t>(1, inOrder(training_)); }
  int64_t evalBatches() const override { return inOrder(tokens_.size() - evalFirst_); }
  Result<Inputs> evalBatch(int64_t index, Inputs) const override {
    return named(windowsFrom(tokens_, evalFirst_ + index * itemsPerStep(), shape_[0], shape_[1]));
  }
  const Vocabulary* vocabulary() const override { return tokens_.vocabulary(); }
  Result<std::string> fingerprint() const override {
    Fingerprint print;
    print.add(fmt::format("{} {} {} {}", inputs_, targets_, shape_.str(), tokens_.size()));
    for (const auto& part : tokens_.parts()) {
      const auto read = [&](size_t first, std::span<std::byte> to) {
        return part.file->read(part.start + first, to);
      };
      TG_CHECK(print.addBytes(static_cast<size_t>(part.count) * tokens_.tokenBytes(), read, part.path));
    }
    return print.str();
  }
  std::vector<std::string> describe() const override {
    if (options_.evaluates)
      return {
          tokens_.describe() +
          (evalFirst_ > 0 ? fmt::format(", the last {} for evaluation", tokens_.size() - evalFirst_) : "")};
    return {
        fmt::format("{}{}, {}", tokens_.describe(),
                    training_ < tokens_.size() ? fmt::format(", the first {} for training", training_) : "",
                    options_.shuffle ? "windows drawn at random" : "windows in order")};
  }

 private:
  /// The number of batches of consecutive windows in `count` tokens.
  int64_t inOrder(int64_t count) const { return std::max<int64_t>(0, count - 1) / itemsPerStep(); }

  Error tooFew(const char* purpose, int64_t count) const {
    return fail("{}: a batch {} takes {} tokens, {} of {} and the one after them; there are {}",
                tokens_.parts().front().path, purpose, itemsPerStep() + 1, countText(shape_[0], "window"),
                shape_[1], count);
  }
  Result<Inputs> named(Result<Windows> windows) const {
    if (!windows) return windows.takeError();
    Inputs out;
    out.emplace(inputs_, std::move(windows->x));
    out.emplace(targets_, std::move(windows->y));
    return out;
  }

  SourceOptions options_;
  TokenStream tokens_;
  std::string inputs_, targets_;
  Shape shape_;
  int64_t training_ = 0;   ///< the first tokens are for training
  int64_t evalFirst_ = 0;  ///< tokens from here on are for evaluation
};

Result<void> checkArguments(const std::vector<const Value*>& args, const Item& func) {
  const bool fits = args.size() == 2 && args[0]->type == args[1]->type && args[0]->type.dtype == DType::i32 &&
                    args[0]->type.rank() == 2 && args[0]->type.elements() > 0;
  if (fits) return {};
  return fail("text data feeds two i32 inputs [batch, length], tokens and targets; @{} has others",
              func.name);
}

Result<std::unique_ptr<Source>> finish(const SourceOptions& options, TokenStream stream,
                                       const std::vector<const Value*>& args) {
  auto source = std::make_unique<TokenSource>(options, std::move(stream), *args[0], *args[1]);
  TG_CHECK(source->check());
  return std::unique_ptr<Source>(std::move(source));
}

/// Checks every token of every file against the tables that both arguments index.
Result<void> checkTokens(const TokenStream& stream, const std::vector<const Value*>& args, const Item& func) {
  constexpr int64_t kPiece = 1 << 20;
  for (const auto& part : stream.parts())
    for (int64_t at = 0; at < part.count; at += kPiece) {
      HostArray ids = HostArray::zeros(DType::i32, {std::min(kPiece, part.count - at)});
      TG_CHECK(stream.read(part.first + at, ids.i32()));
      for (const Value* arg : args) {
        const int64_t foreign = foreignId(func, *arg, ids);
        if (foreign == ids.elements()) continue;
        const int64_t limit = idLimit(func, arg);
        return fail("{} holds the id {} at token {}, but %{} indexes {}: ids are 0 … {}", part.path,
                    ids.at(foreign), at + foreign, arg->name, countText(limit, "row"), limit - 1);
      }
    }
  return {};
}

}  // namespace

Result<std::unique_ptr<Source>> openText(const SourceOptions& options, const Item& func,
                                         const std::string& path) {
  const std::vector<const Value*> args = dataArguments(func);
  TG_CHECK(checkArguments(args, func));
  TG_TRY(TokenStream stream, TokenStream::ofText(path, options.vocabulary));
  const int size = stream.vocabulary()->size();
  for (const Value* arg : args) {
    const int64_t limit = idLimit(func, arg);
    if (limit && size > limit)
      return fail("{} has {}, but %{} indexes {}: give the model a vocabulary of {} or more", path,
                  countText(size, "distinct character"), arg->name, countText(limit, "row"), size);
  }
  return finish(options, std::move(stream), args);
}

Result<std::unique_ptr<Source>> openTokens(const SourceOptions& options, const Item& func,
                                           const std::string& paths) {
  const std::vector<const Value*> args = dataArguments(func);
  TG_CHECK(checkArguments(args, func));
  TG_TRY(TokenStream stream, TokenStream::ofTokenFiles(paths));
  TG_CHECK(checkTokens(stream, args, func));
  return finish(options, std::move(stream), args);
}

}  // namespace tg
