// SPDX-License-Identifier: Apache-2.0
#include "passes/fuse/timeline.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <utility>

namespace tg::fuse {

/// A stretch with this many steps is split in two.
constexpr size_t kMostSteps = 512;

void Timeline::setPlaces(Stretch& stretch) {
  for (size_t at = 0; at < stretch.steps.size(); ++at) {
    stretch.steps[at]->stretch_ = &stretch;
    stretch.steps[at]->at_ = at;
  }
}

void Timeline::split(Stretch& stretch) {
  auto behind = std::make_unique<Stretch>();
  behind->bytes = stretch.bytes;
  const auto middle = stretch.steps.begin() + static_cast<std::ptrdiff_t>(stretch.steps.size() / 2);
  std::move(middle, stretch.steps.end(), std::back_inserter(behind->steps));
  stretch.steps.erase(middle, stretch.steps.end());
  setPlaces(*behind);
  stretch.isStale = true;
  stretches_.insert(stretches_.begin() + static_cast<std::ptrdiff_t>(stretch.at) + 1, std::move(behind));
  for (size_t at = stretch.at + 1; at < stretches_.size(); ++at) stretches_[at]->at = at;
}

Timeline::Step* Timeline::append(Op* op) {
  if (stretches_.empty() || stretches_.back()->steps.size() == kMostSteps / 2) {
    stretches_.push_back(std::make_unique<Stretch>());
    stretches_.back()->at = stretches_.size() - 1;
  }
  Stretch& last = *stretches_.back();
  auto step = std::make_unique<Step>();
  step->op_ = op;
  step->stretch_ = &last;
  step->at_ = last.steps.size();
  last.steps.push_back(std::move(step));
  return last.steps.back().get();
}

/// At first as many bytes are alive as at `next`.
Timeline::Step* Timeline::insertBefore(const Step& next, Op* op) {
  Stretch& stretch = *next.stretch_;
  auto step = std::make_unique<Step>();
  Step* made = step.get();
  made->op_ = op;
  made->bytes_ = next.bytes_;
  stretch.steps.insert(stretch.steps.begin() + static_cast<std::ptrdiff_t>(next.at_), std::move(step));
  setPlaces(stretch);
  stretch.isStale = true;
  if (stretch.steps.size() == kMostSteps) split(stretch);
  return made;
}

void Timeline::addTo(Stretch& stretch, size_t from, size_t to, int64_t bytes) {
  if (from == 0 && to == stretch.steps.size()) {
    stretch.bytes += bytes;
    return;
  }
  for (size_t at = from; at < to; ++at) stretch.steps[at]->bytes_ += bytes;
  stretch.isStale = true;
}

void Timeline::add(const Step& from, const Step& to, int64_t bytes) {
  for (size_t at = from.stretch_->at; at <= to.stretch_->at; ++at) {
    Stretch& stretch = *stretches_[at];
    addTo(stretch, &stretch == from.stretch_ ? from.at_ : 0,
          &stretch == to.stretch_ ? to.at_ + 1 : stretch.steps.size(), bytes);
  }
}

void Timeline::forgetTaken(const Step& at) {
  Step& step = *at.stretch_->steps[at.at_];
  step.isKnown_ = false;
  step.taken_ = 0;
  step.stretch_->isStale = true;
}

const Timeline::Step* Timeline::peak() {
  while (true) {
    Stretch* highest = nullptr;
    for (const auto& stretch : stretches_) {
      if (std::exchange(stretch->isStale, false)) {
        stretch->most = std::numeric_limits<int64_t>::min();
        for (const auto& step : stretch->steps)
          stretch->most = std::max(stretch->most, step->bytes_ - step->taken_);
      }
      if (!highest || stretch->bytes + stretch->most > highest->bytes + highest->most)
        highest = stretch.get();
    }
    if (!highest || highest->bytes + highest->most <= 0) return nullptr;
    // This is an upper bound until takenOver is known for the step.
    const auto& steps = highest->steps;
    Step& step = **std::ranges::find_if(
        steps, [&](const auto& each) { return each->bytes_ - each->taken_ == highest->most; });
    if (step.isKnown_) return &step;
    step.isKnown_ = true;
    step.taken_ = takenOver_(step);
    highest->isStale = step.taken_ != 0;
  }
}

}  // namespace tg::fuse
