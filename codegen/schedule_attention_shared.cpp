// SPDX-License-Identifier: Apache-2.0
// How an attention that is staged in shared memory is divided among invocations, and which division is chosen.
#include <fmt/format.h>

#include "codegen/schedule_attention_shared.h"
#include "codegen/schedule_parts.h"
#include "ir/op_view.h"

namespace tg {

namespace {

/// Widths of the rows of q and k, and of v and do.
struct AttentionWidths {
  int64_t score, value;
  explicit AttentionWidths(const Op& op)
      : score(as::attention(op).q()->type.shape.back()), value(as::attention(op).v()->type.shape.back()) {}
};

bool isForwardAttention(const Op& op) { return op.code == Opcode::attention; }

}  // namespace

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

int64_t AttentionBlocking::bytes(const Op& attention) const {
  const AttentionWidths width(attention);
  const bool forward = isForwardAttention(attention);
  int64_t vectors = rows / 4 * (width.score + (forward ? 0 : width.value));               // own side
  vectors += block * (pitch(width.score) + pitch(width.value));                           // other side
  vectors += block * (rows / 4) * (attention.code == Opcode::attention_grad_kv ? 2 : 1);  // weights
  if (forward) vectors += (block / columns + 1) * (rows / 4);  // maxima and factors
  return 16 * vectors;
}

std::string AttentionBlocking::problem(const Op& attention, const Target& target) const {
  const AttentionWidths width(attention);
  if (const std::string lack = lackOfMore(attention); !lack.empty()) return lack;
  const bool whole = rows > 0 && block > 0 && tile > 0 && columns > 0 && tile % 4 == 0 && rows % tile == 0 &&
                     block % columns == 0 && width.score % 4 == 0 && width.value % 4 == 0;
  if (!whole) return "is malformed: rows, tiles of rows and the last extents are multiples of 4";
  if (resultPlaces(width.score) == 0 || resultPlaces(width.value) == 0)
    return fmt::format("leaves no whole tiles of results of {} columns to {} invocations", width.value,
                       invocations());
  return lackOfRoom(invocations(), bytes(attention), target);
}

static bool fits(const SharedAttentionSchedule& schedule, const Op& attention, const Target& target) {
  return AttentionBlocking(schedule).problem(attention, target).empty();
}

template <>
std::optional<SharedAttentionSchedule> choose(const Op& attention, const Target& target) {
  if (target.matmul != "shared") return std::nullopt;
  // The first one that suits the widths and fits: the fastest on an H200 with heads of 64, then those for narrower
  // heads, whose results have places for fewer invocations, and for wider ones. With heads of 128 the gradients of
  // keys and values took 4.5 ms with 4, 1, {32, 8}, 5.0 with 4, 1, {16, 16} and 19.4 with 4, 2, {16, 16}.
  using S = SharedAttentionSchedule;
  for (const S& each : {S{4, 4, {64, 32}}, S{4, 2, {64, 16}}, S{4, 2, {32, 32}}, S{4, 4, {64, 16}},
                        S{4, 2, {32, 16}}, S{4, 4, {64, 8}}, S{4, 4, {32, 16}}, S{4, 1, {32, 8}},
                        S{4, 1, {16, 16}}, S{4, 2, {16, 16}}, S{4, 4, {32, 8}}, S{4, 1, {16, 8}}})
    if (fits(each, attention, target)) return each;
  return std::nullopt;
}

Schedules neighbours(const Op& fused, const Target& target, const SharedAttentionSchedule&) {
  Schedules out;
  const Op* attention = attentionOf(fused);
  if (!attention) return out;
  using S = SharedAttentionSchedule;
  for (const S& each : {S{4, 4, {64, 32}}, S{4, 2, {32, 32}}, S{4, 2, {64, 16}}, S{8, 4, {64, 32}},
                        S{4, 4, {32, 32}}, S{4, 4, {64, 16}}, S{4, 4, {64, 8}}, S{8, 4, {64, 8}}})
    if (fits(each, *attention, target)) out.push_back(each);
  return out;
}

}  // namespace tg
