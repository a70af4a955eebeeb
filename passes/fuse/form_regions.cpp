// SPDX-License-Identifier: Apache-2.0
// form-regions: puts ops into regions, each of which becomes one kernel.
//
//   before:  %z = tg.matmul %x, %w   %a = tg.add %z, %b   %h = tg.relu %a
//   after:   %h = tg.fused (%x = %x, %w = %w, %b = %b) {schedule = matmul{tile = [8, 8], …}} : … {
//              %z = tg.matmul %x, %w   %a = tg.add %z, %b   %h = tg.relu %a
//              tg.yield %h
//            }
//
// Each op starts alone and joins the region of a producer when one kernel can compute both: the loops are the same
// (elements, rows, a product's elements), the target allows the bindings, and the op reads nothing from outside that
// depends on the region. Of several producers the one with the largest value is taken, since that value then need not go
// through memory. If that is a map, those of the other producers that are maps become part of it. Views, constants and
// iota are copied into every reader. A kernel over rows also computes sums over these rows; where it cannot, maps that only
// such a sum reads stay with the sum, as they would be stored for it alone.
// Before, rounding moves in front of concatenations; at the end, kernels that only concatenate are removed (read_joins.h).
//
// Requires: stage(tensor) with a target, without tg.grad; no op that needs several kernels (split-reductions) or
//   computes with f16 or bf16 (compute-in-f32).
// Ensures: stage(fused): every op is in a region, and each region follows those that it reads; the operands of effects
//   are results of regions; each region has a schedule chosen by codegen/schedule.h.
// Where: behind all passes that work on ops; the passes behind it work on kernels.
#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <unordered_set>
#include <utility>

#include "codegen/schedule.h"
#include "ir/access.h"
#include "ir/collective.h"
#include "ir/unread.h"
#include "passes/fuse/bindings.h"
#include "passes/fuse/cost.h"
#include "passes/fuse/inline_ops.h"
#include "passes/fuse/read_joins.h"
#include "passes/fuse/region.h"
#include "passes/fuse/region_graph.h"
#include "passes/fuse/region_writer.h"
#include "passes/fuse/target_of.h"
#include "passes/pass.h"

namespace tg::fuse {
namespace {

using table::Fusion;

class Former {
 public:
  /// `report`, unless null, is told why each region starts where it does.
  Former(Item& func, const Target& target, const PassContext* report)
      : func_(func), target_(target), report_(report) {}
  void run();

 private:
  void keepEffects();
  void findReaders();
  void keepWithSum(const Op& sum);
  void partition();
  int rowPartner(const Op& op, const Region& own);
  bool sumsOnTheWay(const Op& sum, const Region& rows) const;
  bool readsLittle(const Region& region, const Value& value);
  bool joins(const Op& op, const Region& own, const Region& other, Value* through);
  int bestProducer(Op& op, const Region& own, std::string& why, std::vector<int>& possible);
  void absorb(int home, const std::vector<int>& others, const Op& op);
  bool waitsDearly(const Op& op, const Region& product, const Value& through);
  bool holds(int region, const Op* op) const;
  bool fits(const std::vector<int>& regions, const Op& op);
  bool bindsNoMore(const std::vector<int>& regions, const Op& op) const;
  /// Formats the reason why an op starts a region, if there is a report.
  template <class... Args>
  void because(std::string& why, fmt::format_string<Args...> text, Args&&... args) const {
    if (report_) why = fmt::format(text, std::forward<Args>(args)...);
  }
  void link(int region, const Op& op);
  void emit();
  std::unique_ptr<Op> build(int index);
  const std::vector<Value*>& bases(const Op& op);

  Item& func_;
  const Target& target_;
  const PassContext* report_;  ///< null: no remarks
  /// Views that must be stored, each with the op that needs it so.
  std::unordered_map<const Op*, const Op*> forced_;
  /// Ops that are copied into every reader. Decided once, from their operands, which regions replace later.
  std::unordered_set<const Op*> copied_;
  std::vector<Region> regions_;
  RegionGraph graph_;
  std::unordered_map<const Op*, int> regionOf_;
  std::unordered_map<const Op*, int> position_;
  /// The position behind which an op could stand: its own or, for maps and views, that of the last op that they depend on and
  /// that is neither.
  std::unordered_map<const Op*, int> ready_;
  std::unordered_map<const Op*, std::vector<Value*>> bases_;
  Readers readers_;
  std::unordered_map<const Op*, const Op*> sumOf_;   ///< maps that stay with a sum (keepWithSum)
  std::unordered_map<const Op*, const Op*> maxima_;  ///< ops that only a maximum reads (maximaOf)
  std::vector<std::string> whyAlone_;
};

/// Makes every operand of an effect the result of a region: a view or a bare argument gets a region that copies it. The same
/// for operands of custom kernels, except reshapes, which change nothing in memory.
void Former::keepEffects() {
  auto needsCopy = [](const Value& value) { return !value.def || readsEntry(*value.def); };
  auto isOutside = [](const Op& op) { return (isBoundary(op) && !readsEntry(op)) || isCollective(op); };
  // These collectives take parts from values where they are, and put them together elsewhere.
  auto leaves = [](const Op& op) { return isCollective(op) && op.code != Opcode::all_reduce; };
  const bool copies = std::ranges::any_of(func_.body.ops, [&](const Op* op) {
    return isOutside(*op) && !leaves(*op) &&
           anyUse(*op, [&](const Value* value) { return needsCopy(*value); });
  });
  NameTable names;
  if (copies) names.takeAll(func_.body);
  Builder builder(func_.body.ops, &names);
  for (Op* op : func_.body.ops) {
    bool inPlace = op->code == Opcode::fused || op->code == Opcode::custom || leaves(*op);
    if (isOutside(*op) || inPlace)
      forEachUse(*op, [&](Value*& value) {
        if (op->code == Opcode::custom && !isInlineBelowReshapes(*value)) return;
        if (!needsCopy(*value)) {
          if (isInline(*value->def)) forced_.emplace(value->def, op);
          return;
        }
        if (inPlace) return;  // reads arguments and parameters where they are
        builder.setBefore(op).setLoc(op->loc).setHint(value->name);
        const Shape& shape = value->type.shape;
        value = builder.op(Opcode::reshape, {value}, {{"shape", Attr::ints({shape.begin(), shape.end()})}});
        forced_.emplace(value->def, op);
      });
  }
  boundViews(func_, forced_);
}

/// The values that an op reads, looking through inline ops: results of regions, arguments, parameters.
const std::vector<Value*>& Former::bases(const Op& op) {
  auto [entry, fresh] = bases_.try_emplace(&op);
  std::vector<Value*>& out = entry->second;
  if (!fresh) return out;
  std::unordered_set<const Value*> seen;
  std::vector<Value*> work;  // still to be looked at, the next one last
  auto pushOperands = [&](const Op& of) {
    const auto first = work.size();
    forEachUse(of, [&](Value* value) { work.push_back(value); });
    std::reverse(work.begin() + static_cast<std::ptrdiff_t>(first), work.end());
  };
  for (pushOperands(op); !work.empty();) {
    Value* value = work.back();
    work.pop_back();
    if (!seen.insert(value).second) continue;
    if (value->def && copied_.contains(value->def))
      pushOperands(*value->def);
    else
      out.push_back(value);
  }
  return out;
}

bool Former::holds(int region, const Op* op) const {
  const int* own = valueIn(regionOf_, op);
  return own && *own == region;
}

static int primitives(const Op& op) { return op.info().has(table::composite) ? kCompositePrimitives : 1; }

/// Whether these regions with this op as one keep the target's bindings, and are small enough to compile soon.
bool Former::fits(const std::vector<int>& regions, const Op& op) {
  std::vector<const Op*> ops{&op};
  for (int region : regions) {
    const std::vector<Op*>& own = regions_[static_cast<size_t>(region)].ops;
    ops.insert(ops.end(), own.begin(), own.end());
  }
  int size = 0;
  for (const Op* each : ops) size += primitives(*each);
  if (size > kMostPrimitives) return false;
  auto inside = [&](const Op* each) {
    return each == &op || std::ranges::any_of(regions, [&](int r) { return holds(r, each); });
  };
  Bindings bound(target_);
  for (const Op* each : ops) {
    for (const Value* base : bases(*each))
      if (!base->def || !inside(base->def)) bound.read(*base);
    for (const auto& result : each->results) {
      if (const auto* readers = valueIn(readers_, result.get()))
        bound.write(!std::ranges::all_of(*readers, inside));
    }
    if (bound.exceeded()) return bindsNoMore(regions, op);
  }
  return bound.fit();
}

/// Whether an op only replaces the result of the one region by its own.
bool Former::bindsNoMore(const std::vector<int>& regions, const Op& op) const {
  if (regions.size() != 1 || op.results.size() != 1) return false;
  const Op* maker = bases_.at(&op).size() == 1 ? bases_.at(&op)[0]->def : nullptr;
  if (!maker || !holds(regions[0], maker)) return false;
  const std::vector<Op*>& readers = readers_.at(bases_.at(&op)[0]);
  return std::ranges::all_of(readers, [&](const Op* reader) { return reader == &op; });
}

/// Whether a kernel over rows can also compute a sum over them, such as the gradients of a norm's gain and bias and of the
/// bias behind it: values that it computes anyway need not be read, or even stored, for the sum.
bool Former::sumsOnTheWay(const Op& sum, const Region& rows) const {
  const int64_t each = rowsPerSum(sum, rows.rows);
  return each && sumsRows(rows.rows, each, target_) && std::ranges::all_of(rows.ops, [&](const Op* other) {
           const int64_t theirs = rowsPerSum(*other, rows.rows);
           return theirs == 0 || theirs == each;
         });
}

/// Whether a region reads at most half as many bytes as a value has that it makes, such as a product of a column and a row.
bool Former::readsLittle(const Region& region, const Value& value) {
  int64_t bytes = 0;
  for (const Op* op : region.ops)
    for (const Value* base : bases(*op))
      if (!base->def || !holds(regionOf_.at(region.ops[0]), base->def)) bytes += base->type.bytes();
  return 2 * bytes <= value.type.bytes();
}

/// Whether one kernel can compute an op and the region that makes `through`, one of its operands: same loops, same order of
/// elements. Bindings and cycles are not checked here.
bool Former::joins(const Op& op, const Region& own, const Region& other, Value* through) {
  int64_t elements = own.elements;
  bool ordered = keepsOrder(op, through);
  auto isRowSized = [&](int64_t count, const RowSpace& rows) {
    return count == rows.rows * rows.length || count == rows.rows;
  };
  auto isReadOnlyByOp = [&] { return isReadOnlyBy(op, other, readers_); };
  switch (own.space) {
  case Space::map:
    if (slicesFold(op, *through) && isReadOnlyByOp()) return true;
    // If the op reads other elements than its own, a sum of many terms would be computed again for each of them.
    if (!keepsElements(op) && (other.space == Space::product || other.space == Space::sum)) return false;
    if (other.space == Space::row && isRowSized(elements, other.rows) &&
        through->type.elements() == other.rows.rows && other.rows.rows > 1)
      return true;
    if (!ordered || through->type.elements() != elements) return false;
    if (other.space == Space::closed)
      return roundsAttention(op, *through) || (keepsElements(op) && scatters(other));
    if (other.space == Space::row) return isRowSized(elements, other.rows) && !mixesRows(op, other.rows);
    return elements == other.elements;
  case Space::row:
    if (other.space == Space::row) return own.rows == other.rows && ordered;
    if (other.space == Space::map)
      return ordered && other.elements == own.rows.rows * own.rows.length &&
             through->type.elements() == other.elements && own.rows.length > 1;
    return false;
  case Space::sum: {
    if (other.space == Space::row) return ordered && sumsOnTheWay(op, other);
    // The sum computes a producer that nothing else reads as it goes. The producer must not be a sum itself, except for a
    // fold of a fold, which reads each element once.
    bool folds = op.code == Opcode::fold && through->def->code == Opcode::fold;
    if (op.code == Opcode::fold && other.space == Space::map && readsLittle(other, *through))
      return isReadOnlyByOp();
    return (other.space == Space::map || folds) && ordered && isReadOnlyByOp();
  }
  default: return false;
  }
}

/// Whether joining would prolong the lives of a product's operands too much: the op adds to the product something that is
/// computed much later, and the operands kept alive until then have more bytes than the product. An example is the
/// gradient of the logits, for a head tied to the embedding. A map that is further down in the text but depends on earlier
/// ops alone, such as the slope of an activation, can be computed early. Then the op joins, unless it would store 32 bits in
/// place of the 16 of the product's result `through`.
bool Former::waitsDearly(const Op& op, const Region& product, const Value& through) {
  if (product.space != Space::product) return false;
  int start = 0, last = 0, ready = 0;
  for (const Op* each : product.ops) start = std::max(start, position_[each]);
  for (const Value* base : bases(op)) {
    if (!base->def || readsEntry(*base->def)) continue;
    last = std::max(last, position_[base->def]);
    ready = std::max(ready, ready_[base->def]);
  }
  const bool widens = isNarrow(through.type.dtype) && !isNarrow(op.result()->type.dtype);
  if (last <= start || (ready <= start && !widens)) return false;
  int64_t kept = 0;
  for (const Op* each : product.ops)
    for (const Value* base : bases(*each)) {
      if (!base->def || isBoundary(*base->def)) continue;
      const std::vector<Op*>& readers = readers_[base];
      bool dies = std::ranges::all_of(readers, [&](const Op* reader) { return position_[reader] < last; });
      if (dies) kept += base->type.bytes();
    }
  return kept >= op.result()->type.bytes() + kWorthAKernel;
}

/// The region that an op joins: that of the largest operand that passes all tests, or -1. `why` is the last test failed,
/// `possible` all regions that pass.
int Former::bestProducer(Op& op, const Region& own, std::string& why, std::vector<int>& possible) {
  const auto sum = sumOf_.find(&op);
  const auto maximum = maxima_.find(&op);
  int best = -1;
  int64_t bestBytes = -1;
  for (Value* base : bases(op)) {
    const int* producer = valueIn(regionOf_, base->def);
    if (!producer) continue;
    const int candidate = *producer;
    const Region& other = regions_[static_cast<size_t>(candidate)];
    if (sum != sumOf_.end()) {
      const auto maker = sumOf_.find(base->def);
      if (maker == sumOf_.end() || maker->second != sum->second) {
        because(why, "only the sum %{} reads it, from what %{}'s kernel stores anyway",
                sum->second->result()->name, base->name);
        continue;
      }
    }
    if (!joins(op, own, other, base)) {
      because(why, "%{}'s kernel has other loops", base->name);
      continue;
    }
    if (repeatsDraws(own, other) && !(op.code == Opcode::sum && isReadOnlyBy(op, other, readers_))) {
      because(why, "%{} holds random draws, which its passes over a row would repeat", base->name);
      continue;
    }
    if (!fits({candidate}, op)) {
      because(why, "with %{} it would bind more buffers than target '{}' allows", base->name, target_.name);
      continue;
    }
    // Loops of another kind would have to store the op's result for the maximum.
    if (maximum != maxima_.end() &&
        (other.space == Space::product ||
         (other.space == Space::row && rowSpaceOf(*maximum->second) != other.rows))) {
      because(why, "only a maximum reads it, from what %{}'s kernel stores anyway", base->name);
      continue;
    }
    if (waitsDearly(op, other, *base)) {
      because(why, "%{}'s product would keep alive what it reads until then", base->name);
      continue;
    }
    const bool cycle = std::ranges::any_of(bases(op), [&](const Value* operand) {
      const int* other = valueIn(regionOf_, operand->def);
      return other && *other != candidate && graph_.reaches(candidate, *other);
    });
    if (cycle) {
      because(why, "another operand depends on %{}'s kernel", base->name);
      continue;
    }
    possible.push_back(candidate);
    if (base->type.bytes() > bestBytes) best = candidate, bestBytes = base->type.bytes();
  }
  return best;
}

/// Makes other maps that an op could join part of the one that it joins, unless one of the two depends on the other. An
/// example is a recurrent cell, whose gates are maps of slices of one product.
void Former::absorb(int home, const std::vector<int>& others, const Op& op) {
  Region& region = regions_[static_cast<size_t>(home)];
  for (int number : others) {
    Region& other = regions_[static_cast<size_t>(number)];
    if (region.space != Space::map || other.space != Space::map || number == home || other.ops.empty())
      continue;
    if (graph_.reaches(home, number) || graph_.reaches(number, home) || !fits({home, number}, op)) continue;
    for (Op* each : other.ops) regionOf_[each] = home;
    std::vector<Op*> ops;
    std::merge(region.ops.begin(), region.ops.end(), other.ops.begin(), other.ops.end(),
               std::back_inserter(ops),
               [&](const Op* a, const Op* b) { return position_[a] < position_[b]; });
    region.ops = std::move(ops);
    other.ops.clear();
    graph_.merge(home, number);
  }
}

void Former::link(int region, const Op& op) {
  for (Value* base : bases(op)) {
    const int* producer = valueIn(regionOf_, base->def);
    if (producer && *producer != region) graph_.link(*producer, region);
  }
}

/// A region that is not a producer of the op but worth joining: it has the same rows, is the only one to read one of the
/// op's operands, and no operand of the op depends on it. Examples: a cross entropy, for its gradient, which then may take
/// the place of the logits; a softmax, for the rows' log Σ e^x; a norm's gradient, for sums of its operand. -1 for none.
int Former::rowPartner(const Op& op, const Region& own) {
  for (Value* base : bases(op)) {
    const std::vector<Op*>& readers = readers_[base];
    const int* first = valueIn(regionOf_, readers[0]);
    if (!first) continue;
    const Region& other = regions_[static_cast<size_t>(*first)];
    if (base->type.elements() != other.rows.rows * other.rows.length) continue;
    bool alone = std::ranges::all_of(readers, [&](const Op* reader) {
      const int* at = valueIn(regionOf_, reader);
      return !at || *at == *first;
    });
    const bool suits =
        own.space == Space::row ? other.rows == own.rows : sumsOnTheWay(op, other) && keepsOrder(op, base);
    if (!alone || other.space != Space::row || !suits || !fits({*first}, op)) continue;
    const std::vector<Value*>& operands = bases(op);
    bool cycle = std::ranges::any_of(operands, [&](const Value* operand) {
      const int* producer = valueIn(regionOf_, operand->def);
      return producer && graph_.reaches(*first, *producer);
    });
    if (!cycle) return *first;
  }
  return -1;
}

void Former::findReaders() {
  int at = 0;
  for (Op* op : func_.body.ops) {
    position_[op] = at++;
    int ready = 0;
    forEachUse(std::as_const(*op), [&](const Value* value) {
      if (value->def) ready = std::max(ready, ready_[value->def]);
    });
    const bool follows = op->info().fusion == Fusion::map || op->info().fusion == Fusion::view;
    ready_[op] = follows ? ready : position_[op];
    if (copied_.contains(op)) continue;
    for (Value* base : bases(*op)) readers_[base].push_back(op);
  }
}

/// Decides whether the maps in front of a sum stay with it. Other kernels that make their operands could compute such maps
/// too, but would store them for the sum alone. The sum computes them itself if they read at most two full-size tensors
/// that are in memory anyway. Examples: the products of a norm's gain, of x, its gradient and the rows' statistics; a
/// matrix of 16 bits times a vector.
void Former::keepWithSum(const Op& sum) {
  const int64_t elements = sum.in(0)->type.elements();
  std::set<const Op*> maps;
  std::set<const Value*> leaves;
  std::vector<Value*> work{throughReshapes(sum.in(0))};
  auto isOnlyOurs = [&](const Value* value) {
    const std::vector<Op*>& readers = readers_[value];
    return std::ranges::all_of(readers,
                               [&](const Op* reader) { return reader == &sum || maps.contains(reader); });
  };
  while (!work.empty()) {
    Value* value = work.back();
    work.pop_back();
    while (value->def && isWidening(*value->def)) value = throughReshapes(value->def->in(0));
    const Op* def = value->def;
    if (!def || !isCheapMap(*def) || value->type.elements() != elements || !isOnlyOurs(value)) {
      if (!def || !isInline(*def)) leaves.insert(value);
      if (def && isInline(*def) && def->code != Opcode::constant) return;  // views are read where they lead
      continue;
    }
    maps.insert(def);
    forEachUse(*def, [&](Value* operand) { work.push_back(throughReshapes(operand)); });
  }
  int large = 0;
  bool onTheWay = false;  // for a kernel over rows
  for (const Value* leaf : leaves) {
    if (leaf->type.elements() == elements) ++large;
    const auto rows = leaf->def ? rowSpaceOf(*leaf->def) : std::nullopt;
    onTheWay = onTheWay || (rows && sumsRows(*rows, rowsPerSum(sum, *rows), target_));
    if (leaf->def && isOnlyOurs(leaf) && leaf->type.elements() == elements) return;
  }
  if (large > kMapsOfASum || onTheWay) return;
  for (const Op* map : maps) sumOf_[map] = &sum;
}

/// Assigns every op to a region, in text order.
void Former::partition() {
  findReaders();
  maxima_ = maximaOf(func_);
  for (Op* op : func_.body.ops)
    if (op->info().fusion == Fusion::reduce && !rowSpaceOf(*op)) keepWithSum(*op);
  for (Op* op : func_.body.ops) {
    if (isBoundary(*op) || copied_.contains(op)) continue;
    Region own = aloneInRegion(*op);
    std::string why;
    std::vector<int> possible;
    int home = own.space == Space::closed ? -1 : bestProducer(*op, own, why, possible);
    if (home < 0 && (own.space == Space::row || own.space == Space::sum)) home = rowPartner(*op, own);
    if (home < 0) {
      home = graph_.add();
      regions_.push_back(own);
      if (auto at = forced_.find(op); at != forced_.end() && at->second->code == Opcode::custom)
        because(why, "the kernel @{} reads it from memory", at->second->operands[0].text);
      whyAlone_.push_back(why);
    }
    absorb(home, possible, *op);
    Region& region = regions_[static_cast<size_t>(home)];
    if (region.space != Space::row && (own.space == Space::sum || own.space == Space::row)) {
      region.space = own.space;
      region.rows = own.rows;
      region.elements = own.elements;
    }
    if (region.space == Space::sum && own.space == Space::map) region.elements = own.elements;  // slices fold
    region.ops.push_back(op);
    regionOf_[op] = home;
    link(home, *op);
  }
}

/// Writes a region as a tg.fused, yielding the values that are read outside of it.
std::unique_ptr<Op> Former::build(int index) {
  const Region& region = regions_[static_cast<size_t>(index)];
  const Op* main = region.ops[0];
  for (const Op* op : region.ops)
    if (op->info().fusion == Fusion::contraction || op->info().fusion == Fusion::row) main = op;
  RegionWriter writer(main->loc);
  std::function<void(const Op&)> copy = [&](const Op& op) {
    forEachUse(op, [&](Value* value) {
      if (writer.find(value)) return;
      if (value->def && copied_.contains(value->def)) return copy(*value->def);
      writer.define(value, writer.bind(value));
    });
    writer.copy(op);
  };
  for (const Op* op : region.ops) copy(*op);
  std::vector<Value*> yielded;
  for (Op* op : region.ops)
    for (const auto& result : op->results) {
      const auto* readers = valueIn(readers_, result.get());
      const bool outside =
          readers && std::ranges::any_of(*readers, [&](const Op* reader) { return !holds(index, reader); });
      if (!outside && op->code != Opcode::custom) continue;  // a custom kernel writes all its results
      yielded.push_back(writer.here(result.get()));
      result->uses.replaceAll(writer.addResult(*result));
    }
  writer.yield(yielded);
  return writer.finish(target_);
}

/// Writes the new body: reads of symbols; regions, each due at its last op in the text; effects.
void Former::emit() {
  OpList& body = func_.body.ops;
  OpList old = body.takeAll(), effects;
  for (Op* op : old.all()) {
    if (readsEntry(*op))
      body.push_back(old.take(op));
    else if (isBoundary(*op))
      effects.push_back(old.take(op));
  }
  std::vector<int> due;
  for (const Region& region : regions_) {
    due.push_back(0);
    for (const Op* op : region.ops) due.back() = std::max(due.back(), position_[op]);
  }
  for (int r : graph_.order(std::move(due))) {
    const Region& region = regions_[static_cast<size_t>(r)];
    if (region.ops.empty()) continue;  // absorbed
    if (isTurn(*region.ops[0]))
      body.push_back(old.take(region.ops[0]));
    else
      body.push_back(build(r));
    const Op& made = *body.back();
    if (const std::string& why = whyAlone_[static_cast<size_t>(r)]; !why.empty())
      report_->remark(made.loc, "kernel of %{} starts here because {}", made.result()->name, why);
  }
  body.append(std::move(effects));
}

void Former::run() {
  keepEffects();
  storeTurned(func_, target_, forced_);
  for (const Op* op : func_.body.ops)
    if (isInline(*op) && !forced_.contains(op)) copied_.insert(op);
  partition();
  emit();
}

}  // namespace
}  // namespace tg::fuse

namespace tg {

/// Fails if an op is left that a region cannot hold.
static Result<void> checkOps(const Item& func, const Target& target) {
  for (const Op* op : func.body.ops) {
    if (op->code == Opcode::grad) return failAt(op->loc, "tg.grad is left; run append-grad first");
    if (op->code == Opcode::sum_of_squares)
      return failAt(op->loc, "tg.sum_of_squares is left; run flatten-optimizer first");
    if (!isTurn(*op) && fuse::computesNarrow(*op))
      return failAt(op->loc, "{} computes with {}; run compute-in-f32 first", op->info().name,
                    op->results.empty() ? "a narrow type" : op->result()->type.str());
    if (!fuse::isOneKernel(*op, target))
      return failAt(op->loc, "{} takes several kernels on target '{}'; run split-reductions first",
                    op->info().name, target.name);
  }
  return {};
}

Result<void> run_form_regions(Module& module, const FormRegionsOptions& options, const PassContext& context) {
  TG_TRY(const Target target, fuse::targetOn(module, "form-regions"));
  for (Item* func : module.all(ItemKind::func)) {
    TG_CHECK(checkOps(*func, target));
    fuse::roundPieces(*func, target);
    eraseUnread(func->body.ops);  // a kernel has a result
    fuse::Former(*func, target, options.report ? &context : nullptr).run();
    fuse::readJoins(*func, target);
  }
  module.stage = Stage::fused;
  return {};
}

}  // namespace tg
