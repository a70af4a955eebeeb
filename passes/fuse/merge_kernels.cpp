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
// rows, for example part of a product's epilogue. The kernel and its readers are put off until the host comes:
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

/// The value of Kernel::waitsIn for a kernel that is put off until a host comes.
constexpr int kLate = -2;

/// A kernel of the function, or a collective.
struct Kernel {
  Op* op = nullptr;
  std::vector<const Value*> reads;  ///< distinct
  std::vector<const Value*> bound;  ///< those of `reads` that have a binding each
  size_t bindings = 0;              ///< the number of other bindings: groups, and results
  std::optional<RowSpace> rows;     ///< of a row schedule
  int64_t groups = 0;               ///< a lower bound of its workgroups
  bool isPart = false;              ///< whether it may stand beside others
  bool waits = false;               ///< whether it waits for others to be merged with
  bool isAwaited = false;           ///< whether a kernel that may wait reads its result
  int waitsIn = -1;                 ///< the index in merged_ while it waits, or kLate; -1 otherwise
};

/// Kernels that wait and will become one.
struct Merged {
  std::vector<std::vector<int>> parts;  ///< each has one schedule and one or more kernels
  std::vector<const Value*> reads, bound;
  size_t bindings = 0;     ///< the number of other bindings: groups, and results
  int level = 0;           ///< above the levels of all waiting kernels that these read from
  int deadline = INT_MAX;  ///< the index of the kernel before which they run at the latest
  int64_t workgroup = 0;   ///< the size that a part requires; 0 for any
  int64_t groups = 0;
  bool sideBySide = true;  ///< whether all parts may stand beside others
};

/// One step of the new order: a kernel by itself, or merged ones.
struct Turn {
  bool isMerged = false;
  int index = 0;  ///< of kernels_ or of merged_
};

void addOnce(std::vector<const Value*>& list, const Value* value) {
  if (std::find(list.begin(), list.end(), value) == list.end()) list.push_back(value);
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
  void describe(Kernel& kernel) const;
  /// Bytes of a value in the arena.
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

  /// Values that lie one behind the other, because kernels write or read them as groups.
  struct Run {
    int64_t bytes = 0;
    int left = 0;  ///< values with readers left, or not computed yet
    bool stands = false;
    bool isPending = false;  ///< not computed yet, and a waiting kernel will write the first of them
  };
  const Module& module_;
  Item& func_;
  const Target& target_;
  const int64_t room_;
  const PassContext* report_;
  std::vector<Kernel> kernels_;
  std::unordered_map<const Value*, int> maker_;        ///< the kernel that computes a value
  std::unordered_map<const Value*, int> readers_;      ///< how many kernels and effects read a value
  std::unordered_map<const Value*, int> readersLeft_;  ///< of these, those that have not run
  std::unordered_set<const Value*> elsewhere_;         ///< results that take no bytes of the arena
  std::unordered_map<const Value*, int> runOf_;        ///< members of groups: an index into runs_
  std::vector<Run> runs_;
  int64_t live_ = 0, most_ = 0;  ///< live bytes now, and the most so far
  int64_t limit_ = 0;            ///< the most that is allowed
  int64_t pending_ = 0;          ///< bytes of the results of waiting kernels
  std::vector<Merged> merged_;
  std::vector<int> waiting_;  ///< indices into merged_
  std::vector<int> hosts_;    ///< by kernel: its host, or -1
  std::vector<int> late_;     ///< kernels that are put off until host_ comes
  int host_ = -1;
  std::vector<Turn> order_;  ///< the new order
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

/// Makes a run of the members of each group; groups with a common member share one.
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

/// Bytes of a kernel's results that are neither alive nor pending.
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

/// Of these, the bytes that plan can place in operands that die at the kernel.
int64_t Merger::takenOver(const Kernel& kernel) const {
  return bytesTakenOver(*kernel.op, module_, [&](const Value& value) {
    auto left = readersLeft_.find(&value);
    return maker_.contains(&value) && !runOf_.contains(&value) && !elsewhere_.contains(&value) &&
           left != readersLeft_.end() && left->second == 1;
  });
}

/// The index of the merged kernel that will compute a value, kLate if its kernel is put off, or -1.
int Merger::waitsIn(const Value* value) const {
  auto maker = maker_.find(value);
  return maker == maker_.end() ? -1 : kernels_[static_cast<size_t>(maker->second)].waitsIn;
}

/// Counts a value as dead.
void Merger::release(const Value* value) {
  auto run = runOf_.find(value);
  if (run == runOf_.end())
    live_ -= bytesOf(*value);
  else if (Run& members = runs_[static_cast<size_t>(run->second)]; --members.left == 0)
    live_ -= members.bytes;
}

/// Updates the live bytes for kernels that run as one: their results become alive, then values without readers left die.
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

/// Computes the peak of live bytes in the present order, and from it the limit.
void Merger::measureLife() {
  readersLeft_ = readers_;
  for (int at = 0; at < static_cast<int>(kernels_.size()); ++at) compute({at});
  limit_ = most_ + std::max(most_ / kLiveGrowth, kLeastGrowth);
  readersLeft_ = readers_;
  live_ = most_ = 0;
  findRuns();
}

/// Whether both keep the target's bindings when merged.
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

/// Adds a kernel to a merged one if both pass over the same rows of a tensor: one kernel over rows computes all.
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

/// Adds a kernel to its host if the host keeps its schedule.
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

/// Lets a kernel wait: in the first merged kernel that it can join, or in a new one.
void Merger::wait(int at) {
  const Kernel& kernel = kernels_[static_cast<size_t>(at)];
  int level = 0;
  for (const Value* value : kernel.reads) {
    if (const int from = waitsIn(value); from >= 0)
      level = std::max(level, merged_[static_cast<size_t>(from)].level + 1);
  }
  // It joins a higher level than needed only if nothing that waits reads it: that would have to move up further.
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

/// Runs a waiting kernel now, after those that it reads from.
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

/// Takes the next kernel of the text. A kernel with a host is put off until that comes, and so are its readers.
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

/// Places a host with those of the put-off kernels that it can take, and the others behind it. If it takes none, or if the
/// results could exceed the limit, all stay in text order.
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

/// Lets a kernel wait, adds it to a waiting pass over its rows, or runs it.
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

/// For steps above their budget. No hosts: plan chooses what runs again, and it recognises a kernel that computes the same
/// as an earlier one. Kernels that free many bytes, such as the norm of a group of gradients, do not wait.
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
