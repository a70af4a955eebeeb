// SPDX-License-Identifier: Apache-2.0
// canonicalize-kernels: simplifies the kernels that the module was written with.
//
//   %n = tgk.dim %x, 0 : u32                       %q = tgk.load %a[0] : f32
//   tgk.for %k = 0 to(4) {                         tgk.for %k = 0 to(4) {
//     %q = tgk.load %a[0] : f32              →       tgk.atomic_add %q, %o[%k]
//     tgk.atomic_add %q, %o[%k]                      tgk.yield
//     tgk.yield                                    }
//   }
//
// Requires: stage(tensor); a kernel's buffers share no bytes that it writes.
// Ensures: each kernel computes the same bits (passes/kernel/simplify.h lists the rewrites); parameters, launch and names
//   of kernels do not change. Idempotent.
// Where: anywhere before fuse; before append-grad it leaves less to differentiate.
#include "passes/kernel/simplify.h"
#include "passes/pass.h"

namespace tg {

Result<void> run_canonicalize_kernels(Module& module, const NoOptions&, const PassContext&) {
  for (Item* kernel : module.all(ItemKind::kernel)) simplifyKernel(*kernel);
  return {};
}

}  // namespace tg
