// SPDX-License-Identifier: Apache-2.0
// Runs barriers, reductions of a workgroup, and ops of a subgroup.

#include <algorithm>
#include <cmath>

#include "runtime/interp/kernel_machine.h"

namespace tg {

template <class Real>
std::vector<LaneWord<Real>> KernelMachine<Real>::gather(const Reduction& from, uint32_t part,
                                                        std::span<const uint32_t> lanes) const {
  std::vector<Word> out;
  for (uint32_t lane : lanes) out.push_back(laneRegs(lane)[from.source + (from.repeated ? 0 : part)]);
  return out;
}

/// Reduces by a binary tree, in the same order as the generated shader.
template <class Real>
void KernelMachine<Real>::reduce(const Reduction& reduction) {
  for (uint32_t part = 0; part < reduction.width; ++part) {
    std::vector<Word> values = gather(reduction, part, all_);
    for (uint32_t width = std::bit_ceil(lanes_) / 2; width > 0; width >>= 1)
      for (uint32_t at = 0; at < width && at + width < lanes_; ++at)
        values[at] = folded<Real>(reduction.folding, values[at], values[at + width]);
    for (uint32_t lane = 0; lane < lanes_; ++lane) laneRegs(lane)[reduction.dst + part] = values[0];
  }
}

/// Called when no invocation can run: continues the workgroup after its barrier. False if all are done. An error if
/// only some have reached the barrier.
template <class Real>
Result<bool> KernelMachine<Real>::releaseBarrier() {
  if (std::ranges::all_of(status_, [](Status status) { return status == Status::done; })) return false;
  for (uint32_t lane = 0; lane < lanes_; ++lane) {
    if (status_[lane] == Status::atBarrier && pc_[lane] == pc_[order_[0]]) continue;
    uint32_t waiting = 0;
    while (status_[waiting] != Status::atBarrier) ++waiting;
    const Op* op = program_.ops[pc_[waiting] - 1];
    return failAt(op->loc, "kernel @{}: {} is reached by some invocations of a workgroup only", kernel_.name,
                  op->info().name);
  }
  const Instr& at = standsAt(0);
  if (at.code == Code::reduce) reduce(program_.reductions[at.a]);
  std::ranges::fill(status_, Status::running);
  ++epoch_;
  return true;
}

/// The position of an invocation at a collective: each enclosing loop and its iteration, then the program counter.
/// Positions grow lexicographically as an invocation proceeds.
template <class Real>
std::vector<uint32_t> KernelMachine<Real>::position(uint32_t lane) const {
  std::vector<uint32_t> out;
  for (const auto& [loop, turn] : program_.collectives[standsAt(lane).a].loops) {
    out.push_back(loop);
    out.push_back(laneRegs(lane)[turn].u);
  }
  out.push_back(pc_[lane]);
  return out;
}

/// Called when no invocation can run: in each subgroup, runs the earliest collective with the invocations that wait at
/// it. False if no invocation waits at one.
template <class Real>
bool KernelMachine<Real>::runSubgroupOps() {
  bool any = false;
  if (program_.collectives.empty()) return false;
  for (uint32_t first = 0; first < lanes_; first += options_.subgroupSize) {
    std::vector<uint32_t> active, earliest;
    const uint32_t end = std::min(lanes_, first + options_.subgroupSize);
    for (uint32_t lane = first; lane < end; ++lane) {
      if (status_[lane] != Status::atSubgroupOp) continue;
      std::vector<uint32_t> here = position(lane);
      if (active.empty() || here < earliest) {
        active.clear();
        earliest = here;
      }
      if (here == earliest) active.push_back(lane);
    }
    if (active.empty()) continue;
    any = true;
    runCollective(program_.collectives[standsAt(active[0]).a], *program_.ops[pc_[active[0]] - 1], active);
    for (uint32_t lane : active) status_[lane] = Status::running;
    if (active.size() == end - first) ++subgroupTurns_[first / options_.subgroupSize];
  }
  return any;
}

template <class Real>
void KernelMachine<Real>::runCollective(const Collective& collective, const Op& op,
                                        std::span<const uint32_t> lanes) {
  if (collective.kind == Collective::Kind::shuffle) return shuffle(collective, op, lanes);
  if (collective.kind == Collective::Kind::ballot) return ballot(collective, lanes);
  if (collective.kind == Collective::Kind::product) return product(collective, op, lanes);
  if (collective.kind == Collective::Kind::rows) return rows(collective, op, lanes);
  if (collective.kind == Collective::Kind::words) return words(collective, op, lanes);
  const Reduction& reduction = collective.reduction;
  for (uint32_t part = 0; part < reduction.width; ++part) {
    std::vector<Word> values = gather(reduction, part, lanes);
    Word sum = values[0];
    for (size_t at = 1; at < values.size(); ++at) sum = folded<Real>(reduction.folding, sum, values[at]);
    for (uint32_t lane : lanes) laneRegs(lane)[reduction.dst + part] = sum;
  }
}

/// The value of an inactive lane is undefined: gives a NaN pattern, and reports a finding.
template <class Real>
void KernelMachine<Real>::shuffle(const Collective& collective, const Op& op,
                                  std::span<const uint32_t> lanes) {
  const Reduction& moved = collective.reduction;
  uint32_t first = lanes[0] - lanes[0] % options_.subgroupSize;
  std::vector<size_t> from;  // index into lanes; lanes.size() means inactive
  for (uint32_t lane : lanes) {
    uint32_t wanted = laneRegs(lane)[collective.lane].u;
    size_t at = 0;
    while (at < lanes.size() && lanes[at] - first != wanted) ++at;
    from.push_back(at);
    if (at == lanes.size() && options_.checks) memory_.findings().absentLane(op, visit(lane), wanted);
  }
  for (uint32_t part = 0; part < moved.width; ++part) {
    std::vector<Word> values = gather(moved, part, lanes);
    values.push_back(memory_.poison());
    for (size_t at = 0; at < lanes.size(); ++at) laneRegs(lanes[at])[moved.dst + part] = values[from[at]];
  }
}

template <class Real>
void KernelMachine<Real>::ballot(const Collective& collective, std::span<const uint32_t> lanes) {
  std::array<uint32_t, 4> bits{};
  std::vector<Word> conditions = gather(collective.reduction, 0, lanes);
  for (size_t at = 0; at < lanes.size(); ++at) {
    uint32_t lane = lanes[at] % options_.subgroupSize;
    if (conditions[at].u) bits[lane / 32] |= 1u << lane % 32;
  }
  for (uint32_t lane : lanes)
    for (uint32_t part = 0; part < 4; ++part) laneRegs(lane)[collective.reduction.dst + part].u = bits[part];
}

/// Gathers the elements of a matrix from the subgroup's registers. If the workgroup does not fill the subgroup, the
/// missing elements are a NaN pattern, and a finding.
template <class Real>
std::vector<LaneWord<Real>> KernelMachine<Real>::matrix(uint32_t source, uint32_t count, const Op& op,
                                                        std::span<const uint32_t> lanes) {
  const uint32_t size = options_.subgroupSize;
  if (lanes.size() < size && options_.checks)
    memory_.findings().absentLane(op, visit(lanes[0]), static_cast<uint32_t>(lanes.size()));
  std::vector<Word> out(count, memory_.poison());
  for (uint32_t lane : lanes)
    for (uint32_t at = lane % size; at < count; at += size) out[at] = laneRegs(lane)[source + at / size];
  return out;
}

template <class Real>
void KernelMachine<Real>::spread(const std::vector<Word>& matrix, uint32_t dst,
                                 std::span<const uint32_t> lanes) {
  const uint32_t size = options_.subgroupSize;
  for (uint32_t lane : lanes)
    for (uint32_t at = lane % size; at < matrix.size(); at += size)
      laneRegs(lane)[dst + at / size] = matrix[at];
}

/// Replaces each element by the reduction of its row.
template <class Real>
void KernelMachine<Real>::rows(const Collective& collective, const Op& op, std::span<const uint32_t> lanes) {
  const Reduction& reduction = collective.reduction;
  std::vector<Word> all = matrix(reduction.source, collective.m * collective.n, op, lanes);
  for (auto row = all.begin(); row != all.end(); row += collective.n) {
    Word sum = *row;
    for (uint32_t column = 1; column < collective.n; ++column)
      sum = folded<Real>(reduction.folding, sum, row[column]);
    std::fill_n(row, collective.n, sum);
  }
  spread(all, reduction.dst, lanes);
}

/// Packs pairs of neighbours of a 16-bit matrix into words, `width` words to an element. Element e goes to lane e %
/// size.
template <class Real>
void KernelMachine<Real>::words(const Collective& collective, const Op& op, std::span<const uint32_t> lanes) {
  const Reduction& reduction = collective.reduction;
  const uint32_t size = options_.subgroupSize;
  const std::vector<Word> all = matrix(reduction.source, collective.m * collective.n, op, lanes);
  auto bits = [&](size_t at) { return uint32_t{narrowBits(reduction.folding.dtype, double{all[at].f})}; };
  for (uint32_t lane : lanes)
    for (size_t element = lane % size, slot = 0; element * reduction.width * 2 < all.size();
         element += size, ++slot)
      for (size_t part = 0; part < reduction.width; ++part) {
        const size_t first = (element * reduction.width + part) * 2;
        laneRegs(lane)[reduction.dst + slot * reduction.width + part].u = bits(first) | bits(first + 1) << 16;
      }
}

/// Computes A·B + C.
template <class Real>
void KernelMachine<Real>::product(const Collective& collective, const Op& op,
                                  std::span<const uint32_t> lanes) {
  const uint32_t m = collective.m, n = collective.n, k = collective.k;
  const std::vector<Word> a = matrix(collective.reduction.source, m * k, op, lanes),
                          b = matrix(collective.b, k * n, op, lanes);
  std::vector<Word> c = matrix(collective.c, m * n, op, lanes);
  for (uint32_t i = 0; i < m; ++i)
    for (uint32_t j = 0; j < n; ++j)
      for (uint32_t deep = 0; deep < k; ++deep)
        c[i * n + j].f = std::fma(a[i * k + deep].f, b[deep * n + j].f, c[i * n + j].f);
  spread(c, collective.reduction.dst, lanes);
}

template class KernelMachine<float>;
template class KernelMachine<double>;

}  // namespace tg
