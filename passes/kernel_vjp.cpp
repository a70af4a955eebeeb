// SPDX-License-Identifier: Apache-2.0
// kernel-vjp: the gradient of a kernel as a kernel beside it.
//
// What: adds the VJP of one kernel to the module: cotangents of its results go in, gradients of its operands
// come out.
//
//   kernel @k(%x: …, in, %o: …, out) { … }   →   kernel @k(…) { … }
//                                                kernel @k.vjp(%x: …, in, %d_o: …, in, %d_x: …, accum) { … }
//
// Requires: stage tensor.
//   c1: the module has the kernel; c2: wrt and of name its parameters; c3: these hold floats; c4: wrt names
//   in and inout parameters, of names out, inout and accum ones; c5: checkpoint is 0 or more. Every op on a
//   path from wrt to of has a derivative; the refusals kernel-vjp.g1, g2, … say of one that has none where it
//   stands, why, and the way out.
// Ensures: kernels that were there stay as they are; the new one is called NAME.vjp, or NAME.vjp_2, … if that
//   is taken. Results that `of` does not name have no cotangent.
// Where: append-grad does this by itself for every kernel that a gradient passes through; alone it shows the
//   kernel, or makes it for a caller of its own.
#include <fmt/format.h>

#include <algorithm>

#include "passes/kernel/vjp.h"
#include "passes/lookup.h"
#include "passes/pass.h"

namespace tg {

/// `[x, w]`, `x,w` or `x|w` as names; a `%` before one is dropped.
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
    return failAt(module.loc, fmt::format("kernel-vjp [kernel-vjp.c1]: {}; the module has {}",
                                          options.kernel.empty() ? "no kernel is named"
                                                                 : "there is no kernel " + options.kernel,
                                          kernels.empty() ? "none" : namesOf(kernels)));
  if (options.checkpoint < 0)
    return failAt(module.loc, fmt::format("kernel-vjp [kernel-vjp.c5]: checkpoint={} is not 0 or more",
                                          options.checkpoint));
  KernelVjpRequest request{namesIn(options.wrt), namesIn(options.of), kernel->name + ".vjp",
                           options.checkpoint};
  for (int n = 2; module.find(ItemKind::kernel, request.name); ++n)
    request.name = fmt::format("{}.vjp_{}", kernel->name, n);
  TG_TRY(KernelVjp vjp, differentiateKernel(module, *kernel, request));
  if (context.onDiagnostic)
    for (const Diagnostic& remark : vjp.remarks) context.onDiagnostic(remark);
  auto at = std::find_if(module.items.begin(), module.items.end(),
                         [&](const auto& item) { return item.get() == kernel; });
  module.items.insert(at + 1, std::move(vjp.kernel));
  return {};
}

}  // namespace tg
