// What fuse{report=true} says of a kernel.
#include <fmt/format.h>

#include "passes/fuse/fuse.h"

namespace tg::fuse {

/// Whether a kernel rounds the operands of a product to f16 and multiplies them as any others: the target has
/// no matrix units, or the product does not fit them.
static bool roundsByItself(const Op& region) {
  bool rounds = false;
  for (const auto& op : region.regions[0]->ops)
    rounds = rounds || (op->code == Opcode::matmul && op->word("precision") != "f32");
  return rounds && region.attr("schedule").text != "coopmat";
}

/// The ops a kernel computes; its last view where it does nothing else.
static std::string opsOf(const Op& region) {
  std::string computed, view;
  for (const auto& op : region.regions[0]->ops) {
    if (op->code == Opcode::yield) continue;
    if (isInline(*op))
      view = op->info().name;
    else
      computed += fmt::format("{}{}", computed.empty() ? "" : " ", op->info().name);
  }
  return computed.empty() ? view : computed;
}

Report reportOf(const KernelStart& start) {
  const Op& region = *start.kernel;
  return {region.loc, fmt::format("kernel of %{}: {} [{}] key {}{}{}{}", region.result()->name,
                                  region.attr("schedule").str(), opsOf(region), regionKey(region),
                                  start.why.empty() ? "" : "; starts here because ", start.why,
                                  roundsByItself(region) ? "; rounds to f16 without matrix units" : "")};
}

}  // namespace tg::fuse
