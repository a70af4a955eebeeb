// SPDX-License-Identifier: Apache-2.0
// merge-kernels: kernels that do not depend on each other, in one. A step has dozens of small reductions, such as
// gradients of gains and biases: each alone costs a dispatch and fills a fraction of the device.
//
//   before:  %a = tg.fused (%x = %x) {schedule = column{…}} { tg.sum; … }
//            %b = tg.fused (%y = %y) {schedule = map{…}} { tg.sum; … }
//   after:   %a, %b = tg.fused (%x = %x, %y = %y)
//                {schedule = parts{of = [column{…}, map{…}], results = [1, 1]}} { tg.sum; tg.sum; … }
//
// Kernels are taken in text order. A small reduction waits, and those that wait together become one kernel when the
// first reader of a result comes:
//
//   text      a   p1  b  p2  c   r         a, b, c wait; p1 and p2 do not depend on them; r reads b
//   becomes   p1  p2  {a | b | c}  r       side by side, or as one pass over the rows that they share
//
// A kernel that computes by elements or rows of a tensor that a kernel soon behind it reads in the same loops becomes
// results of that one, its host, such as a product's epilogue. Until then it and its readers are put off:
//
//   text      a   r1  p   h   r2       h reads what a does, and does not depend on a; r1 and r2 read from a
//   becomes   p   {h | a}  r1  r2      where h keeps its schedule; else all stay as they are
//
// Where a step takes more than its budget there are no hosts, and what frees many bytes does not wait. A kernel that
// reads from one that waits waits a level above it. Side by side, each part keeps its schedule and gets workgroups of
// its own; passes over the same rows of one tensor become one region with one schedule.
//
// Requires: stage(fused).
// Ensures: each comes before what reads from it; no more bytes are alive at one time than before, but for one part in a
//   hundred or 256 KiB; no kernel binds more than the target allows. Bytes are counted as plan places them: groups
//   whole, results in place of operands that die, none for what is returned or committed.
// Where: behind all passes that move ops between kernels, before choose-schedules, which knows kernels by their content.
#include <fmt/format.h>

#include <algorithm>
#include <climits>
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
#include "passes/fuse/hosts.h"
#include "passes/fuse/joined.h"
#include "passes/fuse/lives.h"
#include "passes/fuse/target_of.h"
#include "passes/pass.h"

namespace tg::fuse {
namespace {

using table::Fusion;

/// In place of a merged kernel: a kernel is put off until a host comes.
constexpr int kLate = -2;

/// A formed kernel, or a collective.
struct Kernel {
  Op* op = nullptr;
  std::vector<const Value*> reads;  ///< distinct
  std::vector<const Value*> bound;  ///< of these, those that are bindings of their own
  size_t bindings = 0;              ///< of groups, and results
  std::optional<RowSpace> rows;     ///< of a row schedule
  int64_t groups = 0;               ///< workgroups, at least
  bool isPart = false;              ///< may stand beside others
  bool waits = false;               ///< others that it may stand with are worth waiting for
  bool isAwaited = false;           ///< by another that waits
  int waitsIn = -1;                 ///< the merged one, or kLate
};

/// Kernels that wait, to be one.
struct Merged {
  std::vector<std::vector<int>> parts;  ///< each a schedule of its own, over one or more kernels
  std::vector<const Value*> reads, bound;
  size_t bindings = 0;     ///< of groups, and results
  int level = 0;           ///< above those of the kernels that wait and that these read from
  int deadline = INT_MAX;  ///< place in the text
  int64_t workgroup = 0;   ///< that a part needs; 0 for any
  int64_t groups = 0;
  bool sideBySide = true;  ///< all parts may have others beside them
};

/// What runs next: a kernel by itself, or merged ones.
struct Turn {
  bool isMerged = false;
  int index = 0;  ///< of kernels_ or of merged_
};

void addOnce(std::vector<const Value*>& list, const Value* value) {
  if (std::find(list.begin(), list.end(), value) == list.end()) list.push_back(value);
}

class Merger {
 public:
  /// No kernel has a host where more than `room` bytes are alive. Says to `report`, unless that is null, which kernels
  /// became one.
  Merger(const Module& module, Item& func, const Target& target, int64_t room, const PassContext* report)
      : module_(module), func_(func), target_(target), room_(room), report_(report) {}
  void run();

 private:
  void collect();
  void describe(Kernel& kernel) const;
  /// What a result takes of the arena.
  int64_t bytesOf(const Value& value) const { return elsewhere_.contains(&value) ? 0 : value.type.bytes(); }
  int64_t newBytes(const Kernel& kernel) const;
  int64_t takenOver(const Kernel& kernel) const;
  int waitsIn(const Value* value) const;
  void findRuns();
  void measureLife();
  void compute(const std::vector<int>& kernels);
  void release(const Value* value);
  void take(int at);
  void takeHost(int at);
  void place(int at);
  void wait(int at);
  void runWaiting(int index);
  bool fits(const Merged& merged, const Kernel& kernel) const;
  std::vector<Op*> opsOf(const std::vector<int>& kernels) const;
  bool joinsRows(Merged& merged, int at);
  bool joinsBeside(Merged& merged, int at);
  bool joinsHost(Merged& merged, int at);
  void join(int index, int at);
  std::unique_ptr<Op> build(const Merged& merged);
  void keepLivesShort();
  void rebuild();

  /// Values that lie one behind the other, as kernels write or read them as groups.
  struct Run {
    int64_t bytes = 0;
    int left = 0;  ///< values that are computed, or read, later
    bool stands = false;
    bool isPending = false;  ///< not there yet, and a kernel that waits begins it
  };
  const Module& module_;
  Item& func_;
  const Target& target_;
  const int64_t room_;
  const PassContext* report_;
  std::vector<Kernel> kernels_;
  std::unordered_map<const Value*, int> maker_;        ///< of kernels' results: the kernel
  std::unordered_map<const Value*, int> readers_;      ///< of values: how many kernels and effects read them
  std::unordered_map<const Value*, int> readersLeft_;  ///< of these, those that have not run
  std::unordered_set<const Value*> elsewhere_;         ///< results that take no bytes of the arena
  std::unordered_map<const Value*, int> runOf_;        ///< an index into runs_, of members of groups
  std::vector<Run> runs_;
  int64_t live_ = 0, most_ = 0;  ///< bytes of results that are read later, now and until now at most
  int64_t limit_ = 0;            ///< what they may be
  int64_t pending_ = 0;          ///< bytes that results of waiting kernels will take
  std::vector<Merged> merged_;
  std::vector<int> waiting_;  ///< of merged_
  std::vector<int> hosts_;    ///< of kernels
  std::vector<int> late_;     ///< kernels that are put off, until this one comes
  int host_ = -1;
  std::vector<Turn> order_;  ///< in which they run
};

void Merger::collect() {
  for (Op* op : func_.body.ops) {
    if (!isTurn(*op)) continue;
    Kernel kernel;
    kernel.op = op;
    std::unordered_set<const Value*> seen;
    forEachUse(static_cast<const Op&>(*op), [&](const Value* value) {
      if (seen.insert(value).second) kernel.reads.push_back(value);
    });
    for (const Operand& operand : op->operands) {
      if (op->code != Opcode::fused) break;
      if (operand.items[0].kind == Operand::Kind::value)
        addOnce(kernel.bound, operand.items[0].value);
      else
        ++kernel.bindings;
    }
    kernel.bindings += op->results.size();
    for (const auto& result : op->results) maker_[result.get()] = static_cast<int>(kernels_.size());
    describe(kernel);
    kernels_.push_back(std::move(kernel));
  }
  for (const Kernel& kernel : kernels_)
    for (const Value* value : kernel.reads) {
      ++readers_[value];
      if (auto maker = maker_.find(value); kernel.waits && maker != maker_.end())
        kernels_[static_cast<size_t>(maker->second)].isAwaited = true;
    }
  for (Op* op : func_.body.ops)
    if (!isTurn(*op))
      forEachUse(static_cast<const Op&>(*op), [&](Value* value) {
        ++readers_[value];
        elsewhere_.insert(value);
      });
  std::vector<const Op*> ops;
  for (const Kernel& kernel : kernels_) ops.push_back(kernel.op);
  hosts_ = hostsOf(ops, [&](size_t at) { return !kernels_[at].waits; });
  findRuns();
}

/// Members of one group, and of groups that have one in common, are a run.
void Merger::findRuns() {
  runs_.clear();
  for (const std::vector<const Value*>& members : runsOfGroups(func_)) {
    Run run;
    for (const Value* member : members) {
      runOf_[member] = static_cast<int>(runs_.size());
      run.bytes += bytesOf(*member);
    }
    run.left = static_cast<int>(members.size());
    runs_.push_back(run);
  }
}

/// What of a kernel decides whom it may join.
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
  // One pass over each row, whose results are the row's.
  const bool statistics = kernel.rows && largest <= kernel.rows->rows;
  if (isRow)
    kernel.isPart = statistics && largest <= kFewResults;
  else
    kernel.isPart = largest <= kFewResults || (reduces && target_.reduce == "workgroup");
  kernel.waits = kernel.isPart || statistics;
  kernel.groups = isRow ? largest : largest / resultsAtOnce(*schedule) + 1;
}

/// Bytes of a kernel's results that are not alive yet, and not pending.
int64_t Merger::newBytes(const Kernel& kernel) const {
  int64_t bytes = 0;
  std::unordered_set<int> begun;
  for (const auto& result : kernel.op->results) {
    auto run = runOf_.find(result.get());
    if (run == runOf_.end())
      bytes += bytesOf(*result);
    else if (const Run& members = runs_[static_cast<size_t>(run->second)];
             !members.stands && !members.isPending)
      bytes += begun.insert(run->second).second ? members.bytes : 0;
  }
  return bytes;
}

/// Those of them that take the place of operands.
int64_t Merger::takenOver(const Kernel& kernel) const {
  return bytesTakenOver(*kernel.op, module_, [&](const Value& value) {
    auto left = readersLeft_.find(&value);
    return maker_.contains(&value) && !runOf_.contains(&value) && !elsewhere_.contains(&value) &&
           left != readersLeft_.end() && left->second == 1;
  });
}

/// The merged kernel that waits to compute a value, or -1.
int Merger::waitsIn(const Value* value) const {
  auto maker = maker_.find(value);
  return maker == maker_.end() ? -1 : kernels_[static_cast<size_t>(maker->second)].waitsIn;
}

/// A value is read no more.
void Merger::release(const Value* value) {
  auto run = runOf_.find(value);
  if (run == runOf_.end())
    live_ -= bytesOf(*value);
  else if (Run& members = runs_[static_cast<size_t>(run->second)]; --members.left == 0)
    live_ -= members.bytes;
}

/// Keeps account of the bytes alive: results of kernels that run as one come, then what nobody reads any more goes.
void Merger::compute(const std::vector<int>& kernels) {
  int64_t taken = 0;
  for (int at : kernels) {
    Kernel& kernel = kernels_[static_cast<size_t>(at)];
    taken += takenOver(kernel);
    live_ += newBytes(kernel);
    for (const auto& result : kernel.op->results) {
      auto run = runOf_.find(result.get());
      if (run == runOf_.end()) {
        if (kernel.waitsIn >= 0) pending_ -= bytesOf(*result);
        continue;
      }
      Run& members = runs_[static_cast<size_t>(run->second)];
      members.stands = true;
      if (!std::exchange(members.isPending, false)) continue;
      pending_ -= members.bytes;
      live_ += members.bytes;
    }
    kernel.waitsIn = -1;
  }
  most_ = std::max(most_, live_ - taken);
  for (int at : kernels) {
    const Kernel& kernel = kernels_[static_cast<size_t>(at)];
    for (const Value* value : kernel.reads)
      if (--readersLeft_[value] == 0 && maker_.contains(value)) release(value);
    for (const auto& result : kernel.op->results)
      if (readersLeft_[result.get()] == 0) release(result.get());
  }
}

/// The most bytes alive at one time as the text stands.
void Merger::measureLife() {
  readersLeft_ = readers_;
  for (int at = 0; at < static_cast<int>(kernels_.size()); ++at) compute({at});
  limit_ = most_ + std::max(most_ / kLiveGrowth, kLeastGrowth);
  readersLeft_ = readers_;
  live_ = most_ = 0;
  findRuns();
}

/// Whether both stay within the target's bindings, as one.
bool Merger::fits(const Merged& merged, const Kernel& kernel) const {
  Bindings bound(target_);
  for (const std::vector<const Value*>* read : {&merged.bound, &kernel.bound})
    for (const Value* value : *read) bound.read(*value);
  bound.write(merged.bindings + kernel.bindings);
  return bound.fit();
}

std::vector<Op*> Merger::opsOf(const std::vector<int>& kernels) const {
  std::vector<Op*> ops;
  for (int at : kernels) ops.push_back(kernels_[static_cast<size_t>(at)].op);
  return ops;
}

/// Passes over the same rows of a tensor that both read become one kernel over rows.
bool Merger::joinsRows(Merged& merged, int at) {
  const Kernel& kernel = kernels_[static_cast<size_t>(at)];
  if (!kernel.rows || merged.parts.size() != 1) return false;
  bool shares = false;
  for (int other : merged.parts[0]) {
    const Kernel& partner = kernels_[static_cast<size_t>(other)];
    if (partner.rows != kernel.rows) return false;
    for (const Value* value : partner.reads)
      shares = shares || (value->type.elements() == kernel.rows->rows * kernel.rows->length &&
                          std::find(kernel.reads.begin(), kernel.reads.end(), value) != kernel.reads.end());
  }
  if (!shares || kernel.rows->length < 2) return false;
  std::vector<Op*> ops = opsOf(merged.parts[0]);
  ops.push_back(kernel.op);
  if (!std::holds_alternative<RowSchedule>(scheduleOf(*joined(ops, target_)))) return false;
  merged.parts[0].push_back(at);
  merged.sideBySide = merged.sideBySide && kernel.isPart;
  return true;
}

bool Merger::joinsBeside(Merged& merged, int at) {
  const Kernel& kernel = kernels_[static_cast<size_t>(at)];
  const int64_t needed = neededWorkgroup(*kernel.op), workgroup = std::max(merged.workgroup, needed);
  // `groups` assumes workgroups of kSmallestGroup invocations; a short row makes them smaller, and so more.
  const int64_t times = workgroup ? std::max<int64_t>(kSmallestGroup / workgroup, 1) : 1;
  if (!kernel.isPart || !merged.sideBySide || (needed && merged.workgroup && needed != merged.workgroup) ||
      !gives(target_, LimitId::grid, times * (merged.groups + kernel.groups)))
    return false;
  merged.parts.push_back({at});
  merged.workgroup = workgroup;
  return true;
}

/// A host takes a kernel along where it keeps its schedule.
bool Merger::joinsHost(Merged& merged, int at) {
  const Kernel& kernel = kernels_[static_cast<size_t>(at)];
  if (!fits(merged, kernel)) return false;
  std::vector<Op*> ops = opsOf(merged.parts[0]);
  ops.push_back(kernel.op);
  if (scheduleOf(*joined(ops, target_)) != scheduleOf(*ops[0])) return false;
  merged.parts[0].push_back(at);
  for (const Value* value : kernel.bound) addOnce(merged.bound, value);
  merged.bindings += kernel.bindings;
  return true;
}

void Merger::join(int index, int at) {
  Merged& merged = merged_[static_cast<size_t>(index)];
  Kernel& kernel = kernels_[static_cast<size_t>(at)];
  kernel.waitsIn = index;
  for (const auto& result : kernel.op->results) {
    auto run = runOf_.find(result.get());
    if (run == runOf_.end()) {
      pending_ += bytesOf(*result);
    } else if (Run& members = runs_[static_cast<size_t>(run->second)];
               !members.stands && !std::exchange(members.isPending, true)) {
      pending_ += members.bytes;
    }
  }
  for (const Value* value : kernel.reads) {
    merged.reads.push_back(value);
    if (target_.reduce != "workgroup" && value->type.bytes() > kLargeBytes && maker_.contains(value))
      merged.deadline = std::min(merged.deadline, at + kSoon);
  }
  for (const Value* value : kernel.bound) addOnce(merged.bound, value);
  merged.bindings += kernel.bindings;
  merged.groups += kernel.groups;
}

/// Lets a kernel wait, with others where that is possible, the first first.
void Merger::wait(int at) {
  const Kernel& kernel = kernels_[static_cast<size_t>(at)];
  int level = 0;
  for (const Value* value : kernel.reads) {
    if (const int from = waitsIn(value); from >= 0)
      level = std::max(level, merged_[static_cast<size_t>(from)].level + 1);
  }
  // At a higher level than needed those that wait for its results would have to stand still higher.
  for (bool same : {true, false}) {
    if (!same && kernel.isAwaited) break;
    for (int index : waiting_) {
      Merged& merged = merged_[static_cast<size_t>(index)];
      if ((same ? merged.level == level : merged.level > level) && fits(merged, kernel) &&
          (joinsRows(merged, at) || joinsBeside(merged, at)))
        return join(index, at);
    }
  }
  if (waiting_.size() == kMostWaiting) runWaiting(waiting_[0]);
  Merged own;
  own.parts = {{at}};
  own.level = level;
  own.workgroup = neededWorkgroup(*kernel.op);
  own.sideBySide = kernel.isPart;
  waiting_.push_back(static_cast<int>(merged_.size()));
  merged_.push_back(std::move(own));
  join(waiting_.back(), at);
}

/// Has waiting kernels run now, after those that they read from.
void Merger::runWaiting(int index) {
  std::erase(waiting_, index);
  std::vector<int> members;
  for (const std::vector<int>& part : merged_[static_cast<size_t>(index)].parts)
    members.insert(members.end(), part.begin(), part.end());
  for (const Value* value : merged_[static_cast<size_t>(index)].reads) {
    if (const int from = waitsIn(value); from >= 0) runWaiting(from);
  }
  compute(members);
  order_.push_back({true, index});
}

/// What has a host is put off until that comes, and so is what reads from it.
void Merger::take(int at) {
  Kernel& kernel = kernels_[static_cast<size_t>(at)];
  if (at == host_) return takeHost(at);
  const int host = hosts_[static_cast<size_t>(at)];
  if (host_ < 0) host_ = host;
  if (host_ < 0 || (host != host_ && std::none_of(kernel.reads.begin(), kernel.reads.end(),
                                                  [&](auto* value) { return waitsIn(value) == kLate; })))
    return place(at);
  kernel.waitsIn = kLate;
  late_.push_back(at);
}

/// A host, with what it takes along of what was put off, and the rest behind it. All come in the order of the text where
/// it takes none, or where the results could be too many bytes.
void Merger::takeHost(int at) {
  const std::vector<int> late = std::exchange(late_, {});
  host_ = -1;
  const Kernel& kernel = kernels_[static_cast<size_t>(at)];
  int64_t bytes = newBytes(kernel);
  Merged merged;
  merged.parts = {{at}};
  merged.bound = kernel.bound;
  merged.bindings = kernel.bindings;
  std::vector<int> rest;
  for (int each : late) {
    kernels_[static_cast<size_t>(each)].waitsIn = -1;
    bytes += newBytes(kernels_[static_cast<size_t>(each)]);
    if (hosts_[static_cast<size_t>(each)] != at || !joinsHost(merged, each)) rest.push_back(each);
  }
  const bool joins = rest.size() < late.size();
  while (joins && !waiting_.empty() && live_ + pending_ + bytes > limit_) runWaiting(waiting_[0]);
  if (!joins || live_ + pending_ + bytes > limit_) {
    for (int each : late) place(each);
    return place(at);
  }
  for (int each : merged.parts[0])
    for (const Value* value : kernels_[static_cast<size_t>(each)].reads)
      if (const int from = waitsIn(value); from >= 0) runWaiting(from);
  compute(merged.parts[0]);
  order_.push_back({true, static_cast<int>(merged_.size())});
  merged_.push_back(std::move(merged));
  for (int each : rest) place(each);
}

/// Has a kernel run, or wait for others.
void Merger::place(int at) {
  const Kernel& kernel = kernels_[static_cast<size_t>(at)];
  for (size_t i = waiting_.size(); i-- > 0;)
    if (i < waiting_.size() && merged_[static_cast<size_t>(waiting_[i])].deadline <= at)
      runWaiting(waiting_[i]);
  if (kernel.waits) return wait(at);
  for (const Value* value : kernel.reads) {
    if (const int from = waitsIn(value); from >= 0) runWaiting(from);
  }
  if (kernel.rows)
    for (int index : waiting_)
      if (fits(merged_[static_cast<size_t>(index)], kernel) &&
          joinsRows(merged_[static_cast<size_t>(index)], at))
        return join(index, at);
  while (!waiting_.empty() && live_ + pending_ + newBytes(kernel) - takenOver(kernel) > limit_)
    runWaiting(waiting_[0]);
  compute({at});
  order_.push_back({false, at});
}

std::unique_ptr<Op> Merger::build(const Merged& merged) {
  std::vector<Op*> all;
  PartsSchedule schedules;
  for (const std::vector<int>& part : merged.parts) {
    const std::vector<Op*> ops = opsOf(part);
    int64_t count = 0;
    for (const Op* op : ops) count += static_cast<int64_t>(op->results.size());
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
  if (report_) report_->remark(fused->loc, fmt::format("the kernels of {} are one", names));
  return fused;
}

void Merger::rebuild() {
  OpList& body = func_.body.ops;
  OpList old = body.takeAll(), effects;
  for (Op* op : old.all())
    if (!isTurn(*op)) (readsSymbol(*op) ? body : effects).push_back(old.take(op));
  for (const Turn& turn : order_) {
    const Merged* merged = turn.isMerged ? &merged_[static_cast<size_t>(turn.index)] : nullptr;
    if (merged && (merged->parts.size() > 1 || merged->parts[0].size() > 1)) {
      body.push_back(build(*merged));
      continue;
    }
    const int at = merged ? merged->parts[0][0] : turn.index;
    body.push_back(old.take(kernels_[static_cast<size_t>(at)].op));
  }
  body.append(std::move(effects));
}

/// With a budget plan chooses what runs again: it knows a kernel that computes what an earlier one did. What frees many
/// bytes, as the norm of a group of gradients, does not wait.
void Merger::keepLivesShort() {
  std::fill(hosts_.begin(), hosts_.end(), -1);
  for (Kernel& kernel : kernels_) {
    int64_t read = 0;
    for (const Value* value : kernel.reads) read += maker_.contains(value) ? bytesOf(*value) : 0;
    if (read > std::max(limit_ / kLiveGrowth, kLeastGrowth)) kernel.waits = false;
  }
}

void Merger::run() {
  collect();
  if (kernels_.size() < 2) return;
  measureLife();
  if (limit_ > room_) keepLivesShort();
  for (int at = 0; at < static_cast<int>(kernels_.size()); ++at) take(at);
  while (!waiting_.empty()) runWaiting(waiting_[0]);
  rebuild();
}

}  // namespace
}  // namespace tg::fuse

namespace tg {

Result<void> run_merge_kernels(Module& module, const MergeKernelsOptions& options,
                               const PassContext& context) {
  TG_TRY(int64_t room, budgetOf(module, options.budget));
  for (const auto& item : module.items)
    if (item->kind == ItemKind::param || item->kind == ItemKind::state) room -= item->type.bytes();
  return fuse::rewriteFunctions(module, targetOf(module.attrs), [&](Item& func, const Target& target) {
    fuse::Merger(module, func, target, room, options.report ? &context : nullptr).run();
  });
}

}  // namespace tg
