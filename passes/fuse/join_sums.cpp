// SPDX-License-Identifier: Apache-2.0
// join-sums: computes the sum of many small products, or of the sums of many small values, as one product or sum over the
// operands side by side. A recurrent cell that is written out step by step uses its weights in each step:
//
//   before:  %g = matmul(%h1, %d1) + matmul(%h2, %d2) + …        {transpose_a = true}: the gradient of the weights
//            %b = sum(%d1) + sum(%d2) + …                        {axes = [0]}: that of the bias
//   after:   %h = tg.concat %h1, %h2, … {axis = 0}    %d = tg.concat %d1, %d2, … {axis = 0}
//            %g = matmul(%h, %d)    %b = sum(%d)
//
//   before:  %x = pad(%a) + pad(%b) + …                         the gradient of slices side by side
//   after:   %x = tg.concat %a, %b, …
//
// One product fills the processors where each of the small ones fills a few, and no partial sums go through memory.
// form-regions lets the kernels that make the operands store them side by side where it can, so that nothing is copied.
//
// Products are joined if their factors together have no more elements than their result: the copies, if there are any,
// then cost no more than the partial sums did. Sums are joined where a product has joined what they add. A kernel that adds
// many pads looks for each element among all of them, and several kernels do it if one cannot bind them all.
//
// Requires: stage(tensor), with a target.
// Ensures: results are equal up to rounding: terms are added in another order.
// Where: behind cse, which makes equal operands one value; before split-reductions, which cuts the long product.
#include <algorithm>
#include <map>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "ir/builder.h"
#include "ir/infer.h"
#include "ir/needs.h"
#include "ir/op_view.h"
#include "ir/unread.h"
#include "passes/fuse/cost.h"
#include "passes/fuse/inline_ops.h"
#include "passes/fuse/target_of.h"
#include "passes/pass.h"

namespace tg::fuse {
namespace {

/// A value, and those that it is the concatenation of along axis 0.
struct Side {
  Value* joined = nullptr;
  std::vector<Value*> pieces;
};

class SumJoiner {
 public:
  SumJoiner(Item& func, const Target& target) : builder_(func.body), ops_(func.body.ops), target_(target) {}
  void run();

 private:
  static bool isProduct(const Op& op);
  static bool isSum(const Op& op);
  Value* concat(std::vector<Value*> pieces);
  std::vector<Value*> alikeIn(const std::vector<Value*>& terms) const;
  bool joinProducts(std::vector<Value*>& terms, Op& root);
  bool joinSums(std::vector<Value*>& terms, Op& root);
  bool joinPads(std::vector<Value*>& terms, Op& root);
  void roundOperands(Op& concat);
  void replace(Op& root, const std::vector<Value*>& terms);

  Builder builder_;
  OpList& ops_;
  const Target& target_;
  std::unordered_map<const Op*, int> position_;
  std::vector<Side> right_;  ///< the right factors of the products that were joined
};

/// Whether an op is a cast from 16 bits.
static bool widens(const Op& op) { return op.code == Opcode::cast && isNarrow(op.in(0)->type.dtype); }

/// Whether an op is matmul(aᵀ, b) of two stored matrices that together have no more elements than it.
bool SumJoiner::isProduct(const Op& op) {
  if (op.code != Opcode::matmul || op.numOperands() != 2) return false;
  const as::matmul product(op);
  const Type &lhs = product.lhs()->type, &rhs = product.rhs()->type;
  auto isStored = [](const Value& value) {
    const Op* def = value.def && widens(*value.def) ? value.def->in(0)->def : value.def;
    return def && !isInline(*def);
  };
  return product.transpose_a() && !product.transpose_b() && lhs.rank() == 2 && rhs.rank() == 2 &&
         lhs.elements() + rhs.elements() <= op.result()->type.elements() && isStored(*product.lhs()) &&
         isStored(*product.rhs());
}

/// Whether an op is the sum over the rows of a matrix.
bool SumJoiner::isSum(const Op& op) {
  return op.code == Opcode::sum && op.in(0)->type.rank() == 2 && !as::sum(op).keepdims() &&
         as::sum(op).axes().size() == 1 && normalAxis(as::sum(op).axes()[0], 2) == 0;
}

/// The concatenation of values along axis 0, placed behind the last of them. If all are casts from one 16-bit type, it is
/// rounded to that type, which changes nothing, so that 16 bits of it are stored.
Value* SumJoiner::concat(std::vector<Value*> pieces) {
  Op* last = std::ranges::max_element(pieces,
                                      [&](const Value* a, const Value* b) {
                                        return position_.at(a->def) < position_.at(b->def);
                                      })[0]
                 ->def;
  auto narrowOf = [](const Value* value) {
    return widens(*value->def) ? value->def->in(0)->type.dtype : value->type.dtype;
  };
  const DType narrow = narrowOf(pieces[0]);
  const bool same = std::ranges::all_of(pieces, [&](const Value* each) { return narrowOf(each) == narrow; });
  builder_.setBefore(last->next()).setLoc(last->loc).setHint("side_by_side");
  Value* joined = builder_.op(Opcode::concat, pieces, {{"axis", Attr::of(0)}});
  return same && isNarrow(narrow) ? builder_.cast(builder_.cast(joined, narrow), joined->type.dtype) : joined;
}

/// The most products among these values that have equal shapes and attributes, and that nothing else reads.
std::vector<Value*> SumJoiner::alikeIn(const std::vector<Value*>& terms) const {
  std::vector<std::vector<Value*>> kinds;
  for (Value* term : terms) {
    const Op* op = term->def;
    if (!op || !isProduct(*op) || !term->uses.hasOne()) continue;
    if (!position_.contains(op->in(0)->def) || !position_.contains(as::matmul(*op).rhs()->def)) continue;
    auto kind = std::ranges::find_if(kinds, [&](const std::vector<Value*>& each) {
      return each[0]->def->in(0)->type == op->in(0)->type && each[0]->def->attrs == op->attrs;
    });
    (kind == kinds.end() ? kinds.emplace_back() : *kind).push_back(term);
  }
  if (kinds.empty()) return {};
  return *std::ranges::max_element(
      kinds, [](const auto& one, const auto& other) { return one.size() < other.size(); });
}

/// Joins the products among the terms that have equal shapes and attributes.
bool SumJoiner::joinProducts(std::vector<Value*>& terms, Op& root) {
  std::vector<Value*> alike = alikeIn(terms);
  if (alike.size() < kLeastJoined) return false;
  const as::matmul one(*alike[0]->def);
  const int64_t wider = std::max(one.lhs()->type.bytes(), one.rhs()->type.bytes());
  if (wider * static_cast<int64_t>(alike.size()) > mostBytes(target_)) return false;
  std::ranges::sort(alike, {}, [&](const Value* each) { return position_.at(each->def->in(0)->def); });
  std::vector<Value*> left, right;
  for (const Value* product : alike) {
    left.push_back(as::matmul(*product->def).lhs());
    right.push_back(as::matmul(*product->def).rhs());
  }
  Value *lhs = concat(left), *rhs = concat(right);
  right_.push_back({rhs, right});
  const std::unordered_set<const Value*> gone(alike.begin(), alike.end());
  std::erase_if(terms, [&](const Value* term) { return gone.contains(term); });
  builder_.setBefore(&root).setLoc(root.loc).setHint(root.result()->name);
  terms.push_back(builder_.op(Opcode::matmul, {lhs, rhs}, alike[0]->def->attrs));
  return true;
}

/// Joins the sums among the terms of what a product has joined.
bool SumJoiner::joinSums(std::vector<Value*>& terms, Op& root) {
  std::unordered_map<const Value*, const Value*> sums;  // by what they add
  for (const Value* term : terms)
    if (term->def && isSum(*term->def) && term->uses.hasOne()) sums.emplace(term->def->in(0), term);
  for (const Side& side : right_) {
    std::unordered_set<const Value*> gone;
    for (const Value* piece : side.pieces)
      if (auto at = sums.find(piece); at != sums.end()) gone.insert(at->second);
    if (gone.size() < side.pieces.size()) continue;
    std::erase_if(terms, [&](const Value* term) { return gone.contains(term); });
    builder_.setBefore(&root).setLoc(root.loc).setHint(root.result()->name);
    terms.push_back(builder_.sum(side.joined, {0}));
    return true;
  }
  return false;
}

/// Joins what pads with zeros place side by side along one axis, if they fill it.
bool SumJoiner::joinPads(std::vector<Value*>& terms, Op& root) {
  const Type& type = root.result()->type;
  std::map<int64_t, Value*> pieces;  // by their first index along the axis
  int axis = -1;
  for (const Value* term : terms) {
    const std::optional<PadPlace> place = term->def ? padPlace(*term->def) : std::nullopt;
    if (!place || (axis >= 0 && place->axis != axis)) return false;
    axis = place->axis;
    if (!pieces.emplace(place->low, term->def->in(0)).second) return false;
  }
  int64_t end = 0;
  for (const auto& [low, piece] : pieces) {
    if (low != end) return false;
    end += piece->type.shape[axis];
  }
  if (end != type.shape[axis] || type.bytes() > mostBytes(target_)) return false;
  builder_.setBefore(&root).setLoc(root.loc).setHint(root.result()->name);
  terms.clear();
  for (const auto& [low, piece] : pieces) terms.push_back(piece);
  terms = {builder_.op(Opcode::concat, terms, {{"axis", Attr::of(axis)}})};
  return true;
}

/// The value that reshapes view.
static Value* belowReshapes(Value* value) {
  while (value->def && value->def->code == Opcode::reshape) value = value->def->in(0);
  return value;
}

/// Rounds the operands of a concatenation that all readers round, if each of them is also rounded for other readers.
void SumJoiner::roundOperands(Op& concat) {
  const UseList& uses = concat.result()->uses;
  if (uses.empty() || concat.operands.size() < kLeastJoined) return;
  const Op& reader = *uses.begin()->user();
  const Type& type = (reader.results.empty() ? concat : reader).result()->type;
  auto rounds = [&](const Use& use) {
    const Op& each = *use.user();
    return each.code == Opcode::cast && isNarrow(type.dtype) && each.result()->type.dtype == type.dtype;
  };
  if (!std::ranges::all_of(uses, rounds)) return;
  size_t alone = 0;  // operands that nothing else reads
  for (const Operand& operand : concat.operands) {
    const Value* value = belowReshapes(operand.value);
    if (value->def && widens(*value->def)) continue;
    const UseList& own = value->uses;
    alone += own.hasOne();
    if (!own.hasOne() && std::ranges::none_of(own, rounds)) return;
  }
  if (alone > 1) return;
  for (Operand& operand : concat.operands) {
    Value* value = belowReshapes(operand.value);
    if (value->def && widens(*value->def) && value->def->in(0)->type.dtype == type.dtype) continue;
    builder_.setBefore(&concat).setLoc(concat.loc).setHint("");
    Value* rounded = builder_.cast(builder_.cast(value, type.dtype), value->type.dtype);
    operand.value = builder_.reshape(rounded, operand.value->type.shape);
  }
}

/// Replaces a tree of additions by the sum of these terms.
void SumJoiner::replace(Op& root, const std::vector<Value*>& terms) {
  Value* sum = terms[0];
  for (size_t i = 1; i < terms.size(); ++i) sum = builder_.binary(Opcode::add, sum, terms[i]);
  position_[sum->def] = position_.at(&root);
  std::swap(sum->name, root.result()->name);
  root.result()->uses.replaceAll(sum);
}

void SumJoiner::run() {
  std::vector<Op*> roots;
  for (Op* op : ops_) {
    position_.emplace(op, static_cast<int>(position_.size()));
    if (!isAddition(*op)) continue;
    const UseList& uses = op->result()->uses;
    if (!uses.hasOne() || !isAddition(*uses.begin()->user())) roots.push_back(op);
  }
  // Products first: sums follow what they have joined. On CPUs a small product fills the processors, too.
  for (const auto join : {&SumJoiner::joinProducts, &SumJoiner::joinSums, &SumJoiner::joinPads}) {
    if (join != &SumJoiner::joinPads && target_.matmul != "shared") continue;
    for (Op* root : roots) {
      std::vector<Value*> terms = termsOf({as::add(*root).rhs(), as::add(*root).lhs()});
      if (terms.size() >= kLeastJoined && (this->*join)(terms, *root)) replace(*root, terms);
    }
  }
  eraseUnread(ops_);
  for (Op* op : ops_)
    if (op->code == Opcode::concat) roundOperands(*op);
}

}  // namespace
}  // namespace tg::fuse

tg::Result<void> tg::run_join_sums(Module& module, const NoOptions&, const PassContext&) {
  return fuse::rewriteFunctions<fuse::SumJoiner>(module, fuse::targetOn(module, "join-sums"));
}
