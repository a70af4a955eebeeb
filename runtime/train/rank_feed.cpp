// SPDX-License-Identifier: Apache-2.0
#include "runtime/train/rank_feed.h"

#include <utility>

#include "runtime/batch.h"

namespace tg {

namespace {

class RankFeed : public Feed {
 public:
  RankFeed(std::unique_ptr<Feed> whole, int rank, int ranks, int64_t split, const Module& source)
      : whole_(std::move(whole)), rank_(rank / split), ranks_(ranks / split), part_(rank % split),
        split_(split), source_(split > 1 ? clone(source) : nullptr) {}

  Result<Inputs> batch(int64_t step) const override {
    if (step < 1) return whole_->batch(step);  // returns the error
    TG_TRY(Inputs inputs, whole_->batch(stepOfOne(step)));
    if (split_ == 1) return inputs;
    return partOf(*source_->func("train"), inputs, part_, split_);
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
  int64_t stepsPerEpoch() const override { return whole_->stepsPerEpoch() / ranks_; }
  int64_t evalBatches() const override { return whole_->evalBatches(); }
  Result<Inputs> evalBatch(int64_t index) const override { return whole_->evalBatch(index); }
  const Vocabulary* vocabulary() const override { return whole_->vocabulary(); }
  std::string fingerprint() const override { return whole_->fingerprint(); }
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

}  // namespace tg
