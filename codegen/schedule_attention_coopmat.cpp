// SPDX-License-Identifier: Apache-2.0
// How an attention by matrix units is divided among subgroups, and which division is chosen.
#include "codegen/schedule_attention_coopmat.h"

#include <fmt/format.h>

#include "codegen/emit_region.h"
#include "codegen/schedule_coopmat.h"
#include "codegen/schedule_parts.h"
#include "ir/divide.h"
#include "ir/op_view.h"

namespace tg {

namespace {

int64_t widest(const Op& attention) {
  return std::max(as::attention(attention).q()->type.shape.back(),
                  as::attention(attention).v()->type.shape.back());
}

/// The widest rows that fit the registers of `share` subgroups.
int64_t mostColumns(const Op& attention, int64_t share) { return isSplit(attention) ? 64 : share * 128; }

}  // namespace

int64_t AttentionFragments::part(int64_t columns) const {
  const int64_t matrices = columns / kSide;
  return divideCeil(matrices, share) * kSide;
}

int64_t AttentionFragments::pitch(const Op& attention) const {
  return share * part(widest(attention)) / kEight + 1;
}

int64_t AttentionFragments::bytes(const Op& attention) const {
  const bool forward = attention.code == Opcode::attention;
  const int64_t statistics =
      forward ? 0 : 2 * 4 * (attention.code == Opcode::attention_grad_kv ? block : rows);
  return 16 * staged() * (isSplit(attention) ? 2 : 1) * pitch(attention) + 4 * subgroups() * kSide * kPatch +
         statistics + bytesOfMore(attention);
}

std::string AttentionFragments::problem(const Op& attention, const Target& target) const {
  const auto view = as::attention(attention);
  const bool whole = rows > 0 && block > 0 && warp > 0 && warp % kSide == 0 && rows % warp == 0 &&
                     block % kSide == 0 && view.q()->type.shape.back() % kSide == 0 &&
                     view.v()->type.shape.back() % kSide == 0;
  if (!whole) return "is malformed: rows, those of a subgroup, and the last extents are multiples of 16";
  if (!suitsFragments(attention, target))
    return fmt::format(
        "needs an attention of 16 bits or f32x3 and a target with `coopmat` of {} and `fragments`, not {}",
        isSplit(attention) ? "f16" : view.precision(), target.name);
  if (widest(attention) > mostColumns(attention, share))
    return fmt::format("with share = {} holds rows of {} columns at most, not of {}", share,
                       mostColumns(attention, share), widest(attention));
  return lackOfRoom(invocations(), bytes(attention), target);
}

/// Whether the target's matrix units suit the attention, whatever the width of its heads.
static bool suitsUnits(const Op& attention, const Target& target) {
  const auto view = as::attention(attention);
  const Shape &q = view.q()->type.shape, &v = view.v()->type.shape;
  const bool blind = view.causal() && q[q.rank() - 2] > v[v.rank() - 2];
  return view.precision() != "f32" && target.knowsFragments(factorType(attention)) && !blind &&
         view.scale() >= 0;
}

bool suitsFragments(const Op& attention, const Target& target) {
  const auto view = as::attention(attention);
  return suitsUnits(attention, target) && view.q()->type.shape.back() % AttentionFragments::kSide == 0 &&
         view.v()->type.shape.back() % AttentionFragments::kSide == 0;
}

bool multipliesFragments(const Op& attention, const Target& target, int64_t columns) {
  return suitsUnits(attention, target) && columns <= mostColumns(attention, 2);
}

/// Schedules for an attention, the fastest first.
static std::vector<CoopmatAttentionSchedule> candidates(const Op& attention) {
  using S = CoopmatAttentionSchedule;
  // For f32x3 own rows take twice the registers. Two workgroups of 64 share a processor; one of 128 took 8 % more
  // time.
  if (isSplit(attention)) return {S{{64, 32}, 16}, S{{32, 32}, 16}};
  // Steps of 32 rows take less time than of 16: forward with 192 and 256 columns and 4096 rows on an H200 by 10 and 12 %,
  // in the gradients with 8192 rows on an H100 by 2 to 20 %.
  if (widest(attention) > mostColumns(attention, 1))
    return {S{{64, 32}, 16, 2}, S{{64, 16}, 16, 2}, S{{32, 16}, 16, 2}};
  // With a keep, 64 own rows by 32 take the least time, as more workgroups share a processor: 372 us for the three kernels of
  // 192 heads of 512 x 64 on an H100, 404 by 128 x 64, 515 by 128 x 32 with subgroups of 32 rows; of 48 heads of 2048 x 64
  // 1.22, 1.33 and 1.77 ms. With a bias alone that holds for the gradient of queries: 88 us for 110.
  if (keepOf(attention) || differsByQuery(attention) ||
      (biasOf(attention) && attention.code == Opcode::attention_grad_q))
    return {S{{64, 32}, 16}, S{{32, 32}, 16}};
  std::vector<S> out{S{{128, 64}, 16}, S{{64, 64}, 16}, S{{64, 32}, 16}, S{{32, 32}, 16}};
  // Subgroups of 32 rows read each matrix of the other side once for two products: 13 % less time at heads of 64 on
  // an H200. With wider heads they hold more sums than there are registers.
  constexpr int64_t kTwoRows = 64;
  if (widest(attention) <= kTwoRows) out.insert(out.begin(), S{{128, 32}, 32});
  // The gradients take steps of 64 for long contexts. At heads of 64 that of keys and values takes 1 % more time with
  // 1024 rows, 2 % less with 4096 and 8 % less with 32768 on an H100, that of queries 7 % more, 5 % less and 6 % less with
  // 8192 on an H200. At heads of 32 both take 5 % less with 4096.
  constexpr int64_t kLong = 4096;
  const Shape& q = as::attention(attention).q()->type.shape;
  if (widest(attention) <= kTwoRows && attention.code != Opcode::attention && q[q.rank() - 2] >= kLong)
    out.insert(out.begin(), S{{128, 64}, 32});
  return out;
}

template <>
std::optional<CoopmatAttentionSchedule> choose(const Op& attention, const Target& target) {
  if (!suitsFragments(attention, target)) return std::nullopt;
  for (const CoopmatAttentionSchedule& each : candidates(attention))
    if (AttentionFragments(each, target).problem(attention, target).empty()) return each;
  return std::nullopt;
}

Schedules neighbours(const Op& fused, const Target& target, const CoopmatAttentionSchedule&) {
  Schedules out;
  const Op* attention = attentionOf(fused);
  if (!attention) return out;
  using S = CoopmatAttentionSchedule;
  for (const S& each : {S{{128, 32}, 32}, S{{128, 64}, 32}, S{{128, 64}, 16}, S{{64, 64}, 16},
                        S{{64, 32}, 16}, S{{64, 64}, 32}, S{{64, 32}, 16, 2}, S{{64, 16}, 16, 2},
                        S{{32, 32}, 16, 2}, S{{32, 16}, 16, 2}, S{{128, 32}, 32, 2}})
    if (AttentionFragments(each, target).problem(*attention, target).empty()) out.push_back(each);
  return out;
}

}  // namespace tg
