// SPDX-License-Identifier: Apache-2.0
// Maps go to their only reader. A mask that an activation's gradient reads was formed with the activation,
// because it reads it; there it would be stored, as large as the activation, which is stored in any case.
//   before:  %h, %m = tg.fused (…) { matmul; relu; greater; yield }   %d = tg.fused (%m, …) { …; select;
//   yield } after:   %h = tg.fused (…) { matmul; relu; yield }        %d = tg.fused (%h, …) { …; greater;
//   select; yield }
#include <algorithm>
#include <unordered_set>
#include <utility>

#include "ir/access.h"
#include "passes/fuse/fuse.h"
#include "passes/fuse/region_writer.h"
#include "passes/fuse/slice.h"

namespace tg::fuse {
namespace {

/// A use of a value by a function's op, and through which argument of a region.
struct Use {
  int op = 0;
  const Value* arg = nullptr;  ///< null: not by a binding of this value alone
};

class Sinker {
 public:
  Sinker(Item& func, const Target& target) : target_(target), ops_(func.body.ops.all()) {}
  void run();

 private:
  void addUses(int at);
  void forgetUses(int at);
  bool readsByElement(const Use& use, const Value& value) const;
  bool saves(const Slice& slice, const std::unordered_map<const Value*, Value*>& outside, int to,
             const Value& value) const;
  void sink(int from, int slot);
  void addTo(int to, const Value* arg, const Op& from, const Slice& slice, const Value* inner);
  void dropResult(int from, int slot);

  const Target& target_;
  const std::vector<Op*> ops_;  ///< of the function, by their places
  std::unordered_map<const Value*, std::vector<Use>> uses_;
};

void Sinker::addUses(int at) {
  const Op& op = *ops_[static_cast<size_t>(at)];
  if (op.code != Opcode::fused)
    return forEachUse(op, [&](Value* value) { uses_[value].push_back({at, nullptr}); });
  for (int binding = 0; binding < op.numOperands(); ++binding) {
    const Operand& operand = op.operands[static_cast<size_t>(binding)];
    bool alone = operand.items[0].kind == Operand::Kind::value;
    for (Value* value : bindingSources(op, binding))
      uses_[value].push_back({at, alone ? operand.value : nullptr});
  }
}

void Sinker::forgetUses(int at) {
  forEachUse(std::as_const(*ops_[static_cast<size_t>(at)]), [&](const Value* value) {
    std::erase_if(uses_[value], [&](const Use& use) { return use.op == at; });
  });
}

/// Whether a kernel computes single values from single values, by a schedule that takes any map along.
bool isPlain(const Op& op) {
  if (op.code != Opcode::fused || !op.groups.empty()) return false;
  const std::string kind = op.attr("schedule").text;
  return kind != "custom" && kind != "attention" &&
         std::all_of(op.operands.begin(), op.operands.end(),
                     [](const Operand& operand) { return operand.items[0].kind == Operand::Kind::value; });
}

bool isElementwise(const Op& op) { return keepsElements(op) && op.code != Opcode::dropout; }

/// Whether a kernel takes each element of an argument once, to compute the same of another value.
bool Sinker::readsByElement(const Use& use, const Value& value) const {
  const Op& op = *ops_[static_cast<size_t>(use.op)];
  if (!use.arg || !isPlain(op)) return false;
  return std::all_of(op.regions[0]->ops.begin(), op.regions[0]->ops.end(), [&](const auto& inner) {
    bool reads = false;
    forEachUse(static_cast<const Op&>(*inner), [&](Value* operand) { reads = reads || operand == use.arg; });
    return !reads || (inner->code != Opcode::yield && isElementwise(*inner) &&
                      inner->result()->type.elements() == value.type.elements());
  });
}

/// Whether the reader has bindings left for what the value is computed from, and less is kept for it than the
/// value is: what others read then or later is kept anyway.
bool Sinker::saves(const Slice& slice, const std::unordered_map<const Value*, Value*>& outside, int to,
                   const Value& value) const {
  int64_t prolonged = 0;
  size_t added = 0;
  const Op& reader = *ops_[static_cast<size_t>(to)];
  for (const Value* leaf : slice.leaves) {
    const Value* source = outside.at(leaf);
    const std::vector<Use>& uses = uses_.at(source);
    added += std::none_of(uses.begin(), uses.end(), [&](const Use& use) { return use.op == to && use.arg; });
    bool fixed = !source->def || source->def->code != Opcode::fused;
    bool kept = std::any_of(uses.begin(), uses.end(), [&](const Use& use) { return use.op >= to; });
    if (!fixed && !kept) prolonged += source->type.bytes();
  }
  size_t bound = reader.operands.size() + reader.results.size() + added - 1;
  // As when regions are formed: two more for values that are read both by element and by vector.
  size_t most =
      target_.reads == "texel" ? 24 : static_cast<size_t>(std::max<int64_t>(target_.bindings - 2, 0));
  return bound <= most && prolonged <= value.type.bytes();
}

/// The op itself stays, so that what is known of it stays true.
void become(Op& op, std::unique_ptr<Op> made) {
  op.operands = std::move(made->operands);
  op.attrs = std::move(made->attrs);
  op.regions = std::move(made->regions);
  op.results = std::move(made->results);
  for (auto& result : op.results) result->def = &op;
}

/// Puts the slice into the reader's region in place of the argument.
void Sinker::addTo(int to, const Value* arg, const Op& from, const Slice& slice, const Value* inner) {
  Op& reader = *ops_[static_cast<size_t>(to)];
  const std::unordered_map<const Value*, Value*> outside = outsideOf(from);
  RegionWriter writer(reader.loc);
  for (const Operand& operand : reader.operands)
    if (operand.value != arg) writer.define(operand.value, writer.bind(operand.items[0].value));
  for (const Value* leaf : slice.leaves) writer.define(leaf, writer.bind(outside.at(leaf)));
  for (const Op* op : slice.ops) writer.copy(*op);
  writer.define(arg, writer.here(inner));
  std::vector<Value*> yielded;
  for (Op* op : reader.regions[0]->ops) {
    if (op->code != Opcode::yield) {
      writer.copy(*op);
      continue;
    }
    for (const Operand& operand : op->operands) yielded.push_back(writer.here(operand.value));
  }
  become(reader, writer.finish(yielded, std::move(reader.results), target_));
}

/// The region without one of its results and what led to it alone.
void Sinker::dropResult(int from, int slot) {
  Op& fused = *ops_[static_cast<size_t>(from)];
  const Op& yield = *fused.regions[0]->terminator();
  std::unordered_set<const Value*> needed;
  for (int other = 0; other < yield.numOperands(); ++other)
    if (other != slot) needed.insert(yield.in(other));
  const auto& body = fused.regions[0]->ops;
  std::vector<const Op*> kept;
  for (auto op = body.rbegin(); op != body.rend(); ++op) {
    if ((*op)->code == Opcode::yield) continue;
    bool isNeeded = std::any_of((*op)->results.begin(), (*op)->results.end(),
                                [&](const auto& result) { return needed.contains(result.get()); });
    if (!isNeeded) continue;
    kept.push_back(*op);
    forEachUse(static_cast<const Op&>(**op), [&](Value* value) { needed.insert(value); });
  }
  RegionWriter writer(fused.loc);
  for (const Operand& operand : fused.operands)
    if (needed.contains(operand.value)) writer.define(operand.value, writer.bind(operand.items[0].value));
  for (auto op = kept.rbegin(); op != kept.rend(); ++op) writer.copy(**op);
  std::vector<Value*> yielded;
  for (int other = 0; other < yield.numOperands(); ++other)
    if (other != slot) yielded.push_back(writer.here(yield.in(other)));
  fused.results.erase(fused.results.begin() + slot);
  become(fused, writer.finish(yielded, std::move(fused.results), target_));
}

void Sinker::sink(int from, int slot) {
  const Op& fused = *ops_[static_cast<size_t>(from)];
  const Value& value = *fused.result(slot);
  auto uses = uses_.find(&value);
  if (uses == uses_.end() || uses->second.size() != 1 || !readsByElement(uses->second[0], value)) return;
  const Use use = uses->second[0];
  const std::unordered_map<const Value*, Value*> outside = outsideOf(fused);
  const Value* inner = fused.regions[0]->terminator()->in(slot);
  auto stands = [&](const Value& source) { return &source != &value; };
  auto allows = [&](const Op& op) {
    return op.code == Opcode::constant || op.code == Opcode::iota || isElementwise(op);
  };
  std::optional<Slice> slice = sliceTo(fused, inner, outside, stands, allows);
  if (!slice || slice->ops.empty() || !saves(*slice, outside, use.op, value)) return;
  forgetUses(use.op);
  forgetUses(from);
  uses_.erase(&value);
  addTo(use.op, use.arg, fused, *slice, inner);
  dropResult(from, slot);
  addUses(use.op);
  addUses(from);
}

void Sinker::run() {
  for (int at = 0; at < static_cast<int>(ops_.size()); ++at) addUses(at);
  for (int at = static_cast<int>(ops_.size()) - 1; at >= 0; --at) {
    const Op* op = ops_[static_cast<size_t>(at)];
    if (!isPlain(*op)) continue;
    for (int slot = static_cast<int>(op->results.size()) - 1; slot >= 0; --slot) {
      if (op->results.size() > 1) sink(at, slot);
    }
  }
}

}  // namespace

void sinkMaps(Item& func, const Target& target) { Sinker(func, target).run(); }

}  // namespace tg::fuse
