// SPDX-License-Identifier: Apache-2.0
// kernel-vjp: adds the gradient of a kernel as another kernel.
//
// What: adds the VJP of one kernel to the module. Its inputs are the cotangents of the kernel's results, its results the
// gradients of the kernel's operands.
//
//   kernel @k(%x: …, in, %o: …, out) { … }   →   kernel @k(…) { … }
//                                                kernel @k.vjp(%x: …, in, %d_o: …, in, %d_x: …, accum) { … }
//
// Requires: stage tensor.
//   c1: the module has the kernel; c2: wrt and of name its parameters; c3: these hold floats; c4: wrt names
//   in and inout parameters, of names out, inout and accum ones; c5: checkpoint is 0 or more. Every op on a
//   path from wrt to of has a derivative; otherwise the errors kernel-vjp.g1, g2, … tell where the op is, why it has none,
//   and what to do.
// Ensures: existing kernels do not change. The new one is called NAME.vjp, or NAME.vjp_2, … if that is taken. Results that
//   `of` does not name have no cotangent.
// Where: append-grad does the same for every kernel that a gradient passes through. By itself the pass shows the VJP, or
//   makes it for another caller.

#include <algorithm>

#include "ir/text.h"
#include "passes/kernel/vjp.h"
#include "passes/pass.h"

namespace tg {

/// The names in `[x, w]`, `x,w` or `x|w`; a `%` before a name is dropped.
static std::vector<std::string> namesIn(const std::string& text) {
  std::vector<std::string> out;
  std::string name;
  for (char c : text + ",") {
    if (std::string_view("[],| ").find(c) == std::string_view::npos) {
      if (c != '%') name += c;
    } else if (!name.empty()) {
      out.push_back(std::move(name));
      name.clear();
    }
  }
  return out;
}

Result<void> run_kernel_vjp(Module& module, const KernelVjpOptions& options, const PassContext& context) {
  std::vector<Item*> kernels = module.all(ItemKind::kernel);
  Item* kernel = options.kernel.empty() && kernels.size() == 1
                     ? kernels[0]
                     : module.find(ItemKind::kernel, options.kernel.substr(options.kernel.starts_with('@')));
  if (!kernel)
    return failAt(module.loc, "kernel-vjp [kernel-vjp.c1]: {}; the module has {}",
                  options.kernel.empty() ? "no kernel is named" : "there is no kernel " + options.kernel,
                  kernels.empty() ? "none" : namesOf(kernels));
  if (options.checkpoint < 0)
    return failAt(module.loc, "kernel-vjp [kernel-vjp.c5]: checkpoint={} is not 0 or more",
                  options.checkpoint);
  KernelVjpRequest request{namesIn(options.wrt), namesIn(options.of), kernel->name + ".vjp",
                           options.checkpoint};
  for (int next = 2; module.find(ItemKind::kernel, request.name); ++next)
    request.name = fmt::format("{}.vjp_{}", kernel->name, next);
  TG_TRY(KernelVjp vjp, differentiateKernel(module, *kernel, request));
  if (context.onDiagnostic)
    for (const Diagnostic& remark : vjp.remarks) context.onDiagnostic(remark);
  auto at = std::ranges::find_if(module.items, [&](const auto& item) { return item.get() == kernel; });
  module.items.insert(at + 1, std::move(vjp.kernel));
  return {};
}

}  // namespace tg
