// SPDX-License-Identifier: Apache-2.0
#include "runtime/train/rank_feed.h"

#include <utility>

namespace tg {

namespace {

class RankFeed : public Feed {
 public:
  RankFeed(std::unique_ptr<Feed> whole, int rank, int ranks)
      : whole_(std::move(whole)), rank_(rank), ranks_(ranks) {}

  Result<Inputs> batch(int64_t step) const override { return whole_->batch(stepOfOne(step)); }
  std::string notFinite(int64_t step) const override { return whole_->notFinite(stepOfOne(step)); }
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
  int rank_, ranks_;
};

}  // namespace

std::unique_ptr<Feed> rankFeed(std::unique_ptr<Feed> whole, int rank, int ranks) {
  return std::make_unique<RankFeed>(std::move(whole), rank, ranks);
}

}  // namespace tg
