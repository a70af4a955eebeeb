// SPDX-License-Identifier: Apache-2.0
#include "passes/kernel/adjoint.h"

#include "passes/kernel/effects.h"

namespace tg {

void AdjointSweep::run() {
  sums_.emplace_back();
  reverse(facts_.kernel().body);
  sums_.pop_back();
}

void AdjointSweep::add(const Value* value, KV g) {
  if (!activity_.active(value) || g.is(0)) return;
  KV& sum = sums_.back()[value];
  bool first = sum.isLiteral() && sum.number == 0;
  builder_.hint(first ? "" : "d_" + value->name);
  sum = builder_.widened(first ? g : builder_.add(sum, g), value->type);
  builder_.hint("");
}

void AdjointSweep::add(const Operand& operand, const KV& g) {
  if (operand.kind == Operand::Kind::value) add(operand.value, g);
}

KV AdjointSweep::take(const Value* value) {
  auto it = sums_.back().find(value);
  if (it == sums_.back().end()) return KernelBuilder::f32(0);
  KV out = it->second;
  sums_.back().erase(it);
  return out;
}

void AdjointSweep::reverse(const Block& block) {
  for (const Op* op = block.ops.back(); op; op = op->previous()) reverseOp(*op);
}

/// Reverses one op: takes the adjoint of its result and distributes it to its operands.
void AdjointSweep::reverseOp(const Op& op) {
  builder_.setLoc(derivedLoc("vjp", op.loc));
  if (op.code == Opcode::k_barrier) return builder_.barrier();
  if (op.code == Opcode::k_workgroup_reduce && memory_.changes())
    builder_.barrier();  // it also orders memory
  if (!activity_.active(op)) return barrierIfNeeded(op);
  if (op.code == Opcode::k_if) return reverseIf(op);
  if (op.code == Opcode::k_for) return reverseLoop(op);
  if (op.code == Opcode::k_call) return distributeCall(op);
  if (elementOf(op)) return distributeMemory(op);
  if (op.results.size() != 1) return;
  KV g = take(op.result());
  if (!g.is(0)) distribute(op, g);
}

/// Emits a barrier for an op with barriers inside but nothing to reverse: earlier accesses must still be complete.
void AdjointSweep::barrierIfNeeded(const Op& op) {
  if (anyInside(op, synchronizes)) builder_.barrier();
}

std::vector<const Value*> AdjointSweep::captured(const Op& op) const {
  std::unordered_map<const Value*, bool> inside, seen;
  std::vector<const Value*> out;
  auto define = [&](const Block& block) {
    for (const auto& arg : block.args) inside[arg.get()] = true;
  };
  auto visit = [&](const Op& each) {
    for (const auto& region : each.regions) define(*region);
    for (const auto& result : each.results) inside[result.get()] = true;
  };
  for (const auto& region : op.regions) {
    define(*region);
    walk(*region, [&](Op& inner) { visit(inner); });
  }
  for (const auto& region : op.regions)
    walk(*region, [&](Op& inner) {
      forEachUse(static_cast<const Op&>(inner), [&](Value* value) {
        if (value->type.isBuffer() || !activity_.active(value) || inside[value] || seen[value]) return;
        seen[value] = true;
        out.push_back(value);
      });
    });
  return out;
}

void AdjointSweep::reverseBody(const Block& body, const std::vector<KV>& yielded) {
  sums_.emplace_back();
  if (const Op* yield = yieldOf(body))
    for (size_t i = 0; i < yielded.size(); ++i) add(yield->operands[i], yielded[i]);
  reverse(body);
}

/// An if is reversed as an if on the same condition, whose results are the adjoints of active values from outside.
void AdjointSweep::reverseIf(const Op& op) {
  std::vector<KV> gs;
  for (const auto& result : op.results) gs.push_back(take(result.get()));
  std::vector<const Value*> outside = captured(op);
  std::vector<Type> types;
  for (const Value* value : outside) types.push_back(value->type);
  std::vector<bool> reached(outside.size(), false);
  bool uniform = replay_.uniformFlow() && facts_.entersUniformly(op);
  auto body = [&](size_t region) {
    std::vector<KV> out(outside.size(), KernelBuilder::f32(0));
    if (region >= op.regions.size()) return out;
    replay_.open(*op.regions[region], uniform);
    reverseBody(*op.regions[region], gs);
    for (size_t i = 0; i < outside.size(); ++i) {
      out[i] = take(outside[i]);
      reached[i] = reached[i] || !out[i].is(0);
    }
    sums_.pop_back();
    replay_.close();
    return out;
  };
  std::vector<KV> results = replay_.branch(op, types, body);
  for (size_t i = 0; i < results.size(); ++i)
    if (reached[i]) add(outside[i], results[i]);
}

/// A loop is reversed as a loop that runs backward. It starts with the adjoints of the results, which are those of the last
/// trip's yield. The adjoints of a trip's carried values are those of the previous trip's yield. Adjoints of values from
/// outside are summed over the trips.
void AdjointSweep::reverseLoop(const Op& op) {
  const Block& block = *op.regions[0];
  std::vector<size_t> carried;
  std::vector<KV> init;
  const auto& bindings = iterArgs(op);
  for (size_t i = 0; i < bindings.size(); ++i) {
    const Value* result = op.results.empty() ? nullptr : op.results[i].get();
    if (!activity_.active(bindings[i].value) && !(result && activity_.active(result))) continue;
    carried.push_back(i);
    init.push_back(builder_.widened(result ? take(result) : KernelBuilder::f32(0), bindings[i].value->type));
  }
  std::vector<const Value*> outside = captured(op);
  for (const Value* value : outside) init.push_back(builder_.widened(KernelBuilder::f32(0), value->type));
  std::vector<bool> reached(outside.size(), false);

  replay_.keepCarried(op);
  LoopBounds bounds = replay_.bounds(op);
  builder_.setLoc(derivedLoc("vjp", op.loc));
  bool uniform = replay_.uniformFlow() && facts_.entersUniformly(op);
  builder_.hint(block.args[0]->name + "_back");
  auto body = [&](const KV& back, const std::vector<KV>& values) {
    KV last = builder_.op(Opcode::k_sub, {bounds.trips, KernelBuilder::u32(1)});
    if (bounds.trips.isLiteral()) last = KernelBuilder::u32(static_cast<int64_t>(bounds.trips.number) - 1);
    KV trip = builder_.op(Opcode::k_sub, {last, back});
    KV index = builder_.add(bounds.from, builder_.mul(trip, bounds.step));
    replay_.open(block, uniform, &index, &trip);
    std::vector<KV> yielded(bindings.size(), KernelBuilder::f32(0)), out;
    for (size_t i = 0; i < carried.size(); ++i) yielded[carried[i]] = values[i];
    reverseBody(block, yielded);
    for (size_t i : carried)
      out.push_back(builder_.widened(take(bindings[i].value), bindings[i].value->type));
    for (size_t i = 0; i < outside.size(); ++i) {
      KV more = take(outside[i]);
      reached[i] = !more.is(0);
      out.push_back(reached[i] ? builder_.add(values[carried.size() + i], more) : values[carried.size() + i]);
    }
    sums_.pop_back();
    replay_.close();
    return out;
  };
  if (bounds.trips.is(0)) {  // no trip: the results are the initial values
    for (size_t i = 0; i < carried.size(); ++i) add(bindings[carried[i]].items[0], init[i]);
    return;
  }
  std::vector<KV> results =
      builder_.loop(builder_.depth(), KernelBuilder::u32(0), bounds.trips, KernelBuilder::u32(1), init, body);
  for (size_t i = 0; i < carried.size(); ++i) add(bindings[carried[i]].items[0], results[i]);
  for (size_t i = 0; i < outside.size(); ++i)
    if (reached[i]) add(outside[i], results[carried.size() + i]);
}

}  // namespace tg
