// SPDX-License-Identifier: Apache-2.0
// What fuse{report=true} says of each kernel.
#include <fmt/format.h>

#include "ir/schedule.h"
#include "passes/fuse/fuse.h"
#include "passes/tuning.h"

namespace tg::fuse {

/// Whether a kernel rounds the operands of a product to f16 and multiplies them as any others: the target has
/// no matrix units, or the product does not fit them.
static bool roundsByItself(const Op& region) {
  bool rounds = false;
  for (Op* op : region.regions[0]->ops)
    rounds = rounds || (op->code == Opcode::matmul && op->word("precision") != "f32");
  return rounds && !std::holds_alternative<CoopmatSchedule>(scheduleOf(region));
}

std::string opsOf(const Op& region) {
  std::string computed, view;
  for (Op* op : region.regions[0]->ops) {
    if (op->code == Opcode::yield) continue;
    if (isInline(*op))
      view = op->info().name;
    else
      computed += fmt::format("{}{}", computed.empty() ? "" : " ", op->info().name);
  }
  return computed.empty() ? view : computed;
}

std::vector<Report> reportKernels(const Item& func, const KernelNotes& notes) {
  std::vector<Report> reports;
  for (Op* op : func.body.ops) {
    const auto note = notes.find(op);
    if (note == notes.end()) continue;
    const std::string holds = note->second.holds.empty() ? opsOf(*op) : note->second.holds;
    reports.push_back(
        {op->loc, fmt::format("kernel of %{}: {} [{}] key {}{}{}", op->result()->name,
                              op->attr("schedule").str(), holds, tuningKey(*op), note->second.more,
                              roundsByItself(*op) ? "; rounds to f16 without matrix units" : "")});
  }
  return reports;
}

}  // namespace tg::fuse
