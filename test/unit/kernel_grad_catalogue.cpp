// SPDX-License-Identifier: Apache-2.0
// Straight code, branches, loops and memory of one invocation.
#include "test/unit/kernel_grad_catalogue.h"

#include <random>

namespace tg::test {

KernelArray given(std::vector<double> values) {
  Shape shape{static_cast<int64_t>(values.size())};
  return {shape, std::move(values)};
}
KernelArray given(Shape shape, std::vector<double> values) { return {shape, std::move(values)}; }
KernelArray room(Shape shape) { return {shape, {}}; }

KernelArray drawn(Shape shape, int seed, int lanes) {
  std::mt19937_64 random(static_cast<uint64_t>(seed));
  KernelArray out{shape, {}};
  for (int64_t i = 0; i < shape.elements() * lanes; ++i) {
    double steps = static_cast<double>(random() % 128);  // in 64ths, so that f16 holds them
    out.values.push_back((steps - 64 + (steps < 64 ? 0 : 1)) / 32 + 1.0 / 128);
  }
  return out;
}

namespace {

/// One kernel @k over 4 invocations of one workgroup, whose body sees its id as %i.
std::string lanes4(const std::string& params, const std::string& body) {
  return "kernel @k(" + params + ") workgroup(4) grid(1) {\n%i = tgk.global_id 0 : u32\n" + body + "\n}";
}
/// The same with a single invocation.
std::string lane1(const std::string& params, const std::string& body) {
  return "kernel @k(" + params + ") workgroup(1) grid(1) {\n" + body + "\n}";
}

KernelGradCase map4(const std::string& body, std::vector<double> gradient, std::vector<double> x = kX) {
  KernelGradCase test;
  test.text = lanes4("%x: buf<?xf32, in>, %o: buf<?xf32, out>", body);
  test.arrays = {{"x", given(std::move(x))}, {"o", room({4})}};
  test.cotangents = {{"o", given({1, 1, 1, 1})}};
  test.expected = {{"x", given(std::move(gradient))}};
  return test;
}

/// The same text with other parameters, values and answers.
KernelGradCase kernelCase(std::string text, KernelArrays arrays, KernelArrays expected,
                          KernelArrays cotangents, std::vector<std::string> wrt = {},
                          std::vector<std::string> of = {}) {
  KernelGradCase test;
  test.text = std::move(text);
  test.arrays = std::move(arrays);
  test.expected = std::move(expected);
  test.cotangents = std::move(cotangents);
  test.wrt = std::move(wrt);
  test.of = std::move(of);
  return test;
}

const std::string kLoad = "%v = tgk.load %x[%i] : f32\n";
const std::string kLocal = "%a = tgk.local : buf<1xf32, local>\n";

std::vector<NamedKernelGrad> straight() {
  return {
      {"Square", map4(kLoad + "%y = tgk.mul %v, %v : f32\ntgk.store %y, %o[%i]", {3, 4, -6, 1})},
      {"SquareOfTwoLoads",
       map4("%p = tgk.load %x[%i] : f32\n%q = tgk.load %x[%i] : f32\n%y = tgk.mul %p, %q : f32\n"
            "tgk.store %y, %o[%i]",
            {3, 4, -6, 1})},
      {"SquareThroughALocal", map4(kLocal + kLoad + R"(tgk.store %v, %a[0]
%p = tgk.load %a[0] : f32
%q = tgk.load %a[0] : f32
%y = tgk.mul %p, %q : f32
tgk.store %y, %o[%i])",
                                   {3, 4, -6, 1})},
      {"GuardedByTheExtent", map4(R"(%j = tgk.add %i, 0 : u32
%n = tgk.dim %o, 0 : u32
%in = tgk.lt %j, %n : bool
tgk.if %in {
  %p = tgk.load %x[%j] : f32
  %q = tgk.load %x[%j] : f32
  %y = tgk.mul %p, %q : f32
  tgk.store %y, %o[%j]
})",
                                  {3, 4, -6, 1})},
      {"ReassignedLocal", map4(kLocal + kLoad + R"(tgk.store %v, %a[0]
%b = tgk.load %a[0] : f32
%c = tgk.mul %b, 3.0 : f32
tgk.store %c, %a[0]
%d = tgk.load %a[0] : f32
tgk.store %d, %o[%i])",
                               {3, 3, 3, 3})},
      {"OverwrittenLocal", map4(kLocal + kLoad + R"(tgk.store %v, %a[0]
tgk.store 5.0, %a[0]
%d = tgk.load %a[0] : f32
tgk.store %d, %o[%i])",
                                {0, 0, 0, 0})},
      {"TruncationHasNoSlope", map4(kLoad + R"(%n = tgk.cast %v : u32
%f = tgk.cast %n : f32
tgk.store %f, %o[%i])",
                                    {0, 0, 0, 0}, {1.5, 2.25, 3.75, 0.5})},
      {"TimesTheIndex", map4(kLoad + R"(%f = tgk.cast %i : f32
%y = tgk.mul %v, %f : f32
tgk.store %y, %o[%i])",
                             {0, 1, 2, 3})},
      {"ComparisonsAreInactive", map4(kLoad + R"(%c = tgk.gt %v, 0.0 : bool
tgk.if %c {
  %y = tgk.mul %v, %v : f32
  tgk.store %y, %o[%i]
} else {
  %z = tgk.mul %v, -2.0 : f32
  tgk.store %z, %o[%i]
})",
                                      {3, 4, -2, 1})},
      {"BranchResult", map4(kLoad + R"(%c = tgk.gt %v, 0.0 : bool
%y = tgk.if %c : f32 {
  %s = tgk.mul %v, %v : f32
  tgk.yield %s : f32
} else {
  %e = tgk.exp %v : f32
  tgk.yield %e : f32
}
%w = tgk.mul %y, %v : f32
tgk.store %w, %o[%i])",
                            {3 * 2.25, 12, std::exp(-3.0) * -2, 0.75})},
      {"MinimumOfTwins", map4(kLoad + "%y = tgk.min %v, %v : f32\ntgk.store %y, %o[%i]", {1, 1, 1, 1})},
      {"MaximumOfTwins", map4(kLoad + "%y = tgk.max %v, %v : f32\ntgk.store %y, %o[%i]", {1, 1, 1, 1})},
      {"StopGradient",
       [] {
         KernelGradCase test = map4(kLoad + R"(%s = tgk.stop_gradient %v : f32
%y = tgk.mul %s, %v : f32
tgk.store %y, %o[%i])",
                                    kX);
         test.differences = false;  // they see the stopped factor move
         return test;
       }(),
       false},
      {"MaskedSquareRoot",
       map4(kLoad + R"(%c = tgk.gt %v, 0.0 : bool
%r = tgk.sqrt %v : f32
%y = tgk.select %c, %r, 0.0 : f32
tgk.store %y, %o[%i])",
            {0.25, 0, 0, 1.0 / 6}, {4, -1, 0, 9}),
       false},
      {"MaskedThroughAChain",
       map4(kLoad + R"(%c = tgk.gt %v, 0.0 : bool
%l = tgk.log %v : f32
%r = tgk.sqrt %l : f32
%q = tgk.mul %r, %r : f32
%y = tgk.select %c, %q, %v : f32
tgk.store %y, %o[%i])",
            {0.25, 1, 1, 1.0 / 9}, {4, -1, 0, 9}),
       false},
      {"MaskedDivision",
       [] {
         KernelGradCase test = map4(kLoad + R"(%c = tgk.ne %v, 0.0 : bool
%r = tgk.div 1.0, %v : f32
%y = tgk.select %c, %r, 0.0 : f32
tgk.store %y, %o[%i])",
                                    {-1.0 / 16, -1, 0, -1.0 / 81}, {4, -1, 0, 9});
         test.differences = false;  // across the pole they are huge, and the same on both sides
         return test;
       }(),
       false},
  };
}

std::vector<NamedKernelGrad> loops() {
  auto sum = [](const std::string& text) {
    return kernelCase(text, {{"x", given(kX)}, {"o", room({1})}}, {{"x", given({1, 1, 1, 1})}},
                      {{"o", given({1})}});
  };
  auto cube = [](const std::string& text) {
    return kernelCase(text, {{"x", given({2})}, {"o", room({1})}}, {{"x", given({12})}}, {{"o", given({1})}});
  };
  const std::string params = "%x: buf<?xf32, in>, %o: buf<?xf32, out>";
  return {
      {"SumLoop", sum(lane1(params, R"(%s = tgk.for %k = 0 to(4) iter_args(%acc = 0.0) : f32 {
  %v = tgk.load %x[%k] : f32
  %n = tgk.add %acc, %v : f32
  tgk.yield %n : f32
}
tgk.store %s, %o[0])"))},
      {"SumLoopInALocal", sum(lane1(params, kLocal + R"(tgk.store 0.0, %a[0]
tgk.for %k = 0 to(4) {
  %v = tgk.load %x[%k] : f32
  %b = tgk.load %a[0] : f32
  %n = tgk.add %b, %v : f32
  tgk.store %n, %a[0]
}
%s = tgk.load %a[0] : f32
tgk.store %s, %o[0])"))},
      {"SumLoopAccumulated", sum(lane1(params, kLocal + R"(tgk.store 0.0, %a[0]
tgk.for %k = 0 to(4) {
  %v = tgk.load %x[%k] : f32
  tgk.accumulate %v, %a[0]
}
%s = tgk.load %a[0] : f32
tgk.store %s, %o[0])"))},
      {"ProductLoop", cube(lane1(params, R"(%s = tgk.for %k = 0 to(3) iter_args(%p = 1.0) : f32 {
  %v = tgk.load %x[0] : f32
  %n = tgk.mul %p, %v : f32
  tgk.yield %n : f32
}
tgk.store %s, %o[0])"))},
      {"ProductLoopInALocal", cube(lane1(params, kLocal + R"(tgk.store 1.0, %a[0]
tgk.for %k = 0 to(3) {
  %v = tgk.load %x[0] : f32
  %p = tgk.load %a[0] : f32
  %n = tgk.mul %p, %v : f32
  tgk.store %n, %a[0]
}
%s = tgk.load %a[0] : f32
tgk.store %s, %o[0])"))},
      {"OneLaneStoresForAll",
       kernelCase(R"(kernel @k(%x: buf<?xf32, in>, %o: buf<?xf32, out>) workgroup(3) grid(1) {
%i = tgk.global_id 0 : u32
%first = tgk.eq %i, 0 : bool
tgk.if %first {
  %a = tgk.local : buf<1xf32, local>
  tgk.for %k = 0 to(3) {
    %v = tgk.load %x[%k] : f32
    tgk.store %v, %a[0]
    %t = tgk.load %a[0] : f32
    %d = tgk.mul %t, 2.0 : f32
    tgk.store %d, %o[%k]
  }
}
})",
                  {{"x", given({1.5, 2, -3})}, {"o", room({3})}}, {{"x", given({2, 2, 2})}},
                  {{"o", given({1, 1, 1})}})},
      {"WeightedStores",
       kernelCase(
           lane1("%x: buf<?xf32, in>, %w: buf<?xf32, in>, %o: buf<?xf32, out>", R"(tgk.for %k = 0 to(4) {
  %v = tgk.load %x[%k] : f32
  %u = tgk.load %w[%k] : f32
  %y = tgk.mul %v, %u : f32
  tgk.store %y, %o[%k]
})"),
           {{"x", given(kX)}, {"w", given({10, 20, 30, 40})}, {"o", room({4})}},
           {{"x", given({10, 20, 30, 40})}, {"w", given(kX)}}, {{"o", given({1, 1, 1, 1})}})},
      {"IntegerLoopOverwrites",
       kernelCase(lane1("%x: buf<1xf32, in>, %last: buf<1xu32, inout>, %o: buf<1xf32, out>",
                        R"(tgk.for %k = 0 to(4) {
  tgk.store %k, %last[0]
}
%v = tgk.load %x[0] : f32
%y = tgk.mul %v, 2.0 : f32
tgk.store %y, %o[0])"),
                  {{"x", given({1.5})}, {"last", given({7})}, {"o", room({1})}}, {{"x", given({2})}},
                  {{"o", given({1})}})},
      {"IntegerTag", kernelCase(lanes4("%x: buf<?xf32, in>, %tag: buf<4xu32, out>, %o: buf<?xf32, out>",
                                       R"(%j = tgk.mod %i, 2 : u32
tgk.store %j, %tag[%i]
%v = tgk.load %x[%i] : f32
%y = tgk.mul %v, 2.0 : f32
tgk.store %y, %o[%i])"),
                                {{"x", given(kX)}, {"tag", room({4})}, {"o", room({4})}},
                                {{"x", given({2, 2, 2, 2})}}, {{"o", given({1, 1, 1, 1})}})},
  };
}

/// `params` declares %t, 4 elements, in three modes; `decl` makes it where it is no parameter.
struct Scratch {
  std::string name, params, decl;
  bool bound, tape;
};
const Scratch kScratch[] = {{"Tape", ", %t: buf<?xf32, tape>", "", true, true},
                            {"Inout", ", %t: buf<?xf32, inout>", "", true, false},
                            {"Shared", "", "%t = tgk.shared : buf<4xf32, shared>\n", false, false},
                            {"Local", "", "%t = tgk.local : buf<4xf32, local>\n", false, false}};

void addScratch(KernelGradCase& test, const Scratch& scratch) {
  if (!scratch.bound) return;
  test.arrays["t"] = scratch.tape ? room({4}) : given({0.25, -0.75, 1.25, 2.5});
  test.wrt = {"x"};
  test.of = {"o"};
}

std::vector<NamedKernelGrad> memory() {
  std::vector<NamedKernelGrad> out;
  const std::string params = "%x: buf<?xf32, in>, %o: buf<?xf32, out>";
  for (const Scratch& scratch : kScratch) {
    auto add = [&](const std::string& name, KernelGradCase test) {
      addScratch(test, scratch);
      out.push_back({name + scratch.name, std::move(test)});
    };
    add("Chain",
        kernelCase(lane1(params + scratch.params, scratch.decl + R"(%v = tgk.load %x[0] : f32
tgk.store %v, %t[0]
tgk.for %k = 0 to(3) {
  %k1 = tgk.add %k, 1 : u32
  %p = tgk.load %t[%k] : f32
  %d = tgk.mul %p, 2.0 : f32
  tgk.store %d, %t[%k1]
}
%y = tgk.load %t[3] : f32
tgk.store %y, %o[0])"),
                   {{"x", given({1.5})}, {"o", room({1})}}, {{"x", given({8})}}, {{"o", given({1})}}));
    auto four = [&](const std::string& body, std::vector<double> gradient) {
      KernelGradCase test = map4(kLoad + body, std::move(gradient));
      test.text = lanes4(params + scratch.params, scratch.decl + kLoad + body);
      return test;
    };
    add("Stored", four(R"(%q = tgk.mul %v, %v : f32
tgk.store %q, %t[%i]
%r = tgk.load %t[%i] : f32
%y = tgk.mul %r, 2.0 : f32
tgk.store %y, %o[%i])",
                       {6, 8, -12, 2}));
    add("OverwrittenAfterUse", four(R"(tgk.store %v, %t[%i]
%p = tgk.load %t[%i] : f32
%q = tgk.load %t[%i] : f32
%y = tgk.mul %p, %q : f32
tgk.store %y, %o[%i]
tgk.store 5.0, %t[%i])",
                                    {3, 4, -6, 1}));
    add("SquaredInPlaceTwice", four(R"(tgk.store %v, %t[%i]
tgk.for %k = 0 to(2) {
  %p = tgk.load %t[%i] : f32
  %q = tgk.mul %p, %p : f32
  tgk.store %q, %t[%i]
}
%y = tgk.load %t[%i] : f32
tgk.store %y, %o[%i])",
                                    {13.5, 32, -108, 0.5}));
  }
  return out;
}

std::vector<NamedKernelGrad> inouts() {
  const KernelArrays ones{{"s", given({1, 1, 1, 1})}};
  auto test = [&](const std::string& params, const std::string& body, KernelArrays arrays,
                  KernelArrays expected) {
    arrays["s"] = given({0.25, -0.75, 1.25, 2.5});
    return kernelCase(lanes4(params, body), std::move(arrays), std::move(expected), ones);
  };
  return {
      {"SquaredInPlace", test("%x: buf<4xf32, in>, %s: buf<4xf32, inout>", kLoad + R"(tgk.store %v, %s[%i]
%p = tgk.load %s[%i] : f32
%q = tgk.load %s[%i] : f32
%y = tgk.mul %p, %q : f32
tgk.store %y, %s[%i])",
                              {{"x", given(kX)}}, {{"x", given({3, 4, -6, 1})}, {"s", given({0, 0, 0, 0})}})},
      {"SecondStoreWins",
       test("%x: buf<4xf32, in>, %y: buf<4xf32, in>, %s: buf<4xf32, inout>", kLoad + R"(tgk.store %v, %s[%i]
%w = tgk.load %y[%i] : f32
tgk.store %w, %s[%i])",
            {{"x", given(kX)}, {"y", given({1, 2, 3, 4})}},
            {{"x", given({0, 0, 0, 0})}, {"y", given({1, 1, 1, 1})}, {"s", given({0, 0, 0, 0})}})},
      {"DoubledInPlace", test("%s: buf<4xf32, inout>", R"(%v = tgk.load %s[%i] : f32
%y = tgk.mul %v, 2.0 : f32
tgk.store %y, %s[%i])",
                              {}, {{"s", given({2, 2, 2, 2})}})},
      {"AddedInPlace", test("%x: buf<4xf32, in>, %s: buf<4xf32, inout>", kLoad + R"(%y = tgk.mul %v, %v : f32
tgk.accumulate %y, %s[%i])",
                            {{"x", given(kX)}}, {{"x", given({3, 4, -6, 1})}, {"s", given({1, 1, 1, 1})}})},
      {"PartlyOverwritten", test("%s: buf<4xf32, inout>", R"(%v = tgk.load %s[%i] : f32
%c = tgk.lt %i, 2 : bool
tgk.if %c {
  %y = tgk.mul %v, %v : f32
  tgk.store %y, %s[%i]
})",
                                 {}, {{"s", given({0.5, -1.5, 1, 1})}})},
  };
}

}  // namespace

std::vector<NamedKernelGrad> privateKernels() {
  std::vector<NamedKernelGrad> out;
  for (auto&& group : {straight(), loops(), memory(), inouts()})
    out.insert(out.end(), group.begin(), group.end());
  return out;
}

std::vector<NamedKernelGrad> kernelGradCatalogue() {
  std::vector<NamedKernelGrad> out;
  for (auto&& group : {privateKernels(), barrierKernels(), tileKernels(), languageKernels()})
    out.insert(out.end(), group.begin(), group.end());
  return out;
}

}  // namespace tg::test
