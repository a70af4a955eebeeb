// SPDX-License-Identifier: Apache-2.0
// factor-sums: takes out of a sum what is the same for all of its terms, and leaves out terms whose sum is zero.
//
//   %c = x - mean(x),  %r = 1 / deviation          %r, %gain: one number for each channel; sums over all other axes
//   before:  sum(%dy · (%c · %r)),  sum((%dy · %gain) · %c),  -sum(%dy · %gain · %r + %v · %c),  sum(%dy)
//   after:   %p = sum(%dy · %c),  %q = sum(%dy):  %p · %r,  %p · %gain,  -(%q · %gain · %r),  %q
//
// The gradient of a norm that is written as primitives has several sums over the same tensors that differ by factors. They
// become one sum, whose kernel reads two tensors; before, a product was stored for each sum. In the example the third sum no
// longer waits for %v, which depends on the second, because deviations from a mean add up to zero.
//
// A sum is changed only if the new sum exists already or serves several, if a term that adds up to zero is left out, or if
// nothing else reads its operand. If something else reads the operand, that is stored anyway; the operand without its
// factor might have to be stored as well.
//
// Requires: stage(tensor).
// Ensures: results are equal up to rounding; a NaN or an infinity in a term that adds up to zero is left out with it. A sum
//   with several terms that differ by more than zeros stays: sums of each could cancel.
// Where: behind cse, which makes equal factors one value; before split-reductions, which divides sums into stages.
#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "ir/builder.h"
#include "ir/infer.h"
#include "ir/op_view.h"
#include "ir/unread.h"
#include "passes/fuse/cost.h"
#include "passes/pass.h"
#include "passes/rewrite.h"

namespace tg::fuse {
namespace {

/// A product of values. `outer` are the same for all elements that a sum adds; `divisors` are such values, too.
struct Term {
  bool negative = false;
  std::vector<Value*> outer{}, divisors{}, inner{};
};

/// The axes of a sum, in order, and the shape of what it adds.
struct Axes {
  explicit Axes(const Op& sum) : shape(sum.in(0)->type.shape), axes(reducedAxes(sum)) {}
  /// The extent of a value along an axis of `shape`, if it is broadcast to that.
  int64_t extent(const Shape& of, int64_t axis) const {
    const int64_t own = axis - (shape.rank() - of.rank());
    return own < 0 ? 1 : of[own];
  }
  bool addsSame(const Value& value) const {
    return std::ranges::all_of(axes, [&](int64_t axis) { return extent(value.type.shape, axis) == 1; });
  }
  /// The shape of a sum that keeps its axes.
  Shape kept() const { return reducedShape(shape, axes, true); }

  Shape shape;
  std::vector<int64_t> axes;
};

/// What a sum adds: the factors, in an order without meaning, and the axes.
using Key = std::pair<std::vector<Value*>, std::vector<int64_t>>;

class Factorer {
 public:
  explicit Factorer(Item& func) : func_(func), builder_(func.body) {}
  void run();

 private:
  static bool deviates(const Value& value, const Axes& axes);
  std::vector<Term> termsOf(Value* value, const Axes& axes, int depth) const;
  static std::vector<Term> product(Value* a, std::vector<Term> left, Value* b, std::vector<Term> right);
  bool findTerm(const Op& sum, const Axes& axes, Term& term, bool& drops) const;
  static Key keyOf(const Term& term, const Axes& axes);
  static Shape shapeOf(const Term& term, const Axes& axes);
  Value* sumOf(const Term& term, const Axes& axes);
  Value* rewritten(const Op& sum);

  Item& func_;
  Builder builder_;
  std::map<Key, int> count_;     ///< how many sums add this, apart from factors
  std::map<Key, Value*> known_;  ///< the sum of it, if there is one before the current op
};

/// Whether a value is the deviations from their mean over these axes, which add up to zero.
bool Factorer::deviates(const Value& value, const Axes& axes) {
  if (!value.def || value.def->code != Opcode::sub) return false;
  const as::sub sub(*value.def);
  const Op* mean = sub.rhs()->def;
  if (!mean || mean->code != Opcode::mean || mean->in(0) != sub.lhs()) return false;
  return mean->in(0)->type.shape == axes.shape && reducedAxes(*mean) == axes.axes &&
         axes.addsSame(*mean->result());
}

/// The term that is the product of two values, of which these are the terms. A value with several terms stays a factor.
std::vector<Term> Factorer::product(Value* a, std::vector<Term> left, Value* b, std::vector<Term> right) {
  auto isOuter = [](const std::vector<Term>& terms) {
    return terms.size() == 1 && terms[0].inner.empty() && terms[0].divisors.empty() && !terms[0].negative;
  };
  if (isOuter(right)) std::swap(left, right), std::swap(a, b);
  if (isOuter(left)) {
    for (Term& term : right) term.outer.insert(term.outer.end(), left[0].outer.begin(), left[0].outer.end());
    return right;
  }
  Term result;
  for (auto* side : {&left, &right}) {
    const Term own = side->size() == 1 ? (*side)[0] : Term{.inner = {side == &left ? a : b}};
    result.negative = result.negative != own.negative;
    result.outer.insert(result.outer.end(), own.outer.begin(), own.outer.end());
    result.divisors.insert(result.divisors.end(), own.divisors.begin(), own.divisors.end());
    result.inner.insert(result.inner.end(), own.inner.begin(), own.inner.end());
  }
  return {result};
}

/// A value as a sum of terms.
std::vector<Term> Factorer::termsOf(Value* value, const Axes& axes, int depth) const {
  const Op* def = value->def;
  if (axes.addsSame(*value)) return {Term{.outer = {value}}};
  if (!def || depth == 0 || value->type.dtype != DType::f32 || deviates(*value, axes))
    return {Term{.inner = {value}}};
  auto below = [&](Value* operand) { return termsOf(operand, axes, depth - 1); };
  auto negated = [](std::vector<Term> terms) {
    for (Term& term : terms) term.negative = !term.negative;
    return terms;
  };
  switch (def->code) {
  case Opcode::broadcast_to:
    if (axes.addsSame(*def->in(0))) return {Term{.outer = {def->in(0)}}};
    break;
  case Opcode::neg: return negated(below(def->in(0)));
  case Opcode::mul: {
    const as::mul mul(*def);
    return product(mul.lhs(), below(mul.lhs()), mul.rhs(), below(mul.rhs()));
  }
  case Opcode::div: {
    const as::div div(*def);
    if (!axes.addsSame(*div.rhs())) break;
    std::vector<Term> terms = below(div.lhs());
    for (Term& term : terms) term.divisors.push_back(div.rhs());
    return terms;
  }
  case Opcode::add:
  case Opcode::sub: {
    const as::add operands(*def);
    std::vector<Term> terms = below(operands.lhs()), more = below(operands.rhs());
    if (def->code == Opcode::sub) more = negated(std::move(more));
    terms.insert(terms.end(), more.begin(), more.end());
    if (terms.size() <= kMostTerms) return terms;
    break;
  }
  default: break;
  }
  return {Term{.inner = {value}}};
}

/// Finds the one term of a sum that is not zero. `drops`: whether there are others.
bool Factorer::findTerm(const Op& sum, const Axes& axes, Term& term, bool& drops) const {
  std::vector<Term> terms = termsOf(sum.in(0), axes, kMostDepth);
  const size_t all = terms.size();
  std::erase_if(terms,
                [&](const Term& each) { return each.inner.size() == 1 && deviates(*each.inner[0], axes); });
  drops = terms.size() < all;
  if (terms.size() != 1 || terms[0].inner.empty()) return false;
  term = std::move(terms[0]);
  // The factors together must have all axes, and the extents of those that are summed.
  auto anyFactor = [&](auto&& holds) { return std::ranges::any_of(term.inner, holds); };
  return anyFactor([&](const Value* factor) { return factor->type.rank() == axes.shape.rank(); }) &&
         std::ranges::all_of(axes.axes, [&](int64_t axis) {
           return anyFactor([&](const Value* factor) {
             return axes.extent(factor->type.shape, axis) == axes.shape[axis];
           });
         });
}

Key Factorer::keyOf(const Term& term, const Axes& axes) {
  std::vector<Value*> factors = term.inner;
  std::ranges::sort(factors);
  return {std::move(factors), axes.axes};
}

/// The shape of the sum of a term's inner factors, with its axes kept.
Shape Factorer::shapeOf(const Term& term, const Axes& axes) {
  Shape shape = axes.kept();
  for (int axis = 0; axis < shape.rank(); ++axis)
    if (shape[axis] > 1 && std::ranges::all_of(term.inner, [&](const Value* factor) {
          return axes.extent(factor->type.shape, axis) == 1;
        }))
      shape[axis] = 1;
  return shape;
}

/// The sum of a term's inner factors, with its axes kept.
Value* Factorer::sumOf(const Term& term, const Axes& axes) {
  Value*& known = known_[keyOf(term, axes)];
  if (known) {
    const Shape shape = shapeOf(term, axes);
    return known->type.shape == shape ? known : builder_.reshape(known, shape);
  }
  Value* product = term.inner[0];
  for (size_t i = 1; i < term.inner.size(); ++i)
    product = builder_.binary(Opcode::mul, product, term.inner[i]);
  return known = builder_.sum(product, axes.axes, true);
}

/// Whether nothing else reads what a sum adds, so that it need not exist without the sum.
static bool readsAlone(const Op& sum) {
  const Value* value = sum.in(0);
  while (value->uses.hasOne() && value->def && value->def->code == Opcode::neg) value = value->def->in(0);
  return value->uses.hasOne();
}

/// What replaces a sum; null if it stays.
Value* Factorer::rewritten(const Op& sum) {
  const Axes axes(sum);
  Term term;
  bool drops = false;
  if (!findTerm(sum, axes, term, drops)) return nullptr;
  const Key key = keyOf(term, axes);
  const bool isPlain = !drops && !term.negative && term.outer.empty() && term.divisors.empty();
  if (isPlain && known_.emplace(key, sum.result()).second) return nullptr;
  if (!isPlain && !drops && count_[key] < 2 && !readsAlone(sum)) return nullptr;
  Value* const inner = sumOf(term, axes);
  Value* value = inner;
  for (Value* factor : term.outer) value = builder_.binary(Opcode::mul, value, factor);
  for (Value* divisor : term.divisors) value = builder_.binary(Opcode::div, value, divisor);
  if (term.negative) value = builder_.op(Opcode::neg, {value});
  if (value->type.shape != axes.kept()) value = builder_.broadcastTo(value, axes.kept());
  const Shape& shape = sum.result()->type.shape;
  if (value->type.shape != shape) value = builder_.reshape(value, shape);
  if (value != inner) std::swap(value->name, sum.result()->name);
  return value;
}

void Factorer::run() {
  std::vector<Op*> sums;
  for (Op* op : func_.body.ops)
    if (op->code == Opcode::sum && op->result()->type.dtype == DType::f32 && !as::sum(*op).axes().empty())
      sums.push_back(op);
  for (const Op* sum : sums) {
    const Axes axes(*sum);
    Term term;
    bool drops = false;
    if (findTerm(*sum, axes, term, drops)) ++count_[keyOf(term, axes)];
  }
  // Sums that are replaced stay until the end: their results are parts of keys.
  for (Op* sum : sums) {
    builder_.setBefore(sum).setLoc(sum->loc).setHint(sum->result()->name);
    if (Value* value = rewritten(*sum)) sum->result()->uses.replaceAll(value);
  }
  eraseUnread(func_.body.ops);
}

}  // namespace
}  // namespace tg::fuse

tg::Result<void> tg::run_factor_sums(Module& module, const NoOptions&, const PassContext&) {
  for (Item* func : module.all(ItemKind::func))
    if (!hasGrad(*func)) fuse::Factorer(*func).run();
  return {};
}
