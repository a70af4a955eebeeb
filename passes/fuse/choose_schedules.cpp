// SPDX-License-Identifier: Apache-2.0
// choose-schedules: gives kernels the schedules that were measured for them, and sets the fields of schedules that follow
// from the whole function: which blocks another kernel's mask hides, and how bindings near the target's limits are read.
//
//   before:  %y = tg.fused (…) {schedule = map{vec = 4, workgroup = 64}} { … }
//   after:   %y = tg.fused (…) {schedule = map{vec = 1, workgroup = 32}} { … }   // from the tuning file
//
// Requires: stage(fused). The tuning file is well formed; its entries are keyed by region (tuningKey).
// Ensures: a region whose key is in the file has the file's schedule; any other keeps the one that was chosen when it was
//   made. A remark names each entry that fits no region. With report, a remark gives each kernel's schedule, ops and key.
// Where: last of fuse. A region's key is its content, so regions must not change afterwards.
#include "ir/op_view.h"
#include "passes/tuning.h"

#include <algorithm>
#include <string>
#include <unordered_map>
#include <unordered_set>

#include <fmt/format.h>

#include "codegen/schedule.h"
#include "ir/access.h"
#include "ir/attention_parts.h"
#include "ir/builder.h"
#include "ir/file_io.h"
#include "ir/op_bytes.h"
#include "ir/parser.h"
#include "ir/schedule.h"
#include "ir/text.h"
#include "passes/fuse/inline_ops.h"
#include "passes/pass.h"

namespace tg {

std::string tuningKey(const Op& fused) {
  std::unordered_map<const Value*, Value*> none;
  const std::unique_ptr<Op> copy = cloneOp(fused, none);
  for (Op* op : copy->regions[0]->ops) {
    if (op->code != Opcode::slice) continue;
    std::vector<int64_t> starts = as::slice(*op).starts(), limits = as::slice(*op).limits();
    for (size_t axis = 0; axis + 1 < starts.size(); ++axis) limits[axis] -= std::exchange(starts[axis], 0);
    op->setAttr("starts", Attr::ints(starts));
    op->setAttr("limits", Attr::ints(limits));
  }
  return "r" + textHash(regionKey(*copy));
}

Result<AttrList> readTuning(const std::string& path) {
  if (path.empty()) return AttrList{};
  TG_TRY(const std::string text, readTextFile(path));
  return parseTuning(text, path);
}

Result<AttrList> parseTuning(const std::string& text, const std::string& path) {
  auto parsed = parseAttr(text, path);
  if (!parsed)
    return parsed.takeError().note(nullptr, "a tuning file is {key = schedule, …}, as tg-run tune writes it");
  if (parsed->kind != Attr::Kind::dict) return fail("tuning file {} is no {{key = schedule, …}}", path);
  for (const NamedAttr& entry : parsed->dict)
    if (auto formed = parseSchedule(entry.value); !formed)
      return fail("tuning file {}: {}: {}", path, entry.name, formed.error().message());
  return std::move(parsed->dict);
}

std::string printTuning(AttrList tuning) {
  std::ranges::sort(tuning, {}, &NamedAttr::name);
  std::string out = "{";
  for (const NamedAttr& entry : tuning)
    out += fmt::format("{}\n  {} = {}", out == "{" ? "" : ",", entry.name, entry.value.str());
  return out + "\n}\n";
}

namespace fuse {

/// Sets the fields of schedules that follow from the finished function, after all regions are formed and tuned: the blocks
/// that products leave out because another kernel's mask hides them or no other kernel reads them, and how kernels read
/// whose bindings come near the target's limit or whose values have too many texels for a view. Lowering takes all of it
/// from the schedule's text.
///
///   before:  schedule = matmul{tile = [4, 4], shared = [32, 32, 16]}
///   after:   schedule = matmul{tile = [4, 4], shared = [32, 32, 16], hidden = true}
static void settleSchedules(Item& func, const Target& target, const PassContext& context) {
  const auto change = [](Op& op, const Schedule& before, const Schedule& after) {
    if (!(after == before)) op.setAttr("schedule", scheduleAttr(after));
  };
  // Backwards: which blocks a kernel need not store follows from the schedules of later kernels.
  for (auto op = func.body.ops.rbegin(); op != func.body.ops.rend(); ++op) {
    if ((*op)->code != Opcode::fused) continue;
    const Schedule chosen = scheduleOf(**op);
    change(**op, chosen, withSkips(**op, chosen));
  }

  std::unordered_map<std::string, Schedule> known;  // by region, since layers repeat regions
  for (Op* op : func.body.ops) {
    if (op->code != Opcode::fused) continue;
    const Schedule chosen = scheduleOf(*op);
    Schedule schedule = chosen;
    if (readsAreTight(*op, target)) {
      const std::string key = regionKey(*op) + scheduleAttr(schedule).str();
      auto found = known.find(key);
      if (found == known.end()) found = known.emplace(key, withReads(*op, target, schedule)).first;
      schedule = found->second;
    }
    change(*op, chosen, schedule);
    for (int64_t binding : storageReads(schedule))
      context.remark(
          op->loc, "%{} has more texels than the {} of a view on target '{}'; it is read as storage",
          bindingSources(*op, static_cast<int>(binding))[0]->name, target.texelElements, target.name);
  }
}

/// A remark's text for a kernel that multiplies without matrix units though the product's precision asks for them: the
/// target has none, or the product does not fit them. Empty for other kernels.
static std::string withoutUnits(const Op& region) {
  std::string precision = "f32";
  for (Op* op : region.regions[0]->ops)
    if (op->code == Opcode::matmul || isSplit(*op)) precision = as::matmul(*op).precision();
  const Schedule schedule = scheduleOf(region);
  if (precision == "f32" || std::holds_alternative<CoopmatSchedule>(schedule) ||
      std::holds_alternative<CoopmatAttentionSchedule>(schedule))
    return "";
  return precision == "f32x3" ? "; multiplies f32 in place of f32x3, without matrix units"
                              : fmt::format("; rounds to {} without matrix units", precision);
}

/// The names of the ops that a kernel computes, with " |" between its parts; the name of its last view if it computes
/// nothing. Parts share no op, and each ends with the ops of its last result.
static std::string opsOf(const Op& region) {
  const Schedule schedule = scheduleOf(region);
  std::unordered_set<const Op*> ends;  // of all parts but the last
  if (const auto* parts = std::get_if<PartsSchedule>(&schedule)) {
    const Op& yield = *region.regions[0]->terminator();
    size_t results = 0;
    for (size_t part = 0; part + 1 < parts->results.size(); ++part) {
      results += static_cast<size_t>(parts->results[part]);
      ends.insert(yield.in(static_cast<int>(results) - 1)->def);
    }
  }
  std::string computed, view;
  bool isFirst = true;
  for (const Op* op : region.regions[0]->ops) {
    if (op->code == Opcode::yield) continue;
    if (isInline(*op)) {
      view = op->info().name;
    } else {
      computed += fmt::format("{}{}", isFirst ? "" : " ", op->info().name);
      isFirst = false;
    }
    if (ends.contains(op)) computed += " |";
  }
  return computed.empty() ? view : computed;
}

}  // namespace fuse

Result<void> run_choose_schedules(Module& module, const ChooseSchedulesOptions& options,
                                  const PassContext& context) {
  TG_TRY(const AttrList tuning, readTuning(options.tuning));
  TG_TRY(const Target target, targetOf(module.attrs));
  std::unordered_set<std::string> used;
  for (Item* func : module.all(ItemKind::func)) {
    std::unordered_map<const Op*, std::string> keys;
    for (Op* op : func->body.ops) {
      if (op->code != Opcode::fused || (tuning.empty() && !options.report)) continue;
      const std::string& key = keys[op] = tuningKey(*op);
      if (const Attr* schedule = find(tuning, key)) {
        if (auto formed = scheduleFor(*op, *schedule); !formed)
          return failAt(op->loc, "tuning file {}: {}: {}", options.tuning, key, formed.error().message());
        op->setAttr("schedule", *schedule);
        used.insert(key);
      }
    }
    fuse::settleSchedules(*func, target, context);
    for (Op* op : func->body.ops)
      if (options.report && op->code == Opcode::fused)
        context.remark(op->loc, "kernel of %{}: {} [{}] key {}{}", op->result()->name,
                       op->attr("schedule").str(), fuse::opsOf(*op), keys[op], fuse::withoutUnits(*op));
  }
  for (const NamedAttr& entry : tuning)
    if (!used.contains(entry.name))
      context.remark(module.loc, "tuning file {}: no region has the key {}", options.tuning, entry.name);
  return {};
}

}  // namespace tg
