// SPDX-License-Identifier: Apache-2.0
// Whether every element that a kernel loads was stored before. Enumerates the elements that the stores write, each
// with the conditions of the store, then the elements of each load, and looks each up.
#include <algorithm>
#include <optional>

#include "ir/kernel/index_decode.h"

namespace tg::indexing {
namespace {

constexpr int64_t kMaxPoints = 1 << 15;

using Assignment = std::unordered_map<int, int64_t>;

/// The accesses within one iteration of the loops around a block. An access has own symbols, which take each of their
/// values: the iterations of loops inside the block and, for a shared buffer, the local ids. All other symbols have
/// the same value for a store and a load.
class Cover {
 public:
  Cover(const Forms& forms, const Bounds& bounds, const Block& block, bool shared)
      : forms_(forms), bounds_(bounds), block_(forms.scopeOfBlock(&block)), shared_(shared) {}

  /// Records each element that the store writes; false where not all of them are known.
  bool addStore(const Op& store);
  bool covers(const Op& load) const;

 private:
  using Facts = std::vector<Affine>;
  /// Appends to `out` the own symbols in a form, also those inside derived symbols; false if the form depends on one
  /// in another way.
  bool collect(const Affine& form, const std::vector<int>& own, std::vector<int>& out) const;
  std::vector<int> ownSymbols(int scope) const;
  /// The form with the values of the own symbols put in; nullopt if a symbol depends on them in a way that is not
  /// known.
  std::optional<Affine> valueOf(const Affine& form, const std::vector<int>& own, const Assignment& at) const;
  bool dependsOn(int id, const std::vector<int>& own) const;
  std::optional<std::string> place(const Op& access, const std::vector<int>& own, const Assignment& at) const;
  /// Calls fn for every assignment of values to `symbols`; false if there are too many, or as soon as fn returns
  /// false.
  template <class Function>
  bool everywhere(const std::vector<int>& symbols, int scope, Function&& fn) const;
  static bool implied(const Affine& wanted, const Facts& facts);
  bool stored(const std::string& place, const Facts& facts) const;
  bool coversAll(const Op& load) const;

  const Forms& forms_;
  const Bounds& bounds_;
  int block_;
  bool shared_;
  /// The conditions of each store to an element, by the element's index text: lists of forms that must be >= 0.
  std::unordered_map<std::string, std::vector<Facts>> stored_;
};

std::vector<int> Cover::ownSymbols(int scope) const {
  std::vector<int> out;
  for (int axis = 0; shared_ && axis < 3; ++axis)
    if (int id = forms_.localSymbol(axis); id >= 0) out.push_back(id);
  const std::vector<int>& outer = forms_.scope(block_).loops;
  for (int loop : forms_.scope(scope).loops)
    if (!contains(outer, loop)) out.push_back(loop);
  return out;
}

bool Cover::dependsOn(int id, const std::vector<int>& own) const {
  if (contains(own, id)) return true;
  const Symbol& symbol = forms_.symbol(id);
  if (symbol.kind == Symbol::Kind::opaque) return true;  // it may differ between invocations
  return std::ranges::any_of(symbol.inputs, [&](int input) { return dependsOn(input, own); });
}

bool Cover::collect(const Affine& form, const std::vector<int>& own, std::vector<int>& out) const {
  for (const auto& [id, factor] : form.terms) {
    if (contains(own, id)) {
      addOnce(out, id);
    } else if (dependsOn(id, own)) {
      const Symbol& symbol = forms_.symbol(id);
      if (symbol.kind != Symbol::Kind::derived) return false;
      for (const Affine& operand : symbol.operands)
        if (!collect(operand, own, out)) return false;
    }
  }
  return true;
}

std::optional<Affine> Cover::valueOf(const Affine& form, const std::vector<int>& own,
                                     const Assignment& at) const {
  Affine out = Affine::of(form.constant);
  for (const auto& [id, factor] : form.terms) {
    if (auto found = at.find(id); found != at.end()) {
      out = out + Affine::of(factor * found->second);
      continue;
    }
    if (!dependsOn(id, own)) {
      out = sum(out, Affine::symbol(id), factor);
      continue;
    }
    const Symbol& symbol = forms_.symbol(id);
    if (symbol.kind != Symbol::Kind::derived) return {};
    std::vector<Interval> operands;
    for (const Affine& operand : symbol.operands) {
      auto value = valueOf(operand, own, at);
      if (!value || !value->isConstant()) return {};
      operands.push_back(bounds_.value(*value, symbol.dtype, 0));
    }
    Interval value = Bounds::derived(symbol.code, symbol.dtype, operands);
    if (value.lo != value.hi) return {};
    out = out + Affine::of(factor * value.lo);
  }
  return out;
}

std::optional<std::string> Cover::place(const Op& access, const std::vector<int>& own,
                                        const Assignment& at) const {
  std::string out;
  for (const Operand& index : elementOf(access)->items) {
    auto value = valueOf(forms_.form(index), own, at);
    if (!value) return {};
    out += wrapped(*value).key() + ";";
  }
  return out;
}

template <class Function>
bool Cover::everywhere(const std::vector<int>& symbols, int scope, Function&& fn) const {
  std::vector<Interval> ranges;
  int64_t points = 1;
  for (int id : symbols) {
    ranges.push_back(bounds_.symbol(id, scope));
    int64_t count = ranges.back().hi - ranges.back().lo + 1;
    if (count < 1 || count > kMaxPoints || (points *= count) > kMaxPoints) return false;
  }
  Assignment at;
  for (int64_t point = 0; point < points; ++point) {
    int64_t rest = point;
    for (size_t i = 0; i < symbols.size(); ++i) {
      int64_t count = ranges[i].hi - ranges[i].lo + 1;
      at[symbols[i]] = ranges[i].lo + rest % count;
      rest /= count;
    }
    if (!fn(at)) return false;
  }
  return true;
}

/// For each assignment of the own symbols that the store depends on: puts the values into index and guards, drops
/// guards that hold, skips the assignment if one fails, and records the remaining guards under the element.
bool Cover::addStore(const Op& store) {
  int scope = forms_.scopeOf(store);
  if (!forms_.scope(scope).complete) return false;
  std::vector<int> own = ownSymbols(scope), needed;
  Facts guards, zeros;
  for (int at = scope; at != block_; at = forms_.scope(at).parent) {
    const Scope& each = forms_.scope(at);
    guards.insert(guards.end(), each.facts.begin(), each.facts.end());
    zeros.insert(zeros.end(), each.zeros.begin(), each.zeros.end());
  }
  for (const Operand& index : elementOf(store)->items)
    if (!collect(forms_.form(index), own, needed)) return false;
  for (const Facts& facts : {guards, zeros})
    for (const Affine& fact : facts)
      if (!collect(fact, own, needed)) return false;
  return everywhere(needed, scope, [&](const Assignment& at) {
    auto where = place(store, own, at);
    if (!where) return false;
    Facts left;
    for (const Affine& fact : guards) {
      auto value = valueOf(fact, own, at);
      if (!value) return false;
      if (!value->isConstant())
        left.push_back(*value);
      else if (value->constant < 0)
        return true;  // this assignment does not execute
    }
    for (const Affine& form : zeros) {
      auto value = valueOf(form, own, at);
      if (!value || !wrapped(*value).isConstant() || wrapped(*value).constant != 0) return true;
    }
    stored_[*where].push_back(std::move(left));
    return true;
  });
}

/// Whether one fact, or the sum of two, proves wanted >= 0.
bool Cover::implied(const Affine& wanted, const Facts& facts) {
  for (const Affine& first : facts) {
    Affine rest = wanted - first;
    if (rest.isConstant() && rest.constant >= 0) return true;
    for (const Affine& second : facts)
      if (Affine last = rest - second; last.isConstant() && last.constant >= 0) return true;
  }
  return false;
}

bool Cover::stored(const std::string& place, const Facts& facts) const {
  const auto* known = valueIn(stored_, place);
  return known && std::ranges::any_of(*known, [&](const Facts& guards) {
           return std::ranges::all_of(guards, [&](const Affine& guard) { return implied(guard, facts); });
         });
}

/// Whether every element of the buffer is stored unconditionally: for a load whose index is not known.
bool Cover::coversAll(const Op& load) const {
  const Shape& shape = elementOf(load)->value->type.shape;
  for (int64_t element = 0; element < shape.elements(); ++element) {
    std::string place;
    int64_t rest = element;
    for (int axis = shape.rank(); axis-- > 0; rest /= shape[axis])
      place.insert(0, Affine::of(rest % shape[axis]).key() + ";");
    if (!stored(place, {})) return false;
  }
  return true;
}

/// For each assignment of the own symbols in the index: the element must be stored under guards that the facts at the
/// load imply.
bool Cover::covers(const Op& load) const {
  int scope = forms_.scopeOf(load);
  std::vector<int> own = ownSymbols(scope), needed;
  for (const Operand& index : elementOf(load)->items)
    if (!collect(forms_.form(index), own, needed)) return coversAll(load);
  Facts known = forms_.facts(scope);
  for (const Affine& fact : forms_.facts(scope))
    for (const auto& [id, factor] : fact.terms)
      forms_.forFacts(id, scope, [&](const Affine& form) { known.push_back(form); });
  return everywhere(needed, scope, [&](const Assignment& at) {
    auto where = place(load, own, at);
    if (!where) return false;
    Facts facts;
    for (const Affine& fact : known) {
      // Symbols that the index does not contain stay as they are: no guard of a store has them.
      Affine value = Affine::of(fact.constant);
      for (const auto& [id, factor] : fact.terms) {
        auto found = at.find(id);
        value = found == at.end() ? sum(value, Affine::symbol(id), factor)
                                  : value + Affine::of(factor * found->second);
      }
      if (value.isConstant() && value.constant < 0) return true;  // this assignment does not execute
      facts.push_back(std::move(value));
    }
    return stored(*where, facts);
  });
}

}  // namespace

bool covered(const Forms& forms, const Bounds& bounds, const std::vector<const Op*>& stores,
             const std::vector<const Op*>& loads, const Block& block) {
  Cover cover(forms, bounds, block, elementOf(*loads[0])->value->type.mode == BufMode::shared);
  for (const Op* store : stores) cover.addStore(*store);
  return std::ranges::all_of(loads, [&](const Op* load) { return cover.covers(*load); });
}

}  // namespace tg::indexing
