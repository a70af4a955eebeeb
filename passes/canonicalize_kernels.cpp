// SPDX-License-Identifier: Apache-2.0
// canonicalize-kernels: shortens the kernels that a module was given.
//
//   %n = tgk.dim %x, 0 : u32                       %q = tgk.load %a[0] : f32
//   tgk.for %k = 0 to(4) {                         tgk.for %k = 0 to(4) {
//     %q = tgk.load %a[0] : f32              →       tgk.atomic_add %q, %o[%k]
//     tgk.atomic_add %q, %o[%k]                      tgk.yield
//     tgk.yield                                    }
//   }
//
// Requires: stage tensor; two buffers of a kernel never share bytes that it writes. Ensures: each kernel
// computes the same bits (passes/kernel/simplify.h says what is done); parameters, launch and names of
// kernels stay. Running it twice is running it once.
// Where: anywhere before fuse; before append-grad it leaves less to differentiate.
#include "passes/kernel/simplify.h"
#include "passes/pass.h"

namespace tg {

Result<void> run_canonicalize_kernels(Module& module, const NoOptions&, const PassContext&) {
  for (Item* kernel : module.all(ItemKind::kernel)) simplifyKernel(*kernel);
  return {};
}

}  // namespace tg
