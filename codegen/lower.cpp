// SPDX-License-Identifier: Apache-2.0
#include "codegen/lower.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <unordered_set>

#include "codegen/lower_schedules.h"
#include "codegen/schedule.h"
#include "ir/unread.h"
#include "ir/verify.h"

namespace tg {

Index LowerContext::groupIndex(int64_t groups) {
  // Groups beyond the device's limit along x go on along y.
  int64_t x = std::min(groups, target.maxGrid);
  int64_t y = (groups + x - 1) / x;
  out.grid = {x, y, 1};
  Index group = space.variable(kernel.id(Opcode::k_workgroup_id, 0), x);
  if (y > 1)
    group = space.add(group, space.scale(space.variable(kernel.id(Opcode::k_workgroup_id, 1), y), x));
  return group;
}

Result<void> LowerContext::checkStraight(int64_t operations) const {
  constexpr int64_t kMost = 1 << 14;  // those that are chosen take 2^12 at most
  if (operations <= kMost) return {};
  return failAt(fused.loc, fmt::format("schedule {} makes straight code of {} operations, more than {}",
                                       schedule.str(), operations, kMost));
}

/// Runs the body under `index < count` where the index could be larger, with an index known to be smaller.
static void bounded(LowerContext& c, const Index& index, int64_t count,
                    const std::function<void(const Index&)>& body) {
  if (c.space.max(index) < count) return body(index);
  KV value = c.space.materialize(index);
  KV inside = c.kernel.op(Opcode::k_lt, {value, KernelBuilder::u32(count)}, DType::i1);
  c.kernel.guard(inside, [&] { body(c.space.variable(value, count)); });
}

void LowerContext::inPart(int64_t groups, const std::function<void(const Index&)>& body) {
  out.grid = {groupsBefore + groups, 1, 1};
  KV group = kernel.id(Opcode::k_workgroup_id, 0), before = KernelBuilder::u32(groupsBefore);
  KV behind = kernel.op(Opcode::k_ge, {group, before}, DType::i1),
     ahead = kernel.op(Opcode::k_lt, {group, KernelBuilder::u32(groupsBefore + groups)}, DType::i1);
  KV here = isLast              ? behind
            : groupsBefore == 0 ? ahead
                                : kernel.op(Opcode::k_and, {behind, ahead}, DType::i1);
  KV own = groupsBefore == 0 ? group : kernel.op(Opcode::k_sub, {group, before}, DType::u32);
  kernel.guard(here, [&] { body(space.variable(own, groups)); });
}

void LowerContext::launch(int64_t count, int64_t workgroup, const std::function<void(const Index&)>& body) {
  int64_t groups = (count + workgroup - 1) / workgroup;
  out.kernel->workgroup = {workgroup, 1, 1};
  if (groups <= target.maxGrid && !isPart) {
    out.grid = {groups, 1, 1};
    return bounded(*this, space.variable(kernel.id(Opcode::k_global_id, 0), groups * workgroup), count, body);
  }
  Index lane = space.variable(kernel.id(Opcode::k_local_id, 0), workgroup);
  auto inGroup = [&](const Index& group) {
    bounded(*this, space.add(space.scale(group, workgroup), lane), count, body);
  };
  if (isPart) return inPart(groups, inGroup);
  inGroup(groupIndex(groups));
}

void LowerContext::launchGroups(int64_t groups, int64_t workgroup,
                                const std::function<void(const Index&)>& body) {
  out.kernel->workgroup = {workgroup, 1, 1};
  if (isPart) return inPart(groups, body);
  bounded(*this, groupIndex(groups), groups, body);
}

Result<void> lowerMap(LowerContext& c) {
  int64_t vec = c.option("vec", 1);
  for (const Value* value : c.yields)
    if (value->type.elements() % vec != 0)
      return failAt(c.fused.loc,
                    fmt::format("schedule {} takes {} elements at a time, which do not divide a result's {}",
                                c.schedule.str(), vec, value->type.elements()));
  int64_t largest = 0;
  for (const Value* value : c.yields) largest = std::max(largest, value->type.elements() / vec);
  c.launch(largest, std::min(c.option("workgroup", 64), c.target.maxInvocations), [&](const Index& i) {
    for (size_t slot = 0; slot < c.yields.size(); ++slot) {
      int64_t count = c.yields[slot]->type.elements() / vec;
      bounded(c, i, count, [&](const Index& at) {
        Index offset = c.space.scale(at, vec);
        if (vec == kLanes) offset = c.space.add(offset, IndexSpace::lane());
        c.store(slot, offset);
      });
    }
  });
  return {};
}

/// Rows and row length a schedule's region works on: the largest result is rows × length, or rows.
static RowSpace rowsOf(const LowerContext& c) {
  RowSpace space;
  std::vector<Value*> results;
  for (size_t slot = 0; slot < c.yields.size(); ++slot)
    results.push_back(c.fused.regions[0]->terminator()->in(c.firstSlot + static_cast<int>(slot)));
  const std::unordered_set<const Op*> behind = opsBehind(results);
  for (Op* op : c.fused.regions[0]->ops)
    if (auto found = rowSpaceOf(*op); found && behind.contains(op)) space = *found;
  return space;
}

/// Rows that a subgroup or a workgroup share. What a lane reads in a few rounds it keeps for later passes.
static Result<void> lowerSharedRow(LowerContext& c, const RowSpace& rows,
                                   const std::function<bool(size_t)>& isFull) {
  int64_t lanes = c.option("lanes", 1), vec = c.option("vec", 1);
  int64_t workgroup = std::max(lanes, c.option("workgroup", lanes)), perGroup = workgroup / lanes;
  int64_t subgroup = reliedSubgroup(c.target);
  bool bySubgroup = subgroup > 1 && lanes % subgroup == 0, ownSubgroup = bySubgroup && lanes == subgroup;
  if (workgroup % lanes || (perGroup > 1 && !ownSubgroup))
    return failAt(c.fused.loc,
                  fmt::format("schedule {} puts several rows into a workgroup, and lanes is not the "
                              "subgroup width of target {}",
                              c.schedule.str(), c.target.name));
  auto share = [&](const Index& row) {
    KV local = ownSubgroup ? c.kernel.subgroup(Opcode::k_subgroup_lane) : c.kernel.id(Opcode::k_local_id, 0);
    Index lane = c.space.variable(local, lanes);
    c.emitter.shareRows({lanes, row, lane, c.kernel.depth(), vec, bySubgroup ? subgroup : 1});
    KV first = c.kernel.op(Opcode::k_eq, {local, KernelBuilder::u32(0)}, DType::i1);
    // Statistics are computed by all invocations, then stored by the first.
    std::vector<size_t> full, single;
    for (size_t slot = 0; slot < c.yields.size(); ++slot) (isFull(slot) ? full : single).push_back(slot);
    for (size_t slot : single) c.emitter.emitLinear(c.yields[slot], row);
    if (!single.empty())
      c.kernel.guard(first, [&] {
        for (size_t slot : single) c.store(slot, row);
      });
    if (full.empty()) return;
    // Shared reductions must be met by all invocations before control flow diverges.
    c.emitter.pullRowReductions(row, rows.length, opsBehind(c.yields));
    auto elements = [&](const Index& round) {
      Index column = c.space.add(c.space.scale(round, lanes * vec), c.space.scale(lane, vec));
      if (vec == kLanes) column = c.space.add(column, IndexSpace::lane());
      Index start = c.space.scale(row, rows.length);
      if (c.space.max(column) < rows.length) {
        for (size_t slot : full) c.store(slot, c.space.add(start, column));
        return;
      }
      // At an index as the reductions', whose values are known. Nobody reads more who has nothing to store: a
      // result may stand where an operand does.
      auto [inside, at] = c.emitter.below(column, rows.length);
      Index offset = c.space.add(start, at);
      c.kernel.guard(inside, [&] {
        for (size_t slot : full) c.store(slot, offset);
      });
    };
    int64_t rounds = (rows.length + lanes * vec - 1) / (lanes * vec);
    if (rounds <= kHeldRounds) {
      for (int64_t round = 0; round < rounds; ++round) elements(IndexSpace::constant(round));
      return;
    }
    c.kernel.hint("round");
    c.kernel.loop(c.kernel.depth(), KernelBuilder::u32(0), rounds, 1, {},
                  [&](const KV& round, const std::vector<KV>&) {
                    elements(c.space.variable(round, rounds));
                    return std::vector<KV>{};
                  });
  };
  c.launchGroups((rows.rows + perGroup - 1) / perGroup, workgroup, [&](const Index& group) {
    if (perGroup == 1) return share(group);
    Index own = c.space.variable(c.kernel.subgroup(Opcode::k_subgroup_id), perGroup);
    bounded(c, c.space.add(c.space.scale(group, perGroup), own), rows.rows, share);
  });
  return {};
}

/// Results over leading axes: the lanes of each walk the reduced elements in turn and combine.
Result<void> lowerColumn(LowerContext& c) {
  int64_t lanes = c.option("lanes", 1), side = c.option("side", 1), vec = c.option("vec", 1);
  int64_t results = c.yields[0]->type.elements();
  bool follows = lanes > 1 && (lanes & (lanes - 1)) == 0 && side > 0 && (vec == 1 || vec == kLanes);
  for (const Value* value : c.yields)
    follows = follows && value->type.elements() == results && results % vec == 0;
  if (!follows)
    return failAt(c.fused.loc,
                  fmt::format("schedule {} needs a power of two of lanes, and results of one size "
                              "that vec, 1 or 4, divides",
                              c.schedule.str()));
  int64_t units = results / vec, groups = (units + side - 1) / side;
  c.launchGroups(groups, lanes * side, [&](const Index& group) {
    Index local = c.space.variable(c.kernel.id(Opcode::k_local_id, 0), lanes * side);
    Index lane = c.space.div(local, side), own = c.space.mod(local, side);
    Index unit = c.space.add(c.space.scale(group, side), own);
    KV stores = c.kernel.op(Opcode::k_eq, {c.space.materialize(lane), KernelBuilder::u32(0)}, DType::i1);
    if (c.space.max(unit) >= units) {  // invocations too many do what the first results' do, for the barriers
      auto [inside, at] = c.emitter.below(unit, units);
      stores = c.kernel.op(Opcode::k_and, {stores, inside}, DType::i1);
      unit = at;
    }
    Index result = c.space.scale(unit, vec);
    if (vec == kLanes) result = c.space.add(result, IndexSpace::lane());
    c.emitter.shareRows({lanes, result, lane, c.kernel.depth(), 1, 1, side});
    for (const Value* value : c.yields) c.emitter.emitLinear(value, result);
    c.kernel.guard(stores, [&] {
      for (size_t slot = 0; slot < c.yields.size(); ++slot) c.store(slot, result);
    });
  });
  return {};
}

Result<void> lowerRow(LowerContext& c) {
  RowSpace rows = rowsOf(c);
  int64_t lanes = c.option("lanes", 1), vec = c.option("vec", 1);
  bool fits = rows.rows > 0 && rows.length % vec == 0;
  for (const Value* value : c.yields) {
    const int64_t count = value->type.elements();
    fits = fits && (count == rows.rows || count == rows.rows * rows.length);
  }
  if (!fits)
    return failAt(c.fused.loc,
                  fmt::format("schedule {} needs rows of {} that vec, 1 or 4, divides, and results of "
                              "one element a row or of whole rows",
                              c.schedule.str(), rows.length));
  auto isFull = [&](size_t slot) {
    return rows.length > 1 && c.yields[slot]->type.elements() == rows.rows * rows.length;
  };
  bool anyFull = false;
  for (size_t slot = 0; slot < c.yields.size(); ++slot) anyFull = anyFull || isFull(slot);

  // Row values first, then one pass over the row for every full result.
  auto statistics = [&](const Index& row) {
    for (size_t slot = 0; slot < c.yields.size(); ++slot)
      if (!isFull(slot)) c.store(slot, row);
  };
  auto elements = [&](const Index& row, const Index& column) {
    Index offset = c.space.add(c.space.scale(row, rows.length), column);
    for (size_t slot = 0; slot < c.yields.size(); ++slot)
      if (isFull(slot)) c.store(slot, offset);
  };
  if (lanes == 1) {
    c.launch(rows.rows, std::min(c.option("workgroup", 64), c.target.maxInvocations), [&](const Index& row) {
      statistics(row);
      if (!anyFull) return;
      c.kernel.hint("j");
      c.kernel.loop(c.kernel.depth(), KernelBuilder::u32(0), rows.length / vec, 1, {},
                    [&](const KV& j, const std::vector<KV>&) {
                      Index column = c.space.scale(c.space.variable(j, rows.length / vec), vec);
                      elements(row, vec == kLanes ? c.space.add(column, IndexSpace::lane()) : column);
                      return std::vector<KV>{};
                    });
    });
    return {};
  }
  return lowerSharedRow(c, rows, isFull);
}

static int64_t storageBuffers(const LoweredKernel& lowered) {
  int64_t storage = 0;
  for (const auto& arg : lowered.kernel->body.args) storage += !arg->type.texel;
  return storage;
}

/// Invocations count elements in u32.
static Result<void> checkCounts(const PlainRegion& region, const Op& fused) {
  for (Op* op : region.body.ops)
    for (const auto& result : op->results)
      if (result->type.elements() > UINT32_MAX)
        return failAt(fused.loc,
                      fmt::format("the kernel of %{} computes {}, of more elements than a kernel counts, {}",
                                  fused.result()->name, result->type.str(), UINT32_MAX));
  return {};
}

static int64_t sharedBytes(const Item& kernel) {
  int64_t bytes = 0;
  walk(kernel.body, [&](const Op& op) {
    if (op.code == Opcode::k_shared) bytes += op.result()->type.bytes();
  });
  return bytes;
}

static Result<void> checkLimits(const LoweredKernel& lowered, const Op& fused, const Target& target) {
  int64_t storage = storageBuffers(lowered);
  if (storage > target.bindings)
    return failAt(fused.loc, fmt::format("the kernel of %{} binds {} storage buffers, target {} has {}",
                                         fused.result()->name, storage, target.name, target.bindings));
  int64_t invocations = lowered.kernel->workgroup[0];
  const int64_t most = std::min({target.maxInvocations, target.maxWorkgroupX, kMaxInvocations});
  if (invocations > most)
    return failAt(fused.loc,
                  fmt::format("the kernel of %{} needs {} invocations a workgroup, target {} has {}",
                              fused.result()->name, invocations, target.name, most));
  if (int64_t bytes = sharedBytes(*lowered.kernel), has = std::min(target.sharedBytes, kMaxSharedBytes);
      bytes > has)
    return failAt(fused.loc,
                  fmt::format("the kernel of %{} needs {} bytes of shared memory, target {} has {}",
                              fused.result()->name, bytes, target.name, has));
  for (int64_t extent : lowered.grid)
    if (extent > std::min<int64_t>(target.maxGrid, UINT32_MAX))
      return failAt(fused.loc,
                    fmt::format("the kernel of %{} needs {} workgroups along an axis, target {} has {}",
                                fused.result()->name, extent, target.name, target.maxGrid));
  return {};
}

static Result<void> lowerScheduled(LowerContext& c) {
  const std::string& kind = c.schedule.text;
  if (kind == "map") return lowerMap(c);
  if (kind == "row") return lowerRow(c);
  if (kind == "column") return lowerColumn(c);
  if (kind == "parts") return lowerParts(c);
  if (kind == "matmul") return c.schedule.find("shared") ? lowerMatmulShared(c) : lowerMatmul(c);
  if (kind == "coopmat") return lowerCoopmat(c);
  if (kind == "attention") return lowerAttention(c);
  return failAt(c.fused.loc, fmt::format("schedule {} is for a tg.custom alone", c.schedule.str()));
}

static Result<LoweredKernel> lowerReading(const Op& fused, const Target& target,
                                          const std::vector<bool>& mayTexel, const Triangles& triangles,
                                          bool byElement) {
  std::unique_ptr<PlainRegion> region = plainRegion(fused);
  TG_CHECK(checkCounts(*region, fused));
  Attr schedule = fused.attr("schedule");
  LoweredKernel lowered;
  lowered.kernel = std::make_unique<Item>();
  lowered.kernel->kind = ItemKind::kernel;
  lowered.kernel->loc = fused.loc;
  KernelBuilder kernel(lowered.kernel.get());
  IndexSpace space(kernel);
  RegionEmitter emitter(kernel, space, fused, *region, mayTexel);
  if (byElement) emitter.readByElement();
  LowerContext context{fused,  target, *region, mayTexel, triangles,     schedule,
                       kernel, space,  emitter, lowered,  region->yields};
  TG_CHECK(lowerScheduled(context));
  if (!emitter.problem().empty()) return failAt(fused.loc, emitter.problem());
  eraseUnread(lowered.kernel->body.ops);  // index parts and lanes that pulling made on the way
  lowered.params = emitter.params();
  for (int64_t extent : lowered.grid) lowered.kernel->grid.push_back(Operand::literal(extent));
  return lowered;
}

Result<LoweredKernel> lowerRegion(const Op& fused, const Target& target, const std::vector<bool>& mayTexel,
                                  const Triangles& triangles) {
  TG_TRY(LoweredKernel lowered, lowerReading(fused, target, mayTexel, triangles, false));
  // A tensor read both by element and by vector is bound twice. Where that is one too many, all are read by
  // element: slower, and within what fuse counts.
  if (storageBuffers(lowered) > target.bindings) {
    TG_TRY(LoweredKernel single, lowerReading(fused, target, mayTexel, triangles, true));
    if (storageBuffers(single) <= target.bindings) lowered = std::move(single);
  }
  TG_CHECK(checkLimits(lowered, fused, target));
  return lowered;
}

}  // namespace tg
