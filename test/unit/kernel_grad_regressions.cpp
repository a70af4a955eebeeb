// SPDX-License-Identifier: Apache-2.0
// What the reducer left of random kernels, each under the name of what was wrong. These were found by taking
// a rule out of the differentiation: the adjoint of an overwritten element cleared, gradients added
// atomically where invocations access one element.
#include "test/unit/kernel_grad_regressions.h"

namespace tg::test {
namespace {

KernelGradCase left(std::string text, KernelArrays arrays) {
  KernelGradCase test;
  test.text = std::move(text);
  test.arrays = std::move(arrays);
  return test;
}

}  // namespace

std::vector<NamedKernelGrad> kernelGradRegressions() {
  return {
      {"OverwrittenScratch",
       left(R"(kernel @k(%x: buf<4x1xf32, in>, %o: buf<12x3xf32, out>) workgroup(2, 2) grid(3) {
  %lx = tgk.local_id 0 : u32
  %ly = tgk.local_id 1 : u32
  %lr = tgk.mul %ly, 2 : u32
  %l = tgk.add %lr, %lx : u32
  %g = tgk.workgroup_id 0 : u32
  %gl = tgk.mul %g, 4 : u32
  %i = tgk.add %gl, %l : u32
  %v = tgk.load %x[0, 0] : f32
  %q = tgk.local : buf<2xf32, local>
  tgk.store %v, %q[0]
  tgk.store 0.0, %q[0]
  %w = tgk.load %q[0] : f32
  tgk.store %w, %o[%i, 0]
})",
            {{"x", drawn({4, 1}, 2)}, {"o", room({12, 3})}})},
      {"GatherModulo", left(R"(kernel @k(%x: buf<3x2xf32, in>, %o: buf<20xf32, out>) workgroup(4, 2) grid(3) {
  %lx = tgk.local_id 0 : u32
  %ly = tgk.local_id 1 : u32
  %lr = tgk.mul %ly, 4 : u32
  %l = tgk.add %lr, %lx : u32
  %g = tgk.workgroup_id 0 : u32
  %gl = tgk.mul %g, 8 : u32
  %i = tgk.add %gl, %l : u32
  %in = tgk.lt %i, 20 : bool
  tgk.if %in {
    %u = tgk.mod %l, 3 : u32
    %v = tgk.load %x[%u, 0] : f32
    tgk.store %v, %o[%i]
  }
})",
                            {{"x", drawn({3, 2}, 1)}, {"o", room({20})}})},
  };
}

}  // namespace tg::test
