// SPDX-License-Identifier: Apache-2.0
// flatten-optimizer: the optimizer as one kernel. The updates of a function become one update of flat groups, and the
// global gradient norm becomes one sum over the flat gradients. Sums of gradients over several calls are cleared by one
// kernel. If the tensors have more bytes than `group`, or than one binding may span, they form several groups, each with
// its own kernel and its own part of the norm; no tensor is cut. Each such group is updated as soon as its gradients are
// computed, in the middle of the backward pass, so that gradients of different groups need not be alive together:
//
//   d_w3  d_w2  [w3 and w2 updated]  d_w1  d_w0  [w1 and w0 updated]
//
//   before:  %w_next, %m_next, %v_next = tg.adam_update %w, %d_w, %m, %v, %lr …   and the same of %b
//   after:   [%w_next, %b_next], [%m_next, …], [%v_next, …] =
//                tg.fused (%p = [%w, %b], %g = [%d_w, %d_b], %m = [%m, …], %v = [%v, …], %lr = %lr) {schedule
//                = …} {
//              %p_next, … = tg.adam_update %p, %g, %m, %v, %lr …          // of tensor<Nxf32>
//              tg.yield %p_next, …
//            }
//
//   Where a group has many parameters and the update does not depend on the gradient norm, the update's kernel also
//   sums the squares of its gradients, row by row.
//   Casts of these parameters to 16 bits, for products that read them so, become one region too (flat_copies.h).
//   The group's kernel also takes over the numbers that multiply all gradients of a group (a loss scale, clipping), and
//   the truth value that selects between the new and the old values of all its updates.
// Requires: stage(tensor) with a target. Its bindings decide whether a rate and a decay are bound separately, and how
//   many bytes a group may have.
// Ensures: updates that differ only in their tensors are one region; everything else stays tensor ops. No
//   tg.sum_of_squares is left. plan lays out the members of a group one behind the other.
// Where: before split-reductions and form-regions, which would see hundreds of sums for the gradient norm; and before
//   cse, which merges duplicates that the groups leave.
#include <algorithm>
#include <optional>
#include <string>
#include <unordered_set>
#include <utility>

#include "ir/access.h"
#include "ir/needs.h"
#include "ir/op_view.h"
#include "ir/text.h"
#include "passes/fuse/bindings.h"
#include "passes/fuse/flat_copies.h"
#include "passes/fuse/flat_norm.h"
#include "passes/fuse/inline_ops.h"
#include "passes/fuse/region_writer.h"
#include "passes/fuse/target_of.h"
#include "passes/fuse/update_groups.h"
#include "passes/pass.h"
#include "passes/rewrite.h"

namespace tg::fuse {
namespace {

class Flattener {
 public:
  Flattener(Module& module, Item& func, const Target& target)
      : module_(module), func_(func), target_(target), build_(&module, &func),
        norms_(func, target, build_, before_) {
    for (Op* op : func.body.ops)
      if (op->code == Opcode::update && isNumber(*as::update(*op).value(), 0))
        cleared_.emplace(rowsKey(*op), op);
  }

  void run(std::vector<UpdateGroup> groups) {
    isAlone_ = groups.size() == 1;
    for (UpdateGroup& group : groups) flatten(group);
    rebuild();
  }

 private:
  Op* onlyReader(const Value& value) const;
  void flatten(UpdateGroup& group);
  bool isReadBy(const Value& value, const Op& reader) const;
  std::vector<Value*> findScalings(std::vector<Update>& updates) const;
  Value* findChoices(std::vector<Update>& updates) const;
  void materialise(UpdateGroup& group);
  bool ownGradients(const UpdateGroup& group, const std::vector<Value*>& unscaled) const;
  std::optional<FlatNorms::Terms> normAlong(UpdateGroup& group);
  void addNorms(const UpdateGroup& group, const std::vector<Value*>& scales);
  Value* makeBefore(const Op* at, Opcode code, OperandList operands, AttrList attrs, Type type,
                    const std::string& hint);
  std::vector<Value*> bindNumbers(RegionWriter& region, const std::vector<Value*>& numbers, size_t groups,
                                  const Op* at);
  Value* decayByIndex(RegionWriter& region, Value* decay, const std::vector<Value*>& decayed);
  std::vector<Value*> writeUpdate(RegionWriter& region, const UpdateGroup& group,
                                  const std::vector<Value*>& scales, Value* choice);
  void replace(const std::vector<Update>& updates, Op& region);
  void clearTogether(const std::vector<Value*>& gradients);
  void rebuild();

  Module& module_;
  Item& func_;
  const Target& target_;
  Builder build_;  ///< for ops of the function, outside of regions
  std::unordered_set<const Op*> dropped_;
  std::unordered_map<const Op*, OpList> before_;  ///< new ops, by the op they precede
  std::unordered_map<const Value*, Value*> replaced_;
  FlatNorms norms_;
  std::unordered_map<std::string, Op*> cleared_;  ///< updates to zero, one for a symbol or some rows of it
  std::unordered_set<const Value*> placed_;       ///< gradients that are members of a group
  bool isAlone_ = false;                          ///< whether there is one group
};

/// The only op of the function that reads a value, or null. New ops that are not in its body yet do not count.
Op* Flattener::onlyReader(const Value& value) const {
  Op* only = nullptr;
  for (const Use& use : value.uses) {
    if (use.user()->list() != &func_.body.ops || use.user() == only) continue;
    if (only) return nullptr;
    only = use.user();
  }
  return only;
}

/// Whether only this op and sums of squares read a value.
bool Flattener::isReadBy(const Value& value, const Op& reader) const {
  return std::ranges::all_of(value.uses, [&](const Use& use) {
    const Op& user = *use.user();
    return user.list() != &func_.body.ops || &user == &reader || user.code == Opcode::sum_of_squares;
  });
}

/// Finds the numbers that multiply every gradient (clipping, a loss scale), so that the flat kernel can do so itself.
/// Returns them in the order of the products, and sets each update's `gradient` to the value before them.
std::vector<Value*> Flattener::findScalings(std::vector<Update>& updates) const {
  std::vector<Value*> scales;
  for (;;) {
    Value* scale = nullptr;
    for (const Update& update : updates) {
      const Op* def = update.gradient->def;
      const Op& reader = update.scalings.empty() ? *update.op : *update.scalings.front();
      if (!def || def->code != Opcode::mul || !(def->in(0)->type == update.gradient->type)) return scales;
      Value* own = as::mul(*def).rhs();
      if (own->type.rank() != 0 || (scale && scale != own) || !isReadBy(*update.gradient, reader))
        return scales;
      scale = own;
    }
    scales.insert(scales.begin(), scale);
    for (Update& update : updates) {
      update.scalings.insert(update.scalings.begin(), update.gradient->def);
      update.gradient = update.gradient->def->in(0);
    }
  }
}

/// With a loss scale, %p_kept = tg.select %finite, %p_next, %p. Returns the condition if all results of all updates are
/// selected by the same rank-0 one and nothing else reads them, and records the selects; otherwise null.
Value* Flattener::findChoices(std::vector<Update>& updates) const {
  const Form form = *formOf(*updates[0].op);
  Value* number = nullptr;
  std::vector<std::vector<Op*>> choices(updates.size());
  for (size_t i = 0; i < updates.size(); ++i)
    for (size_t which = 0; which < form.kept.size(); ++which) {
      const Value* result = updates[i].op->result(static_cast<int>(which));
      Op* choice = onlyReader(*result);
      if (!choice || choice->code != Opcode::select) return nullptr;
      const auto select = as::select(*choice);
      if (select.on_true() != result || select.on_false() != updates[i].op->in(form.kept[which]) ||
          select.cond()->type.rank() != 0 || (number && select.cond() != number))
        return nullptr;
      number = select.cond();
      choices[i].push_back(choice);
    }
  for (size_t i = 0; i < updates.size(); ++i) updates[i].choices = choices[i];
  return number;
}

/// Creates an op of the function that will precede `at`.
Value* Flattener::makeBefore(const Op* at, Opcode code, OperandList operands, AttrList attrs, Type type,
                             const std::string& hint) {
  build_.setEnd(before_[at]).setLoc(at->loc).setHint(hint);
  return build_.create(code, std::move(operands), std::move(attrs), {type})->result();
}

/// Binds rank-0 values to a region with `groups` groups; constants are repeated inside. If the target has too few storage
/// buffers to bind each of the others, one tensor with all of them is bound.
std::vector<Value*> Flattener::bindNumbers(RegionWriter& region, const std::vector<Value*>& numbers,
                                           size_t groups, const Op* at) {
  std::vector<Value*> inner(numbers.size());
  std::vector<size_t> bound;
  for (size_t i = 0; i < numbers.size(); ++i) {
    if (const Op* def = numbers[i]->def; def && def->code == Opcode::constant)
      inner[i] = bindNumber(region, numbers[i]);
    else
      bound.push_back(i);
  }
  Bindings all(target_);
  all.write(groups);
  for (size_t i : bound) all.read(*numbers[i]);
  if (all.fitOnce()) {
    for (size_t i : bound) inner[i] = bindNumber(region, numbers[i]);
    return inner;
  }
  OperandList pieces;
  for (size_t i : bound) {
    Value* number = numbers[i];
    if (number->type.dtype != DType::f32)  // a truth value: 0 or 1
      number =
          makeBefore(at, Opcode::cast, {Operand::of(number)}, {}, Type::tensor(DType::f32, {}), number->name);
    const Type one = Type::tensor(DType::f32, {1});
    pieces.push_back(Operand::of(makeBefore(at, Opcode::reshape, {Operand::of(number)},
                                            {{"shape", Attr::ints({1})}}, one, number->name)));
  }
  const Type type = Type::tensor(DType::f32, {static_cast<int64_t>(bound.size())});
  Value* packed = makeBefore(at, Opcode::concat, std::move(pieces), {{"axis", Attr::of(0)}}, type, "numbers");
  Value* together = region.bind(Operand::of(packed), type, packed->name);
  for (size_t i = 0; i < bound.size(); ++i) {
    const auto start = static_cast<int64_t>(i);
    Value* element = region.builder().op(
        Opcode::slice, {together}, {{"starts", Attr::ints({start})}, {"limits", Attr::ints({start + 1})}});
    Value* number = region.builder().reshape(element, {});
    if (numbers[bound[i]]->type.dtype != DType::f32) number = region.builder().cast(number, DType::i1);
    inner[bound[i]] = number;
  }
  return inner;
}

/// Makes each gradient fit to be a member of a group: a value in memory, a member once in all groups. Others become values
/// of their own, by a product with 1. States have homes, so a group whose gradients are all states holds them as they are.
void Flattener::materialise(UpdateGroup& group) {
  std::vector<Update>& updates = group.updates;
  std::unordered_set<std::string> states;
  for (Update& update : updates)
    if (const Op* def = update.gradient->def; def && def->code == Opcode::state) states.insert(rowsKey(*def));
  if (states.size() == updates.size()) return;
  for (Update& update : updates) {
    Value* base = throughReshapes(update.gradient);
    bool own = base->def && !isInline(*base->def) && !isBoundary(*base->def);
    if (own && placed_.insert(base).second) {
      update.gradient = base;
      continue;
    }
    // A product with one is no view, so a region computes it.
    Value* one = makeBefore(group.place, Opcode::constant, {Operand::literal(1.0)}, {},
                            Type::tensor(DType::f32, {}), "one");
    update.gradient = makeBefore(group.place, Opcode::mul, {Operand::of(update.gradient), Operand::of(one)},
                                 {}, update.gradient->type, update.gradient->name);
  }
}

/// The decay of a group in which only the first members decay: selected by the element's index.
Value* Flattener::decayByIndex(RegionWriter& region, Value* decay, const std::vector<Value*>& decayed) {
  Builder& b = region.builder();
  Type index = Type::tensor(DType::i32, region.op().regions[0]->args[0]->type.shape);
  b.setHint("index");
  Value* position = b.op(Opcode::iota, {}, {}, {index});
  b.setHint("decays");
  Value* limit = b.scalar(static_cast<double>(groupElements(decayed)), DType::i32);
  Value* decays = b.binary(Opcode::less, position, limit);
  b.setHint("decay");
  return b.op(Opcode::select, {decays, decay, b.scalar(0)});
}

std::vector<Value*> gradientsOf(const std::vector<Update>& updates) {
  std::vector<Value*> out;
  for (const Update& update : updates) out.push_back(update.gradient);
  return out;
}

/// Whether materialise left the gradients as they were.
bool Flattener::ownGradients(const UpdateGroup& group, const std::vector<Value*>& unscaled) const {
  for (size_t i = 0; i < unscaled.size(); ++i)
    if (throughReshapes(unscaled[i]) != group.updates[i].gradient) return false;
  return true;
}

/// Moves an op to just before `to`, together with the ops between them that depend on it. Returns false and moves
/// nothing if `to` or an update depends on the op, or if one of the ops to move is not pure.
static bool moveDown(OpList& ops, Op* op, Op* to) {
  std::vector<Op*> moved;
  std::unordered_set<const Op*> follow;
  for (Op* each = op;; each = each->next()) {
    const bool follows =
        each == op || anyUse(*each, [&](const Value* value) { return follow.contains(value->def); });
    if (follows && (each == to || formOf(*each) || !each->info().has(table::pure))) return false;
    if (each == to) break;
    if (follows) follow.insert(each), moved.push_back(each);
  }
  for (Op* each : moved) ops.insert(to, ops.take(each));
  return true;
}

/// The sum of squares that the group's update can compute in its own kernel, if there is one: the update does not
/// depend on it, all its readers stand behind the update, and the target has bindings for it and for packed numbers.
/// May move the sum and its readers behind the update.
std::optional<FlatNorms::Terms> Flattener::normAlong(UpdateGroup& group) {
  std::vector<Value*> terms = gradientsOf(group.updates);
  for (Value*& term : terms) term = throughReshapes(term);
  Bindings all(target_);
  all.write(2 * formOf(*group.updates[0].op)->kept.size() + 3);
  if (!all.fitOnce() || norms_.rowsAlong(groupElements(terms)) == 0) return {};
  std::optional<FlatNorms::Terms> found = norms_.find(group.place, terms, group.isPart);
  if (!found || found->isBehind) return found;
  if (!isAlone_ || !moveDown(func_.body.ops, found->root, group.place)) return {};
  group.place = found->root;
  return found;
}

/// Replaces sums of squares of the gradients, or of the gradients after some of their scalings, by sums over the flat group.
void Flattener::addNorms(const UpdateGroup& group, const std::vector<Value*>& scales) {
  const std::vector<Update>& updates = group.updates;
  const std::vector<Value*> gradients = gradientsOf(updates);
  for (size_t from = 0; from <= scales.size(); ++from) {
    std::vector<Value*> terms = gradients;
    for (size_t i = 0; from > 0 && i < updates.size(); ++i)
      terms[i] = updates[i].scalings[from - 1]->result();
    const std::vector<Value*> numbers(scales.begin(), scales.begin() + static_cast<std::ptrdiff_t>(from));
    norms_.add(group.place, terms, gradients, numbers, group.isPart);
  }
}

/// Writes the optimizer's op on the flat group, and its operands. Returns the new values of the kept operands.
std::vector<Value*> Flattener::writeUpdate(RegionWriter& region, const UpdateGroup& group,
                                           const std::vector<Value*>& scales, Value* choice) {
  const std::vector<Update>& updates = group.updates;
  const Op& first = *updates[0].op;
  const Form form = *formOf(first);
  Builder& b = region.builder();
  std::vector<Value*> operands(static_cast<size_t>(first.numOperands()));
  auto bindKept = [&](size_t which) {
    std::vector<Value*> members;
    for (const Update& update : updates) members.push_back(update.op->in(form.kept[which]));
    operands[form.kept[which]] = bindGroup(region, form.names[which], members);
  };
  bindKept(0);
  operands[1] = bindGroup(region, "g", gradientsOf(updates));
  for (size_t which = 1; which < form.kept.size(); ++which) bindKept(which);

  Value* decay = nullptr;
  std::vector<Value*> outside, decayed;
  for (const Update& update : updates)
    if (Value* own = decayOf(*update.op)) decay = own, decayed.push_back(update.op->in(0));
  for (int index : form.shared) outside.push_back(first.in(index));
  outside.insert(outside.end(), scales.begin(), scales.end());
  if (choice) outside.push_back(choice);
  if (decay) outside.push_back(decay);
  std::vector<Value*> numbers = bindNumbers(region, outside, 2 * form.kept.size() + 1, group.place);
  for (size_t i = 0; i < form.shared.size(); ++i) operands[form.shared[i]] = numbers[i];
  for (size_t i = 0; i < scales.size(); ++i) {
    b.setHint("scaled");
    operands[1] = b.binary(Opcode::mul, operands[1], numbers[form.shared.size() + i]);
  }
  if (decay) {
    bool all = decayed.size() == updates.size();
    operands.resize(std::max(operands.size(), static_cast<size_t>(form.decay) + 1));
    operands[form.decay] = all ? numbers.back() : decayByIndex(region, numbers.back(), decayed);
  } else if (form.decay >= 0 && form.decay < first.numOperands()) {
    b.setHint("decay");
    operands[form.decay] = b.scalar(0);
  }
  b.setHint("new");
  b.op(first.code, operands, first.attrs);
  const Op& made = *b.ops().back();
  std::vector<Value*> out;
  for (size_t which = 0; which < form.kept.size(); ++which) {
    out.push_back(made.result(static_cast<int>(which)));
    if (!choice) continue;
    b.setHint("kept");
    out.back() = b.op(Opcode::select, {numbers[form.shared.size() + scales.size()], out.back(),
                                       operands[static_cast<size_t>(form.kept[which])]});
  }
  return out;
}

/// Gives a region one group of results for each result of an update, and drops the updates.
void Flattener::replace(const std::vector<Update>& updates, Op& region) {
  const int results = static_cast<int>(formOf(*updates[0].op)->kept.size());
  for (int which = 0; which < results; ++which) {
    for (const Update& update : updates)
      replaced_[update.result(which)] =
          region.addResult(update.result(which)->type, update.result(which)->name);
    region.groups.push_back(static_cast<int>(updates.size()));
  }
  for (const Update& update : updates) {
    dropped_.insert(update.op);
    dropped_.insert(update.choices.begin(), update.choices.end());
    // Sums of squares may still read the scaled values; dce removes those without readers.
    const std::vector<Op*>& scalings = update.scalings;
    if (!scalings.empty() && onlyReader(*scalings.back()->result())) dropped_.insert(scalings.back());
  }
}

/// Builds the region of a group.
void Flattener::flatten(UpdateGroup& group) {
  std::vector<Update>& updates = group.updates;
  const std::vector<Value*> scales = findScalings(updates);
  Value* choice = findChoices(updates);
  const std::vector<Value*> unscaled = gradientsOf(updates);
  std::optional<FlatNorms::Terms> along;
  if (scales.empty() && !choice) along = normAlong(group);
  materialise(group);
  if (!ownGradients(group, unscaled))
    along.reset();
  else if (!along)
    addNorms(group, scales);
  clearTogether(gradientsOf(updates));
  RegionWriter region(updates[0].op->loc);
  std::vector<Value*> yields = writeUpdate(region, group, scales, choice);
  if (along) {
    Value* flat = region.op().regions[0]->args[1].get();
    yields.push_back(rowSums(region.builder(), flat, norms_.rowsAlong(flat->type.elements())));
  }
  region.yield(yields);
  replace(updates, region.op());
  if (along) {
    region.op().groups.push_back(0);
    norms_.take(*std::move(along),
                region.op().addResult(yields.back()->type, build_.names().unique("norm_partial")));
  }
  before_[group.place].push_back(region.finish(target_));
}

/// Gradients that are states, sums over several calls, are cleared at the end of the function: one region writes zero to
/// all of them.
void Flattener::clearTogether(const std::vector<Value*>& gradients) {
  std::vector<Op*> updates;
  for (const Value* gradient : gradients) {
    if (!gradient->def || gradient->def->code != Opcode::state) return;
    if (Op** update = valueIn(cleared_, rowsKey(*gradient->def))) updates.push_back(*update);
  }
  if (updates.size() != gradients.size()) return;
  RegionWriter region(updates[0]->loc);
  Builder& b = region.builder();
  b.setHint("zero");
  region.yield({b.constant(0, Type::tensor(DType::f32, {groupElements(gradients)}))});
  for (const Value* gradient : gradients)
    region.op().addResult(gradient->type, build_.names().unique(gradient->name + "_cleared"));
  region.op().groups.push_back(static_cast<int>(gradients.size()));
  OpList& end = before_[func_.body.terminator()];
  const Op& zero = region.op();
  end.push_back(region.finish(target_));
  for (size_t i = 0; i < updates.size(); ++i) {
    build_.setEnd(end).setLoc(updates[i]->loc);
    build_.create(Opcode::update, {updates[i]->operands[0], Operand::of(zero.result(static_cast<int>(i)))},
                  updates[i]->attrs);
    dropped_.insert(updates[i]);
  }
}

/// Puts the new ops into the function and removes those that they replace.
void Flattener::rebuild() {
  norms_.build([&](const Op* root, Value* sum) {
    dropped_.insert(root);
    replaced_[root->result()] = sum;
  });
  OpList& ops = func_.body.ops;
  for (auto& [op, made] : before_) ops.splice(const_cast<Op*>(op), made, made.front());
  for (auto& [value, other] : replaced_) const_cast<Value*>(value)->uses.replaceAll(other);
  ops.eraseIf([&](const Op* op) { return dropped_.contains(op); });
  expandOps(module_, func_, [](const Op& op) { return op.code == Opcode::sum_of_squares; });
}

}  // namespace
}  // namespace tg::fuse

tg::Result<void> tg::run_flatten_optimizer(Module& module, const FlattenOptimizerOptions& options,
                                           const PassContext&) {
  TG_TRY(const Target target, fuse::targetOn(module, "flatten-optimizer"));
  const auto bytes = parseBytes(options.group);
  if (!bytes) return failAt(module.loc, "flatten-optimizer: group: " + bytes.error().message());
  const int64_t most = std::min(*bytes, mostBytes(target));
  for (Item* func : module.all(ItemKind::func)) {
    // Before the flattener, which records where ops stand: find moves some.
    std::vector<fuse::UpdateGroup> groups = fuse::UpdateGroups(module, *func, target, most).find();
    fuse::Flattener(module, *func, target).run(std::move(groups));
  }
  for (Item* func : module.all(ItemKind::func)) fuse::flattenCopies(module, *func, target);
  return {};
}
