// strip-kernels: leaves the binaries alone, for modules that are shipped.
//
//   kernel @k0_relu(…) … { … }
//   binary @k0_relu {…} "AwIjBw…"
// becomes
//   binary @k0_relu {…} "AwIjBw…"
//
// Requires: stage spirv. Ensures: no kernel is left, each had a binary. The interpreter cannot run such a
// module.
//
// It stands after spirv-emit, on request only: sources are what makes the last stage readable.

#include <fmt/format.h>

#include <algorithm>

#include "passes/pass.h"

namespace tg {

Result<void> run_strip_kernels(Module& module, const NoOptions&, const PassContext&) {
  Error errors;
  for (const Item* kernel : module.all(ItemKind::kernel))
    if (!module.find(ItemKind::binary, kernel->name))
      errors.append(failAt(
          kernel->loc, fmt::format("kernel @{} has no binary; without its source it is lost", kernel->name)));
  if (!errors.empty()) return errors;
  module.items.eraseIf([](const auto& item) { return item->kind == ItemKind::kernel; });
  return {};
}

}  // namespace tg
