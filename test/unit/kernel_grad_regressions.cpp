// SPDX-License-Identifier: Apache-2.0
// What the reducer left of random kernels, each under the name of what was wrong. The first two were found by taking
// a rule out of the differentiation: the adjoint of an overwritten element cleared, gradients added
// atomically where invocations access one element. In the others a state that the whole workgroup shares decides what
// runs, while the workgroup adds to one element together.
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
      {"SharedStateEndsTheWalk",
       left(R"(kernel @k(%x: buf<8xf32, in>, %w: buf<3xf32, in>, %o: buf<8xf32, out>) workgroup(4) grid(2) {
  %i = tgk.global_id 0 : u32
  %g = tgk.workgroup_id 0 : u32
  %v, %n = tgk.while (%at != 4) iter_args(%a = %x[%i], %at = %g) max(6) : f32, u32 {
    tgk.yield sin(%w[%at % 3] * %a), %at + 1 : f32, u32
  }
  tgk.store %v, %o[%i]
})",
            {{"x", drawn({8}, 5)}, {"w", drawn({3}, 6)}, {"o", room({8})}})},
      {"SharedStateCountsTrips",
       left(R"(
kernel @k(%x: buf<8xf32, in>, %w: buf<5xf32, in>, %n: buf<5xu32, in>, %o: buf<8xf32, out>) workgroup(4) grid(2) {
  %i = tgk.global_id 0 : u32
  %g = tgk.workgroup_id 0 : u32
  %q, %v = tgk.for %k = 0 to(3) iter_args(%at = %g, %a = %x[%i]) : u32, f32 {
    %b = tgk.for %j = 0 to(%at % 3 + 1) iter_args(%c = %a) : f32 {
      tgk.yield sin(%c * %w[(%at + %j) % 5]) : f32
    }
    tgk.yield %n[%at], %b : u32, f32
  }
  tgk.store %v, %o[%i]
})",
            {{"x", drawn({8}, 7)}, {"w", drawn({5}, 8)}, {"n", given({4, 2, 1, 0, 3})}, {"o", room({8})}})},
      {"SharedStateChoosesABranch",
       left(R"(kernel @k(%x: buf<8xf32, in>, %w: buf<2xf32, in>, %o: buf<8xf32, out>) workgroup(4) grid(2) {
  %i = tgk.global_id 0 : u32
  %g = tgk.workgroup_id 0 : u32
  %s, %v = tgk.for %k = 0 to(4) iter_args(%h = %w[%g], %a = %x[%i]) : f32, f32 {
    %b = tgk.if %h > 0.3 : f32 {
      tgk.yield %a * %w[0] : f32
    } else {
      tgk.yield sin(%a + %w[1]) : f32
    }
    tgk.yield %h * 0.5, %b : f32, f32
  }
  tgk.store %v * %s, %o[%i]
})",
            {{"x", drawn({8}, 9)}, {"w", given({1.5, 0.7})}, {"o", room({8})}})},
  };
}

}  // namespace tg::test
