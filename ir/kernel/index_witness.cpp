// SPDX-License-Identifier: Apache-2.0
// Searches a pair of executions of stores that certainly write the same element, among a few corner points of the
// launch: the first, middle and last values of invocation ids and iterations.
#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <unordered_set>

#include "ir/kernel/index_decode.h"
#include "ir/kernel/semantics.h"

namespace tg::indexing {
namespace {

constexpr size_t kMaxWitnessPoints = 4096;

/// The values of the id and iteration symbols in one execution.
using Point = std::map<int, int64_t>;

class Witness {
  /// Evaluates the index of each store at each point. Equal elements at two points are a witness.
 public:
  Witness(const Forms& forms, const Bounds& bounds, const std::vector<const Op*>& stores)
      : forms_(forms), bounds_(bounds), stores_(stores), uniform_(forms, bounds, stores) {}
  bool found() const;

 private:
  std::vector<Point> points(const Op& store) const;
  std::vector<int64_t> corners(int symbol, int detail) const;
  bool happens(const Op& store, const Point& point) const;
  std::optional<std::string> element(const Op& store, const Point& point) const;
  std::optional<Affine> at(const Affine& form, const Point& point) const;
  std::optional<int64_t> evaluate(int symbol, const Point& point) const;

  const Forms& forms_;
  const Bounds& bounds_;
  const std::vector<const Op*>& stores_;
  const Decoder uniform_;  ///< knows the symbols that are uniform over the dispatch
};

std::optional<int64_t> Witness::evaluate(int symbol, const Point& point) const {
  if (auto found = point.find(symbol); found != point.end()) return found->second;
  const Symbol& it = forms_.symbol(symbol);
  if (it.kind != Symbol::Kind::derived || it.operands.size() != 2) return {};
  auto a = at(it.operands[0], point), b = at(it.operands[1], point);
  if (!a || !b || !a->isConstant() || !b->isConstant()) return {};
  const uint32_t words[] = {static_cast<uint32_t>(a->constant), static_cast<uint32_t>(b->constant)};
  if (it.code == Opcode::k_select) return {};  // its condition is not among the operands
  const auto word = kernelWord(it.code, it.dtype, it.dtype, words);
  if (!word) return {};
  return it.dtype == DType::i32 ? int64_t{static_cast<int32_t>(*word)} : int64_t{*word};
}

/// The form with the values of all symbols that the point determines put in; nullopt where 64 bits do not hold it.
std::optional<Affine> Witness::at(const Affine& form, const Point& point) const {
  constexpr Wide kMost = Wide{1} << 60;
  Affine out;
  Wide constant = form.constant;
  for (const auto& [symbol, factor] : form.terms) {
    if (auto value = evaluate(symbol, point))
      constant += Wide{factor} * *value;
    else
      out.terms[symbol] = factor;
  }
  if (constant > kMost || constant < -kMost) return {};
  out.constant = static_cast<int64_t>(constant);
  return out;
}

/// Whether the store is executed at the point: all conditions around it hold for every value of the other symbols.
bool Witness::happens(const Op& store, const Point& point) const {
  for (int scope = forms_.scopeOf(store); scope >= 0; scope = forms_.scope(scope).parent)
    for (const Affine& fact : forms_.scope(scope).facts) {
      auto value = at(fact, point);
      if (!value || bounds_.lower(*value, 0) < 0) return false;
    }
  return true;
}

/// A text that identifies the element; nullopt if the index may be out of range, or depends on data.
std::optional<std::string> Witness::element(const Op& store, const Point& point) const {
  const Operand& element = *elementOf(store);
  std::string text;
  for (size_t axis = 0; axis < element.items.size(); ++axis) {
    auto index = at(forms_.form(element.items[axis]), point);
    if (!index) return {};
    for (const auto& [symbol, factor] : index->terms)
      if (!uniform_.known(symbol)) return {};
    auto exact = bounds_.exact(*index, DType::u32, 0);
    Affine extent = forms_.extent(element.value, static_cast<int>(axis));
    if (!exact || bounds_.lower(extent - Affine::of(1) - *exact, 0) < 0) return {};
    text += exact->key() + " ";
  }
  return text;
}

/// The values to try for a symbol: 0 and 1, with more `detail` also the last, then 2 and the middle.
std::vector<int64_t> Witness::corners(int symbol, int detail) const {
  const Symbol& it = forms_.symbol(symbol);
  int64_t last = it.base.hi;
  if (it.kind == Symbol::Kind::group && it.open) last = 0;
  std::vector<int64_t> out{0, 1};
  if (detail > 0) out.push_back(last);
  if (detail > 1) out.insert(out.end(), {2, last / 2, (last + 1) / 2});
  std::ranges::sort(out);
  out.erase(std::unique(out.begin(), out.end()), out.end());
  std::erase_if(out, [&](int64_t each) { return each > last; });
  return out;
}

/// All combinations of corner values for the ids and iterations of a store. Lowers the detail until there are at most
/// kMaxWitnessPoints; if there are too many even then, only the origin.
std::vector<Point> Witness::points(const Op& store) const {
  BufMode mode = elementOf(store)->value->type.mode;
  std::vector<int> free = forms_.scope(forms_.scopeOf(store)).loops;
  Point start;
  for (int axis = 0; axis < 3; ++axis) {
    int local = forms_.localSymbol(axis), group = forms_.groupSymbol(axis);
    bool oneGroup = mode == BufMode::local || mode == BufMode::shared;
    auto vary = [&](int symbol, bool fixed) {
      if (symbol >= 0 && fixed) start[symbol] = 0;
      if (symbol >= 0 && !fixed) free.push_back(symbol);
    };
    vary(local, mode == BufMode::local);
    vary(group, oneGroup);
  }
  size_t count = kMaxWitnessPoints + 1;
  int detail = 3;
  while (count > kMaxWitnessPoints && detail-- > 0) {
    count = 1;
    for (int symbol : free) count *= corners(symbol, detail).size();
  }
  if (detail < 0) return {start};
  std::vector<Point> out{start};
  for (int symbol : free) {
    std::vector<Point> longer;
    for (const Point& point : out)
      for (int64_t value : corners(symbol, detail)) {
        longer.push_back(point);
        longer.back()[symbol] = value;
      }
    out = std::move(longer);
  }
  return out;
}

bool Witness::found() const {
  std::unordered_set<std::string> seen;
  for (const Op* store : stores_) {
    if (!forms_.scope(forms_.scopeOf(*store)).complete) continue;
    for (const Point& point : points(*store)) {
      if (!happens(*store, point)) continue;
      auto touched = element(*store, point);
      if (touched && !seen.insert(*touched).second) return true;
    }
  }
  return false;
}

}  // namespace

bool foundTwice(const Forms& forms, const Bounds& bounds, const std::vector<const Op*>& stores) {
  return !stores.empty() && Witness(forms, bounds, stores).found();
}

}  // namespace tg::indexing
