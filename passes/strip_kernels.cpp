// SPDX-License-Identifier: Apache-2.0
// strip-kernels: removes kernels and leaves their binaries, for modules that are shipped.
//
//   kernel @k0_relu(…) … { … }
//   binary @k0_relu {…} "AwIjBw…"
// becomes
//   binary @k0_relu {…} "AwIjBw…"
//
// Requires: stage(spirv).
// Ensures: no kernel is left; each had a binary. The interpreter cannot run such a module. A binary whose loops are long, or
//   whose number of iterations depends on data, gets the attribute `loop_iterations`, for devices that end loops early.
// Where: after spirv-emit, and only on request: the kernels' text is what makes that stage readable.

#include "ir/kernel/rewrites.h"
#include "ir/target.h"
#include "passes/pass.h"

namespace tg {

constexpr int64_t kEveryDeviceMakes =
    65535;  ///< loop iterations of an invocation that every device completes

Result<void> run_strip_kernels(Module& module, const NoOptions&, const PassContext&) {
  Error errors;
  for (const Item* kernel : module.all(ItemKind::kernel))
    if (!module.find(ItemKind::binary, kernel->name))
      errors.append(failAt(kernel->loc, "kernel @{} has no binary; run spirv-emit first", kernel->name));
  if (!errors.empty()) return errors;
  for (const Item* kernel : module.all(ItemKind::kernel)) {
    const std::optional<int64_t> most = loopIterations(*kernel);
    if (most && *most <= kEveryDeviceMakes) continue;
    set(module.find(ItemKind::binary, kernel->name)->attrs, "loop_iterations",
        Attr::of(most.value_or(Target().loopIterations)));
  }
  module.items.eraseIf([](const auto& item) { return item->kind == ItemKind::kernel; });
  return {};
}

}  // namespace tg
