// SPDX-License-Identifier: Apache-2.0
// Guards, and strided loops whose data are narrower than the workgroup: the VJP of a kernel that stays in
// range stays in range, and its loops make no more trips than the kernel's.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "ir/kernel/index_analysis.h"
#include "ir/kernel/rewrites.h"
#include "ir/parser.h"
#include "test/unit/kernel_grad_catalogue.h"

namespace tg::test {
namespace {

/// A load of %w behind a guard that only some extents, data or invocations pass. `%at` and `%ok` are defined
/// by `guard`; the body around gives %i, %r (the workgroup), %n and %m (the extents of %x and %w) and %u (a
/// loaded number).
struct Guard {
  const char* name;
  const char* guard;
  int64_t weights;  ///< the extent of %w
  double loaded = 0;
};

const Guard kGuards[] = {
    {"WorkgroupPastTheEnd", "%at = tgk.add %r, 0 : u32\n%ok = tgk.lt %r, %m : bool", 2},
    {"Sentinel", "%at = tgk.add %u, 0 : u32\n%ok = tgk.lt %u, %m : bool", 3, 7},
    {"SentinelInRange", "%at = tgk.add %u, 0 : u32\n%ok = tgk.lt %u, %m : bool", 3, 2},
    {"Constant", "%at = tgk.add 0, 4 : u32\n%ok = tgk.gt %m, 4 : bool", 3},
    {"LastButWrapping", "%at = tgk.sub %m, 4 : u32\n%ok = tgk.ge %m, 4 : bool", 3},
    {"AndOfTwo",
     "%at = tgk.add %r, 1 : u32\n%a = tgk.lt %at, %m : bool\n%b = tgk.lt %u, 9 : bool\n"
     "%ok = tgk.and %a, %b : bool",
     3, 5},
    {"NotOutside", "%at = tgk.add %r, 0 : u32\n%out = tgk.ge %r, %m : bool\n%ok = tgk.not %out : bool", 1},
    {"EqualToTheOnlyOne", "%at = tgk.add %r, 0 : u32\n%ok = tgk.eq %r, 0 : bool", 1},
    {"ByAnotherExtent", "%at = tgk.add %r, 8 : u32\n%m8 = tgk.mul %m, 8 : u32\n%ok = tgk.gt %m8, 72 : bool",
     6},
};

/// Where the guard stands: under the guard of the tail, alone, under one that says the opposite, or in a
/// loop.
const char* const kPlaces[] = {"tail", "alone", "otherwise", "loop"};

std::string guarded(const Guard& guard, const std::string& place) {
  const std::string load = R"(
      %wv = tgk.load %w[%at] : f32
      %e = tgk.sin %wv : f32
      %t = tgk.mul %v, %e : f32
      tgk.yield %t : f32
)";
  std::string value =
      fmt::format("{}\n%q = tgk.if %ok : f32 {{{}}} else {{\ntgk.yield %v : f32\n}}\n", guard.guard, load);
  if (place == "otherwise")
    value = fmt::format("{}\n%no = tgk.not %ok : bool\n%q = tgk.if %no : f32 {{\ntgk.yield %v : f32\n}} else "
                        "{{{}}}\n",
                        guard.guard, load);
  if (place == "loop")
    value =
        fmt::format("%q = tgk.for %k = 0 to(2) iter_args(%v2 = %v) : f32 {{\n{}\n%part = tgk.if %ok : f32 "
                    "{{{}}} else {{\ntgk.yield %v2 : f32\n}}\ntgk.yield %part : f32\n}}\n",
                    guard.guard, load);
  std::string body = "%v = tgk.load %x[%i] : f32\n" + value + "tgk.store %q, %y[%i]\n";
  if (place != "alone") body = "%in = tgk.lt %i, %n : bool\ntgk.if %in {\n" + body + "}\n";
  return R"(kernel @k(%x: buf<?xf32, in>, %w: buf<?xf32, in>, %p: buf<?xu32, in>, %y: buf<?xf32, out>)
    workgroup(4) grid(ceildiv(dim(%x, 0), 4)) {
  %i = tgk.global_id 0 : u32
  %r = tgk.workgroup_id 0 : u32
  %n = tgk.dim %x, 0 : u32
  %m = tgk.dim %w, 0 : u32
  %u = tgk.load %p[0] : u32
)" + body +
         "}";
}

TEST(KernelGradGuards, NoAccessLeavesItsGuard) {
  for (const Guard& guard : kGuards)
    for (const std::string place : kPlaces) {
      SCOPED_TRACE(std::string(guard.name) + " " + place);
      int64_t rows = place == "alone" ? 12 : 11;
      KernelGradCase test;
      test.text = guarded(guard, place);
      test.arrays = {{"x", drawn({rows}, 3)},
                     {"w", drawn({guard.weights}, 4)},
                     {"p", given({guard.loaded})},
                     {"y", room({rows})}};
      ASSERT_TRUE(expectKernelGradient(test));
    }
}

/// A matrix of which a loop in blocks of four takes a part past the end.
TEST(KernelGradGuards, TailOfABlockedProduct) {
  KernelGradCase test;
  test.text = R"(kernel @k(%a: buf<?x?xf32, in>, %w: buf<?xf32, in>, %y: buf<?xf32, out>)
      workgroup(4) grid(ceildiv(dim(%a, 0), 4)) {
    %i = tgk.global_id 0 : u32
    %n = tgk.dim %a, 0 : u32
    %kk = tgk.dim %a, 1 : u32
    %m = tgk.dim %w, 0 : u32
    %in = tgk.lt %i, %n : bool
    tgk.if %in {
      %s = tgk.for %k0 = 0 to(%kk) step(4) iter_args(%acc = 0.0) : f32 {
        %p = tgk.for %j = 0 to(4) iter_args(%b = %acc) : f32 {
          %k = tgk.add %k0, %j : u32
          %ok = tgk.lt %k, %m : bool
          %r = tgk.if %ok : f32 {
            %av = tgk.load %a[%i, %k] : f32
            %wv = tgk.load %w[%k] : f32
            %t = tgk.fma %av, %wv, %b : f32
            tgk.yield %t : f32
          } else {
            tgk.yield %b : f32
          }
          tgk.yield %r : f32
        }
        tgk.yield %p : f32
      }
      tgk.store %s, %y[%i]
    }
  })";
  test.arrays = {{"a", drawn({5, 6}, 5)}, {"w", drawn({6}, 6)}, {"y", room({5})}};
  expectKernelGradient(test);
}

/// Every invocation takes each `step`-th element of its row; `carried` makes the trips depend on each other.
std::string strided(int64_t step, bool carried) {
  return fmt::format(
      R"(kernel @k(%x: buf<?x?xf32, in>, %y: buf<?x?xf32, out>) workgroup({0}) grid(dim(%x, 0)) {{
  %l = tgk.local_id 0 : u32
  %r = tgk.workgroup_id 0 : u32
  %width = tgk.dim %x, 1 : u32
  %own = tgk.for %c = %l to(%width) step({0}) iter_args(%sum = 0.5) : f32 {{
    %v = tgk.load %x[%r, %c] : f32
    %p = tgk.fma %v, {1}, %v : f32
    %next = tgk.sin %p : f32
    tgk.yield %next : f32
  }}
  %total = tgk.workgroup_reduce %own {{kind = add}} : f32
  tgk.for %c = %l to(%width) step({0}) {{
    %v = tgk.load %x[%r, %c] : f32
    %o = tgk.mul %v, %total : f32
    tgk.store %o, %y[%r, %c]
  }}
}})",
      step, carried ? "%sum" : "0.25");
}

/// The most trips of a kernel's loops, of which every one is bounded.
int64_t mostTrips(const Item& kernel, const std::vector<Shape>& shapes) {
  IndexAnalysis analysis(kernel, &shapes);
  int64_t most = 0;
  walk(kernel.body, [&](Op& op) {
    if (op.code == Opcode::k_for) most = std::max(most, analysis.tripCount(op).value_or(INT64_MAX));
  });
  return most;
}

TEST(KernelGradStrides, DataNarrowerThanTheWorkgroup) {
  for (int64_t width : {1, 3, 4, 5, 9})
    for (bool carried : {false, true}) {
      SCOPED_TRACE(fmt::format("width {}, carried {}", width, carried));
      KernelGradCase test;
      test.checkpoint = width == 9 ? 2 : 0;
      test.text = strided(4, carried);
      test.arrays = {{"x", drawn({2, width}, 7)}, {"y", room({2, width})}};
      ASSERT_TRUE(expectKernelGradient(test));
      KernelGradCase second = secondDerivative(test);
      EXPECT_TRUE(expectKernelGradient(second));
    }
}

/// The reversed loops of first and second derivatives are bounded as tightly as the kernel's own.
TEST(KernelGradStrides, ReversedLoopsMakeNoMoreTrips) {
  for (int64_t width : {1, 7, 16, 17, 30, 48})
    for (const char* body : {"%l to(%w) step(16)", "%l to(%w)", "1 to(%l)", "%l to(16) step(3)"}) {
      SCOPED_TRACE(fmt::format("{} {}", width, body));
      auto module = parse(fmt::format(R"(module @m stage(kernel) {{
  kernel @k(%x: buf<?xf32, in>, %y: buf<16xf32, out>) workgroup(16) grid(1) {{
    %l = tgk.local_id 0 : u32
    %w = tgk.dim %x, 0 : u32
    %v = tgk.load %x[0] : f32
    %s = tgk.for %c = {} iter_args(%a = %v) : f32 {{
      %b = tgk.mul %a, %v : f32
      %n = tgk.sin %b : f32
      tgk.yield %n : f32
    }}
    tgk.store %s, %y[%l]
  }}
}})",
                                      body),
                          "strides.tgir");
      ASSERT_TRUE(module) << module.error().str();
      const Item& kernel = *(*module)->find(ItemKind::kernel, "k");
      int64_t most = mostTrips(kernel, {{width}, {16}});
      auto first = differentiateKernel(**module, kernel, {{}, {}, "k.vjp", 0});
      ASSERT_TRUE(first) << first.error().str();
      std::vector<Shape> shapes;
      for (size_t i = 0; i < first->params.size(); ++i) {
        auto shape = tapeShape(*first, static_cast<int>(i), kernel, {{width}, {16}});
        ASSERT_TRUE(shape) << shape.error().str();
        shapes.push_back(*shape);
      }
      EXPECT_LE(mostTrips(*first->kernel, shapes), most) << print(*first->kernel);
      auto second = differentiateKernel(**module, *first->kernel, {{}, {}, "k.vjp.vjp", 0});
      ASSERT_TRUE(second) << second.error().str();
      for (size_t i = 0; i < second->params.size(); ++i) {
        auto shape = tapeShape(*second, static_cast<int>(i), *first->kernel, shapes);
        ASSERT_TRUE(shape) << shape.error().str();
        EXPECT_LE((*shape)[0], std::max<int64_t>({most, width, 16})) << shape->str();
      }
    }
}

}  // namespace
}  // namespace tg::test
