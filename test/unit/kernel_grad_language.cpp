// SPDX-License-Identifier: Apache-2.0
// What the language has besides: functions, vectors, reductions, calls, integers in memory, nested loops.
#include <fmt/format.h>

#include <cmath>

#include "test/unit/kernel_grad_catalogue.h"

namespace tg::test {
namespace {

KernelGradCase make(std::string text, KernelArrays arrays) {
  KernelGradCase test;
  test.text = std::move(text);
  test.arrays = std::move(arrays);
  return test;
}

/// @k over 8 invocations in two workgroups: %x and %w are given, %o is made.
KernelGradCase map8(const std::string& body, const std::string& launch = "workgroup(4) grid(2)") {
  return make("kernel @k(%x: buf<8xf32, in>, %w: buf<3xf32, in>, %n: buf<8xu32, in>, %o: buf<8xf32, out>) " +
                  launch + " {\n%i = tgk.global_id 0 : u32\n%v = tgk.load %x[%i] : f32\n" + body + "\n}",
              {{"x", drawn({8}, 11)},
               {"w", given({0.75, -0.5, 1.25})},
               {"n", given({3, 0, 1, 4, 2, 0, 5, 1})},
               {"o", room({8})}});
}

std::vector<NamedKernelGrad> functions() {
  std::vector<NamedKernelGrad> out;
  auto add = [&](const std::string& op, const std::string& argument, bool smooth = true) {
    out.push_back({op,
                   map8(argument + fmt::format("\n%y = tgk.{} %a : f32\n%z = tgk.mul %y, %v : f32\n"
                                               "tgk.store %z, %o[%i]",
                                               op)),
                   smooth});
    out.back().name[0] = static_cast<char>(std::toupper(out.back().name[0]));
  };
  for (const char* op : {"sin", "cos", "atan", "sinh", "cosh", "tanh", "erf", "exp", "exp2", "expm1", "neg"})
    add(op, "%a = tgk.mul %v, 0.75 : f32");
  for (const char* op : {"tan", "asin", "acos"}) add(op, "%a = tgk.mul %v, 0.4 : f32");
  for (const char* op : {"log", "log1p", "log2", "sqrt", "rsqrt", "reciprocal"})
    add(op, "%a = tgk.fma %v, %v, 0.5 : f32");
  for (const char* op : {"abs", "sign", "floor", "ceil", "round", "trunc"})
    add(op, "%a = tgk.mul %v, 0.8125 : f32");
  auto binary = [&](const std::string& op) {
    out.push_back({op, map8(fmt::format(R"(%p = tgk.fma %v, %v, 0.5 : f32
%q = tgk.load %w[1] : f32
%y = tgk.{} %p, %q : f32
%z = tgk.mul %y, %v : f32
tgk.store %z, %o[%i])",
                                        op))});
    out.back().name[0] = static_cast<char>(std::toupper(out.back().name[0]));
  };
  for (const char* op : {"add", "sub", "mul", "div", "min", "max", "pow", "atan2"}) binary(op);
  out.push_back({"Fma", map8(R"(%a = tgk.load %w[0] : f32
%b = tgk.load %w[1] : f32
%y = tgk.fma %a, %v, %b : f32
%z = tgk.fma %y, %y, %y : f32
tgk.store %z, %o[%i])")});
  out.push_back({"BitsAreInactive", map8(R"(%b = tgk.bitcast %v : u32
%m = tgk.and %b, 1 : u32
%f = tgk.cast %m : f32
%c = tgk.bitcast %v : i32
%neg = tgk.lt %c, 0 : bool
%g = tgk.select %neg, %f, 2.0 : f32
%y = tgk.mul %g, %v : f32
tgk.store %y, %o[%i])"),
                 false});
  return out;
}

std::vector<NamedKernelGrad> vectors() {
  auto four = [](const std::string& body) {
    return make("kernel @k(%x: buf<4xvec4<f32>, in>, %s: buf<4xf32, in>, %o: buf<4xvec4<f32>, out>) "
                "workgroup(4) grid(1) {\n%i = tgk.global_id 0 : u32\n%v = tgk.load %x[%i] : vec4<f32>\n"
                "%f = tgk.load %s[%i] : f32\n" +
                    body + "\n}",
                {{"x", drawn({4}, 12, 4)}, {"s", drawn({4}, 13)}, {"o", room({4})}});
  };
  return {
      {"VectorByScalar", four(R"(%p = tgk.mul %v, %f : vec4<f32>
%q = tgk.fma %p, %v, %f : vec4<f32>
%t = tgk.tanh %q : vec4<f32>
tgk.store %t, %o[%i])")},
      {"VectorLanes", four(R"(%a = tgk.extract %v, 0 : f32
%b = tgk.extract %v, 3 : f32
%c = tgk.mul %a, %b : f32
%d = tgk.sin %c : f32
%u = tgk.vec %d, %a, 1.0, %f : vec4<f32>
%w = tgk.vec %f : vec4<f32>
%p = tgk.mul %u, %v : vec4<f32>
%q = tgk.mul %w, %p : vec4<f32>
tgk.store %q, %o[%i])")},
      {"VectorSelect", four(R"(%c = tgk.gt %v, 0.0 : vec4<bool>
%r = tgk.sqrt %v : vec4<f32>
%y = tgk.select %c, %r, %f : vec4<f32>
%g = tgk.gt %f, 0.5 : bool
%z = tgk.select %g, %y, %v : vec4<f32>
%m = tgk.max %z, %f : vec4<f32>
tgk.store %m, %o[%i])"),
       false},
      {"VectorCarried", four(R"(%h = tgk.for %k = 0 to(3) iter_args(%c = %v) : vec4<f32> {
  %p = tgk.mul %c, %v : vec4<f32>
  %q = tgk.fma %p, %f, %c : vec4<f32>
  %t = tgk.sin %q : vec4<f32>
  tgk.yield %t : vec4<f32>
}
tgk.store %h, %o[%i])")},
      {"VectorReduced", four(R"(%p = tgk.mul %v, %f : vec4<f32>
%q = tgk.workgroup_reduce %p : vec4<f32>
%r = tgk.mul %q, %v : vec4<f32>
tgk.store %r, %o[%i])")},
      {"VectorShared", four(R"(%m = tgk.shared : buf<4xvec4<f32>, shared>
tgk.store %v, %m[%i]
tgk.barrier
%j = tgk.xor %i, 1 : u32
%n = tgk.load %m[%j] : vec4<f32>
%p = tgk.mul %n, %v : vec4<f32>
%q = tgk.mul %p, %f : vec4<f32>
tgk.store %q, %o[%i])")},
      {"HalfStorage",
       [] {
         KernelGradCase test = make(
             R"(kernel @k(%x: buf<4xf16, in>, %s: buf<4xf16, inout>, %o: buf<4xf16, out>) workgroup(4) grid(1) {
  %i = tgk.global_id 0 : u32
  %v = tgk.load %x[%i] : f32
  %f = tgk.load %s[%i] : f32
  %p = tgk.mul %v, %f : f32
  tgk.store %p, %o[%i]
  %q = tgk.fma %p, %v, 0.5 : f32
  tgk.store %q, %s[%i]
})",
             {{"x", drawn({4}, 14)}, {"s", drawn({4}, 15)}, {"o", room({4})}});
         return test;
       }()},
  };
}

std::vector<NamedKernelGrad> reductions() {
  std::vector<NamedKernelGrad> out;
  for (const char* kind : {"add", "max", "min"})
    for (const char* scope : {"workgroup", "subgroup"})
      out.push_back({fmt::format("Reduce_{}_{}", scope, kind), map8(fmt::format(R"(%a = tgk.sin %v : f32
%r = tgk.{}_reduce %a {{kind = {}}} : f32
%b = tgk.mul %r, %v : f32
%s = tgk.{}_reduce %b {{kind = {}}} : f32
%y = tgk.fma %s, %r, %v : f32
tgk.store %y, %o[%i])",
                                                                                scope, kind, scope, kind))});
  out.push_back({"ReduceInALoop", map8(R"(%f = tgk.load %w[0] : f32
%h = tgk.for %k = 0 to(3) iter_args(%c = %v) : f32 {
  %s = tgk.workgroup_reduce %c : f32
  %m = tgk.mul %s, %f : f32
  %t = tgk.sub %c, %m : f32
  %u = tgk.sin %t : f32
  tgk.yield %u : f32
}
tgk.store %h, %o[%i])")});
  out.push_back({"SoftmaxOfAWorkgroup", map8(R"(%m = tgk.workgroup_reduce %v {kind = max} : f32
%d = tgk.sub %v, %m : f32
%e = tgk.exp %d : f32
%s = tgk.workgroup_reduce %e : f32
%y = tgk.div %e, %s : f32
tgk.store %y, %o[%i])")});
  KernelGradCase tied = map8(R"(%r = tgk.workgroup_reduce %v {kind = max} : f32
%y = tgk.mul %r, 2.0 : f32
tgk.store %y, %o[%i])");
  tied.arrays["x"] = given({1, 2, 2, 1, -1, -1, -1, -1});
  tied.cotangents["o"] = given({1, 2, 3, 4, 5, 6, 7, 8});
  tied.expected["x"] = given({0, 20, 0, 0, 52, 0, 0, 0});  // all to the first of those that have the maximum
  tied.differences = false;
  out.push_back({"ReduceTies", tied, false});
  out.push_back({"ShuffleSwap", map8(R"(%l = tgk.subgroup_lane : u32
%j = tgk.xor %l, 1 : u32
%a = tgk.sin %v : f32
%p = tgk.subgroup_shuffle %a, %j : f32
%y = tgk.mul %p, %v : f32
tgk.store %y, %o[%i])")});
  out.push_back({"ShuffleBroadcast", map8(R"(%p = tgk.subgroup_shuffle %v, 2 : f32
%l = tgk.subgroup_lane : u32
%h = tgk.shr %l, 1 : u32
%q = tgk.subgroup_shuffle %v, %h : f32
%r = tgk.mul %p, %q : f32
%y = tgk.mul %r, %v : f32
tgk.store %y, %o[%i])")});
  return out;
}

std::vector<NamedKernelGrad> nested() {
  return {
      {"NestedLoops", map8(R"(%f = tgk.load %w[0] : f32
%g = tgk.load %w[1] : f32
%r, %s = tgk.for %k = 1 to(7) step(2) iter_args(%a = %v, %b = %f) : f32, f32 {
  %c = tgk.for %m = 0 to(%k) iter_args(%d = %b) : f32 {
    %p = tgk.fma %d, %a, %g : f32
    %q = tgk.sin %p : f32
    tgk.yield %q : f32
  }
  %e = tgk.mul %c, %v : f32
  tgk.yield %c, %e : f32, f32
}
%y = tgk.add %r, %s : f32
tgk.store %y, %o[%i])")},
      {"TripsOfEachLane", map8(R"(%t = tgk.load %n[%i] : u32
%m = tgk.min %t, 8 : u32
%r = tgk.for %k = 0 to(%m) iter_args(%a = %v) : f32 {
  %j = tgk.mod %k, 3 : u32
  %f = tgk.load %w[%j] : f32
  %b = tgk.mul %a, %f : f32
  %c = tgk.cos %b : f32
  tgk.yield %c : f32
}
tgk.store %r, %o[%i])")},
      {"BranchInALoopOnTheCarried", map8(R"(%f = tgk.load %w[2] : f32
%r = tgk.for %k = 0 to(5) iter_args(%a = %v) : f32 {
  %c = tgk.gt %a, 0.3 : bool
  %b = tgk.if %c : f32 {
    %p = tgk.mul %a, -0.9 : f32
    %q = tgk.mul %p, %f : f32
    tgk.yield %q : f32
  } else {
    %p = tgk.mul %a, %a : f32
    %q = tgk.add %p, %v : f32
    tgk.yield %q : f32
  }
  tgk.yield %b : f32
}
tgk.store %r, %o[%i])")},
      {"SwappedCarried", map8(R"(%f = tgk.load %w[0] : f32
%r, %s = tgk.for %k = 0 to(5) iter_args(%a = %v, %b = %f) : f32, f32 {
  %p = tgk.mul %a, %b : f32
  tgk.yield %b, %p : f32, f32
}
%y = tgk.sub %r, %s : f32
tgk.store %y, %o[%i])")},
      {"CursorInMemory", map8(R"(%c = tgk.local : buf<1xu32, local>
tgk.store 0, %c[0]
%r = tgk.for %k = 0 to(4) iter_args(%a = 0.0) : f32 {
  %j = tgk.load %c[0] : u32
  %j3 = tgk.mod %j, 3 : u32
  %f = tgk.load %w[%j3] : f32
  %b = tgk.fma %f, %v, %a : f32
  %s = tgk.sin %b : f32
  %j2 = tgk.add %j, 2 : u32
  tgk.store %j2, %c[0]
  tgk.yield %s : f32
}
tgk.store 7, %c[0]
tgk.store %r, %o[%i])")},
      {"ConditionInMemory", map8(R"(%c = tgk.local : buf<2xf32, local>
tgk.store %v, %c[0]
tgk.store 1.0, %c[1]
tgk.for %k = 0 to(4) {
  %a = tgk.load %c[0] : f32
  %b = tgk.load %c[1] : f32
  %big = tgk.gt %a, 0.7 : bool
  tgk.if %big {
    %p = tgk.mul %a, -0.75 : f32
    tgk.store %p, %c[0]
    %q = tgk.mul %b, %a : f32
    tgk.store %q, %c[1]
  } else {
    %p = tgk.fma %a, %b, 0.8 : f32
    tgk.store %p, %c[0]
  }
}
tgk.store -100.0, %c[0]
%y = tgk.load %c[1] : f32
tgk.store %y, %o[%i])")},
      {"LoadsInsideStoredIndices", map8(R"(%c = tgk.local : buf<4xf32, local>
tgk.for %k = 0 to(4) {
  %f = tgk.cast %k : f32
  %p = tgk.mul %f, %v : f32
  tgk.store %p, %c[%k]
}
tgk.for %m = 0 to(6) {
  %j = tgk.mod %m, 4 : u32
  %t = tgk.load %n[%m] : u32
  %j2 = tgk.mod %t, 4 : u32
  %a = tgk.load %c[%j] : f32
  %b = tgk.load %c[%j2] : f32
  %p = tgk.mul %a, %b : f32
  %q = tgk.sin %p : f32
  tgk.store %q, %c[%j2]
}
%y0 = tgk.load %c[0] : f32
%y1 = tgk.load %c[1] : f32
%y2 = tgk.load %c[2] : f32
%y3 = tgk.load %c[3] : f32
%y01 = tgk.fma %y0, %y1, %y2 : f32
%y = tgk.add %y01, %y3 : f32
tgk.store %y, %o[%i])")},
      {"OldValueAsIndex",
       make(
           R"(kernel @k(%x: buf<8xf32, in>, %c: buf<4xu32, inout>, %o: buf<4xf32, out>) workgroup(4) grid(1) {
  %i = tgk.global_id 0 : u32
  %old = tgk.atomic_add 2, %c[%i] : u32
  %v = tgk.load %x[%old] : f32
  %s = tgk.sin %v : f32
  tgk.store %s, %o[%i]
})",
           {{"x", drawn({8}, 16)}, {"c", given({0, 1, 3, 5})}, {"o", room({4})}})},
      {"TwoAxes",
       make(
           R"(kernel @k(%x: buf<5x7xf32, in>, %w: buf<7xf32, in>, %o: buf<7x5xf32, out>) workgroup(2, 3) grid(3, 3) {
  %r = tgk.global_id 0 : u32
  %c = tgk.global_id 1 : u32
  %rn = tgk.dim %x, 0 : u32
  %cn = tgk.dim %x, 1 : u32
  %a = tgk.lt %r, %rn : bool
  %b = tgk.lt %c, %cn : bool
  %in = tgk.and %a, %b : bool
  tgk.if %in {
    %v = tgk.load %x[%r, %c] : f32
    %f = tgk.load %w[%c] : f32
    %p = tgk.mul %v, %f : f32
    %s = tgk.tanh %p : f32
    tgk.store %s, %o[%c, %r]
  }
})",
           {{"x", drawn({5, 7}, 17)}, {"w", drawn({7}, 18)}, {"o", room({7, 5})}})},
      {"UniformLoopOfPhases", map8(R"(%l = tgk.local_id 0 : u32
%s = tgk.shared : buf<4xf32, shared>
%c = tgk.shared : buf<4xu32, shared>
%l3 = tgk.add %l, 3 : u32
%j = tgk.mod %l3, 4 : u32
%t = tgk.load %n[0] : u32
%m = tgk.min %t, 4 : u32
%h = tgk.for %k = 0 to(%m) iter_args(%a = %v) : f32 {
  tgk.store %a, %s[%l]
  %lk = tgk.add %l, %k : u32
  tgk.store %lk, %c[%l]
  tgk.barrier
  %b = tgk.load %s[%j] : f32
  %d = tgk.load %c[%j] : u32
  %e = tgk.mod %d, 3 : u32
  %f = tgk.load %w[%e] : f32
  tgk.barrier
  %p = tgk.fma %b, %f, %a : f32
  %q = tgk.sin %p : f32
  tgk.yield %q : f32
}
tgk.store %h, %o[%i])")},
  };
}

std::vector<NamedKernelGrad> requests() {
  const std::string two =
      R"(kernel @k(%x: buf<4xf32, in>, %y: buf<4xf32, in>, %o: buf<4xf32, out>, %p: buf<4xf32, out>, %q: buf<2xf32, accum>) workgroup(4) grid(1) {
  %i = tgk.global_id 0 : u32
  %v = tgk.load %x[%i] : f32
  %w = tgk.load %y[%i] : f32
  %a = tgk.mul %v, %w : f32
  tgk.store %a, %o[%i]
  %b = tgk.sin %a : f32
  tgk.store %b, %p[%i]
  %j = tgk.mod %i, 2 : u32
  %c = tgk.mul %b, %v : f32
  tgk.atomic_add %c, %q[%j]
})";
  const KernelArrays arrays{
      {"x", drawn({4}, 20)}, {"y", drawn({4}, 21)}, {"o", room({4})}, {"p", room({4})}, {"q", room({2})}};
  auto asked = [&](std::vector<std::string> wrt, std::vector<std::string> of) {
    KernelGradCase test = make(two, arrays);
    test.wrt = std::move(wrt);
    test.of = std::move(of);
    return test;
  };
  return {{"AllResults", asked({}, {})},
          {"OneResult", asked({}, {"o"})},
          {"TwoResultsOneInput", asked({"y"}, {"p", "q"})},
          {"SumsAlone", asked({"x"}, {"q"})}};
}

std::vector<NamedKernelGrad> calls() {
  const std::string square = R"(func @bend(%x: f32, %w: f32) -> (y: f32, z: f32) {
  %p = tgk.mul %x, %w : f32
  %y = tgk.sin %p : f32
  %z = tgk.fma %y, %x, %w : f32
  return %y, %z : f32, f32
}
)";
  KernelGradCase called = map8(R"(%f = tgk.load %w[0] : f32
%a, %b = tgk.call @bend(%v, %f) : f32, f32
%c, %d = tgk.call @bend(%b, %a) : f32, f32
%y = tgk.mul %c, %d : f32
tgk.store %y, %o[%i])");
  called.text = square + called.text;
  KernelGradCase ruled = map8(R"(%y = tgk.call @step(%v) : f32
%z = tgk.mul %y, %v : f32
tgk.store %z, %o[%i])");
  ruled.text = R"(func @step(%x: f32) -> (y: f32) attributes {vjp = @step_vjp} {
  %y = tgk.floor %x : f32
  return %y : f32
}
func @step_vjp(%x: f32, %d_y: f32) -> (d_x: f32) {
  %d = tgk.mul %d_y, 3.0 : f32
  return %d : f32
}
)" + ruled.text;
  ruled.differences = false;
  ruled.cotangents["o"] = given({1, 1, 1, 1, 1, 1, 1, 1});
  KernelArray wanted = ruled.arrays["x"];
  for (double& v : wanted.values) v = std::floor(v) + 3 * v;
  ruled.expected["x"] = wanted;
  return {{"Calls", called}, {"CallWithItsOwnRule", ruled, false}};
}

}  // namespace

std::vector<NamedKernelGrad> languageKernels() {
  std::vector<NamedKernelGrad> out;
  for (auto&& group : {functions(), vectors(), reductions(), nested(), requests(), calls()})
    out.insert(out.end(), group.begin(), group.end());
  return out;
}

}  // namespace tg::test
