// SPDX-License-Identifier: Apache-2.0
// Decodes indices as numbers in mixed radix. Take an index of the form C·v + low + high, where low stays in a window
// of C values and high is a multiple of C·n, with n the number of values of v. Such an index determines v, as a
// number determines its digits. With i = 16·row + column and column in [0, 16), equal i mean equal rows, and then
// equal columns.
#include "ir/kernel/index_decode.h"

#include <algorithm>
#include <cstdlib>

namespace tg::indexing {

Decoder::Decoder(const Forms& forms, const Bounds& bounds, const std::vector<const Op*>& accesses)
    : forms_(forms), bounds_(bounds) {
  size_t rank = kMaxRank;
  for (const Op* access : accesses) {
    scopes_.push_back(forms_.scopeOf(*access));
    rank = std::min(rank, elementOf(*access)->items.size());
  }
  for (size_t axis = 0; axis < rank; ++axis) {
    Equation equation;
    for (const Op* access : accesses) equation.push_back(forms_.form(elementOf(*access)->items[axis]));
    equations_.push_back(std::move(equation));
  }
  zeros();
}

/// A form that is 0 at every access is as useful as an index: its values are equal as well.
void Decoder::zeros() {
  for (const Affine& zero : forms_.zeros(scopes_[0])) {
    bool common = true;
    for (int scope : scopes_) {
      auto here = forms_.zeros(scope);
      common = common && contains(here, zero);
    }
    if (common) equations_.emplace_back(scopes_.size(), zero);
  }
}

void Decoder::sameGroup() {
  for (int axis = 0; axis < 3; ++axis)
    if (int id = forms_.groupSymbol(axis); id >= 0) known_.insert(id);
}

/// Whether all that a symbol depends on is known. A symbol that depends on itself through a loop's carried values is
/// visited once.
bool Decoder::known(int symbol) const {
  std::set<int> asked{symbol};
  for (std::vector<int> open{symbol}; !open.empty();) {
    int id = open.back();
    open.pop_back();
    const Symbol& it = forms_.symbol(id);
    if (known_.contains(id) || it.kind == Symbol::Kind::launch) continue;
    if (it.isVolatile || (it.kind != Symbol::Kind::derived && it.kind != Symbol::Kind::opaque)) return false;
    for (int input : it.inputs)
      if (asked.insert(input).second) open.push_back(input);
  }
  return true;
}

bool Decoder::invocationKnown() const {
  for (int axis = 0; axis < 3; ++axis)
    for (int id : {forms_.localSymbol(axis), forms_.groupSymbol(axis)})
      if (id >= 0 && !known(id)) return false;
  return true;
}

void Decoder::run() {
  for (bool more = true; more;) {
    more = false;
    for (const Equation& equation : equations_)
      for (const auto& [symbol, factor] : equation[0].terms)
        if (!known(symbol) && decodes(equation, symbol)) more = known_.insert(symbol).second;
  }
}

/// The form without the terms that are large only because the launch is unknown: these are assumed not to wrap.
Affine Decoder::settled(const Affine& form) const {
  constexpr int64_t kMaxFactor = int64_t{1} << 24;
  Affine out = form;
  std::erase_if(out.terms, [&](const auto& term) {
    const Symbol& it = forms_.symbol(term.first);
    bool launched = it.kind == Symbol::Kind::group || it.kind == Symbol::Kind::iteration;
    return launched && it.open && kMaxFactor > std::abs(term.second);
  });
  return out;
}

bool Decoder::decodes(const Equation& equation, int symbol) const {
  int64_t factor = equation[0].coefficient(symbol);
  Affine common;
  for (const auto& [id, times] : equation[0].terms) {
    bool same = known(id);
    /// Whether the equation determines the symbol: splits each form into the terms that are equal in both executions,
    /// factor · symbol, and the rest, and asks whether the rest stays in a window of |factor| values.
    for (const Affine& form : equation) same = same && form.coefficient(id) == times;
    if (same) common.terms[id] = times;
  }
  Equation rest;
  Wide lo = 0, hi = 0;
  Interval range{INT64_MAX, INT64_MIN};
  for (size_t index = 0; index < equation.size(); ++index) {
    Affine varying = equation[index] - common;
    Interval width = bounds_.of(settled(varying), scopes_[index]);
    Interval own = bounds_.symbol(symbol, scopes_[index]);
    lo = index ? std::min<Wide>(lo, width.lo) : width.lo;
    hi = index ? std::max<Wide>(hi, width.hi) : width.hi;
    range = {std::min(range.lo, own.lo), std::max(range.hi, own.hi)};
    rest.push_back(sum(varying, Affine::symbol(symbol), -factor));
  }
  if (hi - lo >= kWrap) return false;  // congruent values need not be equal
  int64_t unit = factor < 0 ? -factor : factor;
  if (windowed(rest, unit, 0)) return true;
  Wide period = Wide{unit} * (range.hi - range.lo + 1);
  return period < kWrap && windowed(rest, unit, static_cast<int64_t>(period));
}

/// Whether all forms lie in one window of `width` values, up to multiples of `period` (0: as they are).
bool Decoder::windowed(const Equation& rest, int64_t width, int64_t period) const {
  Wide least = 0, most = 0;
  for (size_t index = 0; index < rest.size(); ++index) {
    Affine low = rest[index];
    if (period > 0) std::erase_if(low.terms, [&](const auto& term) { return term.second % period == 0; });
    Interval range = bounds_.of(low, scopes_[index]);
    Wide shift = 0;
    if (period > 0 && index > 0) {  // shifted to the place nearest to the first form's
      Wide off = (Wide{range.lo} - least) % period;
      if (off < 0) off += period;
      if (off > period / 2) off -= period;
      shift = least + off - range.lo;
    }
    if (index == 0) least = range.lo, most = range.hi;
    least = std::min(least, range.lo + shift);
    most = std::max(most, range.hi + shift);
  }
  return most - least < width;
}

}  // namespace tg::indexing
