// SPDX-License-Identifier: Apache-2.0
// Kernels with barriers: gathers, shared memory, several workgroups.
#include "test/unit/kernel_grad_catalogue.h"

namespace tg::test {
namespace {

std::string kernel(const std::string& params, const std::string& launch, const std::string& body) {
  return "kernel @k(" + params + ") " + launch + " {\n%i = tgk.global_id 0 : u32\n" + body + "\n}";
}

KernelGradCase ones(std::string text, KernelArrays arrays, KernelArrays expected, int64_t results) {
  KernelGradCase test;
  test.text = std::move(text);
  test.arrays = std::move(arrays);
  test.arrays["o"] = room({results});
  test.cotangents["o"] = given(std::vector<double>(static_cast<size_t>(results), 1.0));
  test.expected = std::move(expected);
  return test;
}

const std::string kXO = "%x: buf<?xf32, in>, %o: buf<?xf32, out>";

std::vector<NamedKernelGrad> gathers() {
  return {
      {"OneLaneStores", ones(kernel(kXO, "workgroup(4) grid(1)", R"(%c = tgk.eq %i, 2 : bool
tgk.if %c {
  %v = tgk.load %x[2] : f32
  %y = tgk.mul %v, 3.0 : f32
  tgk.store %y, %o[0]
})"),
                             {{"x", given(kX)}}, {{"x", given({0, 0, 3, 0})}}, 1)},
      {"ReversedAcrossWorkgroups", ones(kernel(kXO, "workgroup(2) grid(2)", R"(%v = tgk.load %x[%i] : f32
%y = tgk.mul %v, 3.0 : f32
%j = tgk.sub 3, %i : u32
tgk.store %y, %o[%j])"),
                                        {{"x", given(kX)}}, {{"x", given({3, 3, 3, 3})}}, 4)},
      {"SharedScalar",
       ones(kernel("%x: buf<?xf32, in>, %s: buf<1xf32, in>, %o: buf<?xf32, out>", "workgroup(4) grid(1)",
                   R"(%v = tgk.load %x[%i] : f32
%f = tgk.load %s[0] : f32
%y = tgk.mul %v, %f : f32
tgk.store %y, %o[%i])"),
            {{"x", given(kX)}, {"s", given({2.5})}}, {{"x", given({2.5, 2.5, 2.5, 2.5})}, {"s", given({1})}},
            4)},
      {"Stencil", ones(kernel(kXO, "workgroup(2) grid(2)", R"(%j = tgk.add %i, 1 : u32
%v = tgk.load %x[%i] : f32
%w = tgk.load %x[%j] : f32
%y = tgk.fma %w, 2.0, %v : f32
tgk.store %y, %o[%i])"),
                       {{"x", given({1.5, 2, -3, 0.5, 0.25})}}, {{"x", given({1, 3, 3, 3, 2})}}, 4)},
      {"RepeatedGather",
       ones(kernel("%x: buf<2xf32, in>, %n: buf<?xi32, in>, %o: buf<?xf32, out>", "workgroup(4) grid(1)",
                   R"(%j = tgk.load %n[%i] : i32
%v = tgk.load %x[%j] : f32
tgk.store %v, %o[%i])"),
            {{"x", given({1.5, 2})}, {"n", given({0, 0, 1, 0})}}, {{"x", given({3, 1})}}, 4)},
      {"ScatterAdds",
       [] {
         KernelGradCase test;
         test.text = kernel("%x: buf<6xf32, in>, %n: buf<6xu32, in>, %o: buf<3xf32, accum>",
                            "workgroup(2) grid(3)", R"(%j = tgk.load %n[%i] : u32
%v = tgk.load %x[%i] : f32
%y = tgk.mul %v, %v : f32
tgk.atomic_add %y, %o[%j])");
         test.arrays = {
             {"x", given({1.5, 2, -3, 0.5, 0.25, 4})}, {"n", given({0, 2, 2, 0, 0, 2})}, {"o", room({3})}};
         test.cotangents = {{"o", given({1, 10, 100})}};
         test.expected = {{"x", given({3, 400, -600, 1, 0.5, 800})}};
         return test;
       }()},
  };
}

std::vector<NamedKernelGrad> sharedMemory() {
  return {
      {"ProductInEachWorkgroup", ones(kernel(kXO, "workgroup(2) grid(2)", R"(%l = tgk.local_id 0 : u32
%w = tgk.workgroup_id 0 : u32
%s = tgk.shared : buf<2xf32, shared>
%v = tgk.load %x[%i] : f32
tgk.store %v, %s[%l]
tgk.barrier
%z = tgk.eq %l, 0 : bool
tgk.if %z {
  %a = tgk.load %s[0] : f32
  %b = tgk.load %s[1] : f32
  %y = tgk.mul %a, %b : f32
  tgk.store %y, %o[%w]
})"),
                                      {{"x", given(kX)}}, {{"x", given({2, 1.5, 0.5, -3})}}, 2)},
      {"ProductThroughTape",
       [] {
         KernelGradCase test = ones(kernel("%x: buf<?xf32, in>, %t: buf<?x2xf32, tape>, %o: buf<?xf32, out>",
                                           "workgroup(2) grid(2)", R"(%l = tgk.local_id 0 : u32
%w = tgk.workgroup_id 0 : u32
%v = tgk.load %x[%i] : f32
tgk.store %v, %t[%w, %l]
tgk.barrier
%z = tgk.eq %l, 0 : bool
tgk.if %z {
  %a = tgk.load %t[%w, 0] : f32
  %b = tgk.load %t[%w, 1] : f32
  %y = tgk.mul %a, %b : f32
  tgk.store %y, %o[%w]
})"),
                                    {{"x", given(kX)}}, {{"x", given({2, 1.5, 0.5, -3})}}, 2);
         test.arrays["t"] = room({2, 2});
         return test;
       }()},
      {"SharedRotatedInALoop",
       [] {
         KernelGradCase test;
         test.text =
             kernel("%x: buf<?xf32, in>, %w: buf<1xf32, in>, %o: buf<?xf32, out>", "workgroup(4) grid(2)",
                    R"(%l = tgk.local_id 0 : u32
%l1 = tgk.add %l, 1 : u32
%n = tgk.mod %l1, 4 : u32
%s = tgk.shared : buf<4xf32, shared>
%v = tgk.load %x[%i] : f32
%f = tgk.load %w[0] : f32
tgk.store %v, %s[%l]
tgk.barrier
tgk.for %k = 0 to(3) {
  %a = tgk.load %s[%l] : f32
  %b = tgk.load %s[%n] : f32
  %p = tgk.mul %a, %b : f32
  %q = tgk.fma %f, %p, %a : f32
  tgk.barrier
  tgk.store %q, %s[%l]
  tgk.barrier
}
%y = tgk.load %s[%l] : f32
tgk.store %y, %o[%i])");
         test.arrays = {{"x", drawn({8}, 3)}, {"w", given({0.25})}, {"o", room({8})}};
         return test;
       }()},
      {"SharedHistogram",
       [] {
         KernelGradCase test;
         test.text =
             kernel("%x: buf<?xf32, in>, %n: buf<?xu32, in>, %o: buf<?xf32, out>", "workgroup(4) grid(2)",
                    R"(%l = tgk.local_id 0 : u32
%s = tgk.shared : buf<4xf32, shared>
tgk.store 0.0, %s[%l]
tgk.barrier
%v = tgk.load %x[%i] : f32
%y = tgk.sin %v : f32
%j = tgk.load %n[%i] : u32
tgk.atomic_add %y, %s[%j]
tgk.barrier
%a = tgk.load %s[%l] : f32
%b = tgk.mul %a, %a : f32
tgk.store %b, %o[%i])");
         test.arrays = {{"x", drawn({8}, 4)}, {"n", given({0, 2, 0, 0, 1, 3, 3, 1})}, {"o", room({8})}};
         return test;
       }()},
  };
}

/// The tree sum of squares of rows.
KernelGradCase rowSums(int64_t rows) {
  KernelGradCase test;
  test.text = R"(kernel @k(%x: buf<?x8xf32, in>, %o: buf<?xf32, out>) workgroup(8) grid(dim(%o, 0)) {
    %l = tgk.local_id 0 : u32
    %r = tgk.workgroup_id 0 : u32
    %s = tgk.shared : buf<8xf32, shared>
    %v = tgk.load %x[%r, %l] : f32
    %q = tgk.mul %v, %v : f32
    tgk.store %q, %s[%l]
    tgk.barrier
    tgk.for %k = 0 to(3) {
      %w = tgk.shr 4, %k : u32
      %h = tgk.lt %l, %w : bool
      tgk.if %h {
        %j = tgk.add %l, %w : u32
        %u0 = tgk.load %s[%l] : f32
        %u1 = tgk.load %s[%j] : f32
        %u = tgk.add %u0, %u1 : f32
        tgk.store %u, %s[%l]
      }
      tgk.barrier
    }
    %z = tgk.eq %l, 0 : bool
    tgk.if %z {
      %t = tgk.load %s[0] : f32
      tgk.store %t, %o[%r]
    }
  }
  kernel @k_vjp(%x: buf<?x8xf32, in>, %d_o: buf<?xf32, in>, %d_x: buf<?x8xf32, out>) workgroup(8) grid(dim(%d_o, 0)) {
    %l = tgk.local_id 0 : u32
    %r = tgk.workgroup_id 0 : u32
    %ds = tgk.shared : buf<8xf32, shared>
    tgk.store 0.0, %ds[%l]
    tgk.barrier
    %z = tgk.eq %l, 0 : bool
    tgk.if %z {
      %t = tgk.load %d_o[%r] : f32
      tgk.store %t, %ds[0]
    }
    tgk.barrier
    tgk.for %k = 0 to(3) {
      %m = tgk.sub 2, %k : u32
      %w = tgk.shr 4, %m : u32
      %h = tgk.lt %l, %w : bool
      tgk.if %h {
        %j = tgk.add %l, %w : u32
        %g = tgk.load %ds[%l] : f32
        tgk.store 0.0, %ds[%l]
        tgk.accumulate %g, %ds[%l]
        tgk.accumulate %g, %ds[%j]
      }
      tgk.barrier
    }
    %g = tgk.load %ds[%l] : f32
    %v = tgk.load %x[%r, %l] : f32
    %gv = tgk.mul %g, %v : f32
    %d = tgk.add %gv, %gv : f32
    tgk.store %d, %d_x[%r, %l]
  })";
  test.arrays = {{"x", drawn({rows, 8}, 5)}, {"o", room({rows})}};
  return test;
}

/// a·x + y with a scalar for all, in a grid larger than the buffers.
KernelGradCase saxpy(int64_t n) {
  KernelGradCase test;
  test.text = R"(kernel @k(%a: buf<1xf32, in>, %x: buf<?xf32, in>, %y: buf<?xf32, in>, %o: buf<?xf32, out>)
      workgroup(8) grid(ceildiv(dim(%o, 0), 8)) {
    %i = tgk.global_id 0 : u32
    %n = tgk.dim %o, 0 : u32
    %in = tgk.lt %i, %n : bool
    tgk.if %in {
      %av = tgk.load %a[0] : f32
      %xv = tgk.load %x[%i] : f32
      %yv = tgk.load %y[%i] : f32
      %r = tgk.fma %av, %xv, %yv : f32
      tgk.store %r, %o[%i]
    }
  }
  kernel @k_vjp(%a: buf<1xf32, in>, %x: buf<?xf32, in>, %d_o: buf<?xf32, in>,
      %d_a: buf<1xf32, accum>, %d_x: buf<?xf32, out>, %d_y: buf<?xf32, out>)
      workgroup(8) grid(ceildiv(dim(%d_o, 0), 8)) {
    %i = tgk.global_id 0 : u32
    %n = tgk.dim %d_o, 0 : u32
    %in = tgk.lt %i, %n : bool
    %p = tgk.if %in : f32 {
      %g = tgk.load %d_o[%i] : f32
      %av = tgk.load %a[0] : f32
      %xv = tgk.load %x[%i] : f32
      %gx = tgk.mul %av, %g : f32
      tgk.store %gx, %d_x[%i]
      tgk.store %g, %d_y[%i]
      %ga = tgk.mul %xv, %g : f32
      tgk.yield %ga : f32
    } else {
      tgk.yield 0.0 : f32
    }
    %s = tgk.workgroup_reduce %p : f32
    %l = tgk.local_id 0 : u32
    %z = tgk.eq %l, 0 : bool
    tgk.if %z {
      tgk.atomic_add %s, %d_a[0]
    }
  })";
  test.arrays = {{"a", given({1.5})}, {"x", drawn({n}, 6)}, {"y", drawn({n}, 7)}, {"o", room({n})}};
  return test;
}

/// h = tanh(w·h + x[t]) over an open number of steps.
KernelGradCase recurrence(int64_t steps, int64_t n) {
  KernelGradCase test;
  test.text = R"(kernel @k(%w: buf<1xf32, in>, %x: buf<?x?xf32, in>, %h0: buf<?xf32, in>, %o: buf<?xf32, out>)
      workgroup(8) grid(ceildiv(dim(%o, 0), 8)) {
    %i = tgk.global_id 0 : u32
    %n = tgk.dim %o, 0 : u32
    %in = tgk.lt %i, %n : bool
    tgk.if %in {
      %T = tgk.dim %x, 0 : u32
      %wv = tgk.load %w[0] : f32
      %hi = tgk.load %h0[%i] : f32
      %h = tgk.for %t = 0 to(%T) iter_args(%hp = %hi) : f32 {
        %xv = tgk.load %x[%t, %i] : f32
        %z = tgk.fma %wv, %hp, %xv : f32
        %y = tgk.tanh %z : f32
        tgk.yield %y : f32
      }
      tgk.store %h, %o[%i]
    }
  }
  kernel @k_vjp(%w: buf<1xf32, in>, %x: buf<?x?xf32, in>, %h0: buf<?xf32, in>, %d_o: buf<?xf32, in>,
      %d_w: buf<1xf32, accum>, %d_x: buf<?x?xf32, out>, %d_h0: buf<?xf32, out>, %tape: buf<?x?xf32, tape>)
      workgroup(8) grid(ceildiv(dim(%d_o, 0), 8)) {
    %i = tgk.global_id 0 : u32
    %n = tgk.dim %d_o, 0 : u32
    %in = tgk.lt %i, %n : bool
    %p = tgk.if %in : f32 {
      %T = tgk.dim %x, 0 : u32
      %wv = tgk.load %w[0] : f32
      %hi = tgk.load %h0[%i] : f32
      %last = tgk.for %t = 0 to(%T) iter_args(%hp = %hi) : f32 {
        tgk.store %hp, %tape[%t, %i]
        %xv = tgk.load %x[%t, %i] : f32
        %z = tgk.fma %wv, %hp, %xv : f32
        %y = tgk.tanh %z : f32
        tgk.yield %y : f32
      }
      %g = tgk.load %d_o[%i] : f32
      %first, %sum = tgk.for %r = 0 to(%T) iter_args(%dh = %g, %dw = 0.0) : f32, f32 {
        %r1 = tgk.add %r, 1 : u32
        %t = tgk.sub %T, %r1 : u32
        %hp = tgk.load %tape[%t, %i] : f32
        %xv = tgk.load %x[%t, %i] : f32
        %z = tgk.fma %wv, %hp, %xv : f32
        %y = tgk.tanh %z : f32
        %yy = tgk.mul %y, %y : f32
        %slope = tgk.sub 1.0, %yy : f32
        %dz = tgk.mul %dh, %slope : f32
        tgk.store %dz, %d_x[%t, %i]
        %dhp = tgk.mul %dz, %wv : f32
        %dwn = tgk.fma %dz, %hp, %dw : f32
        tgk.yield %dhp, %dwn : f32, f32
      }
      tgk.store %first, %d_h0[%i]
      tgk.yield %sum : f32
    } else {
      tgk.yield 0.0 : f32
    }
    %all = tgk.workgroup_reduce %p : f32
    %l = tgk.local_id 0 : u32
    %zero = tgk.eq %l, 0 : bool
    tgk.if %zero {
      tgk.atomic_add %all, %d_w[0]
    }
  })";
  test.arrays = {{"w", given({0.75})}, {"x", drawn({steps, n}, 8)}, {"h0", drawn({n}, 9)}, {"o", room({n})}};
  test.arrays["tape"] = room({steps, n});  // of the hand-written rule
  return test;
}

KernelGradCase byHand(KernelGradCase test) {
  test.vjp = "k_vjp";
  return test;
}

std::vector<NamedKernelGrad> worked() {
  std::vector<NamedKernelGrad> out;
  for (int64_t n : {1, 8, 13}) out.push_back({"Saxpy" + std::to_string(n), saxpy(n)});
  out.push_back({"SaxpyByHand", byHand(saxpy(13)), false});
  out.push_back({"RowSums", rowSums(3)});
  out.push_back({"RowSumsByHand", byHand(rowSums(3)), false});
  for (int64_t steps : {0, 1, 5})
    out.push_back({"Recurrence" + std::to_string(steps), recurrence(steps, 11)});
  out.push_back({"RecurrenceByHand", byHand(recurrence(5, 11)), false});
  out.push_back({"RecurrenceByHand0", byHand(recurrence(0, 11)), false});
  for (int64_t every : {1, 2, 3, 16}) {
    out.push_back({"RecurrenceCheckpointed" + std::to_string(every), recurrence(7, 9), false});
    out.back().test.checkpoint = every;
  }
  return out;
}

}  // namespace

std::vector<NamedKernelGrad> barrierKernels() {
  std::vector<NamedKernelGrad> out;
  for (auto&& group : {gathers(), sharedMemory(), worked()})
    out.insert(out.end(), group.begin(), group.end());
  return out;
}

}  // namespace tg::test
