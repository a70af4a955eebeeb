// SPDX-License-Identifier: Apache-2.0
// Translates registers, memory accesses and control flow of a kernel to flat instructions.
#include <bit>

#include "runtime/interp/kernel_flattener.h"

namespace tg {
namespace {

/// Whether the invocations of a subgroup must execute an op together.
bool runsTogether(const Op& op) {
  return isSubgroupOp(op) || op.code == Opcode::k_coopmat_mma || op.code == Opcode::k_coopmat_row_reduce ||
         op.code == Opcode::k_coopmat_any_above || op.code == Opcode::k_coopmat_store;
}

Folding::Kind foldingKind(const std::string& word) {
  using enum Folding::Kind;
  if (word == "mul") return mul;
  if (word == "max") return max;
  if (word == "min") return min;
  if (word == "and") return bitAnd;
  if (word == "or") return bitOr;
  if (word == "xor") return bitXor;
  return add;
}

}  // namespace

uint32_t Flattener::allocate(int count) {
  uint32_t first = program_.registers;
  program_.registers += static_cast<uint32_t>(count);
  return first;
}

uint32_t Flattener::base(const Value* value) {
  auto [found, fresh] = base_.try_emplace(value, 0);
  if (fresh) found->second = allocate(width(value->type));
  return found->second;
}

uint32_t Flattener::constant(uint32_t word) {
  auto [found, fresh] = words_.try_emplace(word, 0);
  if (fresh) {
    found->second = allocate(1);
    program_.constants.push_back({found->second, false, word, 0});
  }
  return found->second;
}

uint32_t Flattener::literal(const Operand& operand, DType dtype) {
  if (!isFloat(dtype)) return constant(static_cast<uint32_t>(operand.integer));
  auto [found, fresh] = reals_.try_emplace(std::bit_cast<uint64_t>(operand.number()), 0);
  if (fresh) {
    found->second = allocate(1);
    program_.constants.push_back({found->second, true, 0, operand.number()});
  }
  return found->second;
}

uint32_t Flattener::reg(const Operand& operand, const Type& type, int lane) {
  if (operand.isLiteral()) return literal(operand, type.dtype);
  return base(operand.value) + static_cast<uint32_t>(width(operand.value->type) == 1 ? 0 : lane);
}

void Flattener::assign(const Value* target, const Operand& source) {
  for (int lane = 0; lane < width(target->type); ++lane)
    emit({Code::move, base(target) + static_cast<uint32_t>(lane), reg(source, target->type, lane)});
}

void Flattener::memory(const Value* buffer, const Shape& shape) {
  const Type& type = buffer->type;
  Memory made{buffer, type.mode, {shape.begin(), shape.end()}, 0, shape.elements() * type.lanes};
  uint32_t* total = made.mode == BufMode::shared  ? &program_.sharedWords
                    : made.mode == BufMode::local ? &program_.localWords
                                                  : nullptr;
  if (total) {
    made.start = *total;
    *total += static_cast<uint32_t>(made.words);
  }
  memoryOf_[buffer] = static_cast<uint32_t>(program_.memories.size());
  program_.memories.push_back(std::move(made));
}

uint32_t Flattener::access(const Op& op, const Operand& element, uint32_t width) {
  Access made{&op, element.value, memoryOf_.at(element.value), width, {}, {}};
  for (const Operand& index : element.items) {
    bool isSigned = !index.isLiteral() && index.value->type.dtype == DType::i32;
    made.index.push_back(reg(index, Type::scalar(DType::u32), 0));
    made.isSigned.push_back(isSigned);
  }
  program_.accesses.push_back(std::move(made));
  return static_cast<uint32_t>(program_.accesses.size() - 1);
}

/// The first register of the value that a store takes; elements are stored from consecutive registers.
uint32_t Flattener::storedValue(const Op& op) {
  int width = op.operands[1].value->type.lanes;
  if (!op.operands[0].isLiteral() || width == 1) return operand(op, 0, 0);
  uint32_t source = allocate(width);
  for (int lane = 0; lane < width; ++lane)
    emit({Code::move, source + static_cast<uint32_t>(lane), operand(op, 0, lane)});
  return source;
}

void Flattener::load(const Op& op) { emit({Code::load, base(op.result()), access(op, op.operands[0])}); }

void Flattener::store(const Op& op) {
  uint32_t source = storedValue(op);
  // Stores to 16-bit storage round the value; shared memory holds whole registers, so it must be rounded first.
  const Type& buffer = op.operands[1].value->type;
  if (isNarrow(buffer.dtype) && buffer.mode == BufMode::shared) {
    uint32_t rounded = allocate(buffer.lanes);
    const Code code = buffer.dtype == DType::f16 ? Code::k_round_f16_f : Code::k_round_bf16_f;
    for (uint32_t lane = 0; lane < buffer.lanes; ++lane) emit({code, rounded + lane, source + lane});
    source = rounded;
  }
  emit({Code::store, 0, access(op, op.operands[1]), source});
}

/// A load, an addition and a store; accesses of other invocations may come between them.
void Flattener::accumulate(const Op& op) {
  int width = op.operands[1].value->type.lanes;
  uint32_t sum = allocate(width), from = access(op, op.operands[1]);
  program_.accesses[from].ofSum = true;
  emit({Code::load, sum, from});
  for (int lane = 0; lane < width; ++lane) {
    uint32_t part = sum + static_cast<uint32_t>(lane);
    emit({Code::k_add_f, part, part, operand(op, 0, lane)});
  }
  emit({Code::store, 0, access(op, op.operands[1]), sum});
}

void Flattener::atomic(const Op& op, Atomic::Kind kind) {
  bool compares = kind == Atomic::Kind::compareExchange;
  const Operand& element = op.operands.back();
  Atomic made{
      kind, element.value->type.dtype, access(op, element), operand(op, compares, 0), operand(op, 0, 0),
      0,    !op.results.empty()};
  made.old = made.oldIsRead ? base(op.result()) : allocate(1);
  program_.atomics.push_back(made);
  emit({Code::atomic, 0, static_cast<uint32_t>(program_.atomics.size() - 1)});
}

/// A `tgk.if` with one or two regions:
///
///   jumpUnless condition, else;  first region;  jump end;  else: second region;  end:
void Flattener::branch(const Op& op) {
  uint32_t test = here();
  emit({Code::jumpUnless, 0, 0, operand(op, 0, 0)});
  uint32_t skip = 0;
  for (size_t index = 0; index < op.regions.size(); ++index) {
    body(*op.regions[index]);
    current_ = &op;
    if (const Op* yield = yieldOf(*op.regions[index]))
      for (size_t result = 0; result < op.results.size(); ++result)
        assign(op.results[result].get(), yield->operands[result]);
    if (index + 1 < op.regions.size()) {
      skip = here();
      emit({Code::jump});
    }
    if (index == 0) program_.code[test].a = here();
  }
  if (op.regions.size() == 2) program_.code[skip].a = here();
}

/// Moves the yielded values of a loop's body to its carried values.
void Flattener::yieldToLoop(const Op& op) {
  const Op* yield = yieldOf(*op.regions[0]);
  const auto& carried = iterArgs(op);
  if (!yield) return;
  // A carried value that is yielded as another one could be overwritten by a plain sequence of moves, so copy first.
  std::vector<std::pair<uint32_t, uint32_t>> moves;
  for (size_t index = 0; index < carried.size(); ++index) {
    const Value* target = carried[index].value;
    for (int lane = 0; lane < width(target->type); ++lane) {
      uint32_t source = reg(yield->operands[index], target->type, lane);
      bool isCarried = false;
      for (const Operand& other : carried) isCarried |= other.value == yield->operands[index].value;
      if (isCarried) {
        uint32_t copy = allocate(1);
        emit({Code::move, copy, source});
        source = copy;
      }
      moves.emplace_back(base(target) + static_cast<uint32_t>(lane), source);
    }
  }
  for (const auto& [target, source] : moves) emit({Code::move, target, source});
}

void Flattener::loop(const Op& op) {
  Type count = Type::scalar(DType::u32);
  const Value* index = op.operands[0].value;
  const auto& carried = iterArgs(op);
  for (size_t at = 0; at < carried.size(); ++at) {
    assign(carried[at].value, carried[at].items[0]);
    if (at < op.results.size())
      base_[op.results[at].get()] = base(carried[at].value);  // one register for both
  }
  const LoopRange range = rangeOf(op);
  assign(index, range.from);
  uint32_t to = reg(range.to, count, 0), step = reg(range.step, count, 0);
  if (!range.step.isLiteral()) emit({Code::checkStep, 0, 0, step});
  bool turns = anyInside(op, runsTogether);
  uint32_t turn = turns ? allocate(1) : 0;
  if (turns) emit({Code::move, turn, constant(0)});
  uint32_t less = allocate(1), top = here();
  emit({Code::k_lt_u, less, base(index), to});
  uint32_t leave = here();
  emit({Code::jumpUnless, 0, 0, less});
  if (turns) loops_.emplace_back(top, turn);
  body(*op.regions[0]);
  if (turns) loops_.pop_back();
  current_ = &op;
  yieldToLoop(op);
  if (turns) emit({Code::k_add_u, turn, turn, constant(1)});
  emit({Code::k_add_sat_u, base(index), base(index), step});
  emit({Code::jump, 0, top});
  program_.code[leave].a = here();
}

Reduction Flattener::reduction(const Op& op) {
  const Type& type = op.result()->type;
  return {{foldingKind(op.word("kind")), type.dtype},
          base(op.result()),
          operand(op, 0, 0),
          type.lanes,
          op.operands[0].isLiteral()};
}

void Flattener::emitCollective(Collective made) {
  program_.collectives.push_back(std::move(made));
  emit({Code::collective, 0, static_cast<uint32_t>(program_.collectives.size() - 1)});
}

void Flattener::collective(const Op& op, Collective::Kind kind) {
  Collective made;
  made.kind = kind;
  made.loops = loops_;
  if (kind == Collective::Kind::reduce)
    made.reduction = reduction(op);
  else
    made.reduction = {{Folding::Kind::add, op.result()->type.dtype},
                      base(op.result()),
                      operand(op, 0, 0),
                      op.result()->type.lanes,
                      op.operands[0].isLiteral()};
  if (kind == Collective::Kind::shuffle) made.lane = operand(op, 1, 0);
  emitCollective(std::move(made));
}

void Flattener::body(const Block& block) {
  for (Op* each : block.ops) op(*each);
}

Program Flattener::run(const Item& kernel) {
  for (size_t index = 0; index < kernel.body.args.size(); ++index)
    memory(kernel.body.args[index].get(), shapes_[index]);
  body(kernel.body);
  current_ = nullptr;
  emit({Code::end});
  return std::move(program_);
}

Program flatten(const Item& kernel, const std::vector<Shape>& shapes, uint32_t subgroupSize) {
  return Flattener(shapes, subgroupSize).run(kernel);
}

}  // namespace tg
