// SPDX-License-Identifier: Apache-2.0
// Runs workgroups: schedules their invocations and executes instructions.
#include "runtime/interp/kernel_machine.h"

#include <algorithm>
#include <numeric>

#include "ir/divide.h"
#include "ir/kernel/exact_sum.h"

namespace tg {
namespace {

/// A random number below `count`, the same on all platforms.
uint64_t below(std::mt19937_64& random, uint64_t count) { return random() % count; }

/// The numbers 0, 1, … in the order that a schedule has.
template <class T>
std::vector<T> ordered(T count, const KernelRunOptions& options, std::mt19937_64& random) {
  std::vector<T> out(static_cast<size_t>(count));
  std::iota(out.begin(), out.end(), T{0});
  if (options.order == LaneOrder::shuffled)
    for (size_t at = out.size(); at > 1; --at) std::swap(out[at - 1], out[below(random, at)]);
  if (options.reversed) std::ranges::reverse(out);
  return out;
}

/// Computes one lane of a lane-wise op with a C++ type.
template <KernelOp op, class T, class Real>
void computeLane(const Instr& in, LaneWord<Real>* regs) {
  using Value = lane_math::LaneValue<op>;
  if constexpr (lane_math::admits<T>(Value::types))
    setLane(regs[in.dst], Value::of(laneOf<T>(regs[in.a]), laneOf<T>(regs[in.b]), laneOf<T>(regs[in.c])));
}

}  // namespace

template <class Real>
KernelMachine<Real>::KernelMachine(const Item& kernel, const Program& program,
                                   std::span<const KernelBuffer> buffers, std::array<int64_t, 3> grid,
                                   const KernelRunOptions& options)
    : kernel_(kernel), program_(program), grid_(grid), options_(options),
      lanes_(static_cast<uint32_t>(kernel.workgroup[0] * kernel.workgroup[1] * kernel.workgroup[2])),
      memory_(program, buffers, lanes_, options.checks), initial_(program.registers),
      regs_(static_cast<size_t>(lanes_) * program.registers), pc_(lanes_), all_(lanes_), status_(lanes_),
      random_(options.seed) {
  for (const Constant& constant : program.constants) {
    if (constant.real)
      initial_[constant.reg].f = static_cast<Real>(constant.number);
    else
      initial_[constant.reg].u = constant.word;
  }
  std::iota(all_.begin(), all_.end(), 0u);
  order_ = ordered(lanes_, options, random_);
}

template <class Real>
void KernelMachine<Real>::atomic(const Atomic& atomic, Word* regs, const Visit& visit) {
  using enum Atomic::Kind;
  const Access& access = program_.accesses[atomic.access];
  bool looks = atomic.kind != exchange || atomic.oldIsRead;
  std::byte* place = memory_.locate(access, regs, visit, Kind::atomic, looks);
  Word old{}, value = regs[atomic.value], made{};
  if (place) old = memory_.get(access, place, 0);
  regs[atomic.old] = old;
  if (!place) return;
  auto fold = [&](Folding::Kind kind) { return folded<Real>({kind, atomic.dtype}, old, value); };
  switch (atomic.kind) {
  case add: made = fold(Folding::Kind::add); break;
  case bitAnd: made = fold(Folding::Kind::bitAnd); break;
  case bitOr: made = fold(Folding::Kind::bitOr); break;
  case bitXor: made = fold(Folding::Kind::bitXor); break;
  case min: made = fold(Folding::Kind::min); break;
  case max: made = fold(Folding::Kind::max); break;
  case exchange: made = value; break;
  case compareExchange: {
    Word expected = regs[atomic.expected];
    bool same =
        isFloat(atomic.dtype) ? std::memcmp(&old.f, &expected.f, sizeof(Real)) == 0 : old.u == expected.u;
    made = same ? value : old;
    break;
  }
  }
  memory_.put(access, place, 0, made);
}

/// Executes the three instructions of exact sums.
template <class Real>
void KernelMachine<Real>::exact(const Instr& in, Word* regs, const Visit& visit) {
  const Access& access = program_.accesses[in.a];
  Kind kind = in.code == Code::exactAdd     ? Kind::atomic
              : in.code == Code::exactStore ? Kind::write
                                            : Kind::read;
  std::byte* place = memory_.locate(access, regs, visit, kind, in.code != Code::exactStore);
  uint32_t words[kExactWords] = {};
  for (uint32_t part = 0; place && part < access.width; ++part)
    words[part] = memory_.get(access, place, part).u;
  if (in.code == Code::exactLoad) {
    regs[in.dst].f = exact_sum::load(words);
    return;
  }
  auto value = static_cast<float>(regs[in.b].f);
  in.code == Code::exactAdd ? exact_sum::add(words, value) : exact_sum::store(words, value);
  for (uint32_t part = 0; place && part < access.width; ++part)
    memory_.put(access, place, part, Word{words[part]});
}

/// Runs one invocation until it waits or ends; depending on the pace, also only through its next store, or for `turns_`
/// instructions.
template <class Real>
template <typename KernelMachine<Real>::Pace pace>
void KernelMachine<Real>::step(uint32_t lane) {
  Word* regs = laneRegs(lane);
  const Visit visit = this->visit(lane);
  const Instr* code = program_.code.data();
  const Access* accesses = program_.accesses.data();
  uint32_t pc = pc_[lane];
  bool stop = false;
  while (!stop) {
    const Instr& in = code[pc++];
    if constexpr (pace == Pace::counted) stop = --turns_ == 0;
    switch (in.code) {
#define OTHER(...)
#define LANES(id, ...)                                                     \
  case Code::id##_f: computeLane<KernelOp::id, Real>(in, regs); break;     \
  case Code::id##_i: computeLane<KernelOp::id, int32_t>(in, regs); break;  \
  case Code::id##_u: computeLane<KernelOp::id, uint32_t>(in, regs); break; \
  case Code::id##_b:                                                       \
    computeLane<KernelOp::id, bool>(in, regs);                             \
    break;
#include "ir/kernel/semantics.def"
    case Code::move: regs[in.dst] = regs[in.a]; break;
    case Code::select: regs[in.dst] = regs[in.a].u ? regs[in.b] : regs[in.c]; break;
    case Code::toI: regs[in.dst].i = lane_math::converted<int32_t>(regs[in.a].f); break;
    case Code::toU: regs[in.dst].u = lane_math::converted<uint32_t>(regs[in.a].f); break;
    case Code::fromI: regs[in.dst].f = lane_math::converted<Real>(regs[in.a].i); break;
    case Code::fromU: regs[in.dst].f = lane_math::converted<Real>(regs[in.a].u); break;
    case Code::notZeroF: regs[in.dst].u = lane_math::converted<bool>(regs[in.a].f); break;
    case Code::notZeroW: regs[in.dst].u = lane_math::converted<bool>(regs[in.a].u); break;
    case Code::toBits: regs[in.dst].u = bitsOf(regs[in.a]); break;
    case Code::fromBits: regs[in.dst] = ofBits<Real>(regs[in.a].u); break;
    case Code::load: memory_.load(accesses[in.a], regs, visit, &regs[in.dst]); break;
    case Code::store:
      memory_.store(accesses[in.a], regs, visit, &regs[in.b]);
      stop |= pace == Pace::toStore;
      break;
    case Code::atomic:
      atomic(program_.atomics[in.a], regs, visit);
      stop |= pace == Pace::toStore;
      break;
    case Code::exactAdd:
    case Code::exactStore:
      exact(in, regs, visit);
      stop |= pace == Pace::toStore;
      break;
    case Code::exactLoad: exact(in, regs, visit); break;
    case Code::jump:
      pc = in.a;
      if (!memory_.findings().full()) break;
      status_[lane] = Status::done;
      stop = true;
      break;
    case Code::jumpUnless:
      if (!regs[in.b].u) pc = in.a;
      break;
    case Code::checkStep:
      if (regs[in.b].u != 0) break;
      zeroStep_ = program_.ops[pc - 1];
      status_[lane] = Status::done;
      stop = true;
      break;
    case Code::barrier:
    case Code::reduce:
      status_[lane] = Status::atBarrier;
      stop = true;
      break;
    case Code::collective:
      status_[lane] = Status::atSubgroupOp;
      stop = true;
      break;
    case Code::end:
      status_[lane] = Status::done;
      stop = true;
      break;
    }
  }
  pc_[lane] = pc;
}

template <class Real>
void KernelMachine<Real>::advanceLockstep() {
  for (;;) {
    uint32_t earliest = UINT32_MAX;
    for (uint32_t lane = 0; lane < lanes_; ++lane)
      if (status_[lane] == Status::running) earliest = std::min(earliest, pc_[lane]);
    if (earliest == UINT32_MAX) return;
    for (uint32_t lane : order_) {
      if (status_[lane] != Status::running || pc_[lane] != earliest) continue;
      turns_ = 1;
      step<Pace::counted>(lane);
    }
  }
}

template <class Real>
void KernelMachine<Real>::advanceShuffled() {
  // Most instructions in a turn: often less than a load, a sum and a store take.
  constexpr uint64_t kMost = 8;
  std::vector<uint32_t> running;
  for (uint32_t lane : order_)
    if (status_[lane] == Status::running) running.push_back(lane);
  while (!running.empty()) {
    size_t at = below(random_, running.size());
    turns_ = 1 + static_cast<uint32_t>(below(random_, kMost));
    step<Pace::counted>(running[at]);
    if (status_[running[at]] == Status::running) continue;
    running[at] = running.back();
    running.pop_back();
  }
}

/// Runs all invocations of the workgroup until each of them waits or is done.
template <class Real>
void KernelMachine<Real>::advance() {
  if (options_.order == LaneOrder::lockstep) return advanceLockstep();
  if (options_.order == LaneOrder::shuffled) return advanceShuffled();
  bool whole = options_.order == LaneOrder::wholeLane;
  for (bool any = true; any;) {
    any = false;
    for (uint32_t lane : order_) {
      if (status_[lane] != Status::running) continue;
      whole ? step<Pace::free>(lane) : step<Pace::toStore>(lane);
      any |= status_[lane] == Status::running;
    }
  }
}

/// Resets all invocations of the workgroup to the start of the kernel, and sets their ids.
template <class Real>
void KernelMachine<Real>::startLanes() {
  std::array<int64_t, 3> group{group_ % grid_[0], group_ / grid_[0] % grid_[1],
                               group_ / (grid_[0] * grid_[1])};
  const auto& size = kernel_.workgroup;
  for (uint32_t lane = 0; lane < lanes_; ++lane) {
    Word* regs = laneRegs(lane);
    std::ranges::copy(initial_, regs);
    std::array<int64_t, 3> local{lane % size[0], lane / size[0] % size[1], lane / (size[0] * size[1])};
    for (size_t axis = 0; axis < 3; ++axis) {
      regs[axis].u = static_cast<uint32_t>(group[axis] * size[axis] + local[axis]);
      regs[3 + axis].u = static_cast<uint32_t>(local[axis]);
      regs[6 + axis].u = static_cast<uint32_t>(group[axis]);
      regs[9 + axis].u = static_cast<uint32_t>(grid_[axis]);
    }
    regs[Program::kSubgroupId].u = lane / options_.subgroupSize;
    regs[Program::kSubgroupLane].u = lane % options_.subgroupSize;
  }
  std::ranges::fill(pc_, 0);
  std::ranges::fill(status_, Status::running);
  subgroupTurns_.assign(divideCeil(lanes_, options_.subgroupSize), 0);
}

/// Runs one workgroup. Invocations run until all of them wait or are done. Then, if some wait at an op of a subgroup,
/// the earliest such op of each subgroup is run; otherwise all must be at the same barrier, which is released.
template <class Real>
Result<void> KernelMachine<Real>::group(int64_t index) {
  group_ = index;
  groupStart_ = ++epoch_;
  startLanes();
  memory_.startGroup();
  for (bool more = true; more;) {
    advance();
    if (zeroStep_) return failAt(zeroStep_->loc, "kernel @{}: the step of this loop is 0", kernel_.name);
    if (memory_.findings().full()) return {};
    if (runSubgroupOps()) continue;
    TG_TRY(more, releaseBarrier());
  }
  return {};
}

template <class Real>
Result<KernelCounters> KernelMachine<Real>::run() {
  for (int64_t index : ordered(grid_[0] * grid_[1] * grid_[2], options_, random_)) {
    TG_CHECK(group(index));
    if (memory_.findings().full()) return memory_.findings().take();
  }
  memory_.checkWritten(options_.complete);
  return memory_.findings().take();
}

template class KernelMachine<float>;
template class KernelMachine<double>;

}  // namespace tg
