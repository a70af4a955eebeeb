// SPDX-License-Identifier: Apache-2.0
#include "ir/kernel/rewrites.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <unordered_map>
#include <utility>

#include "ir/builder.h"
#include "ir/divide.h"
#include "ir/kernel/index_analysis.h"
#include "ir/kernel/inline.h"
#include "ir/kernel/kernel.h"

namespace tg {
namespace {

/// Ops that an unrolled body may have: a larger one takes a driver seconds to compile.
constexpr size_t kMostOps = 8192;
constexpr size_t kMostInAll = 65'536;  // ops of a kernel beyond which nothing more is unrolled
constexpr int kMostRounds = 1024;      // loops that are unrolled in one kernel
constexpr int64_t kMostCopies = 8;     // copies of a body in one step
/// A loop whose trip count is the same in every invocation.
struct Bounds {
  int64_t from = 0, step = 1, trips = 0;
};

bool holdsLoop(const Block& block) {
  return anyOp(block, [](const Op& op) { return op.code == Opcode::k_for; });
}

size_t opsIn(const Block& block) {
  size_t count = 0;
  walk(block, [&](const Op&) { ++count; });
  return count;
}

/// Counts iterations. Bounds that are not literals are taken from a range analysis, which is made when first needed.
/// The loops that `repeat` makes have literal bounds, so that one analysis serves however many loops are unrolled.
class Iterations {
 public:
  explicit Iterations(const Item& kernel) : kernel_(kernel) {
    count();
    analysis_.reset();  // it keeps pointers to ops, which unrolling removes
  }

  /// Iterations of one invocation, at most; loops of unknown trip counts count as none.
  int64_t count() {
    bounded_ = fixed_ = true;
    unfixed_ = 0;
    return static_cast<int64_t>(std::min(of(kernel_.body, 1), 9e18));
  }
  /// Whether all trip counts have an upper bound, and whether all are the same in every invocation. These and
  /// unfixed() describe the last count.
  bool bounded() const { return bounded_; }
  bool fixed() const { return fixed_; }
  /// Iterations of the loops that cannot be unrolled because their trip counts differ.
  double unfixed() const { return unfixed_; }
  /// The bounds of a loop if they are the same in every invocation and every iteration of outer loops.
  std::optional<Bounds> bounds(const Op& loop) { return known(loop).bounds; }
  /// The most trips of a loop; nullopt when there is no bound.
  std::optional<int64_t> trips(const Op& loop) { return known(loop).trips; }
  void forget(const Op& loop) { known_.erase(&loop); }

 private:
  struct Known {
    std::optional<Bounds> bounds;
    std::optional<int64_t> trips;
  };

  const Known& known(const Op& loop) {
    auto [found, fresh] = known_.try_emplace(&loop);
    if (!fresh) return found->second;
    const LoopRange range = rangeOf(loop);
    auto from = constant(range.from, loop), to = constant(range.to, loop), by = constant(range.step, loop);
    Known& out = found->second;
    if (!from || !to || !by) {
      out.trips = analysis().tripCount(loop);
      return out;
    }
    out.bounds = Bounds{*from, *by, 0};
    if (*by > 0 && *to > *from) out.bounds->trips = divideCeil(*to - *from, *by);
    out.trips = out.bounds->trips;
    return out;
  }
  const IndexAnalysis& analysis() {
    if (!analysis_) analysis_.emplace(kernel_);
    return *analysis_;
  }
  std::optional<int64_t> constant(const Operand& operand, const Op& loop) {
    if (operand.isLiteral()) return operand.integer;
    IndexAnalysis::Interval range = analysis().range(operand, loop);
    return range.lo == range.hi ? std::optional(range.lo) : std::nullopt;
  }
  /// Iterations of the loops in a block, for each run of it; `runs` is how often the block runs in all.
  double of(const Block& block, double runs) {
    double sum = 0;
    for (Op* op : block.ops) {
      const bool loop = op->code == Opcode::k_for;
      const auto most = loop ? trips(*op) : int64_t{1};
      const double times = static_cast<double>(most.value_or(0));
      double inner = 0;
      for (const auto& region : op->regions) inner += of(*region, runs * times);
      sum += loop ? times * (1 + inner) + 1 : inner;
      if (!loop || bounds(*op)) continue;
      fixed_ = false;
      bounded_ = bounded_ && most;
      unfixed_ += runs * times;
    }
    return sum;
  }

  const Item& kernel_;
  std::optional<IndexAnalysis> analysis_;
  std::unordered_map<const Op*, Known> known_;
  bool bounded_ = true, fixed_ = true;
  /// Unrolls one loop at a time; keeps the order of all computations.
  double unfixed_ = 0;
};

class Unroller {
 public:
  explicit Unroller(Item& kernel) : kernel_(kernel), build_(kernel.body) {}

  /// Unrolls the innermost loop whose body runs most often; false when none can be unrolled.
  bool once(Iterations& iterations) {
    best_ = {};
    if (++rounds_ > kMostRounds || opsIn(kernel_.body) > kMostInAll) return false;
    find(kernel_.body, 1, iterations);
    if (!best_.loop) return false;
    iterations.forget(*best_.loop);
    repeat(*best_.loop, best_.bounds);
    return true;
  }

 private:
  struct Place {
    Op* loop = nullptr;
    Bounds bounds;
    double runs = 0;
  };

  void find(Block& block, double runs, Iterations& iterations);
  void repeat(Op& loop, const Bounds& bounds);
  Value* define(Opcode code, OperandList operands, const Value& like, OpList& out);
  Value* asValue(Operand& operand, const Value& like, OpList& out);
  void copyBody(const Op& loop, Value* index, OperandList& carried, OpList& out);

  Item& kernel_;
  Builder build_;
  Place best_;
  int rounds_ = 0;
};

void Unroller::find(Block& block, double runs, Iterations& iterations) {
  for (Op* op : block.ops) {
    const bool loop = op->code == Opcode::k_for;
    const double inside = loop ? runs * static_cast<double>(iterations.trips(*op).value_or(0)) : runs;
    for (auto& region : op->regions) find(*region, inside, iterations);
    if (!loop || inside <= best_.runs || holdsLoop(*op->regions[0])) continue;
    const auto bounds = iterations.bounds(*op);
    if (bounds && bounds->trips > 0 && opsIn(*op->regions[0]) * 2 <= kMostOps) best_ = {op, *bounds, inside};
  }
}

Value* Unroller::define(Opcode code, OperandList operands, const Value& like, OpList& out) {
  build_.setEnd(out).setLoc(like.loc).setHint(like.name);
  return build_.create(code, std::move(operands), {}, {like.type})->result();
}

Value* Unroller::asValue(Operand& operand, const Value& like, OpList& out) {
  if (!operand.value)
    operand = Operand::of(literalValue(build_.setEnd(out).setLoc(like.loc), operand, like.type, like.name));
  return operand.value;
}

/// Appends a copy of the body for one index. `carried` has the carried values on entry, and those of the next
/// iteration on return.
void Unroller::copyBody(const Op& loop, Value* index, OperandList& carried, OpList& out) {
  std::unordered_map<const Value*, Value*> map{{loop.operands[0].value, index}};
  const auto& args = iterArgs(loop);
  for (size_t k = 0; k < args.size(); ++k) map[args[k].value] = asValue(carried[k], *args[k].value, out);
  for (Op* op : loop.regions[0]->ops) {
    if (op == loop.regions[0]->terminator()) break;
    out.push_back(cloneOp(*op, map));
    rename(*out.back(), build_.names());
  }
  const Op* yield = yieldOf(*loop.regions[0]);
  for (size_t k = 0; k < args.size(); ++k) {
    carried[k] = yield->operands[k];
    if (auto it = map.find(carried[k].value); it != map.end()) carried[k].value = it->second;
    asValue(carried[k], *args[k].value, out);
  }
}

/// Unrolls a loop: replaces it by a loop over several copies of its body with fewer iterations, followed by copies
/// for the remaining iterations.
void Unroller::repeat(Op& loop, const Bounds& bounds) {
  const int64_t fit = static_cast<int64_t>(kMostOps / opsIn(*loop.regions[0]));
  const int64_t copies = std::min({bounds.trips, kMostCopies, fit});
  int64_t rounds = bounds.trips / copies;
  if (rounds == 1) rounds = 0;
  const Value& index = *loop.operands[0].value;
  const auto& args = iterArgs(loop);
  OperandList carried;
  for (const Operand& each : args) carried.push_back(each.items[0]);
  OpList out;
  if (rounds > 0) {
    auto inner = std::make_unique<Block>();
    Value* round = inner->addArg(index.type, build_.names().unique(index.name));
    OperandList inside;
    for (const Operand& each : args)
      inside.push_back(Operand::of(inner->addArg(each.value->type, build_.names().unique(each.value->name))));
    const Operand zero = Operand::literal(int64_t{0}), one = Operand::literal(int64_t{1});
    auto shorter = makeLoop(std::move(inner), zero, Operand::literal(rounds), one, carried, loop.loc);
    Block* body = shorter->regions[0].get();
    Value* first =
        define(Opcode::k_mul, {Operand::of(round), Operand::literal(copies * bounds.step)}, index, body->ops);
    for (int64_t i = 0; i < copies; ++i) {
      const int64_t behind = bounds.from + i * bounds.step;
      Value* own = behind == 0 ? first
                               : define(Opcode::k_add, {Operand::of(first), Operand::literal(behind)}, index,
                                        body->ops);
      copyBody(loop, own, inside, body->ops);
    }
    build_.setEnd(body->ops).setLoc(loop.loc).create(Opcode::k_yield, std::move(inside));
    carried.clear();
    for (const auto& result : loop.results) {
      Value* value = shorter->addResult(result->type, result->name);
      value->loc = result->loc;
      carried.push_back(Operand::of(value));
    }
    build_.setEnd(out).append(std::move(shorter));
  }
  for (int64_t i = rounds * copies; i < bounds.trips; ++i) {
    Operand own = Operand::literal(bounds.from + i * bounds.step);
    copyBody(loop, asValue(own, index, out), carried, out);
  }
  for (size_t k = 0; k < args.size(); ++k)
    loop.result(static_cast<int>(k))->uses.replaceAll(asValue(carried[k], *args[k].value, out));
  OpList& ops = *loop.list();
  ops.splice(&loop, out, out.front());
  ops.erase(&loop);
}

}  // namespace

std::optional<int64_t> loopIterations(const Item& kernel) {
  Iterations iterations(kernel);
  const int64_t count = iterations.count();
  return iterations.bounded() ? std::optional(count) : std::nullopt;
}

Result<bool> unroll(Item& kernel, int64_t most) {
  Iterations iterations(kernel);
  const int64_t before = iterations.count();
  if (before <= most) return iterations.bounded();
  if (iterations.unfixed() > static_cast<double>(most)) return false;
  for (Unroller unroller(kernel); iterations.count() > most;) {
    if (unroller.once(iterations)) continue;
    if (!iterations.fixed()) return false;
    return failAt(kernel.loc,
                  "kernel @{}: its loops make {} iterations in an invocation, and repeating their bodies "
                  "does not bring these to {}",
                  kernel.name, before, most);
  }
  return iterations.bounded();
}

}  // namespace tg
