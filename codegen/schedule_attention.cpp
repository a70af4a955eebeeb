// SPDX-License-Identifier: Apache-2.0
// attention: the choice of tiles for invocations that each hold some rows, and the choice between streamed and
// stored scores. lower_attention.cpp makes the kernels.
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>

#include "codegen/schedule.h"
#include "codegen/schedule_parts.h"
#include "ir/divide.h"
#include "ir/op_view.h"

namespace tg {

AttentionSizes::AttentionSizes(const Op& op) : forKeys(op.code == Opcode::attention_grad_kv) {
  const Shape &q = as::attention(op).q()->type.shape, &v = as::attention(op).v()->type.shape;
  const int rank = q.rank();
  queries = q[rank - 2], keys = v[rank - 2], width = q.back(), valueWidth = v.back();
  batch = q.elements() / (queries * width);
}

template <>
std::optional<AttentionSchedule> choose(const Op& op, const Target& target) {
  AttentionSizes size(op);
  const int64_t own = size.ownRows(), other = size.otherRows();
  int64_t tile = 1, wide = size.width + size.valueWidth;
  int64_t block = wide > 128 ? divisor(other, {2, 1}) : divisor(other, {4, 3, 2, 1});
  // A row of the other side is read once for all rows of the tile, as with register tiles of a product, if few
  // invocations keep the device busy. On a GPU neighbouring invocations share the read through the cache instead.
  if (target.matmul == "register") {
    // With tiles of so many floats, and as few rows of the other side at a time, the code of a round fits the
    // instruction cache: on lavapipe 1.1 to 1.6 times as fast as half the tile by blocks of 4. Blocks of narrow
    // rows fit too; forward, they save some of the cost of a new maximum.
    const bool forward = op.code == Opcode::attention, narrow = wide <= 64;
    const int64_t held = forward && narrow ? 256 : 512;  // floats of the tile's rows; more spill too often
    tile = forward ? divisor(own, {8, 4, 3, 2, 1}) : divisor(own, {8, 4, 2, 1});
    while (tile % 2 == 0 && (size.batch * (own / tile) < target.parallel || tile * wide > held)) tile /= 2;
    // Eight invocations that run together walk as far as any of them sees, which for few tiles is over all keys.
    if (as::attention(op).causal() && tile == 8 && own < 32 * tile) tile = 4;
    if (!forward || !narrow) block = wide <= 32 ? divisor(other, {tile == 8 ? 2 : 4, 2, 1}) : 1;
  }
  int64_t workgroup = std::min<int64_t>(target.matmul == "register" ? 8 : 64, largestGroup(target));
  return AttentionSchedule{.tile = tile, .block = block, .workgroup = workgroup};
}

/// Whether one kernel in shared memory computes an attention faster than products and a softmax between them. On an
/// H200, streamed against stored, in microseconds (batch and heads x rows x width):
///
///   causal        64x64x16  9.1  11.6    64x128x32  13.0  15.8    384x256x64  184  221    96x1024x64  505  662
///   few groups    12x256x64  28    19    12x512x64    47    38    24x512x64    47   68    12x1024x64   84  122
///   not causal    64x64x16  8.7  11.6    512x128x32   60    79    384x256x64  256  239    96x1024x64  898  839
///   wide rows     64x256x128 93    77    64x64x128    18    17
///
/// It is faster for heads up to 64 wide under a causal mask, and up to 32 wide without one, if its workgroups fill
/// the device or one tile has all keys. Other precisions are left to products, which may run on matrix units.
static bool streamsForward(const Op& attention, const AttentionSizes& size, const Target& target) {
  if (attention.code != Opcode::attention || as::attention(attention).precision() != "f32") return false;
  if (!choose<SharedAttentionSchedule>(attention, target)) return false;
  constexpr int64_t kRows = 64;
  const int64_t widest = as::attention(attention).causal() ? 128 : 64;
  if (size.width + size.valueWidth > widest || size.queries < kRows) return false;
  return size.batch * divideCeil(size.queries, kRows) >= target.units() || size.keys <= kRows;
}

/// Whether a few workgroups of `rows` queries would walk over many keys while most of the device is idle. With
/// matrix units, streamed against stored, a step in bf16 took on an H200, in milliseconds (heads x queries x keys,
/// of 64):
///
///   8x1x8192  0.55  0.21    8x64x8192   0.56  0.19    32x1x1024   0.12  0.23
///   8x16x8192 0.53  0.16    8x128x8192  0.56  0.27    32x16x1024  0.12  0.10
///                           8x256x4096  0.28  0.20
static bool walksAlone(const AttentionSizes& size, int64_t rows, const Target& target) {
  constexpr int64_t kManyKeys = 2048, kIdle = 4;
  return size.keys >= kManyKeys && size.batch * divideCeil(size.queries, rows) * kIdle < target.units();
}

bool streamsScores(const Op& attention, const Target& target) {
  const AttentionSizes size(attention);
  const auto matrices = choose<CoopmatAttentionSchedule>(attention, target);
  if (matrices && !walksAlone(size, matrices->tile[0], target)) return true;
  if (!lackOfMore(attention).empty()) return false;
  if (streamsForward(attention, size, target)) return true;
  // Stored scores are computed once, streamed ones in each of the three kernels of a training step, so storing wins
  // while a cache holds them. On lavapipe a causal step took, streamed relative to stored, 1.1 times as long with
  // 128 KiB of scores (T 16, D 16) and 256 KiB (T 64, D 64), 0.8 with 512 KiB (T 64, D 16), 0.75 with 1 MiB (T 128,
  // D 32), 1.0 with 2 MiB (T 256, D 32); a whole GPT step 0.68 at T 1024, in a fifth of the memory. On an H200 a
  // step of GPT-2 124M took, streamed against stored, 158.5 against 152.4 ms with 384 MiB a layer (B 8, T 1024),
  // and, when streamed scores took an eighth longer, 119.1 against 126.7 with 768 (B 1, T 4096).
  const int64_t bytes = byteSize(dtypeNamed(as::attention(attention).precision()).value_or(DType::f32));
  constexpr int64_t kWidest = 256;  // wider rows do not fit the registers of an invocation
  // With wide heads streaming pays off later. On an H200 a step with 32 heads of 128 at T 2048, whose scores are
  // 512 MiB, took 4.9 ms with streamed scores and 3.5 with stored ones.
  constexpr int64_t kWide = 128, kWideShare = 4;
  const int64_t width = size.width + size.valueWidth;
  const bool wide = target.matmul == "shared" && width > kWide;
  const int64_t scores = size.batch * size.queries * size.keys;
  return (matrices || width <= kWidest) &&
         (scores * bytes >= target.streamScores * (wide ? kWideShare : 1) ||
          scores * byteSize(DType::f32) > mostBytes(target));  // some of them are stored in f32
}

std::string lackOfRoom(int64_t invocations, int64_t bytes, const Target& target) {
  if (invocations > largestGroup(target))
    return fmt::format("needs {} invocations, target {} has {}", invocations, target.name,
                       largestGroup(target));
  if (!gives(target, LimitId::sharedBytes, bytes))
    return fmt::format("needs {} bytes of shared memory, target {} has {}", bytes, target.name,
                       limitOf(target, LimitId::sharedBytes));
  return {};
}

const Op* attentionOf(const Op& fused) {
  const Op* attention = nullptr;
  for (const Op* op : fused.regions[0]->ops)
    if (op->info().fusion == table::Fusion::attention) attention = op;
  return attention;
}

std::vector<Schedule> neighbours(const Op& fused, const Target& target, const AttentionSchedule& chosen) {
  std::vector<Schedule> out;
  const Op* attention = attentionOf(fused);
  if (!attention) return out;
  const AttentionSizes size(*attention);
  const int64_t own = size.ownRows(), other = size.otherRows();
  const int64_t tile = chosen.tile, block = chosen.block;
  auto add = [&](int64_t rows, int64_t others) {
    out.push_back(AttentionSchedule{rows, others, chosen.workgroup});
  };
  if (tile % 2 == 0) add(tile / 2, block);
  addWorkgroups(out, chosen, target, 8);
  if (block % 2 == 0) add(tile, block / 2);
  if (tile == 1 && own % 2 == 0) add(2, block);
  if (block < 4 && other % (2 * block) == 0) add(tile, 2 * block);
  return out;
}

}  // namespace tg
