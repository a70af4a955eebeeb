// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <utility>

#include "ir/builder.h"
#include "ir/kernel/index_analysis.h"
#include "ir/kernel/rewrites.h"
#include "ir/unread.h"

namespace tg {
namespace {

/// The number that the last op of an index adds: 64 of `tgk.add %x, 64`, or a literal index itself.
int64_t addedLast(const Operand& index) {
  if (index.isLiteral()) return index.integer;
  const Op* def = index.value->def;
  return def && def->code == Opcode::k_add && def->operands[1].isLiteral() ? def->operands[1].integer : 0;
}

Operand& indexOf(Op& load) { return load.operands[0].items[0]; }

/// The loads of a parameter, if it is only loaded, by one index; else none.
std::vector<Op*> loadsOf(const Value& parameter) {
  std::vector<Op*> loads;
  const Type& type = parameter.type;
  if (type.mode != BufMode::in || type.rank() != 1 || type.shape[0] <= 0) return {};
  for (const Use& use : parameter.uses) {
    if (use.user()->code != Opcode::k_load) return {};
    loads.push_back(use.user());
  }
  return loads;
}

/// New sums, by the sum that they replace and the number that they add.
using Sums = std::map<std::pair<const Op*, int64_t>, Value*>;

/// Subtracts `first` from the index of a load, which is a literal or a sum with one, neither less than `first`. Other users
/// keep the old sum.
void moveIndex(Op& load, int64_t first, Builder& build, Sums& sums) {
  Operand& index = indexOf(load);
  const int64_t rest = addedLast(index) - first;
  if (index.isLiteral()) {
    index = Operand::literal(rest);
    return;
  }
  Op& old = *index.value->def;
  if (rest == 0) {
    index = old.operands[0];
    return;
  }
  Value*& made = sums[{&old, rest}];
  if (!made) {
    build.setEnd(*old.list()).setBefore(old.next()).setLoc(old.loc).setHint(index.value->name);
    made = build.create(Opcode::k_add, {old.operands[0], Operand::literal(rest)}, {}, {index.value->type})
               ->result();
  }
  index = Operand::of(made);
}

/// Most ops of a kernel whose indices are analysed, chosen: kernels of recurrent steps have up to 550. An attention has
/// 1400; its analysis takes milliseconds, and layers share its kernel anyway.
constexpr int kMostTrimmed = 600;

struct Trim {
  Value* parameter;
  std::vector<Op*> loads;
  int64_t first, last;  ///< elements
};

}  // namespace

std::vector<int64_t> trimReads(Item& kernel, int64_t alignment, const std::vector<bool>& whole) {
  std::vector<int64_t> bytes(kernel.body.args.size(), 0);
  int ops = 0;
  walk(kernel.body, [&](const Op&) { ++ops; });
  if (ops > kMostTrimmed) return bytes;
  std::vector<Trim> trims;
  std::optional<IndexAnalysis> analysis;
  for (size_t index = 0; index < bytes.size(); ++index) {
    const auto& parameter = kernel.body.args[index];
    if (whole[index]) continue;
    const std::vector<Op*> loads = loadsOf(*parameter);
    if (loads.empty()) continue;
    int64_t least = INT64_MAX;
    for (Op* load : loads) least = std::min(least, addedLast(indexOf(*load)));
    const int64_t element = parameter->type.bytes() / parameter->type.elements();
    const int64_t unit = std::lcm(alignment, element) / element;
    Trim trim{parameter.get(), loads, least / unit * unit, 0};
    if (trim.first <= 0) continue;
    if (!analysis) analysis.emplace(kernel);
    bool isKnown = true;
    for (Op* load : loads) {
      const auto [lo, hi] = analysis->range(indexOf(*load), *load);
      isKnown &= lo >= trim.first && hi < parameter->type.shape[0];
      trim.last = std::max(trim.last, hi);
    }
    if (!isKnown) continue;
    bytes[index] = trim.first * element;
    trims.push_back(std::move(trim));
  }
  Builder build(kernel.body);
  Sums sums;
  for (const Trim& trim : trims) {  // behind the analysis, which needs the kernel as it was
    for (Op* load : trim.loads) moveIndex(*load, trim.first, build, sums);
    trim.parameter->type.shape = {trim.last - trim.first + 1};
  }
  if (!trims.empty()) eraseUnread(kernel.body.ops);
  return bytes;
}

}  // namespace tg
