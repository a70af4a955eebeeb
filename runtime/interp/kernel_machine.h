// SPDX-License-Identifier: Apache-2.0
// Interprets a flattened kernel: runs the invocations of a workgroup alternately, with registers of one real type.
#pragma once

#include <random>
#include <span>
#include <vector>

#include "ir/result.h"
#include "runtime/interp/kernel_interp.h"
#include "runtime/interp/kernel_memory.h"
#include "runtime/interp/kernel_program.h"

namespace tg {

template <class Real>
class KernelMachine {
 public:
  /// All arguments must outlive the machine. The buffers must fit the program's memories.
  KernelMachine(const Item& kernel, const Program& program, std::span<const KernelBuffer> buffers,
                std::array<int64_t, 3> grid, const KernelRunOptions& options);
  Result<KernelCounters> run();

 private:
  using Word = LaneWord<Real>;
  using Kind = RaceShadow::Kind;
  enum class Pace : uint8_t { free, toStore, counted };
  enum class Status : uint8_t { running, atSubgroupOp, atBarrier, done };

  // kernel_machine.cpp: workgroups, turns, instructions.
  Result<void> group(int64_t index);
  void startLanes();
  void advance();
  void advanceLockstep();
  void advanceShuffled();
  template <Pace pace>
  void step(uint32_t lane);
  // Not inlined, so that the loop over instructions stays small.
  [[gnu::noinline]] void atomic(const Atomic& atomic, Word* regs, const Visit& visit);
  [[gnu::noinline]] void exact(const Instr& in, Word* regs, const Visit& visit);

  // kernel_collectives.cpp: barriers and ops of a workgroup or subgroup.
  Result<bool> releaseBarrier();
  void reduce(const Reduction& reduction);
  bool runSubgroupOps();
  std::vector<uint32_t> position(uint32_t lane) const;
  void runCollective(const Collective& collective, const Op& op, std::span<const uint32_t> lanes);
  void shuffle(const Collective& collective, const Op& op, std::span<const uint32_t> lanes);
  void ballot(const Collective& collective, std::span<const uint32_t> lanes);
  void product(const Collective& collective, const Op& op, std::span<const uint32_t> lanes);
  void rows(const Collective& collective, const Op& op, std::span<const uint32_t> lanes);
  void words(const Collective& collective, const Op& op, std::span<const uint32_t> lanes);
  std::vector<Word> matrix(uint32_t source, uint32_t count, const Op& op, std::span<const uint32_t> lanes);
  void spread(const std::vector<Word>& matrix, uint32_t dst, std::span<const uint32_t> lanes);
  std::vector<Word> gather(const Reduction& from, uint32_t part, std::span<const uint32_t> lanes) const;

  Word* laneRegs(uint32_t lane) { return &regs_[static_cast<size_t>(lane) * program_.registers]; }
  const Word* laneRegs(uint32_t lane) const { return &regs_[static_cast<size_t>(lane) * program_.registers]; }
  Visit visit(uint32_t lane) const {
    const uint32_t subgroup = lane / options_.subgroupSize;
    return {lane,
            static_cast<uint32_t>(group_ * lanes_) + lane,
            epoch_,
            groupStart_,
            static_cast<uint32_t>(group_) * static_cast<uint32_t>(subgroupTurns_.size()) + subgroup,
            subgroupTurns_[subgroup]};
  }
  const Instr& standsAt(uint32_t lane) const { return program_.code[pc_[lane] - 1]; }

  const Item& kernel_;
  const Program& program_;
  std::array<int64_t, 3> grid_;
  KernelRunOptions options_;
  uint32_t lanes_;
  KernelMemory<Real> memory_;
  std::vector<Word> initial_, regs_;
  std::vector<uint32_t> pc_, order_, all_;
  std::vector<Status> status_;
  std::mt19937_64 random_;
  uint32_t turns_ = 0;  // instructions left in the turn, for Pace::counted
  uint32_t epoch_ = 0, groupStart_ = 0;
  std::vector<uint32_t> subgroupTurns_;  // by subgroup of the workgroup; turns as in RaceShadow
  int64_t group_ = 0;
  const Op* zeroStep_ = nullptr;  // a loop with step 0, which would never end
};

/// Combines two values by the kind of a folding.
template <class Real>
LaneWord<Real> folded(const Folding& folding, LaneWord<Real> x, LaneWord<Real> y) {
  using enum Folding::Kind;
  bool real = isFloat(folding.dtype), isSigned = folding.dtype == DType::i32;
  LaneWord<Real> out{};
  switch (folding.kind) {
  case add: real ? void(out.f = x.f + y.f) : void(out.u = x.u + y.u); break;
  case mul: real ? void(out.f = x.f * y.f) : void(out.u = x.u * y.u); break;
  case max:
    if (real)
      out.f = lane_math::max(x.f, y.f);
    else
      out.u = isSigned ? static_cast<uint32_t>(std::max(x.i, y.i)) : std::max(x.u, y.u);
    break;
  case min:
    if (real)
      out.f = lane_math::min(x.f, y.f);
    else
      out.u = isSigned ? static_cast<uint32_t>(std::min(x.i, y.i)) : std::min(x.u, y.u);
    break;
  case bitAnd: out.u = x.u & y.u; break;
  case bitOr: out.u = x.u | y.u; break;
  case bitXor: out.u = x.u ^ y.u; break;
  }
  return out;
}

extern template class KernelMachine<float>;
extern template class KernelMachine<double>;

}  // namespace tg
