// Kernel text to flat instructions.
#include "runtime/interp/kernel_program.h"

#include <unordered_map>

namespace tg {
namespace {

class Flattener {
 public:
  explicit Flattener(const std::vector<int64_t>& bytes) : bytes_(bytes) {
    program_.initial.resize(Program::kIds);
  }
  Program run(const Item& kernel);

 private:
  void memory(const Value* buffer, int64_t bytes);
  void body(const Block& block);
  void op(const Op& op);
  void identity(const Op& op, uint32_t first);
  void lanes(const Op& op, Code code);
  void arithmetic(const Op& op, Code ofFloat, Code ofInt, Code ofUint);
  void compare(const Op& op, Code ofFloat, Code ofInt, Code ofUint, bool swapped);
  void cast(const Op& op);
  void vector(const Op& op);
  void load(const Op& op);
  void store(const Op& op, Code code);
  void branch(const Op& op);
  void loop(const Op& op);
  void yieldToLoop(const Op& op);
  void reduce(const Op& op);
  uint32_t access(const Op& op, const Operand& element);

  uint32_t allocate(int count);
  uint32_t base(const Value* value);
  uint32_t constant(Word word);
  uint32_t literal(const Operand& operand, DType dtype);
  uint32_t reg(const Operand& operand, const Type& type, int lane);
  uint32_t operand(const Op& op, int index, int lane) {
    return reg(op.operands[index], operandType(op, op.operands[index]), lane);
  }
  void emit(Instr instr) {
    program_.code.push_back(instr);
    program_.ops.push_back(current_);
  }
  void assign(const Value* target, const Operand& source);
  uint32_t here() const { return static_cast<uint32_t>(program_.code.size()); }

  const std::vector<int64_t>& bytes_;
  Program program_;
  std::unordered_map<const Value*, uint32_t> base_, memoryOf_;
  std::unordered_map<uint32_t, uint32_t> constants_;
  const Op* current_ = nullptr;
};

uint32_t Flattener::allocate(int count) {
  auto first = static_cast<uint32_t>(program_.initial.size());
  program_.initial.resize(first + static_cast<size_t>(count));
  return first;
}

uint32_t Flattener::base(const Value* value) {
  auto [found, fresh] = base_.try_emplace(value, 0);
  if (fresh) found->second = allocate(value->type.lanes);
  return found->second;
}

uint32_t Flattener::constant(Word word) {
  auto [found, fresh] = constants_.try_emplace(word.u, 0);
  if (fresh) {
    found->second = allocate(1);
    program_.initial[found->second] = word;
  }
  return found->second;
}

uint32_t Flattener::literal(const Operand& operand, DType dtype) {
  Word word{};
  if (isFloat(dtype))
    word.f = static_cast<float>(operand.number());
  else
    word.u = static_cast<uint32_t>(operand.isInteger ? operand.integer : static_cast<int64_t>(operand.real));
  return constant(word);
}

uint32_t Flattener::reg(const Operand& operand, const Type& type, int lane) {
  if (operand.isLiteral()) return literal(operand, type.dtype);
  return base(operand.value) + static_cast<uint32_t>(operand.value->type.lanes == 1 ? 0 : lane);
}

void Flattener::assign(const Value* target, const Operand& source) {
  for (int lane = 0; lane < target->type.lanes; ++lane)
    emit({Code::move, base(target) + static_cast<uint32_t>(lane), reg(source, target->type, lane)});
}

void Flattener::memory(const Value* buffer, int64_t bytes) {
  Memory made{buffer, buffer->type.mode, {buffer->type.shape.begin(), buffer->type.shape.end()}};
  int64_t row = buffer->type.lanes;
  for (size_t axis = 1; axis < made.extents.size(); ++axis) row *= made.extents[axis];
  if (!made.extents.empty() && made.extents[0] == Shape::kDynamic) made.extents[0] = bytes / (4 * row);
  made.words = made.extents.empty() ? row : row * made.extents[0];
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

void Flattener::identity(const Op& op, uint32_t first) {
  base_[op.result()] = first + static_cast<uint32_t>(op.operands[0].integer);
}

/// One instruction for each lane of the result.
void Flattener::lanes(const Op& op, Code code) {
  for (int lane = 0; lane < op.result()->type.lanes; ++lane) {
    Instr instr{code, base(op.result()) + static_cast<uint32_t>(lane)};
    uint32_t* slots[] = {&instr.a, &instr.b, &instr.c};
    for (int index = 0; index < op.numOperands(); ++index) *slots[index] = operand(op, index, lane);
    emit(instr);
  }
}

void Flattener::arithmetic(const Op& op, Code ofFloat, Code ofInt, Code ofUint) {
  DType dtype = operandType(op, op.operands[0]).dtype;
  lanes(op, isFloat(dtype) ? ofFloat : dtype == DType::i32 ? ofInt : ofUint);
}

void Flattener::compare(const Op& op, Code ofFloat, Code ofInt, Code ofUint, bool swapped) {
  DType dtype = operandType(op, op.operands[0]).dtype;
  Code code = isFloat(dtype) ? ofFloat : dtype == DType::i32 ? ofInt : ofUint;
  for (int lane = 0; lane < op.result()->type.lanes; ++lane)
    emit({code, base(op.result()) + static_cast<uint32_t>(lane), operand(op, swapped, lane),
          operand(op, !swapped, lane)});
}

void Flattener::cast(const Op& op) {
  DType from = op.in(0)->type.dtype, to = op.result()->type.dtype;
  bool fromFloat = isFloat(from), toFloat = isFloat(to);
  Code code = Code::move;  // between integers, from bool, and to the same type the word stays
  if (to == DType::i1 && from != DType::i1)
    code = fromFloat ? Code::notZeroF : Code::notZeroW;
  else if (fromFloat && !toFloat)
    code = to == DType::i32 ? Code::toI : Code::toU;
  else if (!fromFloat && toFloat)
    code = from == DType::i32 ? Code::fromI : Code::fromU;
  lanes(op, code);
}

void Flattener::vector(const Op& op) {
  for (int lane = 0; lane < op.result()->type.lanes; ++lane)
    emit({Code::move, base(op.result()) + static_cast<uint32_t>(lane),
          operand(op, op.numOperands() == 1 ? 0 : lane, 0)});
}

uint32_t Flattener::access(const Op& op, const Operand& element) {
  Access made{&op, element.value, memoryOf_.at(element.value), element.value->type.lanes, {}, {}};
  for (const Operand& index : element.items) {
    bool isSigned = !index.isLiteral() && index.value->type.dtype == DType::i32;
    made.index.push_back(reg(index, Type::scalar(DType::u32), 0));
    made.isSigned.push_back(isSigned);
  }
  program_.accesses.push_back(std::move(made));
  return static_cast<uint32_t>(program_.accesses.size() - 1);
}

void Flattener::load(const Op& op) { emit({Code::load, base(op.result()), access(op, op.operands[0])}); }

void Flattener::store(const Op& op, Code code) {
  const Type& buffer = op.operands[1].value->type;
  uint32_t source;
  if (op.operands[0].isLiteral() && buffer.lanes > 1) {  // an element is stored from consecutive registers
    source = allocate(buffer.lanes);
    for (int lane = 0; lane < buffer.lanes; ++lane)
      emit({Code::move, source + static_cast<uint32_t>(lane), operand(op, 0, lane)});
  } else {
    source = operand(op, 0, 0);
  }
  emit({code, 0, access(op, op.operands[1]), source});
}

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

void Flattener::yieldToLoop(const Op& op) {
  const Op* yield = yieldOf(*op.regions[0]);
  const auto& carried = iterArgs(op);
  if (!yield) return;
  // A carried value yielded as another is overwritten by a plain sequence of moves, hence the copies.
  std::vector<std::pair<uint32_t, uint32_t>> moves;
  for (size_t index = 0; index < carried.size(); ++index) {
    const Value* target = carried[index].value;
    for (int lane = 0; lane < target->type.lanes; ++lane) {
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
  assign(index, op.operands[0].items[0]);
  uint32_t to = reg(op.keyword("to")->items[0], count, 0);
  const Operand* stepWord = op.keyword("step");
  uint32_t step = stepWord ? reg(stepWord->items[0], count, 0) : constant(Word{1});
  if (stepWord && !stepWord->items[0].isLiteral()) emit({Code::checkStep, 0, 0, step});
  uint32_t less = allocate(1), top = here();
  emit({Code::ltU, less, base(index), to});
  uint32_t leave = here();
  emit({Code::jumpUnless, 0, 0, less});
  body(*op.regions[0]);
  current_ = &op;
  yieldToLoop(op);
  emit({Code::next, base(index), base(index), step});
  emit({Code::jump, 0, top});
  program_.code[leave].a = here();
}

void Flattener::reduce(const Op& op) {
  std::string word = op.word("kind");
  auto kind = word == "max"   ? Reduction::Kind::max
              : word == "min" ? Reduction::Kind::min
                              : Reduction::Kind::add;
  const Type& type = op.result()->type;
  program_.reductions.push_back(
      {kind, type.dtype, base(op.result()), operand(op, 0, 0), type.lanes, op.operands[0].isLiteral()});
  emit({Code::reduce, 0, static_cast<uint32_t>(program_.reductions.size() - 1)});
}

void Flattener::body(const Block& block) {
  for (const auto& each : block.ops) op(*each);
}

void Flattener::op(const Op& op) {
  using enum KernelOp;
  current_ = &op;
  switch (kernelOp(op.code)) {
  case k_global_id: identity(op, 0); break;
  case k_local_id: identity(op, 3); break;
  case k_workgroup_id: identity(op, 6); break;
  case k_num_workgroups: identity(op, 9); break;
  case k_dim: {
    int64_t extent =
        program_.memories[memoryOf_.at(op.in(0))].extents[static_cast<size_t>(op.operands[1].integer)];
    base_[op.result()] = constant(Word{static_cast<uint32_t>(extent)});
    break;
  }
  case k_add: arithmetic(op, Code::addF, Code::addI, Code::addI); break;
  case k_sub: arithmetic(op, Code::subF, Code::subI, Code::subI); break;
  case k_mul: arithmetic(op, Code::mulF, Code::mulI, Code::mulI); break;
  case k_mulhi: lanes(op, Code::mulHi); break;
  case k_div: arithmetic(op, Code::divF, Code::divI, Code::divU); break;
  case k_mod: arithmetic(op, Code::modU, Code::modI, Code::modU); break;
  case k_min: arithmetic(op, Code::minF, Code::minI, Code::minU); break;
  case k_max: arithmetic(op, Code::maxF, Code::maxI, Code::maxU); break;
  case k_pow: lanes(op, Code::powF); break;
  case k_fma: lanes(op, Code::fmaF); break;
  case k_neg: arithmetic(op, Code::negF, Code::negI, Code::negI); break;
  case k_abs: arithmetic(op, Code::absF, Code::absI, Code::move); break;
  case k_sign: arithmetic(op, Code::signF, Code::signI, Code::signU); break;
  case k_floor: lanes(op, Code::floorF); break;
  case k_sqrt: lanes(op, Code::sqrtF); break;
  case k_rsqrt: lanes(op, Code::rsqrtF); break;
  case k_exp: lanes(op, Code::expF); break;
  case k_log: lanes(op, Code::logF); break;
  case k_and: lanes(op, Code::andW); break;
  case k_or: lanes(op, Code::orW); break;
  case k_xor: lanes(op, Code::xorW); break;
  case k_not: lanes(op, op.result()->type.dtype == DType::i1 ? Code::notB : Code::notI); break;
  case k_shl: lanes(op, Code::shl); break;
  case k_shr: arithmetic(op, Code::shrU, Code::shrI, Code::shrU); break;
  case k_lt: compare(op, Code::ltF, Code::ltI, Code::ltU, false); break;
  case k_le: compare(op, Code::leF, Code::leI, Code::leU, false); break;
  case k_gt: compare(op, Code::ltF, Code::ltI, Code::ltU, true); break;
  case k_ge: compare(op, Code::leF, Code::leI, Code::leU, true); break;
  case k_eq: compare(op, Code::eqF, Code::eqW, Code::eqW, false); break;
  case k_ne: compare(op, Code::neF, Code::neW, Code::neW, false); break;
  case k_select: lanes(op, Code::select); break;
  case k_cast: cast(op); break;
  case k_bitcast: lanes(op, Code::move); break;
  case k_vec: vector(op); break;
  case k_extract:
    emit({Code::move, base(op.result()), operand(op, 0, static_cast<int>(op.operands[1].integer))});
    break;
  case k_load: load(op); break;
  case k_store: store(op, Code::store); break;
  case k_atomic_add:
    store(op, isFloat(op.operands[1].value->type.dtype) ? Code::atomicF : Code::atomicI);
    break;
  case k_shared:
  case k_local: memory(op.result(), 0); break;
  case k_if: branch(op); break;
  case k_for: loop(op); break;
  case k_yield: break;
  case k_barrier: emit({Code::barrier}); break;
  case k_workgroup_reduce: reduce(op); break;
  case k_ceil:
  case k_round:
  case k_trunc:
  case k_exp2:
  case k_log2:
  case k_reciprocal:
  case k_sin:
  case k_cos:
  case k_tan:
  case k_asin:
  case k_acos:
  case k_atan:
  case k_sinh:
  case k_cosh:
  case k_tanh:
  case k_erf:
  case k_stop_gradient:
  case k_popcount:
  case k_clz:
  case k_ctz:
  case k_reverse_bits:
  case k_isnan:
  case k_isinf:
  case k_isfinite:
  case k_rotl:
  case k_rotr:
  case k_add_sat:
  case k_sub_sat:
  case k_mul_sat:
  case k_abs_diff:
  case k_atomic_and:
  case k_atomic_or:
  case k_atomic_xor:
  case k_atomic_min:
  case k_atomic_max:
  case k_atomic_exchange:
  case k_atomic_compare_exchange:
  case k_accumulate:
  case k_exact_add:
  case k_exact_load:
  case k_exact_store:
  case k_subgroup_size:
  case k_subgroup_id:
  case k_subgroup_lane:
  case k_subgroup_reduce:
  case k_subgroup_shuffle:
  case k_subgroup_ballot:
  case k_call: assert(false); break;  // interp helper
  }
}

Program Flattener::run(const Item& kernel) {
  for (size_t index = 0; index < kernel.body.args.size(); ++index)
    memory(kernel.body.args[index].get(), bytes_[index]);
  body(kernel.body);
  current_ = nullptr;
  emit({Code::end});
  return std::move(program_);
}

}  // namespace

Program flatten(const Item& kernel, const std::vector<int64_t>& bytes) {
  return Flattener(bytes).run(kernel);
}

}  // namespace tg
