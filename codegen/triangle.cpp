// SPDX-License-Identifier: Apache-2.0
// Proves, op by op and kernel by kernel, which values are zero above the diagonal (isLower) and which are not read
// there (isReadBelow); then what a product may skip (skipsOf) and need not store (unreadTile).
#include "codegen/triangle.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <numeric>
#include <optional>
#include <span>
#include <unordered_set>

#include "codegen/product.h"
#include "codegen/schedule.h"
#include "ir/access.h"
#include "ir/op_view.h"

namespace tg {
namespace {

/// Whether all elements above the diagonal of a region's block argument are known to be zero.
using KnownLower = std::function<bool(const Value&)>;

constexpr int kFurthest = 16;  ///< limit of the ops and kernels through which zeros are followed

bool isMatrix(const Value& value) { return value.type.rank() >= 2; }
int64_t rowsOf(const Value& value) { return value.type.shape[value.type.rank() - 2]; }
int64_t columnsOf(const Value& value) { return value.type.shape.back(); }
bool sameMatrix(const Value& a, const Value& b) {
  return isMatrix(a) && isMatrix(b) && rowsOf(a) == rowsOf(b) && columnsOf(a) == columnsOf(b);
}

bool isCausalMask(const Value& mask) { return mask.def && mask.def->code == Opcode::causal_mask; }

/// Whether an op selects its second operand where a causal mask holds.
bool selectsBelow(const Op& op) { return op.code == Opcode::select && isCausalMask(*op.in(0)); }

/// Whether a value has so small a number above the diagonal that its exp is zero there. The number is -inf if another is
/// subtracted from it, such as the row's maximum: a finite one may be that maximum, and its exp 1.
bool isHidden(const Value& value) {
  const Op* op = value.def;
  const bool shifted =
      op && op->code == Opcode::sub && isMatrix(*as::sub(*op).rhs()) && columnsOf(*as::sub(*op).rhs()) == 1;
  if (shifted) op = op->in(0)->def;
  if (!op || !selectsBelow(*op)) return false;
  const Op* least = as::select(*op).on_false()->def;
  return sameMatrix(*as::select(*op).cond(), value) && least && least->code == Opcode::constant &&
         least->operands[0].isLiteral() &&
         least->operands[0].number() <= (shifted ? -std::numeric_limits<double>::infinity() : -1e38);
}

/// Whether a value is zero above the diagonal. `steps` counts the ops and kernels followed so far.
bool isLower(const Value& value, const KnownLower& known, int steps = 0) {
  if (!isMatrix(value) || steps > kFurthest) return false;
  if (!value.def) return known(value);
  const Op& op = *value.def;
  auto also = [&](const Value& operand) {
    return sameMatrix(operand, value) && isLower(operand, known, steps + 1);
  };
  switch (op.code) {
  case Opcode::exp: return isMatrix(*op.in(0)) && isHidden(*op.in(0));
  case Opcode::softmax: return as::softmax(op).causal() && rowsOf(value) <= columnsOf(value);
  case Opcode::select:
    return selectsBelow(op) && sameMatrix(*as::select(op).cond(), value) &&
           isNumber(*as::select(op).on_false(), 0);
  case Opcode::mul: return also(*as::mul(op).lhs()) || also(*as::mul(op).rhs());
  case Opcode::div:
  case Opcode::neg:
  case Opcode::reshape: return also(*op.in(0));
  default: return false;
  }
}

bool resultIsLower(const Value& value, int steps);

/// Follows the block arguments of a kernel to the results of other kernels.
KnownLower sourcesLower(const Op& fused, int steps) {
  return [&fused, steps](const Value& argument) {
    for (const Operand& operand : fused.operands)
      if (operand.value == &argument)
        return operand.bindsValue() && resultIsLower(*operand.items[0].value, steps + 1);
    return false;
  };
}

/// Whether a result of a fused op is zero above the diagonal.
bool resultIsLower(const Value& value, int steps) {
  if (!value.def || value.def->code != Opcode::fused || steps > kFurthest) return false;
  const Op& fused = *value.def;
  if (!fused.groups.empty()) return false;
  size_t slot = 0;
  while (fused.results[slot].get() != &value) ++slot;
  return isLower(*fused.regions[0]->terminator()->in(static_cast<int>(slot)), sourcesLower(fused, steps));
}

using Carriers = std::unordered_set<const Value*>;

/// The values of a region that have elements of a matrix, each in its place. `ends(op, carriers)` says whether an op that
/// reads some passes none on. Nothing if an op neither does so nor keeps elements where they are.
std::optional<Carriers> carriersOf(const Block& body, const Value& matrix,
                                   const std::function<bool(const Op&, const Carriers&)>& ends) {
  Carriers carriers{&matrix};
  for (const Op* op : body.ops) {
    if (op->code == Opcode::yield) break;
    const bool reads = anyUse(*op, [&](const Value* operand) { return carriers.contains(operand); });
    if (!reads || ends(*op, carriers)) continue;
    if (!keepsElements(*op) || op->results.size() != 1 || !sameMatrix(*op->result(), matrix)) return {};
    carriers.insert(op->result());
  }
  return carriers;
}

/// Whether nothing depends on the elements above the diagonal of a region's value: each use masks them or
/// multiplies them by zero. `free(slot)` says that they may stay in result `slot` of the region.
bool isReadBelow(const Block& body, std::span<Value* const> yields, const Value& value,
                 const KnownLower& known, const std::function<bool(size_t slot)>& free) {
  auto masks = [&](const Op& op, const Carriers& carriers) {
    if (op.results.size() != 1) return false;
    auto whole = [&](int operand) {
      return sameMatrix(*op.in(operand), *op.result()) && !carriers.contains(op.in(operand));
    };
    if (op.code == Opcode::mul)
      return (whole(0) && isLower(*as::mul(op).lhs(), known)) ||
             (whole(1) && isLower(*as::mul(op).rhs(), known));
    return selectsBelow(op) && whole(0) && !carriers.contains(as::select(op).on_false());
  };
  const std::optional<Carriers> unmasked = carriersOf(body, value, masks);
  for (size_t slot = 0; unmasked && slot < yields.size(); ++slot)
    if (unmasked->contains(yields[slot]) && !free(slot)) return false;
  return unmasked.has_value();
}

/// Whether this holds for a result of a function's op, in all kernels that read it.
bool resultIsReadBelow(const Value& value) {
  return std::ranges::all_of(value.uses, [&](const Use& use) {
    const Op* reader = use.user();
    if (reader->code != Opcode::fused || !reader->groups.empty()) return false;
    std::vector<Value*> yields;
    for (const Operand& operand : reader->regions[0]->terminator()->operands) yields.push_back(operand.value);
    for (const Operand& operand : reader->operands) {
      if (!operand.bindsValue()) return false;
      if (operand.items[0].value == &value &&
          !isReadBelow(*reader->regions[0], yields, *operand.value, sourcesLower(*reader, 0),
                       [](size_t) { return false; }))
        return false;
    }
    return true;
  });
}

}  // namespace

Skips skipsOf(const Op& fused) {
  const std::unique_ptr<PlainRegion> region = plainRegion(fused);
  const Product p = productIn(*region);
  if (!p.op) return {};
  std::vector<bool> lower;
  for (const Operand& operand : fused.operands) {
    const Operand& source = operand.items[0];
    lower.push_back(source.kind == Operand::Kind::value && resultIsLower(*source.value, 0));
  }
  const KnownLower known = [&](const Value& argument) {
    const auto at = std::ranges::find(region->bindings, &argument);
    return at != region->bindings.end() && lower[static_cast<size_t>(at - region->bindings.begin())];
  };
  auto free = [&](size_t slot) { return fused.groups.empty() && resultIsReadBelow(*fused.results[slot]); };
  Skips skips;
  skips.lower = (p.ta ? p.m == p.k : p.m <= p.k) && isLower(*p.op->in(0), known);
  skips.hidden = p.m <= p.n && isReadBelow(region->body, region->yields, *p.op->result(), known, free);
  skips.zeros = skips.hidden && std::ranges::all_of(region->yields, [&](const Value* value) {
                  return isLower(*value, known);
                });
  return skips;
}

namespace {

/// The side of the least square tile such that the kernel of a product reads no element of an operand in tiles
/// above the diagonal's; 0 if it may read any element. A first factor is read by blocks of rows, each up to the
/// column where the diagonal leaves the block, rounded up to a step of k. An operand of the epilogue is read in
/// those blocks of the result that are not hidden.
int64_t tileOfReads(const Op& reader, size_t operand) {
  const Schedule schedule = scheduleOf(reader);
  const auto* shared = std::get_if<SharedMatmulSchedule>(&schedule);
  if (!shared || !reader.groups.empty()) return 0;
  const std::unique_ptr<PlainRegion> region = plainRegion(reader);
  const Product p = productIn(*region);
  if (!p.op) return 0;
  const int64_t rows = shared->shared[0], columns = shared->shared[1], step = shared->shared[2];
  int64_t tile = 1;
  const auto carriers =
      carriersOf(region->body, *region->bindings[operand], [&](const Op& op, const Carriers& factors) {
        if (&op != p.op || !shared->lower || p.m != p.k || factors.contains(as::matmul(op).rhs()))
          return false;
        tile = std::lcm(rows, step);
        return true;
      });
  if (!carriers) return 0;
  if (std::ranges::none_of(region->yields, [&](const Value* value) { return carriers->contains(value); }))
    return tile;
  return shared->hidden && shared->zeros && p.m == p.n ? std::lcm(tile, std::lcm(rows, columns)) : 0;
}

/// The least `unread` that the kernel of a region may have: no result is read in tiles of so many rows and columns
/// above the diagonal's, given the schedules of the kernels that read it. 0 if any element may be read.
int64_t unreadTile(const Op& fused) {
  const std::unique_ptr<PlainRegion> region = plainRegion(fused);
  const Product p = productIn(*region);
  if (!p.op || p.m != p.n) return 0;
  int64_t tile = 1;
  for (const auto& result : fused.results) {
    if (!isMatrix(*result) || rowsOf(*result) != p.m || columnsOf(*result) != p.n) return 0;
    for (const Use& use : result->uses) {
      const Op& reader = *use.user();
      if (reader.code != Opcode::fused) return 0;
      for (size_t i = 0; i < reader.operands.size(); ++i) {
        const Operand& source = reader.operands[i].items[0];
        if (source.kind != Operand::Kind::value) return 0;
        if (source.value != result.get()) continue;
        const int64_t own = tileOfReads(reader, i);
        if (own == 0) return 0;
        tile = std::lcm(tile, own);
      }
    }
  }
  return tile < p.m ? tile : 0;  // a single tile has the whole diagonal, and there is none above it
}

}  // namespace

Schedule withSkips(const Op& fused, Schedule schedule) {
  if (auto* shared = std::get_if<SharedMatmulSchedule>(&schedule)) {
    const Skips skips = skipsOf(fused);
    shared->lower = skips.lower, shared->hidden = skips.hidden, shared->zeros = skips.zeros;
    if (skips.lower) shared->band = 1;
    shared->unread = skips.hidden && shared->slices == 1 ? unreadTile(fused) : 0;
  }
  return schedule;
}

Result<void> checkSkips(const Op& fused) {
  const Schedule schedule = scheduleOf(fused);
  const auto* shared = std::get_if<SharedMatmulSchedule>(&schedule);
  if (!shared || (!shared->lower && !shared->hidden && !shared->zeros && !shared->unread)) return {};
  const Skips skips = skipsOf(fused);
  auto bad = [&](std::string_view why) {
    return failAt(fused.loc, "schedule {} {}", fused.attr("schedule").str(), why);
  };
  if (shared->lower && !skips.lower)
    return bad("has `lower`, but the product's first operand may be other than zero above its diagonal");
  if (shared->hidden && !skips.hidden)
    return bad("has `hidden`, but what the product has above its diagonal may be read");
  if (shared->zeros && !(shared->hidden && skips.zeros))
    return bad("has `zeros`, but results of hidden blocks may be other than zero");
  if (!shared->unread) return {};
  if (!shared->hidden) return bad("has `unread`, which needs `hidden`");
  const int64_t tile = unreadTile(fused);
  if (tile == 0) return bad("has `unread`, but what its results have above the diagonal may be read");
  if (shared->unread % tile != 0)
    return bad(
        fmt::format("has `unread`, but kernels read its results by tiles of {} rows and columns", tile));
  return {};
}

}  // namespace tg
