// SPDX-License-Identifier: Apache-2.0
// One walk over a kernel makes the form of every value and the facts of every body.
#include "ir/kernel/index_builder.h"

#include <fmt/format.h>

#include <algorithm>

#include "ir/kernel/rewrites.h"

namespace tg::indexing {
namespace {

/// A derived symbol of a larger weight becomes opaque, known by its range alone. So recursion over the operands of
/// symbols is bounded, however long a program is.
constexpr int kMaxWeight = 256;
constexpr int kMaxCondition = 64;                 // ops of a condition that are read
constexpr int64_t kMaxLaunch = int64_t{1} << 31;  // most invocations along an axis; extents are below it

/// The number of workgroups along each axis; 0 where unknown.
std::array<int64_t, 3> gridOf(const Item& kernel, const std::vector<Shape>& shapes) {
  std::array<int64_t, 3> out{1, 1, 1};
  bool open = false;
  for (const Shape& shape : shapes)
    for (int64_t extent : shape) open |= extent == Shape::kDynamic;
  if (!open)
    if (auto grid = evaluateGrid(kernel, shapes)) return *grid;
  for (size_t axis = 0; axis < kernel.grid.size() && axis < 3; ++axis)
    out[axis] = kernel.grid[axis].isLiteral() ? kernel.grid[axis].integer : 0;
  return out;
}

}  // namespace

FormsBuilder::FormsBuilder(Forms& forms, const Item& kernel, const std::vector<Shape>* shapes)
    : f_(forms), bounds_(forms), kernel_(kernel) {
  for (size_t index = 0; index < kernel.body.args.size(); ++index)
    shapes_.push_back(shapes ? (*shapes)[index] : kernel.body.args[index]->type.shape);
  grid_ = gridOf(kernel, shapes_);
}

int FormsBuilder::add(Symbol symbol) {
  f_.symbols_.push_back(std::move(symbol));
  return f_.symbols() - 1;
}

/// A symbol of at least 1 that is uniform over the dispatch.
int FormsBuilder::launchSymbol(int64_t most) {
  Symbol made;
  made.kind = Kind::launch;
  made.base = {1, most};
  made.open = true;
  return add(std::move(made));
}

void FormsBuilder::symbolsOf(const Affine& form, std::vector<int>& out) {
  for (const auto& [id, factor] : form.terms) out.push_back(id);
}

std::vector<int> FormsBuilder::inputsOf(const Op& op) const {
  std::vector<int> out;
  forEachUse(op, [&](Value* used) {
    if (auto found = f_.forms_.find(used); found != f_.forms_.end()) symbolsOf(found->second, out);
  });
  return out;
}

Affine FormsBuilder::opaque(const Value& value, std::vector<int> inputs, bool isVolatile) {
  Symbol made;
  made.kind = Kind::opaque;
  if (value.type.isScalar() && !isFloat(value.type.dtype)) made.dtype = value.type.dtype;
  made.base = wholeRange(made.dtype);
  made.open = made.dtype != DType::i1;
  made.inputs = std::move(inputs);
  made.isVolatile = isVolatile;
  return Affine::symbol(add(std::move(made)));
}

/// The symbol of an operation that is not affine. Equal operations on equal operands share one symbol.
Affine FormsBuilder::derived(Opcode code, DType dtype, std::vector<Affine> operands, std::vector<int> inputs,
                             const std::string& extra) {
  std::string key = fmt::format("{} {} {}", static_cast<int>(code), name(dtype), extra);
  for (const Affine& operand : operands) key += " " + operand.key();
  auto [found, fresh] = interned_.try_emplace(key, 0);
  if (fresh) {
    Symbol made;
    made.kind = Kind::derived;
    made.dtype = dtype;
    made.code = code;
    made.open = true;
    std::vector<Interval> ranges;
    for (const Affine& operand : operands) ranges.push_back(bounds_.value(operand, dtype, 0));
    made.base = Bounds::derived(code, dtype, ranges);
    for (const Affine& operand : operands) {
      symbolsOf(operand, inputs);
      for (const auto& [id, factor] : operand.terms) made.weight += f_.symbol(id).weight;
    }
    made.inputs = std::move(inputs);
    made.operands = std::move(operands);
    if (made.weight > kMaxWeight) {
      made.kind = Kind::opaque;
      made.operands.clear();
      made.weight = 1;
    }
    found->second = add(std::move(made));
  }
  return Affine::symbol(found->second);
}

int FormsBuilder::newScope(int parent) {
  Scope made;
  made.parent = parent;
  std::vector<Affine> facts;
  if (parent >= 0) {
    made.complete = f_.scope(parent).complete;
    made.loops = f_.scope(parent).loops;
    facts = f_.facts(parent);
  }
  f_.scopes_.push_back(std::move(made));
  f_.allFacts_.push_back(std::move(facts));
  return static_cast<int>(f_.scopes_.size()) - 1;
}

void FormsBuilder::addFact(int scope, Affine fact) {
  auto& all = f_.allFacts_[static_cast<size_t>(scope)];
  const auto& own = f_.scopes_[static_cast<size_t>(scope)].facts;
  if (contains(own, fact)) return;
  all.insert(all.begin(), fact);
  f_.scopes_[static_cast<size_t>(scope)].facts.push_back(std::move(fact));
}

/// Adds a fact about a derived symbol that follows from the bounds of its operands in a scope. The fact is stored at
/// the symbol, so that a scope has facts from its conditions only, however many values it computes.
void FormsBuilder::addConsequence(int scope, const Affine& symbol, Affine fact) {
  auto& facts = f_.symbols_[static_cast<size_t>(symbol.terms.begin()->first)].facts;
  bool known = std::ranges::any_of(
      facts, [&](const Symbol::Fact& each) { return each.form == fact && f_.isWithin(scope, each.scope); });
  if (!known) facts.push_back({scope, std::move(fact)});
}

void FormsBuilder::addZero(int scope, const Affine& form) {
  if (form.isConstant()) return;
  bool positive = form.terms.begin()->second > 0;
  f_.scopes_[static_cast<size_t>(scope)].zeros.push_back(positive ? form : -form);
}

/// Adds to a body's scope the facts of its condition, which is true if `holds` and false otherwise. At most `most`
/// ops of the condition are read: a chain of `and` can be as long as the program, and shared operands can double the
/// ops to read at each level.
void FormsBuilder::condition(int scope, const Operand& cond, bool holds) {
  int most = kMaxCondition;
  condition(scope, cond, holds, most);
}

/// Conjunctions that hold and disjunctions that fail give facts of both sides; integer comparisons give one or more
/// facts. Any other condition makes the scope incomplete.
void FormsBuilder::condition(int scope, const Operand& cond, bool holds, int& most) {
  const Op* op = cond.value ? cond.value->def : nullptr;
  bool& complete = f_.scopes_[static_cast<size_t>(scope)].complete;
  if (--most < 0) {
    complete = false;
    return;
  }
  if (!op) {
    complete = complete && cond.isLiteral() && (cond.number() != 0) == holds;
    return;
  }
  switch (op->code) {
  case Opcode::k_not: return condition(scope, op->operands[0], !holds, most);
  case Opcode::k_and:
  case Opcode::k_or:
    if ((op->code == Opcode::k_and) != holds) break;  // not known which of the two holds
    condition(scope, op->operands[0], holds, most);
    return condition(scope, op->operands[1], holds, most);
  case Opcode::k_lt:
  case Opcode::k_le:
  case Opcode::k_gt:
  case Opcode::k_ge:
  case Opcode::k_eq:
  case Opcode::k_ne:
    if (isInteger(operandType(*op, op->operands[0])) && isInteger(operandType(*op, op->operands[1])))
      return comparison(scope, *op, holds);
    break;
  default: break;
  }
  complete = false;
}

void FormsBuilder::comparison(int scope, const Op& op, bool holds) {
  DType dtype = operandType(op, op.operands[0]).dtype;
  Affine a = form(op.operands[0]), b = form(op.operands[1]);
  switch (op.code) {
  case Opcode::k_lt: return holds ? less(scope, a, b, dtype, 1) : less(scope, b, a, dtype, 0);
  case Opcode::k_le: return holds ? less(scope, a, b, dtype, 0) : less(scope, b, a, dtype, 1);
  case Opcode::k_gt: return holds ? less(scope, b, a, dtype, 1) : less(scope, a, b, dtype, 0);
  case Opcode::k_ge: return holds ? less(scope, b, a, dtype, 0) : less(scope, a, b, dtype, 1);
  default: break;
  }
  if ((op.code == Opcode::k_eq) != holds) {
    f_.scopes_[static_cast<size_t>(scope)].complete = false;
    return;
  }
  addZero(scope, wrapped(a - b));
  less(scope, a, b, dtype, 0);
  less(scope, b, a, dtype, 0);
}

/// Adds the facts of a + strict <= b, for values of one type. Each side is made exact in the window that the bounds
/// of the other side leave for it. If both can be, the facts are equivalent to the condition; else the scope is no
/// longer complete.
void FormsBuilder::less(int scope, const Affine& a, const Affine& b, DType dtype, int64_t strict) {
  Interval whole = wholeRange(dtype);
  Interval ofA = bounds_.value(a, dtype, scope), ofB = bounds_.value(b, dtype, scope);
  if (ofA.lo + strict > ofB.hi) return addFact(scope, Affine::of(-1));  // contradiction: the body never runs
  Interval low{whole.lo, ofB.hi - strict}, high{ofA.lo + strict, whole.hi};
  auto exactA = bounds_.exactWithin(a, low, scope), exactB = bounds_.exactWithin(b, high, scope);
  if (!exactA || !exactB) {
    f_.scopes_[static_cast<size_t>(scope)].complete = false;
    if (exactA) addFact(scope, *exactA - Affine::of(low.lo)), addFact(scope, Affine::of(low.hi) - *exactA);
    if (exactB) addFact(scope, *exactB - Affine::of(high.lo)), addFact(scope, Affine::of(high.hi) - *exactB);
    return;
  }
  if (bounds_.lower(*exactA, scope) < whole.lo) addFact(scope, *exactA - Affine::of(whole.lo));
  if (bounds_.upper(*exactB, scope) > whole.hi) addFact(scope, Affine::of(whole.hi) - *exactB);
  addFact(scope, *exactB - *exactA - Affine::of(strict));
}

/// Makes the symbols of ids, grid and extents, then visits the kernel's body.
void FormsBuilder::run() {
  newScope(-1);
  for (size_t at = 0; at < 3; ++at) {
    int64_t size = kernel_.workgroup[at], count = grid_[at];
    int64_t most = kMaxLaunch / size;
    if (size > 1) {
      Symbol local;
      local.kind = Kind::local;
      local.base = {0, size - 1};
      f_.local_[at] = add(std::move(local));
    }
    groups_[at] = count > 0 ? Affine::of(count) : Affine::symbol(launchSymbol(most));
    if (count != 1) {
      Symbol group;
      group.kind = Kind::group;
      group.base = {0, (count > 0 ? count : most) - 1};
      group.open = count == 0;
      if (count == 0) group.facts.push_back({0, groups_[at] - Affine::of(1) - Affine::symbol(f_.symbols())});
      f_.group_[at] = add(std::move(group));
    }
  }
  for (size_t index = 0; index < kernel_.body.args.size(); ++index) {
    auto& extents = f_.extents_[kernel_.body.args[index].get()];
    for (int64_t extent : shapes_[index])
      extents.push_back(extent == Shape::kDynamic ? Affine::symbol(launchSymbol(kMaxLaunch - 1))
                                                  : Affine::of(extent));
  }
  visit(kernel_.body, 0);
}

void FormsBuilder::visit(const Block& block, int scope) {
  f_.blockScope_[&block] = scope;
  for (const auto& arg : block.args) f_.argBlock_[arg.get()] = &block;
  for (Op* op : block.ops) {
    f_.blockOf_[op] = &block;
    if (op->code == Opcode::k_if)
      visitIf(*op, scope);
    else if (op->code == Opcode::k_for)
      visitFor(*op, scope);
    else
      define(*op, scope);
  }
}

/// Visits both bodies in scopes of their own. A result is the common form of both yields, or an opaque symbol whose
/// range contains both.
void FormsBuilder::visitIf(const Op& op, int scope) {
  std::vector<int> inputs;
  symbolsOf(form(op.operands[0]), inputs);
  for (size_t index = 0; index < op.regions.size(); ++index) {
    int inner = newScope(scope);
    condition(inner, op.operands[0], index == 0);
    visit(*op.regions[index], inner);
  }
  for (size_t index = 0; index < op.results.size(); ++index) {
    const Value& result = *op.results[index];
    std::vector<Side> yields;
    bool integers = isInteger(result.type);
    for (const auto& region : op.regions) {
      const Operand& yielded = yieldOf(*region)->operands[index];
      if (!integers) {
        if (yielded.value) symbolsOf(form(yielded), inputs);
        continue;
      }
      yields.push_back({form(yielded), f_.scopeOfBlock(region.get())});
      symbolsOf(yields.back().form, inputs);
    }
    if (!integers) {
      f_.forms_[&result] = opaque(result, inputs, false);
    } else if (yields[0].form == yields[1].form) {
      f_.forms_[&result] = yields[0].form;
    } else {
      f_.forms_[&result] = opaque(result, inputs, false);
      Symbol& made = f_.symbols_.back();
      made.base = either(yields[0], yields[1], result.type.dtype);
      made.open = either(yields[0], yields[1], result.type.dtype, true).hi >= Bounds::kUnknown;
    }
  }
}

/// Gives the form of the loop's iteration count, and defines the loop's index and the facts of its body. `step`
/// becomes 0 where it is not constant or the index may wrap: then the iteration is the index itself.
Affine FormsBuilder::iteration(const Op& op, int scope, int inner, Affine& step) {
  const LoopRange range = rangeOf(op);
  Affine from = form(range.from), to = form(range.to);
  step = form(range.step);
  Interval first = bounds_.value(from, DType::u32, scope), limit = bounds_.value(to, DType::u32, scope);
  Interval by = bounds_.value(step, DType::u32, scope);
  auto exactFrom = bounds_.exact(from, DType::u32, scope), exactTo = bounds_.exact(to, DType::u32, scope);
  Scope& body = f_.scopes_[static_cast<size_t>(inner)];
  bool wraps = limit.hi + std::max(by.hi, int64_t{1}) > kWrap;
  bool regular = step.isConstant() && by.lo > 0 && !wraps;
  int64_t by1 = regular ? by.lo : 1;
  Symbol made;
  made.kind = Kind::iteration;
  int64_t most = exactFrom && exactTo ? bounds_.upper(*exactTo - *exactFrom, scope) : limit.hi - first.lo;
  most = std::clamp<int64_t>(most, 1, UINT32_MAX);
  made.base = regular ? Interval{0, (most - 1) / by1} : Interval{0, std::max<int64_t>(limit.hi - 1, 0)};
  // Open if the limit is unbounded because of an open extent or an unknown launch, not because it may wrap around.
  made.open = bounds_.upper(to, scope, true) >= Bounds::kUnknown;
  if (!regular) step = {};
  bool once = regular && made.base.hi == 0;
  Affine count = once ? Affine::of(0) : Affine::symbol(add(std::move(made)));
  Affine index = regular ? wrapped(sum(from, count, by1)) : count;
  if (!once) body.loops.push_back(count.terms.begin()->first);
  body.complete = body.complete && regular && exactFrom && exactTo;
  f_.forms_[op.operands[0].value] = index;
  if (exactFrom && regular && exactTo) addFact(inner, *exactTo - Affine::of(1) - sum(*exactFrom, count, by1));
  if (!regular && exactTo) addFact(inner, *exactTo - Affine::of(1) - index);
  if (!regular && !wraps && exactFrom) addFact(inner, index - *exactFrom);
  return count;
}

/// A carried value that grows by a constant in each iteration is affine; any other is opaque.
Affine FormsBuilder::carried(const Op& op, size_t index, const Affine& iteration) {
  const Operand& binding = iterArgs(op)[index];
  const Operand& next = yieldOf(*op.regions[0])->operands[index];
  const Op* by = next.value ? next.value->def : nullptr;
  bool subtracts = by && by->code == Opcode::k_sub;
  bool steps = isInteger(binding.value->type) && by && (by->code == Opcode::k_add || subtracts);
  for (size_t self = 0; steps && self < (subtracts ? 1 : 2); ++self) {
    const Operand& other = by->operands[1 - self];
    if (by->operands[self].value != binding.value || !other.isLiteral()) continue;
    int64_t growth = wrapped(Affine::of(other.integer)).constant;
    return wrapped(sum(form(binding.items[0]), iteration, subtracts ? -growth : growth));
  }
  return opaque(*binding.value, {}, false);
}

void FormsBuilder::visitFor(const Op& op, int scope) {
  int inner = newScope(scope);
  Affine step;
  Affine count = iteration(op, scope, inner, step);
  visitCarried(op, inner, count, step.isConstant() && step.constant != 0);
}

/// Defines the carried values, visits the body, which uses them, then defines the loop's results from what the body
/// yields.
void FormsBuilder::visitCarried(const Op& op, int inner, const Affine& count, bool counted) {
  const auto& bindings = iterArgs(op);
  int before = f_.symbols();
  for (size_t index = 0; index < bindings.size(); ++index) {
    const Value* arg = bindings[index].value;
    const Operand& first = bindings[index].items[0];
    bool stays = yieldOf(*op.regions[0])->operands[index].value == arg;
    if (stays && (first.value || isInteger(arg->type)))
      f_.forms_[arg] = form(first);
    else
      f_.forms_[arg] = counted ? carried(op, index, count) : opaque(*arg, {}, true);
  }
  int after = f_.symbols();
  visit(*op.regions[0], inner);
  std::vector<int> around;
  symbolsOf(form(rangeOf(op).from), around);
  symbolsOf(form(rangeOf(op).to), around);
  symbolsOf(count, around);
  for (size_t index = 0; index < bindings.size(); ++index) {
    const Operand &first = bindings[index].items[0], &next = yieldOf(*op.regions[0])->operands[index];
    const Affine& ofArg = f_.forms_.at(bindings[index].value);
    std::vector<int> inputs = around;
    if (first.value) symbolsOf(form(first), inputs);
    if (next.value) symbolsOf(form(next), inputs);
    for (const auto& [id, factor] : ofArg.terms)
      if (id >= before && id < after) f_.symbols_[static_cast<size_t>(id)].inputs = inputs;
    if (index >= op.results.size()) continue;
    const Value* result = op.results[index].get();
    bool stays = next.value == bindings[index].value && (first.value || isInteger(result->type));
    symbolsOf(ofArg, inputs);
    f_.forms_[result] = stays ? ofArg : opaque(*result, inputs, false);
  }
}

Forms::Forms(const Item& kernel, const std::vector<Shape>* shapes) {
  FormsBuilder(*this, kernel, shapes).run();
}

Affine Forms::form(const Operand& operand) const {
  if (operand.isLiteral()) return wrapped(Affine::of(operand.integer));
  return forms_.at(operand.value);
}

int Forms::scopeOf(const Value& value) const {
  if (value.def) return scopeOf(*value.def);
  const auto* block = valueIn(argBlock_, &value);
  return block ? scopeOfBlock(*block) : 0;
}

bool Forms::isWithin(int scope, int other) const {
  while (scope > other) scope = this->scope(scope).parent;  // outer scopes have smaller numbers
  return scope == other;
}

std::vector<Affine> Forms::zeros(int scope) const {
  std::vector<Affine> out;
  for (int at = scope; at >= 0; at = this->scope(at).parent)
    out.insert(out.end(), this->scope(at).zeros.begin(), this->scope(at).zeros.end());
  return out;
}

Affine Forms::extent(const Value* buffer, int axis) const {
  if (const auto* extents = valueIn(extents_, buffer)) return (*extents)[static_cast<size_t>(axis)];
  return Affine::of(buffer->type.shape[axis]);
}

}  // namespace tg::indexing
