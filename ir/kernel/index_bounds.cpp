// SPDX-License-Identifier: Apache-2.0
// Intervals of affine forms and of their symbols. A first bound adds up the symbols' intervals; facts, forms that are
// >= 0, improve it. Symbols' intervals follow from facts in turn, so that the search is limited in depth and work.
#include <algorithm>
#include <bit>
#include <utility>

#include "ir/kernel/index_forms.h"

namespace tg::indexing {
namespace {

constexpr Wide kLimit = Wide{1} << 62;
constexpr int kDepth = 3;      // facts that may be combined to bound one form
constexpr int kWork = 4096;    // terms that one search may look at, those for the bounds of symbols included
constexpr int kOfSymbol = 16;  // terms that the bounds of one symbol count as, at least

int64_t clamped(Wide value) { return static_cast<int64_t>(std::clamp(value, -kLimit, kLimit)); }

Wide floorDiv(Wide a, Wide b) { return a / b - (a % b != 0 && (a < 0) != (b < 0)); }

/// The least value of factor · x for x in `range`.
Wide least(int64_t factor, Interval range) { return Wide{factor} * (factor > 0 ? range.lo : range.hi); }

/// The multiple of 2^32 that shifts all of `range` into `window`, if there is one.
std::optional<int64_t> shiftInto(Interval range, Interval window) {
  Wide shift = -floorDiv(Wide{range.lo} - window.lo, kWrap) * kWrap;
  if (range.lo + shift < window.lo || range.hi + shift > window.hi) return {};
  return static_cast<int64_t>(shift);
}

Interval within(Interval a, Interval b) {
  Interval both{std::max(a.lo, b.lo), std::min(a.hi, b.hi)};
  return both.lo <= both.hi ? both : a;  // empty: this place is never reached
}

// The functions in the range column of ir/kernel/semantics.def.
Interval span(int64_t lo, int64_t hi) { return {lo, hi}; }
Interval upTo(int64_t hi) { return {0, hi}; }
Interval fits(Wide lo, Wide hi, Interval whole) {
  return lo >= whole.lo && hi <= whole.hi ? span(clamped(lo), clamped(hi)) : whole;
}
int64_t atMost(Wide value, int64_t most) { return clamped(std::min<Wide>(value, most)); }
/// The interval of a / b, rounded towards 0.
Interval quotient(Interval a, Interval b, Interval whole) {
  if (b.lo <= 0) return whole;
  return span(a.lo / (a.lo < 0 ? b.lo : b.hi), a.hi / (a.hi < 0 ? b.hi : b.lo));
}
/// The interval of a % b, which has the sign of a. u32 x % 0 is 0.
Interval remainder(Interval a, Interval b, Interval whole) {
  if (b.lo <= 0 && whole.lo < 0) return whole;
  const int64_t most = std::max<int64_t>(b.hi - 1, 0);
  return span(std::clamp<int64_t>(a.lo, -most, 0), std::clamp<int64_t>(a.hi, 0, most));
}
/// The interval of a & b: an operand that is not negative bounds the result, whatever the other is.
Interval masked(Interval a, Interval b, Interval whole) {
  if (a.lo < 0 && b.lo < 0) return whole;
  return upTo(a.lo < 0 ? b.hi : b.lo < 0 ? a.hi : std::min(a.hi, b.hi));
}
/// The interval of |a|. The least i32 is its own magnitude.
Interval magnitude(Interval a, Interval whole) {
  if (a.lo >= 0) return a;
  return a.lo > whole.lo ? upTo(std::max(-a.lo, a.hi)) : whole;
}
/// `value` with all bits below its highest set bit set too.
int64_t filled(int64_t value) {
  return value <= 0 ? 0 : static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(value) + 1)) - 1;
}

}  // namespace

Interval wholeRange(DType dtype) {
  const auto [least, most] = integerRange(dtype);
  return {least, most};
}

/// Scope of one search for a bound. A search that is started within another shares the work limit of the outermost.
class Bounds::Search {
 public:
  explicit Search(const Bounds& bounds) : bounds_(bounds), outermost_(bounds.work_ == kNone) {
    if (outermost_) bounds_.work_ = kWork;
  }
  ~Search() {
    if (outermost_) bounds_.work_ = kNone;
  }
  Search(const Search&) = delete;
  Search& operator=(const Search&) = delete;

 private:
  const Bounds& bounds_;
  const bool outermost_;
};

int64_t Bounds::lower(const Affine& form, int scope, bool open) const {
  const Search search(*this);
  return clamped(lowerWide(form, scope, open, kDepth));
}
int64_t Bounds::upper(const Affine& form, int scope, bool open) const { return -lower(-form, scope, open); }
Interval Bounds::of(const Affine& form, int scope, bool open) const {
  Interval range{lower(form, scope, open), upper(form, scope, open)};
  if (range.lo > range.hi) std::swap(range.lo, range.hi);  // contradicting guards: never reached
  return range;
}

/// A lower bound of the form. First the sum over the symbols' intervals. Then, for each fact with a symbol in common,
/// the bound of form - times·fact, where `times` cancels that symbol: as fact >= 0, form is at least as large. At
/// most `depth` facts are combined. Many facts have very many combinations, so that the search ends after kWork
/// terms; what it has found by then is a valid bound.
Wide Bounds::lowerWide(const Affine& form, int scope, bool open, int depth) const {
  Wide best = form.constant;
  for (const auto& [id, factor] : form.terms) best += least(factor, symbol(id, scope, open));
  if (depth == 0 || form.terms.empty() || !small(form)) return best;
  auto use = [&](const Affine& fact) {
    if (work_ <= 0 || !small(fact)) return;
    work_ -= static_cast<int>(fact.terms.size());
    int64_t tried = 0;
    for (const auto& [id, factor] : fact.terms) {
      int64_t mine = form.coefficient(id);
      if (mine == 0 || (mine > 0) != (factor > 0) || mine % factor != 0) continue;
      int64_t times = mine / factor;
      if (times == tried || times > (1 << 20)) continue;
      tried = times;
      work_ -= static_cast<int>(form.terms.size());
      best = std::max(best, lowerWide(sum(form, fact, -times), scope, open, depth - 1));
    }
  };
  for (const Affine& fact : forms_.facts(scope)) use(fact);
  for (const auto& [id, factor] : form.terms) forms_.forFacts(id, scope, use);
  return best;
}

Interval Bounds::value(const Affine& form, DType dtype, int scope, bool open) const {
  Interval range = of(form, scope, open), whole = wholeRange(dtype);
  if (auto shift = shiftInto(range, whole)) return {range.lo + *shift, range.hi + *shift};
  if (!open) return whole;
  // A value beyond the type's range is open or wraps around: nothing bounds it from above.
  return {range.lo >= whole.lo ? range.lo : whole.lo < 0 ? -kOpen : 0, kOpen};
}

std::optional<Affine> Bounds::exact(const Affine& form, DType dtype, int scope) const {
  auto shift = shiftInto(of(form, scope), wholeRange(dtype));
  if (!shift) return {};
  Affine out = form;
  out.constant += *shift;
  return out;
}

std::optional<Affine> Bounds::exactWithin(const Affine& form, Interval window, int scope) const {
  if (window.lo > window.hi) return {};
  Interval range = of(form, scope);
  // The value is form + shift + 2^32·m for one integer m. Usable only if no other m can reach the window.
  Wide shift = -floorDiv(Wide{range.lo} - window.lo, kWrap) * kWrap;
  for (Wide each : {shift - kWrap, shift, shift + kWrap}) {
    if (range.lo + each <= Wide{window.hi} - kWrap || range.hi + each >= Wide{window.lo} + kWrap) continue;
    if (range.hi + each < window.lo || range.lo + each > window.hi) continue;
    Affine out = form;
    out.constant += static_cast<int64_t>(each);
    return out;
  }
  return {};
}

Interval Bounds::base(int id, bool open) const {
  const Symbol& it = forms_.symbol(id);
  if (!open || !it.open) return it.base;
  return {it.dtype == DType::i32 ? -kOpen : it.base.lo, kOpen};
}

Interval Bounds::symbol(int id, int scope, bool open) const {
  const Search search(*this);
  int64_t key = (int64_t{scope} << 32) + int64_t{id} * 2 + open;
  size_t facts = forms_.facts(scope).size() + forms_.symbol(id).facts.size();
  Known& known = known_[key];
  if (known.ready && known.facts == facts) return known.interval;
  if (known.busy || work_ <= 0) return base(id, open);
  known.busy = true;
  work_ -= kOfSymbol;
  Interval computed = within(base(id, open), compute(id, scope, open));
  // A result that the work limit cut short is not kept: a later search may find a better one.
  known_[key] = {computed, work_ > 0, false, facts};
  return computed;
}

/// A symbol's interval in a scope: from the operands' intervals if it is derived, and from each fact that contains
/// it.
Interval Bounds::compute(int id, int scope, bool open) const {
  const Symbol& it = forms_.symbol(id);
  Wide lo = -kLimit, hi = kLimit;
  if (it.kind == Symbol::Kind::derived) {
    std::vector<Interval> operands;
    for (const Affine& operand : it.operands) operands.push_back(value(operand, it.dtype, scope, open));
    Interval range = derived(it.code, it.dtype, operands), whole = wholeRange(it.dtype);
    if (!open || range.lo > whole.lo) lo = range.lo;
    if (!open || range.hi < whole.hi) hi = range.hi;
  }
  // From constant + factor·s + rest >= 0: the largest value of the rest bounds s, from below or above by the factor's
  // sign.
  auto use = [&](const Affine& fact) {
    int64_t factor = fact.coefficient(id);
    --work_;
    if (factor == 0) return;
    Wide most = fact.constant;
    for (const auto& [other, times] : fact.terms)
      if (other != id) most -= least(-times, base(other, open));
    if (factor > 0)
      lo = std::max(lo, -floorDiv(most, factor));
    else
      hi = std::min(hi, floorDiv(most, -Wide{factor}));
  };
  for (const Affine& fact : forms_.facts(scope)) use(fact);
  forms_.forFacts(id, scope, use);
  return {clamped(lo), clamped(hi)};
}

Interval Bounds::derived(Opcode code, DType dtype, const std::vector<Interval>& x) {
  const Interval whole = wholeRange(dtype), a = x[0], b = x.size() > 1 ? x[1] : Interval{};
  if (code == Opcode::k_select) return span(std::min(a.lo, b.lo), std::max(a.hi, b.hi));
  const bool natural = a.lo >= 0 && b.lo >= 0;
  switch (kernelOp(code)) {
#define LANES(id, types, gives, flags, flops, value, range, glsl) \
  case KernelOp::id:                                              \
    return range;
#define OTHER(...)
#include "ir/kernel/semantics.def"
  default: return whole;
  }
}

}  // namespace tg::indexing
