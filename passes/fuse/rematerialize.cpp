// SPDX-License-Identifier: Apache-2.0
// rematerialize: computes cheap values again where they are needed late, instead of keeping them. The memory of a training
// step peaks when the backward pass begins and everything that gradients read is alive. A value that a map or a pass over
// rows computes from other such values need not be kept.
//
//   before:  %x = …   %n = layer_norm %x   %y = matmul %n, %w   …   %dw = matmul %n, %dy
//   after:   the same, and   %n_again = layer_norm %x   just before %dw, which reads it instead of %n
//
//   bytes alive   ▁▂▃▄▅▆▇█▇▆▅▄▃▂▁     %n is defined left of the peak and read right of it: its copy is computed on
//                    %n─────────%dw   the right, from %x, whose live range spans the peak anyway
//
// Repeatedly finds the peak, and computes the largest value whose live range spans it, without a use there, again behind
// it, where fewer bytes are alive; until no value can be spared at the peak. A copy also binds the operand of its reader
// that is computed last, without reading it: the copy then depends on that operand, so that later passes do not move it
// up.
//
// Values of one group, such as the 16-bit copies of weights, lie in memory together. Their kernel runs again as a
// whole, once, if it reads only parameters and states: its reads are several times the bytes that are spared.
//
// Requires: stage(fused). c1: recompute is 0, which changes nothing, or more.
// Ensures: the peak of live bytes is no higher; a copy costs a map, a pass over rows, or a product of few terms.
// Where: behind sink-maps, which changes live ranges; before merge-kernels, which changes the order.

#include <algorithm>
#include <functional>
#include <map>
#include <unordered_set>
#include <utility>

#include "ir/access.h"
#include "ir/op_view.h"
#include "passes/fuse/cost.h"
#include "passes/fuse/merge_parts.h"
#include "passes/fuse/region_writer.h"
#include "passes/fuse/slice.h"
#include "passes/fuse/target_of.h"
#include "passes/fuse/timeline.h"
#include "passes/pass.h"

namespace tg::fuse {
namespace {

using table::Fusion;

using Step = Timeline::Step;

/// The live range of a value in the arena, or of a group's values together: the step of its kernel, and its readers.
struct Life {
  int64_t bytes = 0;
  const Step* made = nullptr;
  std::vector<const Step*> readers;  ///< in order, each once
  /// Whether it is not computed again: an op that is no kernel, or a kernel with a group, reads it, or it is a group that was
  /// computed again.
  bool fixed = false;
  bool isGroup = false;  ///< whether it stands for all results of its kernel, a group
  /// Whether cheap ops compute it from values outside its kernel, if these are available; nothing if not known yet.
  std::optional<bool> follows;
  const Step& last() const { return readers.empty() ? *made : *readers.back(); }
  /// The first reader at `at` or behind it, or the end.
  std::vector<const Step*>::const_iterator readerFrom(const Step& at) const {
    return std::ranges::partition_point(readers, [&](const Step* reader) { return reader->isBefore(at); });
  }
};

/// A value to compute again, and the first step that reads the copy.
struct Choice {
  Value* value = nullptr;
  const Step* at = nullptr;
  Slice slice;  ///< the ops to copy; empty for the first value of a group, whose whole kernel runs again
};

class Rematerializer {
 public:
  Rematerializer(Module& module, Item& func, const Target& target, int64_t least)
      : module_(module), func_(func), target_(target), names_(func), least_(least),
        timeline_([this](const Step& step) { return takenOver(step); }) {}
  /// Remarks each copy to `report`, unless that is null.
  void run(const PassContext* report);

 private:
  void findLives();
  void addLives(const Step& at);
  void addReads(const Step& at);
  void addRead(Life& life, const Step& at, bool fixes);
  void count(const Life& life, int64_t bytes) { timeline_.add(*life.made, life.last(), bytes); }
  void follow(const Choice& choice, Op* copy);
  const Life* lifeOf(const Value* value) const;
  Life* lifeOf(const Value* value) { return const_cast<Life*>(std::as_const(*this).lifeOf(value)); }
  int64_t takenOver(const Step& at) const;
  int64_t givenBy(const Step& at) const;
  static bool follows(const Value& value);
  bool standsAt(const Value& value, const Step& at) const;
  std::optional<Choice> choiceFor(Value* value, Life& life, const Step& peak, const Choice* found) const;
  std::optional<Choice> best(const Step& peak);
  Value* lateOperand(const Step& at, const Value* except) const;
  Op* apply(const Choice& choice);
  void readFrom(const Choice& choice, const Value& value, Value* copy);
  Op* runAgain(const Choice& choice);

  Module& module_;
  Item& func_;
  const Target& target_;
  NameTable names_;
  int64_t least_;
  struct Known {
    Value* value;
    Life* life;
  };
  Timeline timeline_;
  /// Results of kernels that may be computed again, by size, largest first, in order; of a group the first.
  std::map<int64_t, std::vector<Known>, std::greater<>> values_;
  std::unordered_map<const Value*, Life> lives_;
  std::unordered_map<const Value*, const Value*> firstOf_;  ///< for a group's other members: the first
};

const Life* Rematerializer::lifeOf(const Value* value) const {
  const Value* const* first = valueIn(firstOf_, value);
  return valueIn(lives_, first ? *first : value);
}

/// Adds the live ranges of the results of a kernel, without readers.
void Rematerializer::addLives(const Step& at) {
  const Op& op = at.op();
  const bool isGroup = op.groups.size() == 1;
  for (const auto& result : op.results) {
    if (isGroup && result != op.results[0]) {
      firstOf_[result.get()] = op.result();
      lives_.at(op.result()).bytes += result->type.bytes();
      continue;
    }
    lives_[result.get()] = {result->type.bytes(), &at, {}, !op.groups.empty() && !isGroup, isGroup, {}};
  }
  for (const auto& result : op.results) {
    Life* life = valueIn(lives_, result.get());
    if (!life || life->bytes < least_) continue;
    std::vector<Known>& known = values_[life->bytes];
    known.insert(std::ranges::partition_point(
                     known, [&](const Known& each) { return !at.isBefore(*each.life->made); }),
                 {result.get(), life});
  }
}

void Rematerializer::addRead(Life& life, const Step& at, bool fixes) {
  life.fixed = life.fixed || fixes;
  const auto place = life.readerFrom(at);
  if (place == life.readers.end() || *place != &at) life.readers.insert(place, &at);
}

/// Adds the reads of a step's op.
void Rematerializer::addReads(const Step& at) {
  const Op& op = at.op();
  if (op.code != Opcode::fused) {
    forEachUse(op, [&](Value* value) {
      if (Life* life = lifeOf(value)) addRead(*life, at, true);
    });
    return;
  }
  for (int binding = 0; binding < op.numOperands(); ++binding)
    for (Value* value : bindingSources(op, binding))
      if (Life* life = lifeOf(value))
        addRead(*life, at, op.operands[static_cast<size_t>(binding)].bindsGroup());
}

/// Finds all live ranges and the bytes alive at each step.
void Rematerializer::findLives() {
  for (Op* op : func_.body.ops) {
    const Step& at = *timeline_.append(op);
    addReads(at);
    if (op->code == Opcode::fused) addLives(at);
  }
  for (const auto& [value, life] : lives_) count(life, life.bytes);
}

/// Updates live ranges and live bytes for a copy in front of its reader, without looking at all other ops again.
void Rematerializer::follow(const Choice& choice, Op* copy) {
  const Step& at = *timeline_.insertBefore(*choice.at, copy);
  timeline_.add(at, at, -givenBy(*choice.at));
  std::unordered_set<Life*> changed{lifeOf(choice.value)};
  forEachUse(static_cast<const Op&>(*copy), [&](const Value* value) {
    if (Life* life = lifeOf(value)) changed.insert(life);
  });
  for (const Life* life : changed) count(*life, -life->bytes);
  // The copy is read from here on.
  Life& old = *lifeOf(choice.value);
  const std::vector<const Step*> moved(old.readerFrom(at), old.readers.cend());
  old.readers.resize(old.readers.size() - moved.size());
  addReads(at);
  addLives(at);
  for (const Step* reader : moved) addReads(*reader);
  Life& again = *lifeOf(copy->result());
  if (again.isGroup) old.fixed = again.fixed = true;
  changed.insert(&again);
  for (const Life* life : changed) {
    count(*life, life->bytes);
    // These readers may now be the last, or not be any more.
    for (const Step* reader : life->readers) timeline_.forgetTaken(*reader);
  }
}

/// Bytes of a step's results that plan can place in operands which die there.
int64_t Rematerializer::takenOver(const Step& at) const {
  return bytesTakenOver(at.op(), module_, [&](const Value& value) {
    const Life* life = lifeOf(&value);
    return life && !life->isGroup && &life->last() == &at;
  });
}

/// Bytes of a step's results.
int64_t Rematerializer::givenBy(const Step& at) const {
  int64_t bytes = 0;
  for (const auto& result : at.op().results)
    if (auto life = lives_.find(result.get()); life != lives_.end()) bytes += life->second.bytes;
  return bytes;
}

/// Whether a value can be read at a step without prolonging its live range.
bool Rematerializer::standsAt(const Value& value, const Step& at) const {
  const Life* life = lifeOf(&value);
  return !life || !life->last().isBefore(at);
}

/// Whether an op may be computed again: maps, passes over rows and windows, products of few terms.
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

bool Rematerializer::follows(const Value& value) {
  auto stands = [&](const Value& source) { return &source != &value; };
  const Op& op = *value.def;
  return sliceTo(op, innerOf(value), outsideOf(op), stands, isCheap).has_value();
}

/// Whether a kernel reads only parameters and states.
bool readsEntries(const Op& fused) {
  return everyUse(fused, [](const Value* value) { return value->def && readsEntry(*value->def); });
}

/// How to spare a value at the peak. Nothing if that is impossible, or the copy would not be read later than `found` is.
std::optional<Choice> Rematerializer::choiceFor(Value* value, Life& life, const Step& peak,
                                                const Choice* found) const {
  if (life.fixed || !life.made->isBefore(peak) || !peak.isBefore(life.last())) return {};
  const auto next = life.readerFrom(peak);
  if (*next == &peak || next == life.readers.begin()) return {};
  if (found && !found->at->isBefore(**next)) return {};
  // Where the copy is computed, everything is alive that its reader reads. That must be less than at the peak.
  if ((*next)->alive() - givenBy(**next) >= peak.alive() - peak.taken()) return {};
  const Op& op = life.made->op();
  if (life.isGroup) return readsEntries(op) ? std::optional(Choice{value, *next, {}}) : std::nullopt;
  if (!life.follows) life.follows = follows(*value);
  if (!*life.follows) return {};
  auto stands = [&](const Value& source) { return &source != value && standsAt(source, **next); };
  std::optional<Slice> slice = sliceTo(op, innerOf(*value), outsideOf(op), stands, isCheap);
  if (!slice || slice->ops.empty() || slice->ops.size() > kMostOpsAgain) return {};
  int64_t reads = 0;
  for (const Value* leaf : slice->leaves) reads += leaf->type.bytes();
  if (reads > kMostReads * value->type.bytes()) return {};
  return Choice{value, *next, std::move(*slice)};
}

/// The largest value that can be spared at the peak; of several, the one whose copy is read last.
std::optional<Choice> Rematerializer::best(const Step& peak) {
  std::optional<Choice> found;
  for (auto& [bytes, values] : values_) {
    std::erase_if(values,
                  [](const Known& known) { return known.life->fixed || known.life->follows == false; });
    for (const Known& known : values)
      if (std::optional<Choice> choice = choiceFor(known.value, *known.life, peak, found ? &*found : nullptr))
        found = std::move(choice);
    if (found) break;
  }
  return found;
}

/// Of the kernels' results that a step's op reads, except `except`, the one that is computed last; null if none.
Value* Rematerializer::lateOperand(const Step& at, const Value* except) const {
  Value* latest = nullptr;
  forEachUse(static_cast<const Op&>(at.op()), [&](Value* value) {
    const Life* life = lifeOf(value);
    if (!life || life == lifeOf(except)) return;
    if (!latest || lifeOf(latest)->made->isBefore(*life->made)) latest = value;
  });
  return latest;
}

/// Replaces reads of `value` by reads of `copy` from the choice's step on.
void Rematerializer::readFrom(const Choice& choice, const Value& value, Value* copy) {
  const Life& life = *lifeOf(choice.value);
  for (auto at = life.readerFrom(*choice.at); at != life.readers.end(); ++at)
    forEachUse((*at)->op(), [&](Value*& read) {
      if (read == &value) read = copy;
    });
}

/// Runs the whole kernel of a group again; returns the new kernel.
Op* Rematerializer::runAgain(const Choice& choice) {
  const Op& from = *choice.value->def;
  Op& reader = choice.at->op();
  RegionWriter writer(choice.value->loc);
  for (const Operand& operand : from.operands)
    writer.define(operand.value, writer.bind(operand.items[0], *operand.value));
  if (Value* late = lateOperand(*choice.at, choice.value)) writer.bind(late);
  writer.yield({writer.copyBody(from)[0]});
  writer.op().groups = from.groups;
  for (const auto& result : from.results) {
    Value* again = writer.addResult(*result);
    again->name = names_.unique(result->name + "_again");
    readFrom(choice, *result, again);
  }
  return func_.body.ops.insert(&reader, writer.finish(target_));
}

/// Computes a value again; returns the new kernel.
Op* Rematerializer::apply(const Choice& choice) {
  if (lives_.at(choice.value).isGroup) return runAgain(choice);
  const Op& from = *choice.value->def;
  const std::unordered_map<const Value*, Value*> outside = outsideOf(from);
  RegionWriter writer(choice.value->loc);
  for (const Value* leaf : choice.slice.leaves) writer.define(leaf, writer.bind(outside.at(leaf)));
  if (Value* late = lateOperand(*choice.at, choice.value)) writer.bind(late);
  for (const Op* op : choice.slice.ops) writer.copy(*op);
  auto again = std::make_unique<Value>();
  again->type = choice.value->type;
  again->name = names_.unique(choice.value->name + "_again");
  again->loc = choice.value->loc;
  Value* copy = again.get();
  std::vector<std::unique_ptr<Value>> results;
  results.push_back(std::move(again));
  Op& reader = choice.at->op();
  readFrom(choice, *choice.value, copy);
  return func_.body.ops.insert(
      &reader, writer.finish({writer.here(innerOf(*choice.value))}, std::move(results), target_));
}

void Rematerializer::run(const PassContext* report) {
  findLives();
  while (const Step* at = timeline_.peak()) {
    std::optional<Choice> choice = best(*at);
    if (!choice) break;
    if (report)
      report->remark(choice->value->loc, "%{} is recomputed before %{}: {} bytes less are live at %{}",
                     choice->value->name, choice->at->op().result()->name, lives_.at(choice->value).bytes,
                     at->op().result()->name);
    follow(*choice, apply(*choice));
  }
}

}  // namespace
}  // namespace tg::fuse

tg::Result<void> tg::run_rematerialize(Module& module, const RematerializeOptions& options,
                                       const PassContext& context) {
  if (options.recompute < 0)
    return failAt(module.loc, "rematerialize [rematerialize.c1]: recompute={} is not 0 or more",
                  options.recompute);
  if (options.recompute == 0) return {};
  return fuse::rewriteFunctions(module, targetOf(module.attrs), [&](Item& func, const Target& target) {
    fuse::Rematerializer(module, func, target, options.recompute).run(options.report ? &context : nullptr);
  });
}
