// SPDX-License-Identifier: Apache-2.0
// rematerialize: values that cost little are computed again where they are needed late. A training step's
// memory is highest when the backward pass begins and everything that gradients read is alive; what follows
// by a map or a pass over rows from other such values need not be.
//
//   before:  %x = …   %n = layer_norm %x   %y = matmul %n, %w   …   %dw = matmul %n, %dy
//   after:   the same, and   %n_again = layer_norm %x   just before %dw, which reads it instead of %n
//
//   bytes alive   ▁▂▃▄▅▆▇█▇▆▅▄▃▂▁     %n is made left of the peak and read right of it: its copy is made on
//                    %n─────────%dw   the right, from %x, whose live range spans the peak anyway
//
// The peak is found, then the largest value whose live range spans it without a use there is computed again
// behind it; until no value can be spared at the peak. A copy also binds a value that its reader needs,
// without reading it: that keeps later passes from computing it early.
//
// Values of one group, as the 16-bit copies of weights, lie in memory together: a kernel that computes them from
// parameters and states alone runs again as a whole.
//
// Requires: stage(fused). recompute=0 changes nothing.
// Ensures: the highest sum of live bytes is no higher; a copy costs a map, a pass over rows, or a product of
//   few terms.
// Where: behind sink-maps, which moves what is alive; before merge-kernels, which changes the order.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "ir/access.h"
#include "ir/op_view.h"
#include "passes/fuse/cost.h"
#include "passes/fuse/lives.h"
#include "passes/fuse/region_writer.h"
#include "passes/fuse/slice.h"
#include "passes/fuse/target_of.h"
#include "passes/pass.h"

namespace tg::fuse {
namespace {

using table::Fusion;

/// A value of the arena, or the values of a group as one: its kernel's place, and those that read it.
struct Life {
  int64_t bytes = 0;
  int made = 0;
  std::vector<int> readers;  ///< in order, each once
  bool fixed = false;        ///< read by what is no kernel, or as a member of a group
  bool isGroup = false;      ///< of all results of its kernel
  int last() const { return readers.empty() ? made : readers.back(); }
};

/// A value to compute again, and from where on its copy is read.
struct Choice {
  Value* value = nullptr;
  int at = 0;
  Slice slice;  ///< of its kernel; empty for the first value of a group, whose kernel runs again
};

constexpr int64_t kUnknown = -1;

class Rematerializer {
 public:
  Rematerializer(Module& module, Item& func, const Target& target, int64_t least)
      : module_(module), func_(func), target_(target), names_(func), least_(least) {}
  /// Says what it does to `report`, unless that is null.
  void run(const PassContext* report);

 private:
  Op& opAt(int place) const { return *ops_[static_cast<size_t>(place)]; }
  void findLives();
  void addLives(const Op& op, int at);
  void addReads(const Op& op, int at);
  void addRead(Life& life, int at, bool fixes);
  void follow(const Choice& choice, Op* copy);
  const Life* lifeOf(const Value* value) const;
  Life* lifeOf(const Value* value) { return const_cast<Life*>(std::as_const(*this).lifeOf(value)); }
  int peak();
  int64_t takenOver(int place);
  bool follows(const Value& value) const;
  bool standsAt(const Value& value, int place) const;
  std::optional<Choice> choiceFor(Value* value, const Life& life, int peak, const Choice* found) const;
  std::optional<Choice> best(int peak) const;
  Value* lateOperand(int place, const Value* except) const;
  Op* apply(const Choice& choice);
  void readFrom(const Choice& choice, const Value& value, Value* copy);
  Op* runAgain(const Choice& choice);

  Module& module_;
  Item& func_;
  std::vector<Op*> ops_;        ///< of the function, by their places
  std::vector<int64_t> taken_;  ///< by `takenOver`, kUnknown where it was not asked or is not known any more
  const Target& target_;
  NameTable names_;
  int64_t least_;
  struct Known {
    Value* value;
    Life* life;
  };
  std::vector<Known> values_;  ///< results of kernels, in order; of a group the first
  std::unordered_map<const Value*, Life> lives_;
  std::unordered_map<const Value*, const Value*> firstOf_;  ///< of a group's other members: the first
  /// Whether cheap ops compute a value of kernels from others, if these stand.
  mutable std::unordered_map<const Value*, bool> follows_;
};

const Life* Rematerializer::lifeOf(const Value* value) const {
  auto first = firstOf_.find(value);
  auto life = lives_.find(first == firstOf_.end() ? value : first->second);
  return life == lives_.end() ? nullptr : &life->second;
}

/// Of the results of a kernel at a place, which nobody has read yet.
void Rematerializer::addLives(const Op& op, int at) {
  const bool isGroup = op.groups.size() == 1;
  auto behind = std::lower_bound(values_.begin(), values_.end(), at,
                                 [](const Known& known, int place) { return known.life->made < place; });
  for (const auto& result : op.results) {
    if (isGroup && result != op.results[0]) {
      firstOf_[result.get()] = op.result();
      lives_.at(op.result()).bytes += result->type.bytes();
      continue;
    }
    Life& life = lives_[result.get()];
    life = {result->type.bytes(), at, {}, !op.groups.empty() && !isGroup, isGroup};
    behind = values_.insert(behind, {result.get(), &life}) + 1;
  }
}

void Rematerializer::addRead(Life& life, int at, bool fixes) {
  life.fixed = life.fixed || fixes;
  auto place = std::lower_bound(life.readers.begin(), life.readers.end(), at);
  if (place == life.readers.end() || *place != at) life.readers.insert(place, at);
}

/// What the op at a place reads.
void Rematerializer::addReads(const Op& op, int at) {
  if (op.code != Opcode::fused) {
    forEachUse(op, [&](Value* value) {
      if (Life* life = lifeOf(value)) addRead(*life, at, true);
    });
    return;
  }
  for (int binding = 0; binding < op.numOperands(); ++binding)
    for (Value* value : bindingSources(op, binding))
      if (Life* life = lifeOf(value))
        addRead(*life, at, op.operands[static_cast<size_t>(binding)].items[0].kind == Operand::Kind::group);
}

void Rematerializer::findLives() {
  ops_ = func_.body.ops.all();
  taken_.assign(ops_.size(), kUnknown);
  for (int at = 0; at < static_cast<int>(ops_.size()); ++at) {
    addReads(opAt(at), at);
    if (opAt(at).code == Opcode::fused) addLives(opAt(at), at);
  }
}

/// What a copy in front of a reader changes: as found anew, without looking at all other ops again.
void Rematerializer::follow(const Choice& choice, Op* copy) {
  const int at = choice.at;
  ops_.insert(ops_.begin() + at, copy);
  taken_.insert(taken_.begin() + at, kUnknown);
  for (const Known& known : values_) {
    known.life->made += known.life->made >= at;
    auto& readers = known.life->readers;
    for (auto reader = readers.rbegin(); reader != readers.rend() && *reader >= at; ++reader) ++*reader;
  }
  // The copy is read from here on.
  std::vector<int>& readers = lifeOf(choice.value)->readers;
  const auto first = std::lower_bound(readers.begin(), readers.end(), at);
  const std::vector<int> moved(first, readers.end());
  readers.erase(first, readers.end());
  addReads(*copy, at);
  addLives(*copy, at);
  for (int reader : moved) addReads(opAt(reader), reader);
  // Whether a value dies where it is read has changed for the copy's operands, the copy and what it stands for.
  auto forget = [&](const Value* value) {
    const Life* of = lifeOf(value);
    if (!of) return;
    for (int reader : of->readers) taken_[static_cast<size_t>(reader)] = kUnknown;
  };
  forEachUse(static_cast<const Op&>(*copy), forget);
  forget(choice.value);
  forget(copy->result());
}

/// Bytes of results that take the place of operands read here for the last time.
int64_t Rematerializer::takenOver(int place) {
  int64_t& known = taken_[static_cast<size_t>(place)];
  if (known == kUnknown)
    known = bytesTakenOver(opAt(place), module_, [&](const Value& value) {
      const Life* life = lifeOf(&value);
      return life && !life->isGroup && life->last() == place;
    });
  return known;
}

/// The place where most bytes are alive, the first of equals; -1 without any.
int Rematerializer::peak() {
  const auto count = static_cast<int>(ops_.size());
  std::vector<int64_t> change(static_cast<size_t>(count) + 1, 0);
  for (const Known& known : values_) {
    change[static_cast<size_t>(known.life->made)] += known.life->bytes;
    change[static_cast<size_t>(known.life->last()) + 1] -= known.life->bytes;
  }
  int64_t live = 0, most = 0;
  int found = -1;
  for (int at = 0; at < count; ++at) {
    live += change[static_cast<size_t>(at)];
    if (live > most && live - takenOver(at) > most) most = live - takenOver(at), found = at;
  }
  return found;
}

/// Whether a value can be read at a place without keeping it for longer.
bool Rematerializer::standsAt(const Value& value, int place) const {
  const Life* life = lifeOf(&value);
  return !life || life->last() >= place;
}

/// Maps, passes over rows and windows; products of few terms.
bool isCheap(const Op& op) {
  switch (op.info().fusion) {
  case Fusion::map:
  case Fusion::row:
  case Fusion::reduce:
  case Fusion::view:
  case Fusion::window: return true;
  case Fusion::contraction: {
    if (op.code != Opcode::matmul) return false;
    const Shape& a = op.in(0)->type.shape;
    return a[a.rank() - (as::matmul(op).transpose_a() ? 2 : 1)] <= kShortInner;
  }
  default: return op.code == Opcode::constant;
  }
}

/// The value of a region that is a result.
const Value* innerOf(const Value& result) {
  const Op& op = *result.def;
  int slot = 0;
  while (op.result(slot) != &result) ++slot;
  return op.regions[0]->terminator()->in(slot);
}

bool Rematerializer::follows(const Value& value) const {
  auto [known, isNew] = follows_.try_emplace(&value, false);
  if (isNew) {
    auto stands = [&](const Value& source) { return &source != &value; };
    const Op& op = *value.def;
    known->second = sliceTo(op, innerOf(value), outsideOf(op), stands, isCheap).has_value();
  }
  return known->second;
}

/// Whether a kernel reads parameters and states alone.
bool readsSymbols(const Op& fused) {
  bool all = true;
  forEachUse(fused, [&](const Value* value) {
    all = all && value->def && (value->def->code == Opcode::param || value->def->code == Opcode::state);
  });
  return all;
}

/// How to spare a value at a place; nothing where that cannot be, or is no better than what was found.
std::optional<Choice> Rematerializer::choiceFor(Value* value, const Life& life, int peak,
                                                const Choice* found) const {
  if (life.fixed || life.made >= peak || life.last() <= peak || life.bytes < least_) return {};
  auto next = std::lower_bound(life.readers.begin(), life.readers.end(), peak);
  if (*next == peak || next == life.readers.begin()) return {};
  if (found && life.bytes == lifeOf(found->value)->bytes && *next <= found->at) return {};
  const Op& op = opAt(life.made);
  if (life.isGroup) return readsSymbols(op) ? std::optional(Choice{value, *next, {}}) : std::nullopt;
  if (!follows(*value)) return {};
  auto stands = [&](const Value& source) { return &source != value && standsAt(source, *next); };
  std::optional<Slice> slice = sliceTo(op, innerOf(*value), outsideOf(op), stands, isCheap);
  if (!slice || slice->ops.empty() || slice->ops.size() > kMostOpsAgain) return {};
  int64_t reads = 0;
  for (const Value* leaf : slice->leaves) reads += leaf->type.bytes();
  if (reads > kMostReads * value->type.bytes()) return {};
  return Choice{value, *next, std::move(*slice)};
}

/// The largest value that can be spared at a place; of equals the one that is needed last.
std::optional<Choice> Rematerializer::best(int peak) const {
  std::optional<Choice> found;
  int64_t most = 0;
  for (const Known& known : values_) {
    if (known.life->bytes < most) continue;
    std::optional<Choice> choice = choiceFor(known.value, *known.life, peak, found ? &*found : nullptr);
    if (!choice) continue;
    found = std::move(choice);
    most = known.life->bytes;
  }
  return found;
}

/// The last made of the kernels' results that the op at a place reads, or null.
Value* Rematerializer::lateOperand(int place, const Value* except) const {
  Value* latest = nullptr;
  forEachUse(static_cast<const Op&>(opAt(place)), [&](Value* value) {
    const Life* life = lifeOf(value);
    if (!life || life == lifeOf(except)) return;
    if (!latest || life->made > lifeOf(latest)->made) latest = value;
  });
  return latest;
}

/// From the choice's place on a copy is read in place of a value.
void Rematerializer::readFrom(const Choice& choice, const Value& value, Value* copy) {
  const std::vector<int>& readers = lifeOf(choice.value)->readers;
  for (auto at = std::lower_bound(readers.begin(), readers.end(), choice.at); at != readers.end(); ++at)
    forEachUse(opAt(*at), [&](Value*& read) {
      if (read == &value) read = copy;
    });
}

/// The whole kernel of a group again.
Op* Rematerializer::runAgain(const Choice& choice) {
  const Op& from = *choice.value->def;
  Op& reader = opAt(choice.at);
  RegionWriter writer(choice.value->loc);
  for (const Operand& operand : from.operands)
    writer.define(operand.value, writer.bind(operand.items[0], *operand.value));
  if (Value* late = lateOperand(choice.at, choice.value)) writer.bind(late);
  for (const Op* op : from.regions[0]->ops)
    if (op->code != Opcode::yield) writer.copy(*op);
  writer.yield({writer.here(from.regions[0]->terminator()->in(0))});
  writer.op().groups = from.groups;
  for (const auto& result : from.results) {
    Value* again = writer.addResult(*result);
    again->name = names_.unique(result->name + "_again");
    readFrom(choice, *result, again);
  }
  return func_.body.ops.insert(&reader, writer.finish(target_));
}

/// Computes a value again; the new kernel.
Op* Rematerializer::apply(const Choice& choice) {
  if (lives_.at(choice.value).isGroup) return runAgain(choice);
  const Op& from = *choice.value->def;
  const std::unordered_map<const Value*, Value*> outside = outsideOf(from);
  RegionWriter writer(choice.value->loc);
  for (const Value* leaf : choice.slice.leaves) writer.define(leaf, writer.bind(outside.at(leaf)));
  if (Value* late = lateOperand(choice.at, choice.value)) writer.bind(late);
  for (const Op* op : choice.slice.ops) writer.copy(*op);
  auto again = std::make_unique<Value>();
  again->type = choice.value->type;
  again->name = names_.unique(choice.value->name + "_again");
  again->loc = choice.value->loc;
  Value* copy = again.get();
  std::vector<std::unique_ptr<Value>> results;
  results.push_back(std::move(again));
  Op& reader = opAt(choice.at);
  readFrom(choice, *choice.value, copy);
  return func_.body.ops.insert(
      &reader, writer.finish({writer.here(innerOf(*choice.value))}, std::move(results), target_));
}

void Rematerializer::run(const PassContext* report) {
  findLives();
  for (int at = peak(); at >= 0; at = peak()) {
    std::optional<Choice> choice = best(at);
    if (!choice) break;
    if (report)
      report->remark(choice->value->loc,
                     fmt::format("%{} is computed again before %{}: {} bytes less are alive at %{}",
                                 choice->value->name, opAt(choice->at).result()->name,
                                 lives_.at(choice->value).bytes, opAt(at).result()->name));
    follow(*choice, apply(*choice));
  }
}

}  // namespace
}  // namespace tg::fuse

namespace tg {

Result<void> run_rematerialize(Module& module, const RematerializeOptions& options,
                               const PassContext& context) {
  if (options.recompute <= 0) return {};
  return fuse::rewriteFunctions(module, targetOf(module.attrs), [&](Item& func, const Target& target) {
    fuse::Rematerializer(module, func, target, options.recompute).run(options.report ? &context : nullptr);
  });
}

}  // namespace tg
