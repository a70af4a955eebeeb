// SPDX-License-Identifier: Apache-2.0
// add-early: moves additions to states right behind the ops that define the addends. A kernel that computes a gradient can
// then add it to its sum over several calls as its epilogue, and the gradient needs no memory. append-grad puts these
// additions at the end of the function.
//
//   before:  %a = …  %b = …  %d = tg.add %a, %b  …  %s = tg.state @g  %part = tg.mul %d, %share
//            %next = tg.add %s, %part                          tg.update @g, %next
//   after:   %s = tg.state @g
//            %a = …  %part_2 = tg.mul %a, %share  %next_2 = tg.add %s, %part_2
//            %b = …  %part = tg.mul %b, %share    %next = tg.add %next_2, %part     …  tg.update @g, %next
//
// A sum of several terms is added term by term. The gradient of a table that is both embedding and head has two terms, and
// the head's is computed long before the embedding's.
//
// Requires: stage(tensor).
// Ensures: the same values except for the order in which terms are added and rounded; ops only move up.
// Where: before passes that ask which ops read a gradient; behind drop-captures and dce, because a value that a step hands
//   out, or that another op reads, must stay one value.
#include <algorithm>
#include <vector>

#include "ir/access.h"
#include "ir/builder.h"
#include "ir/op_view.h"
#include "ir/unread.h"
#include "passes/fuse/inline_ops.h"
#include "passes/fuse/text_places.h"
#include "passes/pass.h"

namespace tg {
namespace {

class EarlyAdder {
 public:
  EarlyAdder(Module& module, Item& func)
      : ops_(func.body.ops), places_(func.body.ops), builder_(&module, &func) {}

  void run() {
    std::vector<const Op*> updates;
    for (const Op* op : ops_)
      if (op->code == Opcode::update) updates.push_back(op);
    for (const Op* update : updates) addEarly(*update);
    eraseUnread(ops_);
  }

 private:
  /// The addition `@s + x`, whose sum only an update of @s reads.
  struct Addition {
    Op* add = nullptr;
    Op* state = nullptr;
    std::vector<Op*> scalings;  ///< casts to f32 and products with one number that make x, the last one first
    std::vector<Value*> terms;  ///< their sum is what `scalings` scale; in text order
  };

  /// The terms of `sum`, through nested additions that have no other reader, in text order.
  std::vector<Value*> termsOf(Value* sum) const {
    std::vector<Value*> terms = fuse::termsOf({sum});
    std::ranges::stable_sort(terms, {}, [&](const Value* term) { return places_.of(term->def); });
    return terms;
  }

  /// Whether scaling each term equals scaling their sum. Not so for a cast to 16 bits: terms may be much larger than the sum
  /// that it rounds.
  static bool isScaling(const Op& op) {
    if (op.code == Opcode::cast) return isFloat(op.in(0)->type.dtype) && !isNarrow(op.result()->type.dtype);
    return op.code == Opcode::mul && as::mul(op).rhs()->type.rank() == 0;
  }

  /// The addition of floats that an update commits; `add` is null if it commits none.
  Addition additionOf(const Op& update) const {
    Addition out;
    Op* add = as::update(update).value()->def;
    if (!add || add->code != Opcode::add || !add->result()->uses.hasOne()) return out;
    Value *sum = as::add(*add).lhs(), *scaled = as::add(*add).rhs();
    Op* state = sum->def;
    if (!state || state->code != Opcode::state || !state->result()->uses.hasOne() ||
        rowsKey(*state) != rowsKey(update) || !(sum->type == scaled->type) || !isFloat(sum->type.dtype))
      return out;
    while (scaled->def && scaled->uses.hasOne() && isScaling(*scaled->def)) {
      out.scalings.push_back(scaled->def);
      scaled = scaled->def->in(0);
    }
    out.terms = termsOf(scaled);
    const Op* last = out.terms.back()->def;
    if (last && !last->info().has(table::leaf)) out.add = add, out.state = state;
    return out;
  }

  /// Adds one term to `sum` by new ops behind `place`: copies of the scalings, and an add.
  Value* addBehind(Op* place, const Addition& found, Value* sum, Value* term) {
    builder_.setBefore(place->next()).setLoc(found.add->loc);
    for (size_t i = found.scalings.size(); i-- > 0;) {
      const Op& scaling = *found.scalings[i];
      builder_.setHint(scaling.result()->name);
      term = scaling.code == Opcode::cast ? builder_.cast(term, scaling.result()->type.dtype)
                                          : builder_.binary(Opcode::mul, term, as::mul(scaling).rhs());
    }
    builder_.setHint(found.add->result()->name);
    return builder_.binary(Opcode::add, sum, term);
  }

  /// The same for the last term, by moving the existing ops, so that they keep their names.
  Value* moveBehind(Op* place, const Addition& found, Value* sum, Value* term) {
    Op* innermost = found.scalings.empty() ? found.add : found.scalings.back();
    innermost->operands[found.scalings.empty() ? 1 : 0] = Operand::of(term);
    found.add->operands[0] = Operand::of(sum);
    for (size_t i = found.scalings.size(); i-- > 0; place = found.scalings[i])
      moveNext(found.scalings[i], place);
    moveNext(found.add, place);
    return found.add->result();
  }

  void moveNext(Op* op, Op* place) {
    if (place->next() != op) ops_.insert(place->next(), ops_.take(op));
  }

  void addEarly(const Op& update) {
    const Addition found = additionOf(update);
    if (!found.add) return;
    places_.moveToFront(found.state);
    Op* number = nullptr;  // the last of the numbers that scale, if it cannot move to the front
    for (const Op* scaling : found.scalings)
      if (scaling->code == Opcode::mul)
        if (Op* def = as::mul(*scaling).rhs()->def; def && !places_.moveToFront(def))
          number = places_.later(number, def);
    Value* sum = found.state->result();
    for (size_t i = 0; i < found.terms.size(); ++i) {
      Value* term = found.terms[i];
      // The op goes behind its operands: the sum so far, the term, and the numbers.
      Op* behind = places_.later(sum->def, places_.later(term->def, number));
      const bool isLast = i + 1 == found.terms.size();
      sum = isLast ? moveBehind(behind, found, sum, term) : addBehind(behind, found, sum, term);
      places_.putBehind(sum->def, behind);
    }
  }

  OpList& ops_;
  fuse::TextPlaces places_;
  Builder builder_;
};

}  // namespace

Result<void> run_add_early(Module& module, const NoOptions&, const PassContext&) {
  for (Item* func : module.all(ItemKind::func))
    if (!func->body.ops.empty()) EarlyAdder(module, *func).run();
  return {};
}

}  // namespace tg
