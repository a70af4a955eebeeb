// SPDX-License-Identifier: Apache-2.0
// custom: a region around a tg.custom, whose kernel the module holds. The kernel is copied, its shapes are fixed,
// its calls are inlined and its matrices split; then its needs are checked against the target.
#include <fmt/format.h>

#include "codegen/lower.h"
#include "codegen/lower_schedules.h"
#include "codegen/schedule_parts.h"
#include "ir/kernel/custom.h"
#include "ir/kernel/inline.h"
#include "ir/kernel/rewrites.h"
#include "ir/kernel/shared_memory.h"
#include "ir/needs.h"

namespace tg {

/// Whether the compiler made the kernel, as the gradient of another.
static bool isGradient(const Item& kernel) { return kernel.loc && kernel.loc->how == "vjp"; }

static Result<void> checkAmountsOf(const Op& custom, const LoweredKernel& lowered, const Target& target) {
  const Item& kernel = *lowered.kernel;
  auto taken = checkAmounts(lowered, custom.loc, fmt::format("the kernel @{}", kernel.name), target);
  if (taken) return {};
  Error error = taken.takeError().note(kernel.loc, "@{} is here", kernel.name);
  if (gives(target, LimitId::sharedBytes, sharedBytes(kernel))) return error;
  return std::move(error).note(
      kernel.loc, isGradient(kernel) ? "fix: use smaller tiles in the kernel of which it is the gradient, or "
                                       "write the gradient as a kernel and name it there by `vjp(@mine)`"
                                     : "fix: use smaller tiles");
}

Result<LoweredKernel> lowerCustom(const Module& module, const Op& fused, const Target& target) {
  const Op& custom = *customOf(fused);
  const Item& source = *customKernel(custom, module);
  LoweredKernel out;
  out.kernel = specialize(source, boundShapes(custom, source));
  inlineCalls(module, *out.kernel);
  splitMatrices(*out.kernel, target);
  overlapSharedBuffers(*out.kernel);
  tg::erase(out.kernel->attrs, "vjp");  // unused from here on, and it names a kernel that will be erased
  for (size_t axis = 0; axis < out.grid.size(); ++axis) out.grid[axis] = out.kernel->grid[axis].integer;
  TG_CHECK(checkAmountsOf(custom, out, target));
  for (const CustomParam& param : customParams(source)) {
    if (param.result < 0)
      out.params.push_back({false, customBinding(fused, custom, param.input), -1});
    else
      out.params.push_back(
          {true, param.result, param.input < 0 ? -1 : customBinding(fused, custom, param.input)});
  }
  return out;
}

// The kernel is given, so there is nothing else to try.
Schedules neighbours(const Op&, const Target&, const CustomSchedule&) { return {}; }

}  // namespace tg
