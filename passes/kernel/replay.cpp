// SPDX-License-Identifier: Apache-2.0
#include "passes/kernel/replay.h"

#include <cassert>

#include "passes/kernel/effects.h"

namespace tg {

// ------------------------------------------------------------------------------------------ values

static std::vector<int> launchAxesOf(const Item& kernel) {
  std::vector<int> axes;
  for (size_t axis = 0; axis < 3; ++axis) {
    bool one =
        axis >= kernel.grid.size() || (kernel.grid[axis].isLiteral() && kernel.grid[axis].integer == 1);
    if (!one || kernel.workgroup[axis] != 1) axes.push_back(static_cast<int>(axis));
  }
  return axes;
}

Replay::Replay(const KernelFacts& facts, KernelBuilder& builder,
               std::unordered_map<const Value*, Value*> buffers, int64_t sharedBytes)
    : facts_(facts), builder_(builder), buffers_(std::move(buffers)),
      launchAxes_(launchAxesOf(facts.kernel())) {
  walk(facts.kernel().body, [&](Op& op) {
    if (op.code != Opcode::k_shared && op.code != Opcode::k_local) return;
    const Value* made = op.result();
    buffers_[made] = op.code == Opcode::k_shared ? builder_.sharedBuffer(made->type, made->name)
                                                 : builder_.localBuffer(made->type, made->name);
  });
  declareRefills(sharedBytes);
}

void Replay::open(const Block& block, bool uniform, const KV* index, const KV* trip) {
  enter(block, Kind::backward, uniform, trip ? *trip : KV{});
  if (index) frames_.back().memo[block.args[0].get()] = *index;
}

/// Runs `body` as if frame `frame` were the innermost open block.
void Replay::run(size_t frame, const Body& body) {
  std::vector<Frame> aside(std::make_move_iterator(frames_.begin() + static_cast<std::ptrdiff_t>(frame) + 1),
                           std::make_move_iterator(frames_.end()));
  frames_.erase(frames_.begin() + static_cast<std::ptrdiff_t>(frame) + 1, frames_.end());
  builder_.at(frames_.back().level, body);
  for (Frame& each : aside) frames_.push_back(std::move(each));
}

KV Replay::primal(const Value* value) {
  const Block* owner = facts_.owner(value);
  size_t frame = frames_.size();
  while (frames_[--frame].block != owner) assert(frame > 0 && "the value's block is open");
  auto& memo = frames_[frame].memo;
  if (auto it = memo.find(value); it != memo.end()) return it->second;
  run(frame, [&] { make(value); });
  return frames_[frame].memo.at(value);
}

KV Replay::primal(const Operand& operand, DType wanted) {
  if (operand.isLiteral()) return KernelBuilder::literal(wanted, operand.number());
  return primal(operand.value);
}

KV Replay::operand(const Op& op, int index) {
  const Operand& operand = op.operands[static_cast<size_t>(index)];
  if (!operand.isLiteral()) return primal(operand.value);
  // A literal input of a call may be of any type of the func that has it.
  const DType integer = operand.integer < 0 ? DType::i32 : DType::u32;
  if (op.code == Opcode::k_call) return primal(operand, operand.isInteger ? integer : DType::f32);
  return primal(operand, operandType(op, operand).dtype);
}

std::vector<KV> Replay::indices(const Operand& element) {
  std::vector<KV> out;
  for (const Operand& item : element.items) out.push_back(primal(item, DType::u32));
  return out;
}

/// Computes or fetches a value of the innermost open block and puts it in the block's memo.
void Replay::make(const Value* value) {
  const Op* op = value->def;
  if (!op || facts_.isMemory(value)) {
    KV held = fetch(value);
    frames_.back().memo[value] = held;
  } else if (op->code == Opcode::k_for) {
    loopAgain(*op, frames_.back().kind == Kind::backward);
  } else if (op->code == Opcode::k_if) {
    branchAgain(*op);
  } else if (op->code == Opcode::k_call) {
    std::vector<KV> inputs;
    std::vector<Type> types;
    for (int i = 1; i < op->numOperands(); ++i) inputs.push_back(operand(*op, i));
    for (const auto& result : op->results) types.push_back(result->type);
    std::vector<KV> results = builder_.call(op->operands[0].text, inputs, types);
    for (size_t i = 0; i < results.size(); ++i)
      frames_.back().memo[op->result(static_cast<int>(i))] = results[i];
  } else {
    KV made = compute(*op);
    frames_.back().memo[value] = made;
  }
}

/// Emits an op without regions that may be computed again.
KV Replay::compute(const Op& op) {
  const Type& type = op.result()->type;
  std::vector<KV> in;
  bool special = op.info().slots.count > 0 && op.info().slots[0].kind == table::SlotKind::literal;
  if (!special && op.code != Opcode::k_dim && !elementOf(op))
    for (int i = 0; i < op.numOperands(); ++i)
      if (op.code != Opcode::k_extract || i == 0) in.push_back(operand(op, i));
  if (op.code == Opcode::k_load) return loaded(op);
  std::vector<KV> at = elementOf(op) ? indices(*elementOf(op)) : std::vector<KV>{};
  builder_.setLoc(derivedLoc("vjp", op.loc));
  builder_.hint(op.result()->name);
  KV out = [&] {
    switch (op.code) {
    case Opcode::k_global_id:
    case Opcode::k_local_id:
    case Opcode::k_workgroup_id:
    case Opcode::k_num_workgroups: return builder_.id(op.code, static_cast<int>(op.operands[0].integer));
    case Opcode::k_constant:
      return builder_.widened(KernelBuilder::literal(type.dtype, op.operands[0].number()), type);
    case Opcode::k_dim: return builder_.dim(buffer(op.in(0)), static_cast<int>(op.operands[1].integer));
    case Opcode::k_select: return builder_.select(in[0], in[1], in[2]);
    case Opcode::k_cast: return builder_.cast(in[0], type.dtype);
    case Opcode::k_bitcast: return builder_.bitcast(in[0], type.dtype);
    case Opcode::k_vec: return in.size() == 1 ? builder_.splat(in[0], type.lanes) : builder_.vec(in);
    case Opcode::k_extract: return builder_.extract(in[0], static_cast<int>(op.operands[1].integer));
    case Opcode::k_exact_load: return builder_.exactLoad(buffer(elementOf(op)->value), at);
    case Opcode::k_workgroup_reduce:
      return builder_.workgroupReduce(builder_.widened(in[0], type), op.word("kind"));
    case Opcode::k_subgroup_reduce:
      return builder_.subgroupReduce(builder_.widened(in[0], type), op.word("kind"));
    case Opcode::k_subgroup_shuffle: return builder_.subgroupShuffle(builder_.widened(in[0], type), in[1]);
    case Opcode::k_subgroup_ballot: return builder_.subgroupBallot(in[0]);
    default: return builder_.op(op.code, in, type.dtype);
    }
  }();
  builder_.hint("");
  return out;
}

// ------------------------------------------------------------------------------------ control flow

std::vector<KV> Replay::yields(const Block& block, const std::vector<Type>& types) {
  const Op* yield = yieldOf(block);
  std::vector<KV> out;
  for (size_t i = 0; i < types.size() && yield && i < yield->operands.size(); ++i)
    out.push_back(builder_.widened(primal(yield->operands[i], types[i].dtype), types[i]));
  return out;
}

std::vector<KV> Replay::branch(const Op& op, const std::vector<Type>& types,
                               const std::function<std::vector<KV>(size_t region)>& body) {
  KernelBuilder::BranchBody otherwise;
  if (!types.empty() || op.regions.size() > 1) otherwise = [&] { return body(1); };
  const KV cond = operand(op, 0);
  return builder_.branch(
      cond, types, [&] { return body(0); }, otherwise);
}

void Replay::branchAgain(const Op& op) {
  std::vector<Type> types;
  for (const auto& result : op.results) types.push_back(result->type);
  bool uniform = uniformFlow() && facts_.entersUniformly(op);
  auto body = [&](size_t region) {
    const Block& block = *op.regions[region];
    enter(block, Kind::again, uniform);
    std::vector<KV> out = yields(block, types);
    frames_.pop_back();
    return out;
  };
  std::vector<KV> results = branch(op, types, body);
  for (size_t i = 0; i < results.size(); ++i) frames_.back().memo[op.results[i].get()] = results[i];
}

LoopBounds Replay::bounds(const Op& loop) {
  const LoopRange range = rangeOf(loop);
  LoopBounds out{primal(range.from, DType::u32), primal(range.step, DType::u32), {}};
  if (int64_t trips = KernelFacts::staticTrips(loop); trips >= 0) {
    out.trips = KernelBuilder::u32(trips);
    return out;
  }
  // from < to ? (to - from - 1) / step + 1 : 0. In this form the range analysis sees that there are no more trips than in
  // `loop`.
  KV to = primal(range.to, DType::u32), zero = KernelBuilder::u32(0);
  out.trips = out.from.is(0) ? to : builder_.op(Opcode::k_sub, {to, out.from});
  if (!out.step.is(1)) {
    KV last = builder_.op(Opcode::k_sub, {out.trips, KernelBuilder::u32(1)});
    out.trips = builder_.add(builder_.op(Opcode::k_div, {last, out.step}), KernelBuilder::u32(1));
  }
  if (!out.from.is(0) || !out.step.is(1))
    out.trips = builder_.select(builder_.op(Opcode::k_lt, {out.from, to}), out.trips, zero);
  return out;
}

/// Emits a loop like `op`, whose body `body` emits. `keepThem`: store the carried values of each trip.
std::vector<KV> Replay::runLoop(const Op& op, Kind kind, bool keepThem,
                                const std::function<void(const Block&)>& body) {
  const Block& block = *op.regions[0];
  bool uniform = uniformFlow() && facts_.entersUniformly(op);
  const LoopRange range = rangeOf(op);
  KV from = primal(range.from, DType::u32), to = primal(range.to, DType::u32);
  KV step = primal(range.step, DType::u32);
  std::vector<KV> init;
  std::vector<Type> types;
  for (const Operand& binding : iterArgs(op)) {
    types.push_back(binding.value->type);
    init.push_back(builder_.widened(primal(binding.items[0], types.back().dtype), types.back()));
  }
  builder_.setLoc(derivedLoc("vjp", op.loc));
  builder_.hint(block.args[0]->name);
  return builder_.loop(
      builder_.depth(), from, to, step, init, [&](const KV& index, const std::vector<KV>& carried) {
        KV trip = builder_.op(Opcode::k_div, {builder_.op(Opcode::k_sub, {index, from}), step});
        enter(block, kind, uniform, trip);
        frames_.back().memo[block.args[0].get()] = index;
        for (size_t i = 0; i < carried.size(); ++i) {
          frames_.back().memo[block.args[i + 1].get()] = carried[i];
          if (keepThem) keep(block.args[i + 1].get(), carried[i], {&op});
        }
        body(block);
        std::vector<KV> out = yields(block, types);
        frames_.pop_back();
        return out;
      });
}

void Replay::loopAgain(const Op& op, bool keepThem) {
  keepThem = keepThem && !keptForward_.contains(&op);
  std::vector<KV> results = runLoop(op, Kind::again, keepThem, [](const Block&) {});
  Frame& frame = frames_.back();
  if (keepThem) frame.kept.insert(&op);
  for (size_t i = 0; i < op.results.size(); ++i) frame.memo[op.results[i].get()] = results[i];
}

void Replay::keepCarried(const Op& loop) {
  if (iterArgs(loop).empty() || keptForward_.contains(&loop) || frames_.back().kept.contains(&loop)) return;
  loopAgain(loop, true);
}

// ------------------------------------------------------------------------------------------ sweep

void Replay::sweep() {
  enter(facts_.kernel().body, Kind::forward, true);
  sweeping_ = true;
  forward(facts_.kernel().body);
  sweeping_ = false;
  frames_.back().kind = Kind::backward;
}

void Replay::forward(const Block& block) {
  for (Op* op : block.ops) forwardOp(*op);
}

/// Emits one op of the forward sweep, and keeps values read from memory that changes.
void Replay::forwardOp(const Op& op) {
  if (op.code == Opcode::k_if) return forwardIf(op);
  if (op.code == Opcode::k_for) return forwardLoop(op);
  if (op.code == Opcode::k_shared || op.code == Opcode::k_local || op.code == Opcode::k_yield) return;
  if (op.code == Opcode::k_barrier) {
    builder_.setLoc(derivedLoc("vjp", op.loc));
    return builder_.barrier();
  }
  if (writesElement(op)) return forwardWrite(op);
  if (!isLoad(op) || !facts_.isMemory(op.result())) {
    for (const auto& result : op.results) primal(result.get());
    return;
  }
  KV loaded = compute(op);
  frames_.back().memo[op.result()] = loaded;
  keep(op.result(), loaded, facts_.loopsAround(op.result()));
}

/// Emits a write, unless only the caller reads the buffer, and keeps the old value if the kernel reads it.
void Replay::forwardWrite(const Op& op) {
  const Operand& element = *elementOf(op);
  Value* target = buffer(element.value);
  if (target->type.mode == BufMode::in) return;
  std::vector<KV> at = indices(element);
  KV value = operand(op, broughtOperand(op));
  builder_.setLoc(derivedLoc("vjp", op.loc));
  bool wantOld = !op.results.empty();
  KV old;
  switch (op.code) {
  case Opcode::k_store: return builder_.store(value, target, at);
  case Opcode::k_accumulate: return builder_.accumulate(value, target, at);
  case Opcode::k_exact_add: return builder_.exactAdd(value, target, at);
  case Opcode::k_exact_store: return builder_.exactStore(value, target, at);
  case Opcode::k_atomic_compare_exchange:
    old = builder_.atomicCompareExchange(operand(op, 0), value, target, at, wantOld);
    break;
  default: old = builder_.atomic(op.code, value, target, at, wantOld); break;
  }
  if (!wantOld) return;
  frames_.back().memo[op.result()] = old;
  keep(op.result(), old, facts_.loopsAround(op.result()));
}

/// Values read from memory inside, outside of loops, become results of the if.
void Replay::forwardIf(const Op& op) {
  std::vector<Type> types;
  for (const auto& result : op.results) types.push_back(result->type);
  const std::vector<Type> own = types;
  std::vector<std::vector<const Value*>> memory(2);
  for (size_t region = 0; loopDepth_ == 0 && region < op.regions.size(); ++region)
    for (const Value* value : memory[region] = facts_.memoryIn(*op.regions[region]))
      types.push_back(value->type);
  bool uniform = uniformFlow() && facts_.entersUniformly(op);
  auto body = [&](size_t region) {
    std::vector<KV> out;
    if (region < op.regions.size()) {
      enter(*op.regions[region], Kind::forward, uniform);
      forward(*op.regions[region]);
      out = yields(*op.regions[region], own);
      frames_.pop_back();
    }
    for (size_t side = 0; side < 2; ++side)
      for (const Value* value : memory[side])
        out.push_back(side == region ? held_.at(value) : KernelBuilder::literal(value->type.dtype, 0));
    return out;
  };
  std::vector<KV> results = branch(op, types, body);
  size_t next = 0;
  for (const auto& result : op.results) frames_.back().memo[result.get()] = results[next++];
  for (const auto& side : memory)
    for (const Value* value : side) held_[value] = results[next++];
}

/// Emits a loop of the forward sweep; an outermost one keeps its carried values.
void Replay::forwardLoop(const Op& op) {
  bool outermost = loopDepth_++ == 0;
  std::vector<KV> results =
      runLoop(op, Kind::forward, outermost, [&](const Block& block) { forward(block); });
  --loopDepth_;
  if (outermost) keptForward_.insert(&op);
  for (size_t i = 0; i < op.results.size(); ++i) frames_.back().memo[op.results[i].get()] = results[i];
}

}  // namespace tg
