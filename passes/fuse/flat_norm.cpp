// SPDX-License-Identifier: Apache-2.0
#include "passes/fuse/flat_norm.h"

#include <algorithm>
#include <unordered_set>

#include "ir/access.h"
#include "ir/op_view.h"
#include "passes/fuse/cost.h"
#include "passes/fuse/inline_ops.h"
#include "passes/fuse/pieces.h"

namespace tg::fuse {

int64_t groupElements(const std::vector<Value*>& members) {
  return groupBytes(typesOf(members)) / byteSize(DType::f32);
}

Value* bindGroup(RegionWriter& region, std::string_view hint, const std::vector<Value*>& members) {
  return region.bind(Operand::group(members), Type::tensor(DType::f32, {groupElements(members)}), hint);
}

Value* bindNumber(RegionWriter& region, Value* number) {
  const Op* def = number->def;
  if (!def || def->code != Opcode::constant)
    return region.bind(Operand::of(number), number->type, number->name);
  region.builder().setHint(number->name);
  return region.builder().create(Opcode::constant, def->operands, {}, {number->type})->result();
}

/// The positions of these values among the operands of a sum of squares. Several values must be its first operands, in any
/// order, unless `scattered`; a single one may be anywhere. Empty if not all are found.
static std::vector<int> placesIn(const Op& norm, const std::vector<Value*>& terms, bool scattered) {
  const std::unordered_set<const Value*> wanted(terms.begin(), terms.end());
  const int count = static_cast<int>(terms.size());
  const int end = scattered || count == 1 ? norm.numOperands() : std::min(count, norm.numOperands());
  std::unordered_set<const Value*> found;
  std::vector<int> places;
  for (int operand = 0; operand < end; ++operand) {
    const Value* base = throughReshapes(norm.in(operand));
    if (wanted.contains(base) && found.insert(base).second) places.push_back(operand);
  }
  return static_cast<int>(places.size()) == count ? places : std::vector<int>{};
}

FlatNorms::FlatNorms(Item& func, const Target& target, Builder& build,
                     std::unordered_map<const Op*, OpList>& before)
    : target_(target), build_(build), before_(before) {
  for (Op* op : func.body.ops) {
    positions_.emplace(op, positions_.size());
    if (op->code == Opcode::sum_of_squares) roots_.push_back(op);
  }
}

std::optional<FlatNorms::Terms> FlatNorms::find(const Op* place, const std::vector<Value*>& terms,
                                                bool cut) const {
  for (Op* root : roots_) {
    std::vector<int> places = placesIn(*root, terms, cut);
    if (!places.empty()) return Terms{root, std::move(places), positions_.at(place) <= positions_.at(root)};
  }
  return {};
}

Value* rowSums(Builder& b, Value* flat, int64_t rows) {
  b.setHint("squares");
  Value* squares = b.op(Opcode::square, {flat});
  b.setHint("rows");
  squares = b.reshape(squares, {rows, flat->type.elements() / rows});
  b.setHint("partial");
  return b.sum(squares, {1});
}

int64_t FlatNorms::rowsAlong(int64_t elements) const {
  if (target_.reduce != "workgroup") return 0;
  const int64_t rows = divisorUpTo(elements / kNormVector, std::max<int64_t>(1, elements / kUpdateRow));
  return rows < kUpdateRows * target_.units() ? 0 : rows;
}

void FlatNorms::take(Terms terms, Value* norms) {
  auto known = std::ranges::find_if(norms_, [&](const auto& each) { return each.first == terms.root; });
  if (known == norms_.end()) known = norms_.insert(norms_.end(), {terms.root, {}});
  const int first = terms.places[0];
  known->second[first] = {std::move(terms.places), norms};
}

void FlatNorms::add(const Op* place, const std::vector<Value*>& terms, const std::vector<Value*>& members,
                    const std::vector<Value*>& numbers, bool cut) {
  std::optional<Terms> found = find(place, terms, cut);
  if (!found) return;
  RegionWriter region(found->root->loc);
  Builder& b = region.builder();
  Value* flat = bindGroup(region, "g", members);
  for (Value* number : numbers) {
    Value* inner = bindNumber(region, number);
    b.setHint("scaled");
    flat = b.binary(Opcode::mul, flat, inner);
  }
  const int64_t count = flat->type.elements();
  const Pieces pieces = piecesUpTo(
      count, std::min<int64_t>(target_.parallel, std::max<int64_t>(1, count / kNormPiece)), kNormVector);
  b.setHint("filled");
  Value* partial = rowSums(b, filled(b, flat, 0, pieces.missing(count)), pieces.count);
  region.yield({partial});
  region.op().addResult(partial->type, build_.names().unique("norm_partial"));
  const Op* norms = before_[found->isBehind ? place : found->root].push_back(region.finish(target_));
  take(*std::move(found), norms->result());
}

void FlatNorms::build(const std::function<void(const Op*, Value*)>& replace) {
  for (auto& [root, flats] : norms_) {
    const std::vector<Value*> parts = as::sum_of_squares(*root).xs();
    const int count = static_cast<int>(parts.size());
    OpList& made = before_[root];
    Builder alone(
        made);  // with an empty name table, so that the total can take the name of the value it replaces
    Builder& total =
        static_cast<int>(flats.begin()->second.places.size()) == count ? alone : build_.setEnd(made);
    total.setLoc(root->loc).setHint(root->result()->name);
    Value* sum = nullptr;
    auto add = [&](Value* term) { sum = sum ? total.binary(Opcode::add, sum, term) : term; };
    std::vector<bool> covered(parts.size());
    for (int part = 0; part < count;) {
      auto next = flats.lower_bound(part);
      if (next != flats.end() && next->first == part) {
        add(total.sum(next->second.norms, {0}));
        for (int place : next->second.places) covered[static_cast<size_t>(place)] = true;
      }
      if (covered[static_cast<size_t>(part)]) {
        ++part;
        continue;
      }
      const int end = sum ? part + 1 : next != flats.end() ? next->first : count;
      add(total.op(Opcode::sum_of_squares, {parts.begin() + part, parts.begin() + end}));
      part = end;
    }
    build_.setHint("");
    replace(root, sum);
  }
}

}  // namespace tg::fuse
