// SPDX-License-Identifier: Apache-2.0
#include "ir/kernel/index_analysis.h"

#include <algorithm>
#include <functional>

#include "ir/kernel/index_decode.h"

namespace tg {

using indexing::Affine;
using indexing::Bounds;
using indexing::Decoder;
using indexing::Forms;

IndexAnalysis::IndexAnalysis(const Item& kernel, const std::vector<Shape>* shapes)
    : forms_(std::make_unique<Forms>(kernel, shapes)), bounds_(std::make_unique<Bounds>(*forms_)) {}
IndexAnalysis::~IndexAnalysis() = default;
IndexAnalysis::IndexAnalysis(IndexAnalysis&&) noexcept = default;
IndexAnalysis& IndexAnalysis::operator=(IndexAnalysis&&) noexcept = default;

static IndexAnalysis::Interval rangeIn(const Forms& forms, const Bounds& bounds, const Operand& operand,
                                       int scope) {
  if (operand.isLiteral()) return {operand.integer, operand.integer};
  return bounds.value(forms.form(operand), operand.value->type.dtype, scope);
}

IndexAnalysis::Interval IndexAnalysis::range(const Operand& operand) const {
  return rangeIn(*forms_, *bounds_, operand, operand.value ? forms_->scopeOf(*operand.value) : 0);
}

IndexAnalysis::Interval IndexAnalysis::range(const Operand& operand, const Op& at) const {
  return rangeIn(*forms_, *bounds_, operand, forms_->scopeOf(at));
}

std::optional<int64_t> IndexAnalysis::tripCount(const Op& loop) const {
  int scope = forms_->scopeOf(loop);
  const LoopRange bounds = rangeOf(loop);
  const Operand &from = bounds.from, &to = bounds.to;
  const Interval step = range(bounds.step, loop);
  const int64_t by = std::max<int64_t>(step.lo, 1);
  const Affine start = forms_->form(from);
  const auto exactFrom = bounds_->exact(start, DType::u32, scope);
  // The most that a limit may be above the start.
  auto apart = [&](const Operand& limit, bool open) {
    const Affine end = forms_->form(limit);
    int64_t most = bounds_->value(end, DType::u32, scope, open).hi - range(from, loop).lo;
    const auto exactEnd = bounds_->exact(end, DType::u32, scope);
    if (exactFrom && exactEnd) most = std::min(most, bounds_->upper(*exactEnd - *exactFrom, scope, open));
    // Even if both wrap around: a limit above the start is above it by their difference mod 2^32. A difference of
    // 2^31 or more is unknown, or that of a limit below the start.
    const int64_t difference = bounds_->value(wrapped(end - start), DType::u32, scope, open).hi;
    return difference <= INT32_MAX ? std::min(most, difference) : most;
  };
  // A minimum is no farther above the start than each of its operands, a maximum no farther than all of them.
  const std::function<int64_t(const Operand&, bool, int)> span = [&](const Operand& limit, bool open,
                                                                     int depth) {
    const int64_t most = apart(limit, open);
    const Op* def = limit.value ? limit.value->def : nullptr;
    if (!def || depth == 4 || (def->code != Opcode::k_min && def->code != Opcode::k_max)) return most;
    const int64_t one = span(def->operands[0], open, depth + 1),
                  other = span(def->operands[1], open, depth + 1);
    return std::min(most, def->code == Opcode::k_min ? std::min(one, other) : std::max(one, other));
  };
  auto most = [&](bool open) {
    const int64_t spans = span(to, open, 0);
    return spans <= 0 ? 0 : (spans - 1) / by + 1;
  };
  // Where the index may wrap around, the loop may start over.
  if (range(to, loop).hi + std::max(by, step.hi) > indexing::kWrap) return {};
  // The limits of types and launches always give some bound; only a bound that holds without them is worth a tape.
  const int64_t closed = most(false);
  return closed > 0 && most(true) >= Bounds::kUnknown ? std::nullopt : std::optional(closed);
}

bool IndexAnalysis::covered(const std::vector<const Op*>& stores, const std::vector<const Op*>& loads,
                            const Block& block) const {
  return loads.empty() || indexing::covered(*forms_, *bounds_, stores, loads, block);
}

bool IndexAnalysis::lanePrivate(const std::vector<const Op*>& accesses) const {
  if (accesses.empty()) return true;
  BufMode mode = elementOf(*accesses[0])->value->type.mode;
  if (mode == BufMode::local) return true;
  Decoder decoder(*forms_, *bounds_, accesses);
  if (mode == BufMode::shared) decoder.sameGroup();
  decoder.run();
  return decoder.invocationKnown();
}

bool IndexAnalysis::certainlyRepeats(const std::vector<const Op*>& stores) const {
  return indexing::foundTwice(*forms_, *bounds_, stores);
}

bool IndexAnalysis::inRange(const Op& access) const { return inRange(access, access); }

bool IndexAnalysis::inRange(const Op& access, const Op& at) const {
  const Operand& element = *elementOf(access);
  int scope = forms_->scopeOf(at);
  for (size_t axis = 0; axis < element.items.size(); ++axis) {
    const Operand& index = element.items[axis];
    Affine extent = forms_->extent(element.value, static_cast<int>(axis));
    Interval values = range(index, at);
    if (values.lo >= 0 && values.hi < bounds_->lower(extent, scope)) continue;
    DType dtype = index.isLiteral() ? DType::u32 : index.value->type.dtype;
    auto exact = bounds_->exact(forms_->form(index), dtype, scope);
    if (!exact || bounds_->lower(*exact, scope) < 0) return false;
    if (bounds_->lower(extent - Affine::of(1) - *exact, scope) < 0) return false;
  }
  return true;
}

}  // namespace tg
