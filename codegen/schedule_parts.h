// SPDX-License-Identifier: Apache-2.0
// What the files of the kinds of schedules share. Each kind defines its `choose` and its `neighbours`, schedules
// near the chosen one that a device may run faster. Private to codegen/.
#pragma once

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <vector>

#include "codegen/schedule.h"
#include "ir/attention_parts.h"
#include "ir/module.h"
#include "ir/needs.h"
#include "ir/op_view.h"
#include "ir/schedule.h"
#include "ir/target.h"

namespace tg {

/// The first of the candidates that divides n; they are in descending order of preference and end with 1.
inline int64_t divisor(int64_t n, std::initializer_list<int64_t> candidates) {
  for (int64_t candidate : candidates)
    if (n % candidate == 0) return candidate;
  return 1;
}

/// The workgroup size of a kernel with so many invocations, each of which moves a few bytes. Starting a workgroup
/// takes a device some time, so kernels with at least `least` such invocations for each that runs at once get larger
/// workgroups. On an H200 the GELU of 25 million elements of bf16 takes 37 us in workgroups of 512 invocations, 43 in
/// those of 128; sums of 98304 rows of 64 by 32 lanes each take 14 and 22, means of 8192 rows of 49 take 3.7 and 5.1.
inline int64_t lightWorkgroup(const Target& target, int64_t invocations, int64_t least) {
  constexpr int64_t kTimes = 4;
  const int64_t most = largestGroup(target), group = preferredGroup(target);
  const bool many = target.reduce == "workgroup" && invocations >= least * target.parallel;
  return many ? std::min(kTimes * group, most) : group;
}

inline int64_t roundUpToPowerOfTwo(int64_t n) {
  int64_t power = 1;
  while (power < n) power *= 2;
  return power;
}

inline ProductSizes productSizes(const Op& product) {
  const Shape &shape = product.result()->type.shape, &a = product.in(0)->type.shape;
  int64_t m = shape[shape.rank() - 2], n = shape.back();
  int64_t inner = a[a.rank() - (as::matmul(product).transpose_a() ? 2 : 1)];
  return {m, n, inner, shape.elements() / (m * n)};
}

/// The contraction of a region; null where it has none.
const Op* contractionOf(const Op& fused);
/// The attention, or gradient of one, of a region; null where it has none.
const Op* attentionOf(const Op& fused);

/// Why a kernel without matrix units cannot compute an attention, as the rest of a sentence; empty if it can.
inline std::string lackOfMore(const Op& attention) {
  const bool more = biasOf(attention) || keepOf(attention);
  return more ? "takes no bias and no keep, as coopmat_attention does" : "";
}

/// Queries, keys and widths of an attention or one of its gradients; batch is the product of the leading axes.
struct AttentionSizes {
  int64_t queries, keys, width, valueWidth, batch;
  bool forKeys;  ///< the rows of the own side are keys
  explicit AttentionSizes(const Op& op);
  int64_t ownRows() const { return forKeys ? keys : queries; }
  int64_t otherRows() const { return forKeys ? queries : keys; }
  int64_t widest() const { return std::max(width, valueWidth); }
};

/// Why a workgroup of so many invocations and bytes of shared memory exceeds the target's limits, as the rest of a
/// sentence; empty if it does not.
std::string lackOfRoom(int64_t invocations, int64_t bytes, const Target& target);

/// The schedule, or the first smaller one for which the straight-line code of an invocation has no more operations
/// than the target wants in a kernel (`kernelOps`).
Schedule withinBudget(const Op& fused, const Target& target, Schedule schedule);

/// The schedule that a kind chooses for a region, or for the product or attention in it; nothing if another kind is
/// better.
template <class Kind>
std::optional<Kind> choose(const Op& op, const Target& target);
#define KIND(word, Struct, ...) \
  template <>                   \
  std::optional<Struct> choose(const Op& op, const Target& target);
#include "ir/schedules.def"

/// The blocking chosen for a product of matrices, or another one because of the region that the product is in: its
/// epilogue, and windows that the product reads.
SharedMatmulSchedule forRegion(const Op& fused, const Op& product, const Target& target,
                               const SharedMatmulSchedule& chosen);

// The schedule with its fields set that follow from the region: which way operands are loaded, and in which order
// blocks are computed. Only these kinds have such fields.
MatmulSchedule arranged(const Op& fused, const Target& target, MatmulSchedule schedule);
SharedMatmulSchedule arranged(const Op& fused, const Target& target, SharedMatmulSchedule schedule);
CoopmatSchedule arranged(const Op& fused, const Target& target, CoopmatSchedule schedule);
template <class Other>
Other arranged(const Op&, const Target&, Other schedule) {
  return schedule;
}

/// Other schedules that the region and the target allow, the likelier ones first. Defined in the file of the kind.
using Schedules = std::vector<Schedule>;
#define KIND(word, Struct, ...) \
  Schedules neighbours(const Op& fused, const Target& target, const Struct& chosen);
#include "ir/schedules.def"

/// Adds the schedule with more and with fewer invocations in a workgroup: at least `least`, and multiples of it.
template <class Kind>
void addWorkgroups(Schedules& out, Kind chosen, const Target& target, int64_t least) {
  const int64_t workgroup = chosen.workgroup;
  for (int64_t other : {workgroup * 2, workgroup / 2, workgroup * 4}) {
    chosen.workgroup = other;
    if (other >= least && other % least == 0 && other <= largestGroup(target)) out.push_back(chosen);
  }
}

/// Adds the schedule with vectors of four instead of scalars, if `fours` allows them, or the other way round.
template <class Kind>
void addOtherVec(Schedules& out, Kind chosen, bool fours) {
  if (chosen.vec == 1 && !fours) return;
  chosen.vec = chosen.vec == 1 ? 4 : 1;
  out.push_back(chosen);
}

}  // namespace tg
