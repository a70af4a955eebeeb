#include "codegen/lower.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <unordered_set>

#include "codegen/lower_schedules.h"
#include "codegen/schedule.h"

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

/// Runs the body under `index < count` where the index could be larger, with an index known to be smaller.
static void bounded(LowerContext& c, const Index& index, int64_t count,
                    const std::function<void(const Index&)>& body) {
  if (c.space.max(index) < count) return body(index);
  KV value = c.space.materialize(index);
  KV inside = c.kernel.op(Opcode::k_lt, {value, KernelBuilder::u32(count)}, DType::i1);
  c.kernel.guard(inside, [&] { body(c.space.variable(value, count)); });
}

void LowerContext::launch(int64_t count, int64_t workgroup, const std::function<void(const Index&)>& body) {
  int64_t groups = (count + workgroup - 1) / workgroup;
  out.kernel->workgroup = {workgroup, 1, 1};
  if (groups <= target.maxGrid) {
    out.grid = {groups, 1, 1};
    return bounded(*this, space.variable(kernel.id(Opcode::k_global_id, 0), groups * workgroup), count, body);
  }
  Index lane = space.variable(kernel.id(Opcode::k_local_id, 0), workgroup);
  bounded(*this, space.add(space.scale(groupIndex(groups), workgroup), lane), count, body);
}

void LowerContext::launchGroups(int64_t groups, int64_t workgroup,
                                const std::function<void(const Index&)>& body) {
  out.kernel->workgroup = {workgroup, 1, 1};
  bounded(*this, groupIndex(groups), groups, body);
}

Result<void> lowerMap(LowerContext& c) {
  int64_t vec = c.option("vec", 1);
  int64_t largest = 0;
  for (const Value* value : c.region.yields) largest = std::max(largest, value->type.elements() / vec);
  c.launch(largest, std::min(c.option("workgroup", 64), c.target.maxInvocations), [&](const Index& i) {
    for (size_t slot = 0; slot < c.region.yields.size(); ++slot) {
      int64_t count = c.region.yields[slot]->type.elements() / vec;
      bounded(c, i, count, [&](const Index& at) {
        Index offset = c.space.scale(at, vec);
        if (vec == kLanes) offset = c.space.add(offset, IndexSpace::lane());
        c.emitter.store(static_cast<int>(slot), offset);
      });
    }
  });
  return {};
}

/// Rows and row length a schedule's region works on: the largest result is rows × length, or rows.
static RowSpace rowsOf(const LowerContext& c) {
  RowSpace space;
  for (const auto& op : c.fused.regions[0]->ops) {
    auto found = rowSpaceOf(*op);
    if (found) space = *found;
  }
  return space;
}

Result<void> lowerRow(LowerContext& c) {
  RowSpace rows = rowsOf(c);
  int64_t lanes = c.option("lanes", 1), vec = c.option("vec", 1);
  auto isFull = [&](size_t slot) {
    return rows.length > 1 && c.region.yields[slot]->type.elements() == rows.rows * rows.length;
  };
  bool anyFull = false;
  for (size_t slot = 0; slot < c.region.yields.size(); ++slot) anyFull = anyFull || isFull(slot);

  // Row values first, then one pass over the row for every full result.
  auto statistics = [&](const Index& row) {
    for (size_t slot = 0; slot < c.region.yields.size(); ++slot)
      if (!isFull(slot)) c.emitter.store(static_cast<int>(slot), row);
  };
  auto elements = [&](const Index& row, const Index& column) {
    Index offset = c.space.add(c.space.scale(row, rows.length), column);
    for (size_t slot = 0; slot < c.region.yields.size(); ++slot)
      if (isFull(slot)) c.emitter.store(static_cast<int>(slot), offset);
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
  c.launchGroups(rows.rows, lanes, [&](const Index& row) {
    KV local = c.kernel.id(Opcode::k_local_id, 0);
    Index lane = c.space.variable(local, lanes);
    c.emitter.shareRows({lanes, row, lane, c.kernel.depth()});
    KV first = c.kernel.op(Opcode::k_eq, {local, KernelBuilder::u32(0)}, DType::i1);
    // Statistics are computed by all invocations, then stored by the first.
    for (size_t slot = 0; slot < c.region.yields.size(); ++slot)
      if (!isFull(slot)) c.emitter.emitLinear(c.region.yields[slot], row);
    c.kernel.guard(first, [&] { statistics(row); });
    if (!anyFull) return;
    // Shared reductions must be met by all invocations before control flow diverges.
    c.emitter.pullRowReductions(row, rows.length);
    int64_t rounds = (rows.length + lanes - 1) / lanes;
    c.kernel.hint("round");
    c.kernel.loop(c.kernel.depth(), KernelBuilder::u32(0), rounds, 1, {},
                  [&](const KV& round, const std::vector<KV>&) {
                    Index column = c.space.add(c.space.scale(c.space.variable(round, rounds), lanes), lane);
                    bounded(c, column, rows.length, [&](const Index& at) { elements(row, at); });
                    return std::vector<KV>{};
                  });
  });
  return {};
}

/// Removes pure ops nobody reads: index parts and lanes that pulling made on the way.
static void dropUnused(Block& block) {
  std::unordered_set<const Value*> used;
  std::function<void(const Block&)> visit = [&](const Block& inside) {
    for (auto it = inside.ops.rbegin(); it != inside.ops.rend(); ++it) {
      const Op& op = **it;
      bool live = !op.info().has(table::pure);
      for (const auto& result : op.results) live = live || used.contains(result.get());
      if (!live) continue;
      for (const auto& region : op.regions) visit(*region);
      forEachUse(op, [&](Value* value) { used.insert(value); });
    }
  };
  visit(block);
  std::function<void(Block&)> sweep = [&](Block& inside) {
    std::erase_if(inside.ops, [&](const std::unique_ptr<Op>& op) {
      return op->info().has(table::pure) &&
             std::none_of(op->results.begin(), op->results.end(),
                          [&](const auto& result) { return used.contains(result.get()); });
    });
    for (auto& op : inside.ops)
      for (auto& region : op->regions) sweep(*region);
  };
  sweep(block);
}

static int64_t storageBuffers(const LoweredKernel& lowered) {
  int64_t storage = 0;
  for (const auto& arg : lowered.kernel->body.args) storage += !arg->type.texel;
  return storage;
}

static Result<void> checkLimits(const LoweredKernel& lowered, const Op& fused, const Target& target) {
  int64_t storage = storageBuffers(lowered);
  if (storage > target.bindings)
    return failAt(fused.loc, fmt::format("the kernel of %{} binds {} storage buffers, target {} has {}",
                                         fused.result()->name, storage, target.name, target.bindings));
  int64_t invocations = lowered.kernel->workgroup[0];
  if (invocations > target.maxInvocations || invocations > target.maxWorkgroupX)
    return failAt(fused.loc,
                  fmt::format("the kernel of %{} needs {} invocations a workgroup, target {} has {}",
                              fused.result()->name, invocations, target.name,
                              std::min(target.maxInvocations, target.maxWorkgroupX)));
  for (int64_t extent : lowered.grid)
    if (extent > target.maxGrid)
      return failAt(fused.loc,
                    fmt::format("the kernel of %{} needs {} workgroups along an axis, target {} has {}",
                                fused.result()->name, extent, target.name, target.maxGrid));
  return {};
}

static Result<void> lowerScheduled(LowerContext& c) {
  const std::string& kind = c.schedule.text;
  if (kind == "map") return lowerMap(c);
  if (kind == "row") return lowerRow(c);
  if (kind == "matmul") return c.schedule.find("shared") ? lowerMatmulShared(c) : lowerMatmul(c);
  if (kind == "coopmat") return lowerCoopmat(c);
  if (kind == "attention") return lowerAttention(c);
  return failAt(
      c.fused.loc,
      fmt::format("schedule {} is unknown; known: map, row, matmul, coopmat, attention", c.schedule.str()));
}

static Result<LoweredKernel> lowerReading(const Op& fused, const Target& target,
                                          const std::vector<bool>& mayTexel, bool byElement) {
  std::unique_ptr<PlainRegion> region = plainRegion(fused);
  Attr schedule = fused.attr("schedule");
  LoweredKernel lowered;
  lowered.kernel = std::make_unique<Item>();
  lowered.kernel->kind = ItemKind::kernel;
  lowered.kernel->loc = fused.loc;
  KernelBuilder kernel(lowered.kernel.get());
  IndexSpace space(kernel);
  RegionEmitter emitter(kernel, space, fused, *region, mayTexel);
  if (byElement) emitter.readByElement();
  LowerContext context{fused, target, *region, mayTexel, schedule, kernel, space, emitter, lowered};
  TG_CHECK(lowerScheduled(context));
  if (!emitter.problem().empty()) return failAt(fused.loc, emitter.problem());
  dropUnused(lowered.kernel->body);
  lowered.params = emitter.params();
  for (int64_t extent : lowered.grid) lowered.kernel->grid.push_back(Operand::literal(extent));
  return lowered;
}

Result<LoweredKernel> lowerRegion(const Op& fused, const Target& target, const std::vector<bool>& mayTexel) {
  TG_TRY(LoweredKernel lowered, lowerReading(fused, target, mayTexel, false));
  // A tensor read both by element and by vector is bound twice. Where that is one too many, all are read by
  // element: slower, and within what fuse counts.
  if (storageBuffers(lowered) > target.bindings) {
    TG_TRY(LoweredKernel single, lowerReading(fused, target, mayTexel, true));
    if (storageBuffers(single) <= target.bindings) lowered = std::move(single);
  }
  TG_CHECK(checkLimits(lowered, fused, target));
  return lowered;
}

}  // namespace tg
