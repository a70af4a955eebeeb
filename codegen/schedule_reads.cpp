// SPDX-License-Identifier: Apache-2.0
// Sets how a kernel reads its operands so that it stays within the target's limits of bindings. How often a tensor
// is bound is only known once the kernel exists, so the region is lowered on trial; few regions come near the
// limits.
#include <algorithm>
#include <vector>

#include "codegen/lower_schedules.h"
#include "codegen/schedule.h"
#include "ir/access.h"
#include "ir/kernel/custom.h"
#include "ir/needs.h"

namespace tg {
namespace {

bool readsTexels(const Target& target) { return target.reads == "texel"; }

/// Whether a binding may have to be a storage buffer on any target: its elements are narrow, or a result has its
/// size and may be stored over its bytes.
bool mayBeStorage(const Op& fused, int binding) {
  if (isNarrow(fused.operands[static_cast<size_t>(binding)].value->type.dtype)) return true;
  const auto& yields = fused.regions[0]->terminator()->operands;
  const int64_t bytes = boundType(fused.operands[static_cast<size_t>(binding)].items[0]).bytes();
  return std::ranges::any_of(yields,
                             [&](const Operand& operand) { return operand.value->type.bytes() == bytes; });
}

/// Whether some operand has more elements than one texel view may have.
bool hasLongViews(const Op& fused, const Target& target) {
  return readsTexels(target) && std::ranges::any_of(fused.operands, [&](const Operand& operand) {
           return !gives(target, LimitId::texelElements, boundType(operand.items[0]).elements());
         });
}

}  // namespace

bool readsAreTight(const Op& fused, const Target& target) {
  if (customOf(fused)) return false;
  int64_t storage = fused.regions[0]->terminator()->numOperands();
  for (int binding = 0; binding < fused.numOperands(); ++binding)
    if (!readsTexels(target) || mayBeStorage(fused, binding)) storage += 2;  // as elements and as vectors
  return !gives(target, LimitId::bindings, storage) || hasLongViews(fused, target);
}

Schedule withReads(const Op& fused, const Target& target, Schedule schedule) {
  if (!readsAreTight(fused, target)) return schedule;
  std::vector<bool> texel(fused.operands.size(), readsTexels(target));
  std::vector<int64_t> storage;
  if (hasLongViews(fused, target)) {
    // lower-kernels reports a schedule that does not suit the region.
    const auto lowered = lowerBy(fused, scheduleAttr(schedule), target, texel);
    if (!lowered) return schedule;
    for (size_t i = 0; i < lowered->params.size(); ++i) {
      const Type& type = lowered->kernel->body.args[i]->type;
      const auto binding = static_cast<size_t>(lowered->params[i].index);
      if (!type.texel || gives(target, LimitId::texelElements, type.elements()) || !texel[binding]) continue;
      texel[binding] = false;
      storage.push_back(static_cast<int64_t>(binding));
    }
    std::ranges::sort(storage);
  }
  for (int binding = 0; binding < fused.numOperands(); ++binding)
    if (mayBeStorage(fused, binding)) texel[static_cast<size_t>(binding)] = false;
  auto fits = [&](bool scalars) {
    setReads(schedule, storage, scalars);
    const auto lowered = lowerBy(fused, scheduleAttr(schedule), target, texel);
    return !lowered || gives(target, LimitId::bindings, needsOf(*lowered->kernel)[LimitId::bindings]);
  };
  // A tensor that is read both by element and by vector is bound twice. If that exceeds the limit, all are read by
  // element: slower, but within the number of bindings that fuse counted.
  if (!fits(false) && !fits(true)) setReads(schedule, storage, false);
  return schedule;
}

}  // namespace tg
