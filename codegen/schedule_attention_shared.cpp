// SPDX-License-Identifier: Apache-2.0
// How an attention that is staged in shared memory is divided among invocations, and which division is chosen.
#include <fmt/format.h>

#include <numeric>

#include "codegen/schedule_attention_shared.h"
#include "codegen/schedule_parts.h"
#include "ir/divide.h"
#include "ir/op_view.h"

namespace tg {

int64_t AttentionBlocking::resultPlaces(int64_t width) const {
  const int64_t quads = width / 4, count = invocations();
  int64_t best = 0, least = 0;
  for (int64_t across = 1; across <= quads; ++across) {
    if (quads % across != 0 || count % across != 0 || rows % (count / across * 4) != 0) continue;
    const int64_t loads = rows / (count / across * 4) + quads / across;
    if (best == 0 || loads <= least) best = across, least = loads;
  }
  return best;
}

int64_t AttentionBlocking::deepOf(int64_t width, int64_t valueWidth) {
  return divisor(std::gcd(width, valueWidth), {16, 12, 8, 4});
}

int64_t AttentionBlocking::deepRows() const { return divisor(block, {16, 8, 4}); }

int64_t AttentionBlocking::bytes(const Op& attention) const {
  const AttentionSizes size(attention);
  int64_t vectors =
      deepOf(size.width, size.valueWidth) * (pitch(rows) + pitch(block));  // a step of the scores
  vectors += deepRows() * size.widest() / 4;                               // a step of the results
  vectors += block * pitch(rows);                                          // weights
  if (attention.code == Opcode::attention)
    vectors += (block / columns + 1) * (rows / 4);  // maxima and factors
  return 16 * vectors;
}

std::string AttentionBlocking::problem(const Op& attention, const Target& target) const {
  const AttentionSizes size(attention);
  if (const std::string lack = lackOfMore(attention); !lack.empty()) return lack;
  const bool whole = rows > 0 && block > 0 && tile > 0 && columns > 0 && tile % 4 == 0 && rows % tile == 0 &&
                     block % columns == 0 && columns % 4 == 0 && size.width % 4 == 0 &&
                     size.valueWidth % 4 == 0;
  if (!whole) return "is malformed: rows, both sides of tiles and the last extents are multiples of 4";
  for (int64_t width : {size.width, size.valueWidth})
    if (resultPlaces(width) == 0)
      return fmt::format("leaves no whole tiles of results of {} columns to {} invocations", width,
                         invocations());
  return lackOfRoom(invocations(), bytes(attention), target);
}

static bool fits(const SharedAttentionSchedule& schedule, const Op& attention, const Target& target) {
  return AttentionBlocking(schedule).problem(attention, target).empty();
}

template <>
std::optional<SharedAttentionSchedule> choose(const Op& attention, const Target& target) {
  if (target.matmul != "shared") return std::nullopt;
  // An H200 took, in milliseconds (forward, gradient of queries, gradient of keys and values; causal):
  //
  //   heads x rows x width   64 x 32             32 x 64             64 x 64
  //   16 x 4096 x 64         1.08  1.53  1.98    1.22  1.61  2.10    1.25  1.65  2.11
  //   12 x 1024 x 64         0.120 0.179 0.239   0.081 0.108 0.141   0.087 0.111 0.145
  //   16 x 4096 x 128        3.35  3.00  3.82    3.61  3.06  3.82    2.25  3.14  3.86
  //
  // Few workgroups that run alone wait in each step, so that more of them win. Forward, 64 x 64 have the registers for
  // results of 128 columns. The others are for narrower heads, whose results have places for fewer invocations, and
  // for devices with less shared memory.
  using S = SharedAttentionSchedule;
  const AttentionSizes size(attention);
  const bool few = size.batch * divideCeil(size.ownRows(), 64) < 2 * target.units();
  const bool wide = attention.code == Opcode::attention && size.valueWidth > 96;
  const S best = few ? S{4, 4, {32, 64}} : wide ? S{4, 4, {64, 64}} : S{4, 4, {64, 32}};
  for (const S& each :
       {best, S{4, 4, {64, 32}}, S{4, 4, {32, 32}}, S{4, 4, {64, 16}}, S{4, 4, {32, 16}}, S{4, 4, {16, 16}}})
    if (fits(each, attention, target)) return each;
  return std::nullopt;
}

Schedules neighbours(const Op& fused, const Target& target, const SharedAttentionSchedule&) {
  Schedules out;
  const Op* attention = attentionOf(fused);
  if (!attention) return out;
  using S = SharedAttentionSchedule;
  for (const S& each : {S{4, 4, {64, 32}}, S{4, 4, {32, 32}}, S{8, 4, {64, 64}}, S{4, 4, {64, 64}},
                        S{4, 4, {32, 64}}, S{4, 4, {64, 16}}, S{4, 4, {32, 16}}})
    if (fits(each, *attention, target)) out.push_back(each);
  return out;
}

}  // namespace tg
