// SPDX-License-Identifier: Apache-2.0
#include "ir/kernel/cost.h"

#include <algorithm>
#include <optional>
#include <unordered_map>
#include <unordered_set>

#include "ir/divide.h"
#include "ir/kernel/element.h"
#include "ir/kernel/inline.h"
#include "ir/kernel/rewrites.h"
#include "ir/kernel/semantics.h"
#include "ir/target.h"

namespace tg {

namespace {

// Workgroups that are followed along an axis when one, two or three axes have more than one.
constexpr int64_t kFollowed[] = {48, 7, 4};
// A loop whose branches depend on it is followed trip by trip up to this many trips.
constexpr int64_t kMostTrips = 1 << 16;
// Adding an f32 touches two of an exact sum's words and a carry word.
constexpr double kExactBytes = 12;

bool isFloat(const Type& type) { return tg::isFloat(type.dtype); }

using Known = std::optional<uint32_t>;

/// The workgroups to follow along one axis of the grid, each with the number of workgroups that it stands for.
std::vector<std::pair<int64_t, double>> followed(int64_t count, int64_t most) {
  std::vector<std::pair<int64_t, double>> out;
  if (count <= most) {
    for (int64_t i = 0; i < count; ++i) out.emplace_back(i, 1);
    return out;
  }
  // The first and last stand for themselves; the others are spread evenly between them.
  int64_t inner = most - 2;
  out.emplace_back(0, 1);
  for (int64_t i = 0; i < inner; ++i) {
    int64_t at = (count - 3) * i / (inner - 1);
    if (2 * i > inner - 1) at = count - 3 - (count - 3) * (inner - 1 - i) / (inner - 1);
    // Whole numbers, so that equal costs add up without rounding.
    int64_t stands = (count - 2) * (i + 1) / inner - (count - 2) * i / inner;
    out.emplace_back(1 + at, static_cast<double>(stands));
  }
  out.emplace_back(count - 1, 1);
  return out;
}

class Counter {
 public:
  /// Runs the integers that control flow depends on, for each invocation that is followed, and counts how often each
  /// block runs (`follow`). In the end `charge` multiplies these counts with the costs of the blocks' ops.
  Counter(const Item& kernel, const std::array<int64_t, 3>& grid, int64_t subgroup)
      : kernel_(kernel), grid_(grid), subgroup_(subgroup) {
    for (size_t i = 0; i < kernel.body.args.size(); ++i) paramOf_[kernel.body.args[i].get()] = i;
    group_ = kernel.workgroup[0] * kernel.workgroup[1] * kernel.workgroup[2];
    findControl(kernel.body);
  }
  KernelCost run();

 private:
  /// The lanes of a value that one invocation holds; for a matrix, its share of the elements.
  double held(const Type& type) const {
    if (!type.isCoopmat()) return type.lanes;
    return static_cast<double>(type.elements()) / static_cast<double>(subgroup_);
  }
  void need(const Operand& operand);
  void findControl(const Block& block);
  bool reaches(const Operand& operand, const std::unordered_set<const Value*>& from,
               std::unordered_set<const Value*>& seen) const;
  bool dependsOn(const Op& loop);
  void follow(const Block& block, double weight);
  void branch(const Op& op, double weight);
  void loop(const Op& op, double weight);
  void trips(const Op& op, uint32_t first, uint32_t last, uint32_t step, double weight);
  void evaluate(const Op& op);
  Known value(const Operand& operand) const;
  Known computed(const Op& op) const;
  void passOn(const Op& op, const Block& body);
  Known undecided() {
    cost_.decided = false;
    return {};
  }
  void charge(const Block& block, double times);
  void charge(const Op& op, double times);
  int64_t axisOf(const Op& op) const { return op.operands[0].integer; }

  const Item& kernel_;
  const std::array<int64_t, 3>& grid_;
  int64_t subgroup_, group_ = 1;
  std::unordered_map<const Value*, size_t> paramOf_;
  std::unordered_set<const Value*> needed_;  ///< values that branches and loop bounds depend on
  std::unordered_map<const Value*, uint32_t> values_;
  std::unordered_map<const Block*, double> times_;
  std::unordered_map<const Op*, bool> depends_;
  std::vector<const Block*> blocks_;  ///< in text order, so that sums are rounded the same way in every run
  std::array<int64_t, 3> local_{}, at_{};
  bool usesLocal_ = false, usesGroup_ = false;
  KernelCost cost_;
};

/// Marks all integers and booleans that an operand is computed from.
void Counter::need(const Operand& operand) {
  for (const Operand& item : operand.items)
    if (operand.kind == Operand::Kind::keyword || operand.kind == Operand::Kind::binding) need(item);
  Value* value = operand.kind == Operand::Kind::binding ? nullptr : operand.value;
  if (!value || value->type.isBuffer() || !needed_.insert(value).second) return;
  if (!value->def) return;
  const Op& op = *value->def;
  usesLocal_ = usesLocal_ || op.code == Opcode::k_local_id || op.code == Opcode::k_global_id;
  usesGroup_ = usesGroup_ || op.code == Opcode::k_workgroup_id || op.code == Opcode::k_global_id;
  if (op.code == Opcode::k_if || op.code == Opcode::k_for) {
    for (const auto& region : op.regions)
      if (const Op* yield = yieldOf(*region))
        for (const Operand& each : yield->operands) need(each);
    if (op.code == Opcode::k_for)
      for (const Operand& each : iterArgs(op)) {
        need(each.items[0]);
        needed_.insert(each.value);
      }
    return;
  }
  if (isFloat(value->type) || elementOf(op)) return;  // depends on data, which is not followed
  for (const Operand& each : op.operands) need(each);
}

void Counter::findControl(const Block& block) {
  blocks_.push_back(&block);
  for (Op* op : block.ops) {
    if (op->code == Opcode::k_if) need(op->operands[0]);
    if (op->code == Opcode::k_for) {
      needed_.insert(op->operands[0].value);
      const auto [from, to, step] = rangeOf(*op);
      for (const Operand* bound : {&from, &to, &step}) need(*bound);
    }
    for (const auto& region : op->regions) findControl(*region);
  }
}

/// Whether an operand is computed from one of these values.
bool Counter::reaches(const Operand& operand, const std::unordered_set<const Value*>& from,
                      std::unordered_set<const Value*>& seen) const {
  bool found = false;
  auto through = [&](const Value* value) {
    if (found || !needed_.contains(value) || !seen.insert(value).second) return;
    if (from.contains(value)) {
      found = true;
      return;
    }
    if (!value->def) return;
    for (const Operand& each : value->def->operands) found = found || reaches(each, from, seen);
    for (const auto& region : value->def->regions)
      if (const Op* yield = yieldOf(*region))
        for (const Operand& each : yield->operands) found = found || reaches(each, from, seen);
  };
  for (const Operand& item : operand.items) found = found || reaches(item, from, seen);
  if (operand.value && operand.kind == Operand::Kind::value) through(operand.value);
  return found;
}

/// Whether the trips of a loop must be followed one by one: a carried integer is needed for control flow, or branches
/// or loops in the body depend on the loop's index or carried values.
bool Counter::dependsOn(const Op& loop) {
  if (const bool* known = valueIn(depends_, &loop)) return *known;
  bool out = false;
  std::unordered_set<const Value*> from{loop.operands[0].value}, seen;
  for (const Operand& each : iterArgs(loop)) {
    out = out || (needed_.contains(each.value) && !isFloat(each.value->type));
    from.insert(each.value);
  }
  walk(*loop.regions[0], [&](Op& op) {
    if (op.code == Opcode::k_if) out = out || reaches(op.operands[0], from, seen);
    if (op.code != Opcode::k_for) return;
    out = out || reaches(op.operands[0].items[0], from, seen);
    for (const char* key : {"to", "step"})
      if (const Operand* bound = op.keyword(key)) out = out || reaches(*bound, from, seen);
  });
  return depends_[&loop] = out;
}

Known Counter::value(const Operand& operand) const {
  if (operand.kind == Operand::Kind::keyword && operand.items.size() == 1) return value(operand.items[0]);
  if (operand.isLiteral()) return static_cast<uint32_t>(operand.integer);
  if (operand.kind == Operand::Kind::symbol) return {};
  auto found = values_.find(operand.value);
  return found == values_.end() ? Known{} : Known{found->second};
}

/// The result of an op on integers, if all of them are known.
Known Counter::computed(const Op& op) const {
  std::vector<uint32_t> words;
  for (const Operand& operand : op.operands) {
    const Known word = value(operand);
    if (!word || (operand.value && isFloat(operand.value->type))) return {};
    words.push_back(*word);
  }
  return kernelWord(op.code, operandType(op, op.operands[0]).dtype, op.result()->type.dtype, words);
}

/// Computes an op's result for the current invocation, if control flow depends on it; forgets it if it cannot be
/// computed.
void Counter::evaluate(const Op& op) {
  if (op.results.size() != 1 || !needed_.contains(op.result())) return;
  const Type& type = op.result()->type;
  Known made;
  if (op.code == Opcode::k_local_id) {
    made = static_cast<uint32_t>(local_[axisOf(op)]);
  } else if (op.code == Opcode::k_workgroup_id) {
    made = static_cast<uint32_t>(at_[axisOf(op)]);
  } else if (op.code == Opcode::k_global_id) {
    int64_t axis = axisOf(op);
    made = static_cast<uint32_t>(at_[axis] * kernel_.workgroup[axis] + local_[axis]);
  } else if (op.code == Opcode::k_num_workgroups) {
    made = static_cast<uint32_t>(grid_[axisOf(op)]);
  } else if (op.code == Opcode::k_dim) {
    int64_t extent = op.in(0)->type.shape[static_cast<int>(op.operands[1].integer)];
    if (extent != Shape::kDynamic) made = static_cast<uint32_t>(extent);
  } else if (type.lanes == 1 && !isFloat(type) && !elementOf(op) && op.numOperands() > 0) {
    const Known first = value(op.operands[0]);
    if (op.code == Opcode::k_select)
      made = first ? value(op.operands[*first ? 1 : 2]) : Known{};
    else
      made = computed(op);
  }
  if (made)
    values_[op.result()] = *made;
  else
    values_.erase(op.result());
}

/// Gives the results of an `if` or a loop the values that the body that ran last yields.
void Counter::passOn(const Op& op, const Block& body) {
  const Op* yield = yieldOf(body);
  for (size_t i = 0; yield && i < op.results.size(); ++i) {
    Known known = value(yield->operands[i]);
    if (known)
      values_[op.result(static_cast<int>(i))] = *known;
    else
      values_.erase(op.result(static_cast<int>(i)));
  }
}

void Counter::branch(const Op& op, double weight) {
  Known condition = value(op.operands[0]);
  if (!condition) undecided();
  size_t taken = condition.value_or(1) ? 0 : 1;
  if (taken >= op.regions.size()) return;
  follow(*op.regions[taken], weight);
  passOn(op, *op.regions[taken]);
  if (condition) return;
  for (const auto& result : op.results) values_.erase(result.get());
}

void Counter::trips(const Op& op, uint32_t first, uint32_t last, uint32_t step, double weight) {
  const Block& body = *op.regions[0];
  const auto& carried = iterArgs(op);
  auto set = [&](const Value* to, Known known) {
    if (known)
      values_[to] = *known;
    else
      values_.erase(to);
  };
  for (const Operand& each : carried) set(each.value, value(each.items[0]));
  for (uint64_t i = first; i < last; i += step) {
    values_[op.operands[0].value] = static_cast<uint32_t>(i);
    follow(body, weight);
    const Op* yield = yieldOf(body);
    std::vector<Known> next;
    for (size_t k = 0; k < carried.size(); ++k) next.push_back(value(yield->operands[k]));
    for (size_t k = 0; k < carried.size(); ++k) set(carried[k].value, next[k]);
  }
  for (size_t k = 0; k < carried.size(); ++k)
    set(op.result(static_cast<int>(k)), value(Operand::of(carried[k].value)));
}

void Counter::loop(const Op& op, double weight) {
  const LoopRange range = rangeOf(op);
  const Known first = value(range.from), last = value(range.to), step = value(range.step);
  for (const auto& result : op.results) values_.erase(result.get());
  if (!first || !last || !step || !*step) {
    undecided();
    values_.erase(op.operands[0].value);
    follow(*op.regions[0], weight);
    return;
  }
  const uint32_t from = first.value_or(0), end = last.value_or(0), stride = step.value_or(1);
  if (end <= from) return trips(op, 0, 0, 1, weight);
  uint64_t count = divideCeil(uint64_t{end} - from, stride);
  if (count <= kMostTrips && dependsOn(op)) return trips(op, from, end, stride, weight);
  values_[op.operands[0].value] = from;
  follow(*op.regions[0], weight * static_cast<double>(count));
}

void Counter::follow(const Block& block, double weight) {
  times_[&block] += weight;
  for (Op* op : block.ops) {
    if (op->code == Opcode::k_if)
      branch(*op, weight);
    else if (op->code == Opcode::k_for)
      loop(*op, weight);
    else
      evaluate(*op);
  }
}

/// Adds the cost of an op that runs `times` times in all: its floating-point operations, and the bytes that it loads
/// and stores.
void Counter::charge(const Op& op, double times) {
  const int own = semantics(op.code).flops;
  if (own > 0 && isFloat(op.result()->type)) cost_.flops += times * own * held(op.result()->type);
  bool reduces = op.code == Opcode::k_workgroup_reduce || op.code == Opcode::k_subgroup_reduce;
  if (reduces && isFloat(op.result()->type))
    cost_.flops +=
        times * op.result()->type.lanes * static_cast<double>(group_ - 1) / static_cast<double>(group_);
  if (op.code == Opcode::k_coopmat_mma)  // one product for the whole subgroup
    cost_.flops += times * 2 * static_cast<double>(op.in(0)->type.shape[1]) * held(op.result()->type);
  const Operand* element = elementOf(op);
  if (!element) return;
  const Type& type = element->value->type;
  bool adds =
      op.code == Opcode::k_atomic_add || op.code == Opcode::k_accumulate || op.code == Opcode::k_exact_add;
  if (adds && (isFloat(type) || op.code == Opcode::k_exact_add)) cost_.flops += times * type.lanes;
  auto param = paramOf_.find(element->value);
  if (param == paramOf_.end()) return;
  bool exact = op.code == Opcode::k_exact_add;
  bool exactWhole = op.code == Opcode::k_exact_load || op.code == Opcode::k_exact_store;
  double bytes = exact ? kExactBytes : static_cast<double>(byteSize(type.dtype) * type.lanes);
  if (exactWhole) bytes *= kExactWords;
  // The invocations of a subgroup share a matrix.
  const bool matrixStore = op.code == Opcode::k_coopmat_store,
             matrixLoad = op.code == Opcode::k_coopmat_load || op.code == Opcode::k_coopmat_repeat;
  if (matrixStore || matrixLoad) {
    const Type& matrix = matrixStore ? op.in(0)->type : op.result()->type;
    bytes = static_cast<double>(byteSize(matrix.dtype)) * held(matrix);
    if (op.code == Opcode::k_coopmat_repeat)
      bytes /= static_cast<double>(matrix.shape[op.flag("columns") ? 0 : 1]);
  }
  ParamTraffic& traffic = cost_.params[param->second];
  bool stores = matrixStore || op.code == Opcode::k_store || op.code == Opcode::k_exact_store;
  bool loads = matrixLoad || isLoad(op);
  if (!stores) traffic.loaded += times * bytes;
  if (!loads) traffic.stored += times * bytes;
}

void Counter::charge(const Block& block, double times) {
  for (Op* op : block.ops) charge(*op, times);
}

/// Follows the chosen workgroups and, if control flow depends on local ids, each of their invocations.
KernelCost Counter::run() {
  cost_.params.resize(kernel_.body.args.size());
  int several = 0;
  for (int64_t count : grid_) several += count > 1;
  int64_t most = kFollowed[std::max(several - 1, 0)];
  std::array<std::vector<std::pair<int64_t, double>>, 3> axes;
  for (size_t axis = 0; axis < 3; ++axis)
    axes[axis] = usesGroup_ ? followed(grid_[axis], most)
                            : std::vector<std::pair<int64_t, double>>{{0, static_cast<double>(grid_[axis])}};
  int64_t invocations = usesLocal_ ? group_ : 1;
  double each = static_cast<double>(group_) / static_cast<double>(invocations);
  for (const auto& [z, zs] : axes[2])
    for (const auto& [y, ys] : axes[1])
      for (const auto& [x, xs] : axes[0])
        for (int64_t i = 0; i < invocations; ++i) {
          at_ = {x, y, z};
          const auto& size = kernel_.workgroup;
          local_ = {i % size[0], i / size[0] % size[1], i / (size[0] * size[1])};
          values_.clear();
          follow(kernel_.body, xs * ys * zs * each);
        }
  for (const Block* block : blocks_) charge(*block, times_[block]);
  return std::move(cost_);
}

}  // namespace

int64_t codeSize(const Item& kernel) {
  int64_t size = 0;
  walk(kernel.body, [&](const Op& op) {
    if (op.code == Opcode::k_yield || op.code == Opcode::k_shared || op.code == Opcode::k_local) return;
    int64_t lanes = 1;
    for (const auto& result : op.results) lanes = std::max<int64_t>(lanes, result->type.lanes);
    size += lanes;
  });
  return size;
}

KernelCost kernelCost(const Module& module, const Item& kernel, const std::array<int64_t, 3>& grid) {
  auto target = targetOf(module.attrs);
  const int64_t subgroup = target ? target->subgroup : 1;
  const bool calls = anyOp(kernel.body, [](const Op& op) { return op.code == Opcode::k_call; });
  if (!calls) return Counter(kernel, grid, subgroup).run();
  std::vector<Shape> shapes;
  for (const auto& arg : kernel.body.args) shapes.push_back(arg->type.shape);
  std::unique_ptr<Item> flat = specialize(kernel, shapes);
  inlineCalls(module, *flat);
  return Counter(*flat, grid, subgroup).run();
}

}  // namespace tg
