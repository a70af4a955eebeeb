// SPDX-License-Identifier: Apache-2.0
// plan: gives every value of a fused module a place in a buffer.
//
//   param @w : tensor<4xf32>
//   %h = tg.fused (%a = %x) {schedule = map{}} : tensor<4xf32> { … }
// becomes
//   param @w : tensor<4xf32> -> @persistent[0]
//   buffer @persistent : 256
//   %h = tg.fused (%a = %x) {schedule = map{}} : tensor<4xf32> -> @arena[0] { … }
//
// A param or state that comes with a home keeps it: another module shares its bytes, and that module's buffers take the
// first `reserve` bytes of @persistent. The others are placed behind them.
//
// Requires: stage(fused).
// Ensures: every value has a place; text order is execution order; updates are at the end; `plan = {…}` on the module
//   holds the bytes of each buffer and the lower bound of the arena. ir/verify_plan.cpp checks the result independently.
// Where: after fuse, because only results of regions are in memory; before lowering, because aliasing decides how a kernel
//   may read its bindings.
//
// Kernels that do not depend on each other are put side by side, as far as the peak allows, so that few barriers are
// needed (plan{order=text} keeps the order).
//
// Operands of tg.reduce_scatter stay alive until a result is read, if the peak of live bytes does not grow: kernels in
// between then need not wait for the collective.
//
// The operands of a tg.adjoin are placed side by side in @io, where their kernels write them: no kernel binds or copies the
// result. Likewise the results of a tg.disjoin are bytes of an argument. The most bytes of one binding limit what kernels
// bind, not what the host reads or writes.
//
// With a budget, kernels run again if more bytes than that would be alive: plan/within.cpp. They are ordinary ops of the
// text with the same schedule, so results have the same bits with any budget.

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <unordered_map>
#include <unordered_set>

#include "ir/access.h"
#include "ir/builder.h"
#include "ir/needs.h"
#include "ir/op_view.h"
#include "ir/text.h"
#include "ir/verify.h"
#include "passes/budget.h"
#include "passes/fuse/region_writer.h"
#include "passes/pass.h"
#include "passes/plan/function_plan.h"
#include "passes/plan/within.h"

namespace tg {
namespace {

/// How many of the largest values an error about the budget names.
constexpr size_t kLargestNamed = 3;

using plan::FunctionPlan;

/// Makes text order execution order: updates come last, then the return.
void moveUpdatesToEnd(Item& func) {
  auto& ops = func.body.ops;
  for (Opcode last : {Opcode::update, Opcode::return_})
    for (Op* op : ops.all())
      if (op->code == last) ops.push_back(ops.take(op));
}

/// Inserts a region that copies a value in front of an op.
Op* copyBefore(Item& func, Op* at, Value* source, NameTable& names) {
  fuse::RegionWriter writer(derivedLoc("plan", source->loc), &names);
  writer.yield({writer.bind(Operand::of(source), source->type, source->name)});
  writer.op().addResult(source->type, names.unique(source->name));
  return func.body.ops.insert(at, writer.finish(Attr::call("map", {})));
}

/// Copies parameters and states for readers that need their value at entry: results, captures, gradients and updates of
/// another symbol.
void copyEntryValues(Item& func) {
  std::optional<NameTable> names;  // only where something is copied
  std::vector<Op*> readers;
  for (Op* op : func.body.ops)
    if (op->code == Opcode::update || hostReads(*op)) readers.push_back(op);
  std::map<std::string, Value*> copies;  // by the source's name
  for (Op* op : readers)
    forEachUse(*op, [&](Value*& value) {
      if (!plan::isSymbolRead(*value)) return;
      if (op->code == Opcode::update && rowsKey(*value->def) == rowsKey(*op)) return;
      Value*& copy = copies[value->name];
      if (!names) names.emplace(func);
      if (!copy) copy = copyBefore(func, value->def->next(), value, *names)->result();
      value = copy;
    });
}

bool readsRows(const Value& value) { return plan::isSymbolRead(value) && namesRows(*value.def); }

/// A value has one place, so a tg.adjoin gets a copy of an operand that cannot be at its place there: a member of another
/// tg.adjoin or of a group, an argument or a piece of it, a parameter or a state.
void copyAdjoined(Item& func) {
  std::optional<NameTable> names;  // only where something is copied
  std::unordered_set<const Value*> taken;
  const auto take = [&](const std::vector<Value*>& group) {
    if (group.size() > 1 || groupBytes(typesOf(group)) != group[0]->type.bytes())
      taken.insert(group.begin(), group.end());
  };
  for (const Op* op : func.body.ops) {
    if (op->code != Opcode::fused) continue;
    for (const ResultSlot& slot : resultSlots(*op))
      if (slot.group) take(valuesOf(*op, slot));
    for (int binding = 0; binding < op->numOperands(); ++binding)
      if (op->operands[binding].bindsGroup()) take(bindingSources(*op, binding));
  }
  for (Op* op : func.body.ops.all()) {
    if (op->code != Opcode::adjoin) continue;
    forEachUse(*op, [&](Value*& value) {
      if (value->def && !plan::isEntry(*value) && taken.insert(value).second) return;
      if (!names) names.emplace(func);
      value = copyBefore(func, op, value, *names)->result();
    });
  }
}

/// tg.all_reduce is in place: its operands are copied first if something reads them later, or if they are arguments,
/// params or states.
void copyReduced(Item& func) {
  std::optional<NameTable> names;  // only where something is copied
  std::unordered_map<const Op*, int> place;
  for (const Op* op : func.body.ops) place.emplace(op, static_cast<int>(place.size()));
  for (Op* op : func.body.ops.all()) {
    if (op->code != Opcode::all_reduce) continue;
    std::unordered_set<const Value*> taken;
    forEachUse(*op, [&](Value*& value) {
      bool own = value->def && !plan::isEntry(*value) && taken.insert(value).second;
      for (const Use& use : value->uses) {
        const auto at = place.find(use.user());
        own = own && (at == place.end() || at->second <= place.at(op));
      }
      if (own) return;
      if (!names) names.emplace(func);
      value = copyBefore(func, op, value, *names)->result();
    });
  }
}

/// Whether a sequence holds symbols with given homes, so that nothing is left to lay out. It is an error if a region binds
/// them as one range and they are not one.
Result<bool> isSettled(const plan::Sequence& sequence, const std::vector<Item*>& symbols) {
  std::vector<Type> types;
  int homes = 0;
  for (int key : sequence.keys) {
    types.push_back(symbols[key]->type);
    homes += symbols[key]->place.has_value();
  }
  if (homes == 0) return false;
  if (!sequence.required) return true;
  std::vector<int64_t> offsets;
  groupBytes(types, &offsets);
  const Item& first = *symbols[sequence.keys[0]];
  for (size_t i = 0; i < sequence.keys.size(); ++i) {
    const Item& member = *symbols[sequence.keys[i]];
    if (first.place && member.place && member.place->offset == first.place->offset + offsets[i]) continue;
    return failAt(sequence.op->loc,
                  "{} [plan.group]: @{} and @{} are bound as one range, but their homes, which are given, "
                  "are not one behind the other",
                  sequence.op->info().name, first.name, member.name);
  }
  return true;
}

/// Runs of parameters and states, as indices into `symbols`, for the groups that regions bind. Result groups that update
/// symbols wish for the same order, so that they may be written in place.
Result<std::vector<std::vector<int>>> symbolRuns(const Module& module, const std::vector<Item*>& symbols) {
  std::map<std::string, int> keyOf;
  for (size_t key = 0; key < symbols.size(); ++key) keyOf[symbols[key]->name] = static_cast<int>(key);
  std::vector<plan::Sequence> sequences;
  for (const Item* func : module.all(ItemKind::func)) {
    std::map<std::string, std::string> updates;  // value -> symbol
    for (Op* op : func->body.ops)
      if (op->code == Opcode::update && !namesRows(*op))
        updates.emplace(as::update(*op).value()->name, op->operands[0].text);
    for (Op* op : func->body.ops) {
      if (op->code != Opcode::fused) continue;
      for (int binding = 0; binding < op->numOperands(); ++binding) {
        if (!op->operands[binding].bindsGroup()) continue;
        plan::Sequence sequence{{}, op, true};
        const std::vector<Value*> sources = bindingSources(*op, binding);
        if (sources.size() == 1 && readsRows(*sources[0])) continue;  // lie where the symbol does
        if (std::ranges::any_of(sources, [](const Value* value) { return readsRows(*value); }))
          return failAt(op->loc,
                        "{} [plan.group]: the group of %{} holds rows of a symbol beside other members",
                        op->info().name, op->operands[binding].value->name);
        for (Value* value : sources)
          if (plan::isSymbolRead(*value)) sequence.keys.push_back(keyOf.at(value->def->operands[0].text));
        if (sequence.keys.empty()) continue;
        TG_TRY(bool settled, isSettled(sequence, symbols));
        if (!settled) sequences.push_back(std::move(sequence));
      }
      for (const ResultSlot& slot : resultSlots(*op)) {
        plan::Sequence wish{{}, op, false};
        for (int member = 0; slot.group && member < slot.count; ++member) {
          if (const auto* update = valueIn(updates, op->result(slot.first + member)->name))
            wish.keys.push_back(keyOf.at(*update));
        }
        if (!slot.group || static_cast<int>(wish.keys.size()) != slot.count) continue;
        TG_TRY(bool settled, isSettled(wish, symbols));
        if (!settled) sequences.push_back(std::move(wish));
      }
    }
  }
  auto nameOf = [&](int key) { return "@" + symbols[key]->name; };
  return plan::mergeRuns(std::move(sequences), static_cast<int>(symbols.size()), nameOf);
}

/// Symbols that functions read and update only by rows: kernels bind no more than those.
std::set<std::string> symbolsByRows(const Module& module) {
  std::set<std::string> byRows, whole;
  for (const Item* func : module.all(ItemKind::func))
    for (const Op* op : func->body.ops)
      if (op->code == Opcode::param || op->code == Opcode::state || op->code == Opcode::update)
        (namesRows(*op) ? byRows : whole).insert(op->operands[0].text);
  for (const std::string& name : whole) byRows.erase(name);
  return byRows;
}

/// A symbol, or a group of symbols, that has more bytes than one binding may span or, if kernels bind it by rows, than one
/// allocation has.
struct TooLarge {
  const Item* symbol = nullptr;
  int64_t bytes = 0, members = 0, most = 0;
  bool byRows = false;

  Error error(const Target& target, int64_t others) const {
    const std::string what = members == 1
                                 ? fmt::format("@{} : {}", symbol->name, symbol->type.str())
                                 : fmt::format("the group of @{} and {} more", symbol->name, members - 1);
    if (!byRows) return overBinding(symbol->loc, what, bytes, most, target, others);
    return failAt(symbol->loc, "{} takes {} bytes, more than the {} of one allocation on target '{}'", what,
                  bytes, most, target.name)
        .note(symbol->loc, "kernels read and update it in pieces, which must lie in one allocation");
  }
};

/// Fails if a given home is not in the reserved bytes of @persistent.
Result<void> checkGiven(const Item& symbol, int64_t reserve) {
  if (!symbol.place) return {};
  const Place& home = *symbol.place;
  if (home.buffer == "persistent" && home.offset >= 0 && home.offset + symbol.type.bytes() <= reserve)
    return {};
  return failAt(symbol.loc,
                "@{} comes with the home @{}[{}], which is not in the {} bytes that plan{{reserve}} sets "
                "aside in @persistent",
                symbol.name, home.buffer, home.offset, reserve);
}

/// Checks that rows of a symbol, which are bound at their place in it, begin where a binding may. The pieces of split-rows
/// do; rows that a text names may not.
Result<void> checkRowsBind(const Module& module, const Target& target) {
  Error errors;
  for (const Item* func : module.all(ItemKind::func))
    for (const Op* op : func->body.ops) {
      if (!namesRows(*op)) continue;
      const Item& symbol = *module.storage(op->operands[0].text);
      const int64_t row = symbol.type.bytes() / symbol.type.shape[0];
      const int64_t begin = rowsNamed(*op)[0] * row;
      if (begin % target.alignment == 0) continue;
      errors.append(
          failAt(op->loc,
                 "@{} begins at byte {} of @{}, and what kernels bind at a multiple of {} on target '{}'",
                 rowsKey(*op), begin, symbol.name, target.alignment, target.name)
              .note(op->loc, "tg.slice takes any rows of the whole"));
    }
  if (!errors.empty()) return errors;
  return {};
}

/// The same for operands of a tg.adjoin and results of a tg.disjoin, which are bound at their place in the whole.
Result<void> checkPartsBind(const Item& func, const Target& target) {
  Error errors;
  int64_t begin = 0;
  auto check = [&](const Op& op, const Value& part, const Value& whole) {
    if (begin % target.alignment != 0)
      errors.append(failAt(
          op.loc, "%{} begins at byte {} of %{}, and what kernels bind at a multiple of {} on target '{}'",
          part.name, begin, whole.name, target.alignment, target.name));
    begin += part.type.bytes();
  };
  for (const Op* op : func.body.ops) {
    begin = 0;
    for (int i = 0; op->code == Opcode::adjoin && i < op->numOperands(); ++i)
      check(*op, *op->in(i), *op->result());
    for (size_t i = 0; op->code == Opcode::disjoin && i < op->results.size(); ++i)
      check(*op, *op->results[i], *op->in(0));
  }
  if (!errors.empty()) return errors;
  return {};
}

/// Gives params and states homes; returns the end of @persistent.
Result<int64_t> placeSymbols(Module& module, const Target& target, int64_t reserve) {
  std::vector<Item*> symbols;
  for (const auto& item : module.items)
    if (isStorage(item->kind)) {
      TG_CHECK(checkGiven(*item, reserve));
      symbols.push_back(item.get());
    }
  TG_CHECK(checkRowsBind(module, target));
  TG_TRY(std::vector<std::vector<int>> runs, symbolRuns(module, symbols));
  const std::set<std::string> byRows = symbolsByRows(module);
  std::vector<const std::vector<int>*> runOf(symbols.size(), nullptr);
  for (const auto& run : runs)
    for (int key : run) runOf[key] = &run;
  TooLarge worst;
  int64_t others = -1;
  int64_t end = alignTo(reserve, target.alignment);
  for (size_t key = 0; key < symbols.size(); ++key) {
    if (symbols[key]->place) continue;
    std::vector<int> members = runOf[key] ? *runOf[key] : std::vector<int>{static_cast<int>(key)};
    std::vector<Type> types;
    for (int member : members) types.push_back(symbols[member]->type);
    std::vector<int64_t> offsets;
    int64_t bytes = groupBytes(types, &offsets);
    const bool inPieces = byRows.contains(symbols[key]->name);
    const TooLarge own{symbols[members[0]], runOf[key] ? bytes : types[0].bytes(),
                       static_cast<int64_t>(members.size()), inPieces ? target.allocation : mostBytes(target),
                       inPieces};
    if (own.bytes > own.most) {
      ++others;
      if (own.bytes > worst.bytes) worst = own;
    }
    end = target.place(end, bytes);
    for (size_t member = 0; member < members.size(); ++member)
      symbols[members[member]]->place = Place{"persistent", end + offsets[member], nullptr};
    end = alignTo(end + bytes, target.alignment);
    if (end >= kMaxBytes)
      return failAt(module.loc, "parameters and states take {} bytes together, or more", kMaxBytes);
  }
  if (worst.symbol) return worst.error(target, others);
  return end;
}

/// A function and its plan. With a budget, also a copy of the function as it was written.
struct Function {
  Item* func = nullptr;
  std::unique_ptr<FunctionPlan> plan;
  std::unique_ptr<Item> written;
};

struct Layout {
  Module& module;
  const Target& target;
  std::optional<int64_t> slack;  ///< for an order with few barriers; none: text order
  int64_t budget = 0;            ///< kLeastBudget: as few bytes as possible
  double addedWork = 0;          ///< by kernels that run again, the most of any function
  int64_t persistent = 0;
  std::vector<Function> functions;
};

/// Plans each function by itself; offsets in @io follow later.
Result<void> planFunctions(Layout& layout) {
  Error errors;
  for (Item* func : layout.module.all(ItemKind::func)) {
    Function each{func, std::make_unique<FunctionPlan>(layout.module, *func, layout.target), nullptr};
    if (layout.budget < kMaxBytes) each.written = cloneItem(*func);
    if (auto analysed = each.plan->analyse(layout.slack); !analysed) errors.append(analysed.takeError());
    layout.functions.push_back(std::move(each));
  }
  if (!errors.empty()) return errors;
  return {};
}

/// Adds the largest values alive at a function's peak as notes: the ones to make smaller.
Error withLargest(Error error, const Item& func, const FunctionPlan& plan) {
  const Op* at = nullptr;
  std::vector<plan::LiveUnit> live = plan.livePeak(&at);
  std::ranges::stable_sort(live, std::greater(), &plan::LiveUnit::bytes);
  live.resize(std::min(live.size(), kLargestNamed));
  for (const auto& [unit, bytes] : live)
    error.addNote(unit->members[0]->loc, "live at the peak of @{}: {}, {}", func.name, plan::describe(*unit),
                  sizeText(bytes));
  return error;
}

/// Makes kernels run again if all buffers together exceed the budget. Fails if they still do.
Result<void> keepBudget(Layout& layout, const PassContext& context) {
  int64_t fixed = layout.persistent;
  for (const Function& each : layout.functions) fixed = each.plan->ioEnd(fixed);
  const int64_t room = std::max<int64_t>(layout.budget - fixed, 0);
  const bool least = layout.budget == kLeastBudget;
  const Function* worst = nullptr;
  for (Function& each : layout.functions) {
    const int64_t before = each.plan->arenaBytes();
    if (before > room) {
      TG_TRY(plan::Planned within,
             plan::planWithin(layout.module, *each.written, layout.target, layout.slack, room));
      Item* func = within.func.get();
      layout.module.items.replace(*each.func, std::move(within.func));
      each.func = func;
      each.plan = std::move(within.plan);
      layout.addedWork = std::max(layout.addedWork, within.addedWork);
      if (each.plan->arenaBytes() < before && (each.plan->arenaBytes() <= room || least))
        context.remark(
            func->loc, "@{}: {} again, {:.0f} % more work, so that {} do instead of {}", func->name,
            within.runsAgain > 0 ? countText(within.runsAgain, "kernel runs", "kernels run")
                                 : "other kernels run",
            100 * within.addedWork, sizeText(fixed + each.plan->arenaBytes()), sizeText(fixed + before));
    }
    if (!worst || each.plan->arenaBytes() > worst->plan->arenaBytes()) worst = &each;
  }
  if (least || !worst || fixed + worst->plan->arenaBytes() <= layout.budget) return {};
  const int64_t needed = fixed + worst->plan->arenaBytes();
  return withLargest(
      failAt(worst->func->loc,
             "@{} takes {} bytes ({}), the least there is with what may run again; the budget is {} ({})",
             worst->func->name, needed, sizeText(needed), layout.budget, sizeText(layout.budget))
          .note(layout.module.loc,
                "of these {} are parameters, states, inputs and results; {} is the least budget for this "
                "batch and context: --memory={} of tg-run, plan{{budget={}}}; a smaller context or batch "
                "takes less, "
                "and a batch in parts: --micro-batch=N of tg-run train",
                sizeText(fixed), needed, needed, needed),
      *worst->func, *worst->plan);
}

/// Remarks the barriers of a function, and the values alive at its peak.
void report(const Item& func, const FunctionPlan& planned, const PassContext& context) {
  if (planned.kernels() > 0)
    context.remark(func.loc, "@{}: {}, {} between them ({} in the order of the text)", func.name,
                   countText(planned.kernels(), "kernel"), countText(planned.barriers(), "barrier"),
                   planned.barriersOfText());
  const Op* at = nullptr;
  std::vector<plan::LiveUnit> live = planned.livePeak(&at);
  if (live.empty()) return context.remark(func.loc, "@{} has no transient values", func.name);
  std::string where = at->results.empty() ? std::string(at->info().name) : "%" + at->result()->name;
  context.remark(func.loc, "@{}: {} bytes of arena for {} live at the peak, at {}; values live there: {}",
                 func.name, planned.arenaBytes(), planned.arenaBound(), where, live.size());
  for (const auto& [unit, bytes] : live) {
    const Value& value = *unit->members[0];
    std::string what = unit->group
                           ? fmt::format("the group of %{} and {} more", value.name, unit->members.size() - 1)
                           : fmt::format("%{} : {}", value.name, value.type.str());
    context.remark(value.loc, "live at the peak of @{}: {}, {} bytes{}", func.name, what, bytes,
                   unit->takesOver >= 0 ? fmt::format(", in place of %{}", unit->inplace->name) : "");
  }
}

void writeSizes(Layout& layout, int64_t io) {
  Module& module = layout.module;
  const int64_t persistent = layout.persistent;
  int64_t arena = 0, bound = 0;
  for (const Function& each : layout.functions) {
    arena = std::max(arena, each.plan->arenaBytes());
    bound = std::max(bound, each.plan->arenaBound());
  }
  AttrList sizes = {{"arena", Attr::of(arena)},
                    {"lower_bound", Attr::of(bound)},
                    {"persistent", Attr::of(persistent)},
                    {"io", Attr::of(io)}};
  if (layout.addedWork > 0) sizes.push_back({"added_work", Attr::of(layout.addedWork)});
  set(module.attrs, "plan", Attr::dictionary(std::move(sizes)));
  module.addBuffer("persistent", persistent);
  module.addBuffer("io", io);
  module.addBuffer("arena", arena);
}

}  // namespace

Result<void> run_plan(Module& module, const PlanOptions& options, const PassContext& context) {
  if (options.order != "barriers" && options.order != "text")
    return failAt(module.loc, "unknown order '{}'; known: barriers, text", options.order);
  if (options.reserve < 0 || options.reserve >= kMaxBytes)
    return failAt(module.loc, "reserve={} is not in 0..{}", options.reserve, kMaxBytes - 1);
  if (options.slack < 0 || options.slack >= kMaxBytes)
    return failAt(module.loc, "slack={} is not in 0..{}", options.slack, kMaxBytes - 1);
  TG_TRY(const int64_t budget, budgetOf(module, options.budget));
  TG_TRY(Target target, targetOf(module.attrs));
  for (Item* func : module.all(ItemKind::func)) {
    moveUpdatesToEnd(*func);
    TG_CHECK(checkPartsBind(*func, target));
    copyEntryValues(*func);
    copyAdjoined(*func);
    copyReduced(*func);
  }
  Layout layout{module, target, options.order == "barriers" ? std::optional(options.slack) : std::nullopt,
                budget, 0,      0,
                {}};
  TG_TRY(layout.persistent, placeSymbols(module, target, options.reserve));
  TG_CHECK(planFunctions(layout));
  if (budget < kMaxBytes) TG_CHECK(keepBudget(layout, context));
  int64_t io = 0;
  for (Function& each : layout.functions) {
    if (options.report) report(*each.func, *each.plan, context);
    io = each.plan->apply(io);
  }
  if (io >= kMaxBytes) return failAt(module.loc, "inputs and results take {} bytes, or more", kMaxBytes);
  writeSizes(layout, io);
  module.stage = Stage::planned;
  return {};
}

}  // namespace tg
