// SPDX-License-Identifier: Apache-2.0
#include "passes/fuse/sort_ids.h"

#include <fmt/format.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "ir/divide.h"
#include "ir/parser.h"
#include "passes/fuse/pieces.h"
#include "passes/rewrite.h"

namespace tg::fuse {
namespace {

/// Ids that are sorted by comparing each with each, a multiple of the kernels' GROUP; and the most blocks that are merged at
/// a time. Chosen: 262 144 ids took 275 µs on an H200 in blocks of 2048 that were merged at once.
constexpr int64_t kBlock = 256, kMostMerged = 16;

// Ids are sorted in blocks, and neighbouring blocks are merged until there is one. An id's place is the number of ids that
// come before it: the lesser ones, and the equal ones with a lower place. So equal ids keep their order, and no invocation
// waits for another.
//
//   ids       5 2 5 7 | 2 5 1 2          two blocks of four
//   blocks    2 5 5 7 | 1 2 2 5          each id counts those of its block
//   merged    1 2 2 2 5 5 5 7            each id adds those of the other block, which a binary search counts
constexpr std::string_view kKernels = R"(module @sort {
  const GROUP = 128  // every Vulkan device takes workgroups of that size
  kernel @sort_blocks(%ids: buf<BxLxi32, in>, %sorted: buf<BxLxi32, out>, %order: buf<BxLxi32, out>)
      workgroup(GROUP) grid(L / GROUP, B) {
    %tile = tgk.shared : buf<GROUPxi32, shared>
    %lane = tgk.local_id 0 : u32
    %block = tgk.workgroup_id 1 : u32
    %first = workgroup_id(0) * GROUP : u32
    %own = %ids[%block, %first + %lane] : i32
    %place = tgk.for %t = 0 to(L) step(GROUP) iter_args(%before = 0) : u32 {
      tgk.barrier
      tgk.store %ids[%block, %t + %lane], %tile[%lane]
      tgk.barrier
      %limit = %own + i32(%t < %first) : i32
      %lesser = tgk.for %i = 0 to(GROUP) iter_args(%sum = %before) : u32 {
        %next = %sum + u32(%tile[%i] < %limit) : u32
        tgk.yield %next : u32
      }
      %beside = select(%t == %first, %lane, 0) : u32
      %equal = tgk.for %i = 0 to(%beside) iter_args(%sum = %lesser) : u32 {
        %next = %sum + u32(%tile[%i] == %own) : u32
        tgk.yield %next : u32
      }
      tgk.yield %equal : u32
    }
    tgk.store %own, %sorted[%block, %place]
    tgk.store i32(%block * L + %first + %lane), %order[%block, %place]
  }

  kernel @merge_blocks(%sorted: buf<GxBxLxi32, in>, %order: buf<GxBxLxi32, in>, %merged: buf<GxMxi32, out>,
                       %places: buf<GxMxi32, out>) workgroup(GROUP) grid(L / GROUP, B, G) {
    %group = tgk.workgroup_id 2 : u32
    %own_block = tgk.workgroup_id 1 : u32
    %own_place = workgroup_id(0) * GROUP + local_id(0) : u32
    %own = %sorted[%group, %own_block, %own_place] : i32
    %bits = 32 - clz(L) : u32
    %place = tgk.for %block = 0 to(B) iter_args(%before = %own_place) : u32 {
      %limit = %own + i32(%block < %own_block) : i32
      %lesser = tgk.for %i = 0 to(%bits) iter_args(%begin = 0) : u32 {
        %end = %begin + ((1 << (%bits - 1)) >> %i) : u32
        %is_lesser = %end <= L && %sorted[%group, %block, min(%end, L) - 1] < %limit : bool
        %next = select(%is_lesser, %end, %begin) : u32
        tgk.yield %next : u32
      }
      %next = select(%block == %own_block, %before, %before + %lesser) : u32
      tgk.yield %next : u32
    }
    tgk.store %own, %merged[%group, %place]
    tgk.store %order[%group, %own_block, %own_place], %places[%group, %place]
  }

  kernel @row_offsets(%sorted: buf<Nxi32, in>, %offsets: buf<Rxi32, out>)
      workgroup(GROUP) grid(ceildiv(R, GROUP)) {
    %row = tgk.global_id 0 : u32
    tgk.return_if %row >= R
    %bits = 32 - clz(N) : u32
    %lesser = tgk.for %i = 0 to(%bits) iter_args(%begin = 0) : u32 {
      %end = %begin + ((1 << (%bits - 1)) >> %i) : u32
      %is_lesser = %end <= N && %sorted[min(%end, N) - 1] < i32(%row) : bool
      %next = select(%is_lesser, %end, %begin) : u32
      tgk.yield %next : u32
    }
    tgk.store i32(%lesser), %offsets[%row]
  }
})";

/// How ids are cut: into `merged` to the power of `rounds` blocks of `length` ids, which `merged` neighbours at a time become
/// one, in `rounds` kernels. If all were merged at once, each id would search every block.
struct Cut {
  int64_t length = kBlock, rounds = 0, merged = 1;
  int64_t blocks() const {
    int64_t out = 1;
    for (int64_t i = 0; i < rounds; ++i) out *= merged;
    return out;
  }
};

Cut cutFor(int64_t count, const Target& target) {
  Cut cut;
  while (count > cut.length * target.maxGrid / kMostMerged)
    cut.length *= 2;  // a row of workgroups for each block
  const int64_t blocks = divideCeil(count, cut.length);
  for (int64_t most = 1; most < blocks; most *= kMostMerged) ++cut.rounds;
  while (cut.blocks() < blocks) ++cut.merged;
  return cut;
}

/// One of the kernels above.
const Item& kernelNamed(std::string_view name) {
  static const std::unique_ptr<Module> kernels = std::move(*parse(std::string(kKernels), "sort_ids.tgir"));
  return *kernels->find(ItemKind::kernel, std::string(name));
}

std::vector<Value*> call(Builder& builder, std::string_view kernel, const std::vector<Value*>& inputs,
                         std::vector<Type> results) {
  OperandList operands{Operand::symbol(placeKernel(*builder.module(), cloneItem(kernelNamed(kernel))).name)};
  for (Value* input : inputs) operands.push_back(Operand::of(input));
  builder.setHint(std::string(kernel));
  Op* op = builder.create(Opcode::custom, std::move(operands), {}, std::move(results));
  builder.setHint("");
  std::vector<Value*> out;
  for (const auto& result : op->results) out.push_back(result.get());
  return out;
}

}  // namespace

Value* whereRow(Builder& builder, Value* ids, int64_t rows, Value* then, int64_t otherwise) {
  auto number = [&](int64_t value) { return builder.scalar(static_cast<double>(value), DType::i32); };
  Value* isRow = builder.binary(Opcode::and_, builder.binary(Opcode::greater_equal, ids, number(0)),
                                builder.binary(Opcode::less, ids, number(rows)));
  return builder.op(Opcode::select, {isRow, then, number(otherwise)});
}

SortedIds sortIds(Builder& builder, Value* ids, int64_t rows, const Target& target) {
  const Cut cut = cutFor(ids->type.elements(), target);
  const int64_t count = ids->type.elements(), all = cut.blocks() * cut.length;
  // Ids outside of the rows, and those that fill the last block, come last.
  Value* filledIds = all > count ? filled(builder, ids, 0, all - count, -1) : ids;
  Value* own = whereRow(builder, filledIds, rows, filledIds, rows);
  const Type inBlocks = Type::tensor(DType::i32, {cut.blocks(), cut.length});
  std::vector<Value*> sorted =
      call(builder, "sort_blocks", {builder.reshape(own, inBlocks.shape)}, {inBlocks, inBlocks});
  for (int64_t length = cut.length; length < all; length *= cut.merged) {
    const int64_t groups = all / (cut.merged * length);
    for (Value*& each : sorted) each = builder.reshape(each, {groups, cut.merged, length});
    const Type inGroups = Type::tensor(DType::i32, {groups, cut.merged * length});
    sorted = call(builder, "merge_blocks", sorted, {inGroups, inGroups});
  }
  for (Value*& each : sorted) each = builder.reshape(each, {all});
  return {sorted[1], call(builder, "row_offsets", {sorted[0]}, {Type::tensor(DType::i32, {rows + 1})})[0]};
}

}  // namespace tg::fuse
