// SPDX-License-Identifier: Apache-2.0
// A region that holds a tg.custom: its kernel is there already and is made static.
#include <fmt/format.h>

#include "codegen/lower.h"
#include "ir/kernel/custom.h"
#include "ir/kernel/inline.h"
#include "ir/kernel/shared_memory.h"
#include "ir/kernel/specialize.h"

namespace tg {

/// Whether the kernel is the gradient that the compiler made of another.
static bool isGradient(const Item& kernel) { return kernel.loc && kernel.loc->how == "vjp"; }

static Result<void> checkLimits(const Op& custom, const Item& kernel, const Target& target) {
  auto tooLarge = [&](std::string what, int64_t limit) {
    return failAt(custom.loc, fmt::format("the kernel @{} has {}, more than the {} of target '{}'",
                                          kernel.name, what, limit, target.name))
        .note(kernel.loc, fmt::format("@{} is here", kernel.name));
  };
  int64_t invocations = kernel.workgroup[0] * kernel.workgroup[1] * kernel.workgroup[2];
  if (invocations > target.maxInvocations)
    return tooLarge(fmt::format("{} invocations in a workgroup", invocations), target.maxInvocations);
  if (kernel.workgroup[0] > target.maxWorkgroupX)
    return tooLarge(fmt::format("{} invocations along x", kernel.workgroup[0]), target.maxWorkgroupX);
  if (int64_t bytes = sharedBytes(kernel); bytes > target.sharedBytes)
    return tooLarge(fmt::format("{} bytes of shared memory", bytes), target.sharedBytes)
        .note(kernel.loc, isGradient(kernel)
                              ? "fix: use smaller tiles in the kernel that it is the gradient of, "
                                "or write the gradient and name it there, `vjp(@mine)`"
                              : "fix: use smaller tiles");
  return {};
}

Result<LoweredKernel> lowerCustom(const Module& module, const Op& fused, const Target& target) {
  const Op& custom = *customOf(fused);
  const Item& source = *customKernel(custom, module);
  LoweredKernel out;
  out.kernel = specialize(source, boundShapes(custom, source));
  inlineCalls(module, *out.kernel);
  overlapSharedBuffers(*out.kernel);
  TG_CHECK(checkLimits(custom, *out.kernel, target));
  tg::erase(out.kernel->attrs, "vjp");  // of no use to what runs, and it names a kernel that goes
  for (size_t axis = 0; axis < out.grid.size(); ++axis) out.grid[axis] = out.kernel->grid[axis].integer;
  for (const CustomParam& param : customParams(source)) {
    if (param.result < 0)
      out.params.push_back({false, customBinding(fused, custom, param.input), -1});
    else
      out.params.push_back(
          {true, param.result, param.input < 0 ? -1 : customBinding(fused, custom, param.input)});
  }
  return out;
}

}  // namespace tg
