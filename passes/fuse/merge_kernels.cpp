// SPDX-License-Identifier: Apache-2.0
// merge-kernels: joins kernels that do not depend on each other. A step has dozens of small reductions, such as gradients
// of gains and biases; each of them alone costs a dispatch and fills a fraction of the device.
//
//   before:  %a = tg.fused (%x = %x) {schedule = column{…}} { tg.sum; … }
//            %b = tg.fused (%y = %y) {schedule = map{…}} { tg.sum; … }
//   after:   %a, %b = tg.fused (%x = %x, %y = %y)
//                {schedule = parts{of = [column{…}, map{…}], results = [1, 1]}} { tg.sum; tg.sum; … }
//
// Kernels are taken in text order. A small reduction waits; when the first reader of a result comes, all kernels that wait
// together become one:
//
//   text      a   p1  b  p2  c   r         a, b, c wait; p1 and p2 do not depend on them; r reads a result of b
//   becomes   p1  p2  {a | b | c}  r       side by side, or as one pass over the rows that they share
//
// A kernel may become results of a later one, its host, that reads the same tensor in the same loops over elements or
// rows, for example part of a product's epilogue; maps of equal extents may read other elements of it. The kernel and its
// readers are put off until the host comes:
//
//   text      a   r1  p   h   r2       h reads a's operand and does not depend on a; r1 and r2 read a's result
//   becomes   p   {h | a}  r1  r2      if h keeps its schedule; otherwise the order stays
//
// Where a step takes more than its budget there are no hosts, and kernels that free many bytes do not wait. A kernel that
// reads from a waiting one waits one level above it. Side by side, each part keeps its schedule and has its own
// workgroups; passes over the same rows of one tensor become one region with one schedule.
//
// Requires: stage(fused).
// Ensures: each kernel comes before its readers; peak live bytes grow by at most one part in a hundred or 256 KiB; no
//   kernel binds more than the target allows. Bytes are counted as plan places them: groups whole, results in place of
//   operands that die, none for values that are returned or committed.
// Where: behind all passes that move ops between kernels; before choose-schedules, which identifies kernels by content.
#include <fmt/format.h>

#include <algorithm>
#include <climits>
#include <deque>
#include <optional>
#include <unordered_set>
#include <utility>

#include "ir/access.h"
#include "ir/needs.h"
#include "ir/rows.h"
#include "ir/schedule.h"
#include "passes/budget.h"
#include "passes/fuse/bindings.h"
#include "passes/fuse/cost.h"
#include "passes/fuse/merge_parts.h"
#include "passes/fuse/target_of.h"
#include "passes/pass.h"

namespace tg::fuse {
namespace {

using table::Fusion;

struct Merged;

/// A kernel of the function, or a collective.
struct Kernel {
  Op* op = nullptr;
  int number = 0;                   ///< in the order of the text
  std::vector<const Value*> reads;  ///< distinct
  std::vector<const Value*> bound;  ///< those that have a binding each
  size_t bindings = 0;              ///< the number of other bindings: groups, and results
  std::optional<RowSpace> rows;     ///< of a row schedule
  int64_t groups = 0;               ///< a lower bound of its workgroups
  bool isPart = false;              ///< whether it may stand beside others
  bool waits = false;               ///< whether it waits for others to be merged with
  bool isAwaited = false;           ///< whether a kernel that may wait reads its result
  Merged* waitsIn = nullptr;        ///< the kernels that it waits with
  Kernel* host = nullptr;
  bool isLate = false;  ///< whether it is put off until a host comes
};

/// Kernels that are or will be one.
struct Merged {
  std::vector<std::vector<Kernel*>> parts;  ///< each has one schedule and one or more kernels
  std::vector<Kernel*> kernels;             ///< of all parts, in the order in which they joined
  int level = 0;                            ///< above the levels of all waiting kernels that these read from
  int deadline = INT_MAX;                   ///< the number of the kernel before which they run at the latest
  int64_t workgroup = 0;                    ///< the size that a part requires; 0 for any

  /// Adds a kernel as a part of its own, or to the only part.
  void add(Kernel& kernel, bool beside) {
    if (beside) parts.emplace_back();
    parts.back().push_back(&kernel);
    kernels.push_back(&kernel);
  }
};

/// Values that lie one behind the other, because kernels write or read them as groups; or a value by itself.
struct Run {
  enum class State { absent, pending, alive };  ///< pending: a waiting kernel will write the first of them
  int64_t bytes = 0;
  int left = 0;  ///< values with readers left, or not computed yet
  bool isGroup = false;
  State state = State::absent;
};

/// What is known of a value.
struct Facts {
  Kernel* maker = nullptr;   ///< the kernel that computes it
  Kernel* reader = nullptr;  ///< the last kernel that reads it
  int readers = 0;           ///< kernels and effects that read it
  int readersLeft = 0;       ///< of these, those that have not run
  bool isElsewhere = false;  ///< whether it takes no bytes of the arena
  Run* run = nullptr;        ///< of a kernel's result
};

/// The kernels' ops.
std::vector<Op*> opsOf(const std::vector<Kernel*>& kernels) {
  std::vector<Op*> ops;
  for (const Kernel* kernel : kernels) ops.push_back(kernel->op);
  return ops;
}

class Merger {
 public:
  /// Kernels get no hosts if more than `room` bytes are alive at the peak. `report`, unless null, is told which kernels are
  /// merged.
  Merger(const Module& module, Item& func, const Target& target, int64_t room, const PassContext* report)
      : module_(module), func_(func), target_(target), room_(room), report_(report) {}
  void run();

 private:
  void collect();
  void findBindings(Kernel& kernel);
  void describe(Kernel& kernel) const;
  void reset();
  int64_t newBytes(const Kernel& kernel) const;
  int64_t takenOver(const Kernel& kernel) const;
  bool exceeds(int64_t bytes) const { return live_ + pending_ + bytes > limit_; }
  const Facts& factsOf(const Value* value) const { return values_.at(value); }
  /// Waiting kernels, one of which will compute a value; null if it does not wait.
  Merged* waitsIn(const Value* value) const {
    const Kernel* maker = factsOf(value).maker;
    return maker ? maker->waitsIn : nullptr;
  }
  void measureLife();
  void compute(const std::vector<Kernel*>& kernels);
  void release(const Value* value);
  void take(Kernel& kernel);
  void takeHost(Kernel& host);
  void place(Kernel& kernel);
  void wait(Kernel& kernel);
  void runWaiting(Merged& merged);
  void runSources(const std::vector<Kernel*>& kernels);
  bool fits(const Merged& merged, const Kernel& kernel) const;
  bool joinsRows(Merged& merged, Kernel& kernel);
  bool joinsBeside(Merged& merged, Kernel& kernel);
  bool joinsHost(Merged& merged, Kernel& kernel);
  void join(Merged& merged, Kernel& kernel);
  std::unique_ptr<Op> build(const Merged& merged);
  void keepLivesShort();
  void rebuild();

  const Module& module_;
  Item& func_;
  const Target& target_;
  const int64_t room_;
  const PassContext* report_;
  std::deque<Kernel> kernels_;
  std::unordered_map<const Value*, Facts> values_;
  std::deque<Run> runs_;
  int64_t live_ = 0, most_ = 0;  ///< live bytes now, and the most so far
  int64_t limit_ = 0;            ///< the most that is allowed
  int64_t pending_ = 0;          ///< bytes of the results of waiting kernels
  std::deque<Merged> merged_;
  std::vector<Merged*> waiting_;
  std::vector<Kernel*> late_;  ///< kernels that are put off until host_ comes
  Kernel* host_ = nullptr;
  std::vector<Merged*> order_;  ///< the new order
};

/// Finds what a kernel reads and binds.
void Merger::findBindings(Kernel& kernel) {
  const Op& op = *kernel.op;
  forEachUse(op, [&](const Value* value) {
    Facts& facts = values_[value];
    if (std::exchange(facts.reader, &kernel) != &kernel) kernel.reads.push_back(value);
  });
  kernel.bindings = op.results.size();
  for (const Operand& operand : op.operands) {
    if (op.code != Opcode::fused) break;
    if (operand.bindsValue())
      kernel.bound.push_back(operand.items[0].value);
    else
      ++kernel.bindings;
  }
}

void Merger::collect() {
  std::vector<const Op*> ops;
  for (Op* op : func_.body.ops) {
    if (!isTurn(*op)) {
      forEachUse(std::as_const(*op), [&](const Value* value) {
        ++values_[value].readers;
        values_[value].isElsewhere = true;
      });
      continue;
    }
    Kernel& kernel = kernels_.emplace_back();
    kernel.op = op;
    kernel.number = static_cast<int>(ops.size());
    ops.push_back(op);
    findBindings(kernel);
    describe(kernel);
    for (const auto& result : op->results) values_[result.get()].maker = &kernel;
    for (const Value* value : kernel.reads) {
      Facts& facts = values_[value];
      ++facts.readers;
      if (kernel.waits && facts.maker) facts.maker->isAwaited = true;
    }
  }
  const std::vector<int> hosts = hostsOf(ops, [&](size_t at) { return !kernels_[at].waits; });
  for (Kernel& kernel : kernels_)
    if (const int host = hosts[kernel.number]; host >= 0) kernel.host = &kernels_[host];
}

/// Fills in the properties of a kernel by which others may join it.
void Merger::describe(Kernel& kernel) const {
  const Op& op = *kernel.op;
  if (op.code != Opcode::fused) return;
  const std::optional<PartSchedule> schedule = partOf(op);
  if (!op.groups.empty() || !schedule) return;
  const bool isRow = std::holds_alternative<RowSchedule>(*schedule);
  bool reduces = false;
  for (Op* inner : op.regions[0]->ops) {
    switch (inner->info().fusion) {
    case Fusion::reduce:
    case Fusion::row: reduces = true; break;
    case Fusion::none:
    case Fusion::leaf:
    case Fusion::map:
    case Fusion::view: break;
    default: return;
    }
  }
  if (isRow) kernel.rows = rowSpaceOf(op.regions[0]->ops);
  int64_t largest = 0;
  for (const auto& result : op.results) largest = std::max(largest, result->type.elements());
  // A kernel that passes over each row and whose results are one number a row.
  const bool statistics = kernel.rows && largest <= kernel.rows->rows;
  if (isRow)
    kernel.isPart = statistics && largest <= kFewResults;
  else
    kernel.isPart = largest <= kFewResults || (reduces && target_.reduce == "workgroup");
  kernel.waits = kernel.isPart || statistics;
  kernel.groups = isRow ? largest : largest / resultsAtOnce(*schedule) + 1;
}

/// Makes all values absent, and makes the runs: one for groups with common members, one for each other result.
void Merger::reset() {
  live_ = most_ = 0;
  for (auto& [value, facts] : values_) {
    facts.readersLeft = facts.readers;
    facts.run = nullptr;
  }
  runs_.clear();
  const auto add = [&](const std::vector<const Value*>& members, bool isGroup) {
    Run& run = runs_.emplace_back();
    run.left = static_cast<int>(members.size());
    run.isGroup = isGroup;
    for (const Value* member : members) {
      Facts& facts = values_.at(member);
      facts.run = &run;
      if (!facts.isElsewhere) run.bytes += member->type.bytes();
    }
  };
  for (const std::vector<const Value*>& members : runsOfGroups(func_)) add(members, true);
  for (const Kernel& kernel : kernels_)
    for (const auto& result : kernel.op->results)
      if (!factsOf(result.get()).run) add({result.get()}, false);
}

/// Bytes of a kernel's results that are neither alive nor pending.
int64_t Merger::newBytes(const Kernel& kernel) const {
  int64_t bytes = 0;
  std::unordered_set<const Run*> begun;
  for (const auto& result : kernel.op->results) {
    const Run& run = *factsOf(result.get()).run;
    if (run.state == Run::State::absent && begun.insert(&run).second) bytes += run.bytes;
  }
  return bytes;
}

/// Of these, the bytes that plan can place in operands that die at the kernel.
int64_t Merger::takenOver(const Kernel& kernel) const {
  return bytesTakenOver(*kernel.op, module_, [&](const Value& value) {
    const Facts& facts = factsOf(&value);
    return facts.maker && !facts.run->isGroup && !facts.isElsewhere && facts.readersLeft == 1;
  });
}

/// Counts a value as dead.
void Merger::release(const Value* value) {
  if (Run& run = *factsOf(value).run; --run.left == 0) live_ -= run.bytes;
}

/// Updates the live bytes for kernels that run as one: their results become alive, then values without readers left die.
void Merger::compute(const std::vector<Kernel*>& kernels) {
  int64_t taken = 0;
  for (Kernel* kernel : kernels) {
    taken += takenOver(*kernel);
    for (const auto& result : kernel->op->results) {
      Run& run = *factsOf(result.get()).run;
      const Run::State before = std::exchange(run.state, Run::State::alive);
      if (before == Run::State::pending) pending_ -= run.bytes;
      if (before != Run::State::alive) live_ += run.bytes;
    }
    kernel->waitsIn = nullptr;
  }
  most_ = std::max(most_, live_ - taken);
  for (const Kernel* kernel : kernels) {
    for (const Value* value : kernel->reads)
      if (Facts& facts = values_.at(value); --facts.readersLeft == 0 && facts.maker) release(value);
    for (const auto& result : kernel->op->results)
      if (factsOf(result.get()).readersLeft == 0) release(result.get());
  }
}

/// Computes the peak of live bytes in the present order, and from it the limit.
void Merger::measureLife() {
  reset();
  for (Kernel& kernel : kernels_) compute({&kernel});
  limit_ = most_ + std::max(most_ / kLiveGrowth, kLeastGrowth);
  reset();
}

/// Whether both keep the target's bindings when merged.
bool Merger::fits(const Merged& merged, const Kernel& kernel) const {
  Bindings bound(target_);
  auto add = [&](const Kernel& each) {
    for (const Value* value : each.bound) bound.read(*value);
    bound.write(each.bindings);
  };
  for (const Kernel* each : merged.kernels) add(*each);
  add(kernel);
  return bound.fit();
}

/// Adds a kernel to a merged one if both pass over the same rows of a tensor: one kernel over rows computes all.
bool Merger::joinsRows(Merged& merged, Kernel& kernel) {
  if (!kernel.rows || kernel.rows->length < 2 || merged.parts.size() != 1) return false;
  bool shares = false;
  for (const Kernel* partner : merged.kernels) {
    if (partner->rows != kernel.rows) return false;
    for (const Value* value : partner->reads)
      shares = shares || (value->type.elements() == kernel.rows->rows * kernel.rows->length &&
                          contains(kernel.reads, value));
  }
  if (!shares) return false;
  std::vector<Op*> ops = opsOf(merged.kernels);
  ops.push_back(kernel.op);
  if (!std::holds_alternative<RowSchedule>(scheduleOf(*joined(ops, target_)))) return false;
  merged.add(kernel, false);
  return true;
}

/// Adds a kernel to merged ones as a part with workgroups of its own.
bool Merger::joinsBeside(Merged& merged, Kernel& kernel) {
  const int64_t needed = neededWorkgroup(*kernel.op), workgroup = std::max(merged.workgroup, needed);
  if (!kernel.isPart || (needed && merged.workgroup && needed != merged.workgroup)) return false;
  // `groups` assumes workgroups of kSmallestGroup invocations; a short row makes them smaller, and so more.
  const int64_t times = workgroup ? std::max<int64_t>(kSmallestGroup / workgroup, 1) : 1;
  int64_t groups = kernel.groups;
  for (const Kernel* each : merged.kernels) {
    if (!each->isPart) return false;
    groups += each->groups;
  }
  if (!gives(target_, LimitId::grid, times * groups)) return false;
  merged.add(kernel, true);
  merged.workgroup = workgroup;
  return true;
}

/// Adds a kernel to its host if the host keeps its schedule.
bool Merger::joinsHost(Merged& merged, Kernel& kernel) {
  if (!fits(merged, kernel)) return false;
  std::vector<Op*> ops = opsOf(merged.kernels);
  ops.push_back(kernel.op);
  if (scheduleOf(*joined(ops, target_)) != scheduleOf(*ops[0])) return false;
  merged.add(kernel, false);
  return true;
}

/// Lets a kernel wait with those that it was added to.
void Merger::join(Merged& merged, Kernel& kernel) {
  kernel.waitsIn = &merged;
  for (const auto& result : kernel.op->results) {
    Run& run = *factsOf(result.get()).run;
    if (run.state != Run::State::absent) continue;
    run.state = Run::State::pending;
    pending_ += run.bytes;
  }
  for (const Value* value : kernel.reads)
    if (target_.reduce != "workgroup" && value->type.bytes() > kLargeBytes && factsOf(value).maker)
      merged.deadline = std::min(merged.deadline, kernel.number + kSoon);
}

/// Lets a kernel wait: with the first kernels that it can join, or alone.
void Merger::wait(Kernel& kernel) {
  int level = 0;
  for (const Value* value : kernel.reads)
    if (const Merged* from = waitsIn(value)) level = std::max(level, from->level + 1);
  // It joins a higher level than needed only if nothing that waits reads it: that would have to move up further.
  for (bool same : {true, false}) {
    if (!same && kernel.isAwaited) break;
    for (Merged* merged : waiting_)
      if ((same ? merged->level == level : merged->level > level) && fits(*merged, kernel) &&
          (joinsRows(*merged, kernel) || joinsBeside(*merged, kernel)))
        return join(*merged, kernel);
  }
  if (waiting_.size() == kMostWaiting) runWaiting(*waiting_[0]);
  Merged& own = merged_.emplace_back();
  own.add(kernel, true);
  own.level = level;
  own.workgroup = neededWorkgroup(*kernel.op);
  waiting_.push_back(&own);
  join(own, kernel);
}

/// Runs the waiting kernels that these read from.
void Merger::runSources(const std::vector<Kernel*>& kernels) {
  for (const Kernel* kernel : kernels)
    for (const Value* value : kernel->reads)
      if (Merged* from = waitsIn(value)) runWaiting(*from);
}

/// Runs waiting kernels now, after those that they read from.
void Merger::runWaiting(Merged& merged) {
  std::erase(waiting_, &merged);
  runSources(merged.kernels);
  compute(merged.kernels);
  order_.push_back(&merged);
}

/// Takes the next kernel of the text. A kernel with a host is put off until that comes, and so are its readers.
void Merger::take(Kernel& kernel) {
  if (&kernel == host_) return takeHost(kernel);
  if (!host_) host_ = kernel.host;
  const auto isLate = [&](const Value* value) {
    const Kernel* maker = factsOf(value).maker;
    return maker && maker->isLate;
  };
  if (!host_ || (kernel.host != host_ && std::ranges::none_of(kernel.reads, isLate))) return place(kernel);
  kernel.isLate = true;
  late_.push_back(&kernel);
}

/// Places a host with those of the put-off kernels that it can take, and the others behind it. If it takes none, or if the
/// results could exceed the limit, all stay in text order.
void Merger::takeHost(Kernel& host) {
  const std::vector<Kernel*> late = std::exchange(late_, {});
  host_ = nullptr;
  int64_t bytes = newBytes(host);
  Merged merged;
  merged.add(host, true);
  std::vector<Kernel*> rest;
  for (Kernel* each : late) {
    each->isLate = false;
    bytes += newBytes(*each);
    if (each->host != &host || !joinsHost(merged, *each)) rest.push_back(each);
  }
  const bool joins = rest.size() < late.size();
  while (joins && !waiting_.empty() && exceeds(bytes)) runWaiting(*waiting_[0]);
  if (!joins || exceeds(bytes)) {
    for (Kernel* each : late) place(*each);
    return place(host);
  }
  runSources(merged.kernels);
  compute(merged.kernels);
  order_.push_back(&merged_.emplace_back(std::move(merged)));
  for (Kernel* each : rest) place(*each);
}

/// Lets a kernel wait, adds it to a waiting pass over its rows, or runs it.
void Merger::place(Kernel& kernel) {
  for (size_t i = waiting_.size(); i-- > 0;)
    if (i < waiting_.size() && waiting_[i]->deadline <= kernel.number) runWaiting(*waiting_[i]);
  if (kernel.waits) return wait(kernel);
  runSources({&kernel});
  for (Merged* merged : waiting_)
    if (kernel.rows && fits(*merged, kernel) && joinsRows(*merged, kernel)) return join(*merged, kernel);
  while (!waiting_.empty() && exceeds(newBytes(kernel) - takenOver(kernel))) runWaiting(*waiting_[0]);
  Merged& own = merged_.emplace_back();
  own.add(kernel, true);
  compute(own.kernels);
  order_.push_back(&own);
}

/// The kernel that computes the results of all merged ones.
std::unique_ptr<Op> Merger::build(const Merged& merged) {
  std::vector<Op*> all;
  PartsSchedule schedules;
  for (const std::vector<Kernel*>& part : merged.parts) {
    const std::vector<Op*> ops = opsOf(part);
    int64_t count = 0;
    for (const Op* op : ops) count += std::ssize(op->results);
    all.insert(all.end(), ops.begin(), ops.end());
    if (merged.parts.size() == 1) break;
    schedules.of.push_back(*partOf(ops.size() == 1 ? *ops[0] : *joined(ops, target_)));
    schedules.results.push_back(count);
  }
  std::unique_ptr<Op> fused = joined(all, target_);
  if (!schedules.of.empty()) {
    setWorkgroups(schedules.of, merged.workgroup);
    fused->setAttr("schedule", scheduleAttr(schedules));
  }
  std::string names;
  for (Op* op : all)
    for (auto& result : op->results) {
      if (result == op->results[0]) names += fmt::format("{}%{}", names.empty() ? "" : ", ", result->name);
      result->def = fused.get();
      fused->results.push_back(std::move(result));
    }
  if (report_) report_->remark(fused->loc, "the kernels of {} are one", names);
  return fused;
}

void Merger::rebuild() {
  OpList& body = func_.body.ops;
  OpList old = body.takeAll(), effects;
  for (Op* op : old.all())
    if (!isTurn(*op)) (readsEntry(*op) ? body : effects).push_back(old.take(op));
  for (const Merged* merged : order_)
    body.push_back(merged->kernels.size() > 1 ? build(*merged) : old.take(merged->kernels[0]->op));
  body.append(std::move(effects));
}

/// For steps above their budget. No hosts: plan chooses what runs again, and it recognises a kernel that computes the same
/// as an earlier one. Kernels that free many bytes, such as the norm of a group of gradients, do not wait.
void Merger::keepLivesShort() {
  for (Kernel& kernel : kernels_) {
    kernel.host = nullptr;
    int64_t read = 0;
    for (const Value* value : kernel.reads)
      if (const Facts& facts = factsOf(value); facts.maker && !facts.isElsewhere) read += value->type.bytes();
    if (read > std::max(limit_ / kLiveGrowth, kLeastGrowth)) kernel.waits = false;
  }
}

void Merger::run() {
  collect();
  if (kernels_.size() < 2) return;
  measureLife();
  if (limit_ > room_) keepLivesShort();
  for (Kernel& kernel : kernels_) take(kernel);
  while (!waiting_.empty()) runWaiting(*waiting_[0]);
  rebuild();
}

}  // namespace
}  // namespace tg::fuse

tg::Result<void> tg::run_merge_kernels(Module& module, const MergeKernelsOptions& options,
                                       const PassContext& context) {
  TG_TRY(int64_t room, budgetOf(module, options.budget));
  for (const auto& item : module.items)
    if (isStorage(item->kind)) room -= item->type.bytes();
  return fuse::rewriteFunctions(module, targetOf(module.attrs), [&](Item& func, const Target& target) {
    fuse::Merger(module, func, target, room, options.report ? &context : nullptr).run();
  });
}
