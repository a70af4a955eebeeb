// SPDX-License-Identifier: Apache-2.0
// Simplification rules of index algebra. With a = n·whole + rest: a/n = whole and a%n = rest if rest < n; a common
// factor g of rest and n is divided out first; else the quotient or remainder of rest is a new variable.
#include "codegen/index.h"

#include <algorithm>
#include <cstring>
#include <numeric>

namespace tg {

static void appendNumber(std::string& key, int64_t number) {
  char bytes[sizeof number];
  std::memcpy(bytes, &number, sizeof number);
  key.append(bytes, sizeof number);
}

void Index::appendTo(std::string& key) const {
  appendNumber(key, c);
  appendNumber(key, static_cast<int64_t>(terms.size()));
  for (auto [variable, factor] : terms) {
    appendNumber(key, variable);
    appendNumber(key, factor);
  }
}

IndexSpace::IndexSpace(KernelBuilder& kernel) : kernel_(kernel) {
  variables_.push_back({{}, kLanes, 1, Part::none, -1, 0});
}

Index IndexSpace::variable(const KV& value, int64_t range, int64_t align) {
  if (value.isLiteral()) return constant(static_cast<int64_t>(value.number));
  if (range == 1) return constant(0);
  // A value that was given before with this range keeps its variable, so that equal indices compare equal.
  for (size_t i = 1; i < variables_.size(); ++i)
    if (variables_[i].value.value == value.value && variables_[i].range == range)
      return {0, {{static_cast<int>(i), 1}}};
  variables_.push_back({value, range, align, Part::none, -1, 0});
  return {0, {{static_cast<int>(variables_.size()) - 1, 1}}};
}

int64_t IndexSpace::factor(const Index& a, int variable) {
  for (auto [id, factor] : a.terms)
    if (id == variable) return factor;
  return 0;
}

/// Replaces n·(x / n) + x % n by x.
void IndexSpace::rejoin(Index& a) const {
  for (bool again = true; again;) {
    again = false;
    for (auto [id, factor] : a.terms) {
      const Variable& q = variables_[static_cast<size_t>(id)];
      if (q.part != Part::quotient || factor % q.n != 0) continue;
      const Division& whole = divisions_[static_cast<size_t>(q.whole)];
      int64_t unit = factor / q.n;
      if (whole.remainder < 0 || this->factor(a, whole.remainder) != unit) continue;
      int quotient = id, remainder = whole.remainder;
      std::erase_if(a.terms,
                    [&](const auto& term) { return term.first == quotient || term.first == remainder; });
      a = add(a, scale(whole.base, unit));
      again = true;
      break;
    }
  }
}

/// Merges the terms, which both have in the order of their variables, and drops those that cancel out.
Index IndexSpace::add(const Index& a, const Index& b) const {
  Index out;
  out.c = a.c + b.c;
  size_t i = 0, j = 0;
  while (i < a.terms.size() || j < b.terms.size()) {
    bool left = j == b.terms.size() || (i < a.terms.size() && a.terms[i].first < b.terms[j].first);
    bool both = !left && i < a.terms.size() && a.terms[i].first == b.terms[j].first;
    if (left)
      out.terms.push_back(a.terms[i++]);
    else if (!both)
      out.terms.push_back(b.terms[j++]);
    else {
      int64_t sum = a.terms[i].second + b.terms[j].second;
      if (sum) out.terms.push_back({a.terms[i].first, sum});
      ++i, ++j;
    }
  }
  rejoin(out);
  return out;
}

Index IndexSpace::scale(const Index& a, int64_t factor) const {
  Index out;
  if (factor == 0) return out;
  out = a;
  out.c *= factor;
  for (auto& term : out.terms) term.second *= factor;
  return out;
}

int64_t IndexSpace::max(const Index& a) const {
  int64_t out = a.c;
  for (auto [id, factor] : a.terms) {
    const auto& variable = variables_[static_cast<size_t>(id)];
    if (factor > 0) out += factor * ((variable.range - 1) / variable.align * variable.align);
  }
  return out;
}

int64_t IndexSpace::align(const Index& a) const {
  int64_t out = a.c;
  for (auto [id, factor] : a.terms) out = std::gcd(out, factor * variables_[static_cast<size_t>(id)].align);
  return out == 0 ? int64_t{1} << 30 : std::abs(out);
}

int IndexSpace::division(const Index& base, int64_t n, Part part) {
  std::string key;
  base.appendTo(key);
  appendNumber(key, n);
  auto [it, fresh] = divided_.try_emplace(key, static_cast<int>(divisions_.size()));
  if (fresh) divisions_.push_back({base, n});
  size_t at = static_cast<size_t>(it->second);
  bool quotient = part == Part::quotient;
  int known = quotient ? divisions_[at].quotient : divisions_[at].remainder;
  if (known >= 0) return known;
  KV value = kernel_.op(quotient ? Opcode::k_div : Opcode::k_mod, {materialize(base), KernelBuilder::u32(n)},
                        DType::u32);
  int made = static_cast<int>(variables_.size());
  // If g divides x, then gcd(g, n) divides x % n.
  const int64_t aligned = quotient ? 1 : std::gcd(align(base), n);
  variables_.push_back({value, quotient ? max(base) / n + 1 : n, aligned, part, it->second, n});
  (quotient ? divisions_[at].quotient : divisions_[at].remainder) = made;
  return made;
}

void IndexSpace::split(const Index& a, int64_t n, Index& whole, Index& rest) const {
  int64_t least = a.c;  // least value of rest
  for (auto [id, factor] : a.terms) {
    if (factor % n == 0) {
      whole.terms.push_back({id, factor / n});
      continue;
    }
    rest.terms.push_back({id, factor});
    if (factor < 0) least += factor * (variables_[static_cast<size_t>(id)].range - 1);
  }
  // Of the constant, whole takes the multiple of n that keeps rest from being negative: floor(least / n).
  whole.c = (least - (least % n + n) % n) / n;
  rest.c = a.c - n * whole.c;
}

/// The largest divisor of n that divides every factor of rest.
static int64_t commonFactor(const Index& rest, int64_t n) {
  int64_t g = n;
  for (auto [id, factor] : rest.terms) g = std::gcd(g, factor);
  return g;
}

int64_t IndexSpace::belowUnit(const Index& rest, int64_t n) const {
  int64_t unit = n;
  for (auto [id, factor] : rest.terms)
    unit = std::gcd(unit, factor * variables_[static_cast<size_t>(id)].align);
  return (rest.c % unit + unit) % unit;
}

bool IndexSpace::laneSplits(const Index& a, int64_t n) const {
  if (!usesLane(a)) return true;
  Index whole, rest;
  split(a, n, whole, rest);
  if (!usesLane(rest) || max(rest) < n) return true;
  // Lanes 0..3 share one quotient if four divides n and the rest without the lane.
  return factor(rest, kLane) == 1 && n % kLanes == 0 && align(atLane(rest, 0)) % kLanes == 0;
}

bool IndexSpace::laneDelinearizes(const Index& offset, const Shape& shape) {
  Index left = offset;
  for (int axis = shape.rank() - 1; axis > 0 && usesLane(left); --axis) {
    if (!laneSplits(left, shape[axis])) return false;
    left = div(left, shape[axis]);
  }
  return true;
}

/// a = n·whole + rest, so a / n = whole + rest / n, and rest / n is tried in this order: 0 if rest < n; the
/// quotient of lane 0 if all lanes share it; reduced by a common factor g of rest and n, (rest / g) / (n / g); else
/// a new variable.
Index IndexSpace::div(const Index& a, int64_t n) {
  if (n == 1) return a;
  Index whole, rest;
  split(a, n, whole, rest);
  if (rest.terms.empty() || max(rest) < n) return whole;
  if (usesLane(rest)) rest = atLane(rest, 0);  // laneSplits holds, so the lanes share the quotient
  if (max(rest) < n) return whole;
  rest.c -= belowUnit(rest, n);
  int64_t g = commonFactor(rest, n);
  if (g > 1) {
    Index reduced = rest;
    reduced.c /= g;
    for (auto& term : reduced.terms) term.second /= g;
    return add(whole, div(reduced, n / g));
  }
  return add(whole, Index{0, {{division(rest, n, Part::quotient), 1}}});
}

/// a % n = rest % n, by the same cases. The constant `low` that does not change the quotient stays outside, so that
/// indices that differ by it share one division.
Index IndexSpace::mod(const Index& a, int64_t n) {
  if (n == 1) return constant(0);
  Index whole, rest;
  split(a, n, whole, rest);
  if (rest.terms.empty() || max(rest) < n) return rest;
  if (usesLane(rest)) return add(mod(atLane(rest, 0), n), lane());
  const int64_t low = belowUnit(rest, n);
  rest.c -= low;
  int64_t g = commonFactor(rest, n);
  if (g > 1) {
    Index reduced = rest;
    reduced.c /= g;
    for (auto& term : reduced.terms) term.second /= g;
    return add(scale(mod(reduced, n / g), g), constant(low));
  }
  return {low, {{division(rest, n, Part::remainder), 1}}};
}

Index IndexSpace::linear(const Indices& indices, const Shape& shape) const {
  Index out;
  int64_t stride = 1;
  for (int axis = shape.rank() - 1; axis >= 0; --axis) {
    if (shape[axis] != 1) out = add(out, scale(indices[static_cast<size_t>(axis)], stride));
    stride *= shape[axis];
  }
  return out;
}

Indices IndexSpace::delinear(const Index& offset, const Shape& shape) {
  Indices out(static_cast<size_t>(shape.rank()));
  int last = -1;  // the outermost axis with more than one element, which needs no remainder
  for (int axis = shape.rank() - 1; axis >= 0; --axis)
    if (shape[axis] != 1) last = axis;
  Index left = offset;
  for (int axis = shape.rank() - 1; axis >= 0; --axis) {
    if (shape[axis] == 1) continue;
    if (axis == last) {
      out[static_cast<size_t>(axis)] = left;
      break;
    }
    out[static_cast<size_t>(axis)] = mod(left, shape[axis]);
    left = div(left, shape[axis]);
  }
  return out;
}

bool IndexSpace::usesLane(const Indices& indices) {
  return std::ranges::any_of(indices, [](const Index& index) { return usesLane(index); });
}

Index IndexSpace::atLane(const Index& a, int lane) {
  Index out = a;
  out.c += lane * factor(a, kLane);
  std::erase_if(out.terms, [](const auto& term) { return term.first == kLane; });
  return out;
}

Indices IndexSpace::atLane(const Indices& indices, int lane) {
  Indices out;
  for (const Index& index : indices) out.push_back(atLane(index, lane));
  return out;
}

bool IndexSpace::follows(const Index& a, const Index& from) const {
  return std::ranges::all_of(a.terms, [&](const auto& term) {
    if (factor(from, term.first) != 0) return true;
    const Variable& part = variables_[static_cast<size_t>(term.first)];
    return part.part != Part::none && follows(divisions_[static_cast<size_t>(part.whole)].base, from);
  });
}

KV IndexSpace::materialize(const Index& a) {
  if (int64_t stride = factor(a, kLane)) {
    std::vector<KV> steps;
    bool down = stride < 0;
    for (int lane = 0; lane < kLanes; ++lane) steps.push_back(KernelBuilder::u32(lane * std::abs(stride)));
    return kernel_.op(down ? Opcode::k_sub : Opcode::k_add, {materialize(atLane(a, 0)), kernel_.vec(steps)},
                      DType::u32);
  }
  // Positive terms come first, so that no partial sum is negative.
  KV sum = KernelBuilder::u32(0);
  auto take = [&](bool down) {
    for (auto [id, factor] : a.terms) {
      if ((factor < 0) != down) continue;
      KV term = kernel_.mul(variables_[static_cast<size_t>(id)].value, KernelBuilder::u32(std::abs(factor)));
      sum = down ? kernel_.op(Opcode::k_sub, {sum, term}, DType::u32) : kernel_.add(sum, term);
    }
  };
  take(false);
  if (a.c > 0) sum = kernel_.add(sum, KernelBuilder::u32(a.c));
  take(true);
  return a.c < 0 ? kernel_.op(Opcode::k_sub, {sum, KernelBuilder::u32(-a.c)}, DType::u32) : sum;
}

int IndexSpace::level(const Index& a) const {
  int level = 0;
  for (auto [id, factor] : a.terms)
    if (id != kLane) level = std::max(level, variables_[static_cast<size_t>(id)].value.level);
  return level;
}

}  // namespace tg
