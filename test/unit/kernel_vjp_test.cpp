// SPDX-License-Identifier: Apache-2.0
// What differentiateKernel gives beside right numbers (kernel_grad_* judge those): its parameters, what it
// keeps and how much of it, and what it does not ask for.
#include "passes/kernel/vjp.h"

#include <gtest/gtest.h>

#include "ir/parser.h"
#include "ir/verify.h"
#include "test/unit/kernel_grad_check.h"

namespace tg::test {
namespace {

std::unique_ptr<Module> kernels(const std::string& text) {
  auto module = parse("module @m stage(tensor) {\n" + text + "\n}\n", "vjp.tgir");
  EXPECT_TRUE(module) << module.error().str();
  return module ? std::move(*module) : nullptr;
}

KernelVjp vjpOf(const Module& module, KernelVjpRequest request) {
  request.name = "k.vjp";
  auto vjp = differentiateKernel(module, *module.find(ItemKind::kernel, "k"), request);
  EXPECT_TRUE(vjp) << vjp.error().str();
  return vjp ? std::move(*vjp) : KernelVjp{};
}

/// `x:primal d_o:cotangent …`, scratch of the VJP's own without a name.
std::string rolesOf(const KernelVjp& vjp) {
  constexpr const char* kNames[] = {"primal", "cotangent", "gradient", "adjoint", "tape"};
  std::string out;
  for (size_t i = 0; i < vjp.params.size(); ++i)
    out += (i ? " " : "") + vjp.kernel->body.args[i]->name + ":" +
           kNames[static_cast<size_t>(vjp.params[i].role)];
  return out;
}

int countOf(const KernelVjp& vjp, Opcode code) {
  int count = 0;
  walk(vjp.kernel->body, [&](Op& op) { count += op.code == code; });
  return count;
}

constexpr const char* kProduct = R"(
  kernel @k(%a: buf<1xf32, in>, %x: buf<?xf32, in>, %y: buf<?xf32, in>, %o: buf<?xf32, out>, %u: buf<?xf32, out>)
      workgroup(64) grid(ceildiv(dim(%o, 0), 64)) {
    %i = tgk.global_id 0 : u32
    %n = tgk.dim %o, 0 : u32
    %in = tgk.lt %i, %n : bool
    tgk.if %in {
      %av = tgk.load %a[0] : f32
      %xv = tgk.load %x[%i] : f32
      %yv = tgk.load %y[%i] : f32
      %r = tgk.fma %av, %xv, %yv : f32
      tgk.store %r, %o[%i]
      tgk.store %yv, %u[%i]
      tgk.yield
    }
  })";

TEST(KernelVjp, AsksForNoMoreThanItReads) {
  auto module = kernels(kProduct);
  // y's value is not needed, nor o's or u's: extents are read off the cotangents.
  EXPECT_EQ(rolesOf(vjpOf(*module, {})),
            "a:primal x:primal d_a:gradient d_x:gradient d_y:gradient d_o:cotangent d_u:cotangent");
  // u has no cotangent, x no gradient.
  EXPECT_EQ(rolesOf(vjpOf(*module, {{"a"}, {"o"}, "", 0})), "x:primal d_a:gradient d_o:cotangent");
}

TEST(KernelVjp, AScalarOfAllIsSummedByTheWorkgroup) {
  auto module = kernels(kProduct);
  KernelVjp vjp = vjpOf(*module, {});
  EXPECT_EQ(countOf(vjp, Opcode::k_workgroup_reduce), 1);
  EXPECT_EQ(countOf(vjp, Opcode::k_atomic_add), 1);  // d_a
  EXPECT_EQ(countOf(vjp, Opcode::k_accumulate), 2);  // d_x, d_y: each invocation has its own element
}

constexpr const char* kRecurrence = R"(
  kernel @k(%w: buf<1xf32, in>, %x: buf<?x?xf32, in>, %h0: buf<?xf32, in>, %o: buf<?xf32, out>)
      workgroup(4) grid(ceildiv(dim(%o, 0), 4)) {
    %i = tgk.global_id 0 : u32
    %n = tgk.dim %o, 0 : u32
    %T = tgk.dim %x, 0 : u32
    %in = tgk.lt %i, %n : bool
    %wv = tgk.load %w[0] : f32
    tgk.if %in {
      %hi = tgk.load %h0[%i] : f32
      %h = tgk.for %t = 0 to(%T) iter_args(%hp = %hi) : f32 {
        %xv = tgk.load %x[%t, %i] : f32
        %z = tgk.fma %wv, %hp, %xv : f32
        %y = tgk.tanh %z : f32
        tgk.yield %y
      }
      tgk.store %h, %o[%i]
      tgk.yield
    }
  })";

KernelGradCase recurrence(int64_t trips, int64_t checkpoint) {
  KernelGradCase test;
  test.text = kRecurrence;
  auto values = [](int64_t count, double from) {
    std::vector<double> out;
    for (int64_t i = 0; i < count; ++i)
      out.push_back(from + 0.37 * static_cast<double>(i % 5) - 0.2 * (i % 3));
    return out;
  };
  test.arrays = {{"w", {{1}, {0.7}}},
                 {"x", {{trips, 6}, values(trips * 6, -0.4)}},
                 {"h0", {{6}, values(6, 0.1)}},
                 {"o", {{6}, {}}}};
  test.checkpoint = checkpoint;
  return test;
}

int64_t tapeElements(const KernelGradCase& test, int64_t trips) {
  auto module = kernels(test.text);
  const Item& kernel = *module->find(ItemKind::kernel, "k");
  KernelVjpRequest request;
  request.checkpoint = test.checkpoint;
  KernelVjp vjp = vjpOf(*module, request);
  const std::vector<Shape> shapes{{1}, {trips, 6}, {6}, {6}};
  int64_t total = 0;
  for (size_t i = 0; i < vjp.params.size(); ++i) {
    if (vjp.params[i].role != KernelVjpParam::Role::tape) continue;
    auto shape = tapeShape(vjp, static_cast<int>(i), kernel, shapes);
    EXPECT_TRUE(shape) << shape.error().str();
    total += shape->elements();
  }
  return total;
}

TEST(KernelVjp, KeepsAStateForEachTripAndInvocation) {
  EXPECT_EQ(tapeElements(recurrence(40, 0), 40), 40 * 8);
}

TEST(KernelVjp, PiecesLongerThanAnyLoopChangeNothing) {
  for (int64_t checkpoint : {int64_t{4294967295}, int64_t{4294967296}, int64_t{9223372036854775807}})
    EXPECT_EQ(tapeElements(recurrence(40, checkpoint), 40), 40 * 8) << checkpoint;
}

TEST(KernelVjp, CheckpointsKeepTheSumNotTheProduct) {
  // 5 pieces of 8 trips: 5 states between pieces and 8 in one, for each of 8 invocations.
  EXPECT_LE(tapeElements(recurrence(40, 8), 40), (40 / 8 + 8) * 8 + 40 * 8 / 8);
  for (int64_t trips : {1, 8, 9}) {
    SCOPED_TRACE(trips);
    KernelGradCase test = recurrence(trips, 4);
    test.samples = 2;
    expectKernelGradient(test);
  }
}

TEST(KernelVjp, ALoopThatNothingBoundsIsRefusedAtTheCall) {
  auto module = kernels(R"(
  kernel @k(%n: buf<1xu32, in>, %x: buf<1xf32, in>, %o: buf<1xf32, out>) workgroup(1) grid(1) {
    %to = tgk.load %n[0] : u32
    %v = tgk.load %x[0] : f32
    %p = tgk.for %k = 0 to(%to) iter_args(%q = %v) : f32 {
      %r = tgk.mul %q, %q : f32
      tgk.yield %r
    }
    tgk.store %p, %o[0]
  })");
  KernelVjp vjp = vjpOf(*module, {});
  ASSERT_EQ(vjp.params.back().role, KernelVjpParam::Role::tape);
  auto shape = tapeShape(vjp, static_cast<int>(vjp.params.size()) - 1, *module->find(ItemKind::kernel, "k"),
                         {{1}, {1}, {1}});
  ASSERT_FALSE(shape);
  EXPECT_NE(shape.error().str().find("vjp.tgir:6:5: error: tgk.for"), std::string::npos)
      << shape.error().str();
  EXPECT_NE(shape.error().str().find("[kernel-vjp.g6]"), std::string::npos) << shape.error().str();
}

/// What memory held in each of 4e9 times 4e9 trips, a product that 64 bits do not hold.
TEST(KernelVjp, ATapeOfTooManyElementsIsRefusedAtTheCall) {
  auto module = kernels(R"(
  kernel @k(%n: buf<1xu32, in>, %x: buf<1xf32, in>, %o: buf<1xf32, out>) workgroup(1) grid(1) {
    %limit = tgk.load %n[0] : u32
    %to = tgk.min %limit, 4000000000 : u32
    %m = tgk.local : buf<1xf32, local>
    %v = tgk.load %x[0] : f32
    tgk.store %v, %m[0]
    tgk.for %j = 0 to(%to) {
      tgk.for %k = 0 to(%to) {
        %p = tgk.load %m[0] : f32
        %q = tgk.sin %p : f32
        tgk.store %q, %m[0]
      }
    }
    %r = tgk.load %m[0] : f32
    tgk.store %r, %o[0]
  })");
  const Item& kernel = *module->find(ItemKind::kernel, "k");
  KernelVjp vjp = vjpOf(*module, {});
  ASSERT_EQ(vjp.params.back().role, KernelVjpParam::Role::tape);
  auto shape = tapeShape(vjp, static_cast<int>(vjp.params.size()) - 1, kernel, {{1}, {1}, {1}});
  ASSERT_FALSE(shape) << print(*vjp.kernel);
  EXPECT_NE(shape.error().str().find("error: kernel @k: its gradient would keep a tape of "
                                     "4000000000x4000000000 elements"),
            std::string::npos)
      << shape.error().str();
}

TEST(KernelVjp, AnUnknownNameListsTheBuffers) {
  auto module = kernels(kProduct);
  auto vjp = differentiateKernel(*module, *module->find(ItemKind::kernel, "k"), {{"z"}, {}, "k.vjp", 0});
  ASSERT_FALSE(vjp);
  EXPECT_NE(vjp.error().message().find("wrt names %z, but @k has %a, %x, %y, %o, %u"), std::string::npos)
      << vjp.error().message();
}

TEST(KernelVjp, NamesOfASecondDerivativeStayApart) {
  auto module = kernels(kProduct);
  KernelVjp first = vjpOf(*module, {{"x"}, {"o"}, "", 0});
  auto second = differentiateKernel(*module, *first.kernel, {{}, {}, "k.vjp.vjp", 0});
  ASSERT_TRUE(second) << second.error().str();
  EXPECT_TRUE(verifyKernel(*second->kernel)) << print(*second->kernel);
  EXPECT_EQ(rolesOf(*second), "a:primal d_o:primal d_a:gradient d_d_x:cotangent d_d_o:gradient");
}

}  // namespace
}  // namespace tg::test
