// SPDX-License-Identifier: Apache-2.0
// Kernels in f64: formulas of doubles come out to the last bit, and central differences are good to 1e-9.
#include <bit>
#include <cmath>
#include <limits>

#include "ir/scalar.h"
#include "test/unit/kernel_text.h"

namespace tg::test {
namespace {

/// Runs in f64 under every schedule, expecting no finding.
void runWide(const std::string& text, const Memory& memory, const std::function<void(const Memory&)>& check) {
  auto module = kernels(text);
  for (KernelRunOptions options : schedules()) {
    options.wide = true;
    Memory copy = memory;
    KernelCounters counters = run(verified(*module), copy, options);
    EXPECT_TRUE(counters.findings.empty()) << counters.findings.front();
    check(copy);
  }
}

/// `%r = OP : TYPE` of %a and %b for pairs of doubles.
template <class T = double>
std::vector<T> wideOf(const std::string& op, const std::vector<std::pair<double, double>>& pairs,
                      const std::string& type = "f32") {
  std::string n = std::to_string(pairs.size());
  std::vector<double> x, y;
  for (auto [a, b] : pairs) {
    x.push_back(a);
    y.push_back(b);
  }
  std::vector<T> out;
  runWide(
      "kernel @k(%x: buf<" + n + "xf32, in>, %y: buf<" + n + "xf32, in>, %o: buf<" + n + "x" + type +
          ", out>) workgroup(1) grid(" + n +
          ") {\n%i = tgk.global_id 0 : u32\n%a = tgk.load %x[%i] : f32\n%b = tgk.load %y[%i] : f32\n%r = " +
          op + " : " + type + "\ntgk.store %r, %o[%i]\n}",
      {bytesOf(x), bytesOf(y), Memory::value_type(pairs.size() * sizeof(T))},
      [&](const Memory& memory) { out = valuesOf<T>(memory[2]); });
  return out;
}

const double kTenth = 0.1f;  // what the literal 0.1 of a text is

const std::vector<std::pair<double, double>> kPairs = {
    {0.1, 0.3}, {0.7, -0.2}, {0.99, 1e-40}, {1e-300, 1e300}, {0.123456789012345, 2.5}};

void expectFormula(const std::string& op, const std::function<double(double, double)>& formula) {
  auto got = wideOf(op, kPairs);
  for (size_t at = 0; at < kPairs.size(); ++at)
    EXPECT_EQ(got[at], formula(kPairs[at].first, kPairs[at].second)) << op << " " << kPairs[at].first;
}

TEST(KernelInterpWide, ArithmeticIsOfDoubles) {
  expectFormula("tgk.add %a, %b", [](double a, double b) { return a + b; });
  expectFormula("tgk.sub %a, %b", [](double a, double b) { return a - b; });
  expectFormula("tgk.mul %a, %b", [](double a, double b) { return a * b; });
  expectFormula("tgk.div %a, %b", [](double a, double b) { return a / b; });
  expectFormula("tgk.min %a, %b", [](double a, double b) { return a < b ? a : b; });
  expectFormula("tgk.max %a, %b", [](double a, double b) { return a < b ? b : a; });
  expectFormula("tgk.pow %a, %b", [](double a, double b) { return std::pow(a, b); });
  expectFormula("tgk.atan2 %a, %b", [](double a, double b) { return std::atan2(a, b); });
  expectFormula("tgk.fma %a, %b, 0.1", [](double a, double b) { return std::fma(a, b, kTenth); });
  expectFormula("tgk.neg %b", [](double, double b) { return -b; });
  expectFormula("tgk.abs %b", [](double, double b) { return std::fabs(b); });
  expectFormula("tgk.sign %b", [](double, double b) { return b > 0 ? 1.0 : -1.0; });
  expectFormula("tgk.add %a, 0.1", [](double a, double) { return a + kTenth; });
}

TEST(KernelInterpWide, FunctionsAreOfDoubles) {
  std::pair<const char*, double (*)(double)> rows[] = {
      {"sqrt", std::sqrt},  {"exp", std::exp},     {"log", std::log},         {"exp2", std::exp2},
      {"log2", std::log2},  {"sin", std::sin},     {"cos", std::cos},         {"tan", std::tan},
      {"asin", std::asin},  {"acos", std::acos},   {"atan", std::atan},       {"sinh", std::sinh},
      {"cosh", std::cosh},  {"tanh", std::tanh},   {"erf", std::erf},         {"floor", std::floor},
      {"ceil", std::ceil},  {"trunc", std::trunc}, {"round", std::nearbyint}, {"log1p", std::log1p},
      {"expm1", std::expm1}};
  for (const auto& [name, function] : rows)
    expectFormula(std::string("tgk.") + name + " %a",
                  [function = function](double a, double) { return function(a); });
  expectFormula("tgk.rsqrt %a", [](double a, double) { return 1 / std::sqrt(a); });
  expectFormula("tgk.reciprocal %b", [](double, double b) { return 1 / b; });
  expectFormula("tgk.stop_gradient %a", [](double a, double) { return a; });
}

TEST(KernelInterpWide, CastsTestsAndBits) {
  std::vector<std::pair<double, double>> big{{2147483646.75, 0}, {-1.5, 0}, {1e300, 0}, {16777217.0, 0}};
  EXPECT_EQ(wideOf<int32_t>("tgk.cast %a", big, "i32"),
            (std::vector<int32_t>{2147483646, -1, 2147483647, 16777217}));
  EXPECT_EQ(wideOf<uint32_t>("tgk.cast %a", big, "u32"),
            (std::vector<uint32_t>{2147483646, 0, 4294967295u, 16777217}));
  EXPECT_EQ(wideOf<uint32_t>("tgk.bitcast %a", {{0.1, 0}, {1e300, 0}, {-0.0, 0}}, "u32"),
            (std::vector<uint32_t>{0x3dcccccd, 0x7f800000, 0x80000000}));
  runWide(R"(kernel @k(%x: buf<3xu32, in>, %o: buf<3x4xf32, out>) workgroup(3) grid(1) {
    %i = tgk.local_id 0 : u32
    %v = tgk.load %x[%i] : u32
    %f = tgk.bitcast %v : f32
    %c = tgk.cast %v : f32
    %inf = tgk.isinf %f : bool
    %big = tgk.mul %c, 1e38 : f32
    %still = tgk.isfinite %big : bool
    %both = tgk.and %inf, %still : bool
    %s = tgk.select %both, 0.1, %f : f32
    %n = tgk.cast %both : f32
    tgk.store %f, %o[%i, 0]
    tgk.store %c, %o[%i, 1]
    tgk.store %s, %o[%i, 2]
    tgk.store %n, %o[%i, 3]
  })",
          {bytesOf<uint32_t>({0x3dcccccd, 0x7f800000, 0x80000001}), Memory::value_type(96)},
          [](const Memory& memory) {
            const double inf = std::numeric_limits<double>::infinity(), tiny = -0x1p-149;
            EXPECT_EQ(valuesOf<double>(memory[1]),
                      (std::vector<double>{kTenth, 1036831949.0, kTenth, 0, inf, 2139095040.0, kTenth, 1,
                                           tiny, 2147483649.0, tiny, 0}));
          });
}

TEST(KernelInterpWide, MemoryIsOfDoublesAndIntegersKeepTheirSize) {
  runWide(
      R"(kernel @k(%x: buf<2xvec2<f32>, in>, %h: buf<4xf16, inout>, %n: buf<3xi32, inout>, %a: buf<1xf32, accum>,
      %o: buf<2xvec2<f32>, out>) workgroup(2) grid(2) {
    %i = tgk.local_id 0 : u32
    %g = tgk.global_id 0 : u32
    %w = tgk.workgroup_id 0 : u32
    %s = tgk.shared : buf<2xvec2<f32>, shared>
    %t = tgk.shared : buf<3xi32, shared>
    %p = tgk.local : buf<1xf32, local>
    %v = tgk.load %x[%i] : vec2<f32>
    tgk.store %v, %s[%i]
    %k = tgk.cast %i : i32
    tgk.store %k, %t[%i]
    tgk.barrier
    %j = tgk.sub 1, %i : u32
    %u = tgk.load %s[%j] : vec2<f32>
    %m = tgk.load %t[%j] : i32
    %e = tgk.extract %u, 1 : f32
    tgk.store %e, %p[0]
    %q = tgk.load %p[0] : f32
    tgk.atomic_add %q, %a[0]
    %old = tgk.load %h[%g] : f32
    %third = tgk.div %old, 3.0 : f32
    tgk.store %third, %h[%g]
    tgk.atomic_add %m, %n[%i]
    %first = tgk.eq %w, 0 : bool
    tgk.if %first {
      tgk.store %u, %o[%i]
    }
  })",
      {bytesOf<double>({0.1, 0.2, 0.3, 0.4}), bytesOf<double>({1, 0.1, 1e300, -7}),
       bytesOf<int32_t>({5, 6, 7}), Memory::value_type(8), Memory::value_type(32)},
      [](const Memory& memory) {
        EXPECT_EQ(valuesOf<double>(memory[1]), (std::vector<double>{1.0 / 3, 0.1 / 3, 1e300 / 3, -7.0 / 3}));
        EXPECT_EQ(valuesOf<int32_t>(memory[2]), (std::vector<int32_t>{7, 6, 7}));
        EXPECT_NEAR(valuesOf<double>(memory[3])[0], 1.2, 1e-15);
        EXPECT_EQ(valuesOf<double>(memory[4]), (std::vector<double>{0.3, 0.4, 0.1, 0.2}));
      });
}

TEST(KernelInterpWide, ReductionsAndAtomicsOfDoubles) {
  runWide(R"(kernel @k(%x: buf<4xf32, in>, %y: buf<4xf32, inout>, %o: buf<5xf32, out>) workgroup(4) grid(1) {
    %i = tgk.local_id 0 : u32
    %v = tgk.load %x[%i] : f32
    %a = tgk.workgroup_reduce %v : f32
    %b = tgk.subgroup_reduce %v {kind = mul} : f32
    %c = tgk.subgroup_shuffle %v, 2 : f32
    %old = tgk.atomic_exchange %v, %y[%i] : f32
    %same = tgk.atomic_compare_exchange %v, 0.1, %y[%i] : f32
    tgk.accumulate 0.1, %y[%i]
    %first = tgk.eq %i, 0 : bool
    tgk.if %first {
      tgk.store %a, %o[0]
      tgk.store %b, %o[1]
      tgk.store %c, %o[2]
      tgk.store %old, %o[3]
      tgk.store %same, %o[4]
    }
  })",
          {bytesOf<double>({0.1, 0.2, 0.3, 0.7}), bytesOf<double>({0.9, 0, 0, 0}), Memory::value_type(40)},
          [](const Memory& memory) {
            EXPECT_EQ(valuesOf<double>(memory[1]), (std::vector<double>(4, kTenth + kTenth)));
            EXPECT_EQ(valuesOf<double>(memory[2]),
                      (std::vector<double>{(0.1 + 0.3) + (0.2 + 0.7), 0.1 * 0.2 * 0.3 * 0.7, 0.3, 0.9, 0.1}));
          });
}

TEST(KernelInterpWide, ExactSumsTakeRoundedTerms) {
  runWide(R"(kernel @k(%s: buf<1x11xi32, inout>, %o: buf<1xf32, out>) workgroup(1) grid(1) {
    tgk.exact_store 0.1, %s[0]
    tgk.exact_add 0.1, %s[0]
    %v = tgk.exact_load %s[0] : f32
    tgk.store %v, %o[0]
  })",
          {Memory::value_type(44), Memory::value_type(8)},
          [](const Memory& memory) { EXPECT_EQ(valuesOf<double>(memory[1])[0], double{2 * 0.1f}); });
}

TEST(KernelInterpWide, RacesAndBoundsAreSeen) {
  auto module = kernels(R"(kernel @k(%x: buf<4xf32, inout>) workgroup(4) grid(1) {
    %l = tgk.local_id 0 : u32
    %j = tgk.add %l, 1 : u32
    %v = tgk.load %x[%j] : f32
    tgk.store %v, %x[%l]
    %s = tgk.shared : buf<4xf32, shared>
    %u = tgk.load %s[%l] : f32
  })");
  for (KernelRunOptions options : schedules()) {
    options.wide = true;
    Memory memory{Memory::value_type(32)};
    KernelCounters counters = run(verified(*module), memory, options);
    EXPECT_GE(counters.races, 3);
    EXPECT_EQ(counters.outOfRange, 1);
    EXPECT_EQ(counters.uninitialised, 4);
  }
  std::vector<std::byte> narrow(16);
  std::vector<KernelBuffer> buffers{{narrow.data(), 16}};
  KernelRunOptions options;
  options.wide = true;
  auto result = runKernel(verified(*module), buffers, {1, 1, 1}, options);
  ASSERT_FALSE(result);
  EXPECT_NE(result.error().message().find("%x needs 32 bytes, 16 are given"), std::string::npos);
}

/// What wide is for: a recurrence's gradient by central differences.
TEST(KernelInterpWide, CentralDifferencesAreGoodTo1em9) {
  auto module = kernels(R"(kernel @k(%w: buf<1xf32, in>, %o: buf<?xf32, out>) workgroup(1) grid(1) {
    %v = tgk.load %w[0] : f32
    %h = tgk.for %t = 0 to(6) iter_args(%p = 0.3) : f32 {
      %z = tgk.fma %v, %p, 0.2 : f32
      %y = tgk.tanh %z : f32
      tgk.yield %y : f32
    }
    tgk.store %h, %o[0]
  })");
  KernelRunOptions options;
  options.wide = true;
  auto value = [&](double w) {
    Memory memory{bytesOf<double>({w}), Memory::value_type(8)};
    run(verified(*module), memory, options);
    return valuesOf<double>(memory[1])[0];
  };
  const double w = 0.8, step = 1e-5;
  double h = 0.3f, dh = 0;
  for (int t = 0; t < 6; ++t) {
    double y = std::tanh(std::fma(w, h, double{0.2f}));
    dh = (1 - y * y) * (h + w * dh);
    h = y;
  }
  EXPECT_EQ(value(w), h);
  EXPECT_NEAR((value(w + step) - value(w - step)) / (2 * step), dh, 1e-9);
}

}  // namespace
}  // namespace tg::test
