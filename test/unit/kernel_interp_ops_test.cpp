// SPDX-License-Identifier: Apache-2.0
// Each op of a kernel on the interpreter, at values where its definition shows.
#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "test/unit/kernel_text.h"

namespace tg::test {
namespace {

/// Runs `%r = OP %x, %y : TYPE` over pairs of words and returns the results' bits.
std::vector<uint32_t> resultsOf(const std::string& op, const std::string& type, const std::string& resultType,
                                const std::vector<std::pair<uint32_t, uint32_t>>& pairs, bool unary = false) {
  std::string n = std::to_string(pairs.size());
  bool boolean = resultType == "bool";
  auto module = kernels(
      "kernel @k(%x: buf<" + n + "x" + type + ", in>, %y: buf<" + n + "x" + type + ", in>, %o: buf<" + n +
      "x" + (boolean ? "u32" : resultType) + ", out>) workgroup(1) grid(" + n + ") {\n" +
      "%i = tgk.workgroup_id 0 : u32\n%a = tgk.load %x[%i] : " + type + "\n%b = tgk.load %y[%i] : " + type +
      "\n%r = " + op + (unary ? " %a : " : " %a, %b : ") + resultType + "\n" +
      (boolean ? "%u = tgk.cast %r : u32\ntgk.store %u, %o[%i]\n}" : "tgk.store %r, %o[%i]\n}"));
  std::vector<uint32_t> x, y;
  for (auto [a, b] : pairs) {
    x.push_back(a);
    y.push_back(b);
  }
  Memory memory{bytesOf(x), bytesOf(y), Memory::value_type(4 * pairs.size())};
  KernelCounters counters = run(verified(*module), memory);
  EXPECT_TRUE(counters.findings.empty());
  return valuesOf<uint32_t>(memory[2]);
}

const std::vector<uint32_t> kWords = {
    0, 1, 2, 3, 7, 31, 32, 33, 0x7fffffff, 0x80000000, 0x80000001, 0xfffffffe, 0xffffffff, 12345678};

std::vector<std::pair<uint32_t, uint32_t>> pairsOf(const std::vector<uint32_t>& words) {
  std::vector<std::pair<uint32_t, uint32_t>> out;
  for (uint32_t a : words)
    for (uint32_t b : words) out.emplace_back(a, b);
  return out;
}

using Pairs = std::vector<std::pair<uint32_t, uint32_t>>;

void expectWords(const std::string& op, const std::string& type, const std::string& resultType,
                 const std::function<uint32_t(uint32_t, uint32_t)>& meaning, bool unary = false) {
  Pairs pairs = pairsOf(kWords);
  auto got = resultsOf(op, type, resultType, pairs, unary);
  for (size_t i = 0; i < pairs.size(); ++i)
    EXPECT_EQ(got[i], meaning(pairs[i].first, pairs[i].second))
        << op << " " << type << " " << pairs[i].first << " " << pairs[i].second;
}

int64_t wide(uint32_t word) { return static_cast<int32_t>(word); }
uint32_t low(int64_t value) { return static_cast<uint32_t>(value); }

TEST(KernelInterpOps, IntegerArithmetic) {
  using U = uint32_t;
  for (std::string type : {"i32", "u32"}) {
    bool s = type == "i32";
    expectWords("tgk.add", type, type, [](U a, U b) { return low(int64_t{a} + int64_t{b}); });
    expectWords("tgk.sub", type, type, [](U a, U b) { return low(int64_t{a} - int64_t{b}); });
    expectWords("tgk.mul", type, type,
                [](U a, U b) { return low(static_cast<int64_t>(uint64_t{a} * uint64_t{b})); });
    if (!s)
      expectWords("tgk.mulhi", type, type, [](U a, U b) { return static_cast<U>(uint64_t{a} * b >> 32); });
    expectWords("tgk.div", type, type, [s](U a, U b) {
      return b == 0 ? (s ? 0 : UINT32_MAX) : s ? low(wide(a) / wide(b)) : a / b;
    });
    expectWords("tgk.mod", type, type, [s](U a, U b) {
      return b == 0 ? 0 : s ? low(wide(a) % wide(b)) : a % b;
    });
    expectWords("tgk.min", type, type,
                [s](U a, U b) { return s ? low(std::min(wide(a), wide(b))) : std::min(a, b); });
    expectWords("tgk.max", type, type,
                [s](U a, U b) { return s ? low(std::max(wide(a), wide(b))) : std::max(a, b); });
    expectWords("tgk.and", type, type, [](U a, U b) { return a & b; });
    expectWords("tgk.or", type, type, [](U a, U b) { return a | b; });
    expectWords("tgk.xor", type, type, [](U a, U b) { return a ^ b; });
    expectWords("tgk.shl", type, type,
                [](U a, U b) { return low(static_cast<int64_t>(uint64_t{a} << (b % 32))); });
    expectWords("tgk.shr", type, type,
                [s](U a, U b) { return s ? low(wide(a) >> (b % 32)) : a >> (b % 32); });
    expectWords("tgk.lt", type, "bool", [s](U a, U b) -> U { return s ? wide(a) < wide(b) : a < b; });
    expectWords("tgk.le", type, "bool", [s](U a, U b) -> U { return s ? wide(a) <= wide(b) : a <= b; });
    expectWords("tgk.gt", type, "bool", [s](U a, U b) -> U { return s ? wide(a) > wide(b) : a > b; });
    expectWords("tgk.ge", type, "bool", [s](U a, U b) -> U { return s ? wide(a) >= wide(b) : a >= b; });
    expectWords("tgk.eq", type, "bool", [](U a, U b) -> U { return a == b; });
    expectWords("tgk.ne", type, "bool", [](U a, U b) -> U { return a != b; });
    expectWords(
        "tgk.neg", type, type, [](U a, U) { return low(-int64_t{a}); }, true);
    expectWords(
        "tgk.abs", type, type, [s](U a, U) { return s ? low(std::abs(wide(a))) : a; }, true);
    expectWords(
        "tgk.sign", type, type, [s](U a, U) { return s ? low((wide(a) > 0) - (wide(a) < 0)) : U{a != 0}; },
        true);
    expectWords(
        "tgk.not", type, type, [](U a, U) { return ~a; }, true);
    expectWords(
        "tgk.cast", type, "bool", [](U a, U) -> U { return a != 0; }, true);
    expectWords(
        "tgk.cast", type, "f32",
        [s](U a, U) { return std::bit_cast<U>(s ? static_cast<float>(wide(a)) : static_cast<float>(a)); },
        true);
    expectWords(
        "tgk.bitcast", type, "f32", [](U a, U) { return a; }, true);
  }
}

const std::vector<float> kFloats = {0.0f,
                                    -0.0f,
                                    1.0f,
                                    -1.5f,
                                    0.3f,
                                    3.7f,
                                    -2.2f,
                                    1e30f,
                                    1e-30f,
                                    88.0f,
                                    std::numeric_limits<float>::infinity(),
                                    std::numeric_limits<float>::quiet_NaN()};

void expectFloats(const std::string& op, const std::function<double(double, double)>& exact,
                  bool unary = false) {
  std::vector<uint32_t> words;
  for (float value : kFloats) words.push_back(std::bit_cast<uint32_t>(value));
  Pairs pairs = pairsOf(words);
  auto got = resultsOf(op, "f32", "f32", pairs, unary);
  for (size_t i = 0; i < pairs.size(); ++i) {
    float a = std::bit_cast<float>(pairs[i].first), b = std::bit_cast<float>(pairs[i].second),
          r = std::bit_cast<float>(got[i]);
    auto want = static_cast<float>(exact(a, b));
    if (std::isnan(want))
      EXPECT_TRUE(std::isnan(r)) << op << " " << a << " " << b;
    else
      EXPECT_EQ(got[i], std::bit_cast<uint32_t>(want))
          << op << " " << a << " " << b << " = " << r << ", not " << want;
  }
}

TEST(KernelInterpOps, FloatsAreRoundedOnce) {
  double nan = std::nan("");
  expectFloats("tgk.add", [](double a, double b) { return a + b; });
  expectFloats("tgk.sub", [](double a, double b) { return a - b; });
  expectFloats("tgk.mul", [](double a, double b) { return a * b; });
  expectFloats("tgk.div", [](double a, double b) { return a / b; });
  expectFloats("tgk.min", [&](double a, double b) {
    return std::isnan(a + b) && (std::isnan(a) || std::isnan(b)) ? nan : b < a ? b : a;
  });
  expectFloats("tgk.max", [&](double a, double b) {
    return std::isnan(a) || std::isnan(b) ? nan : b > a ? b : a;
  });
  expectFloats("tgk.pow", [](double a, double b) { return std::pow(a, b); });
  expectFloats(
      "tgk.neg", [](double a, double) { return -a; }, true);
  expectFloats(
      "tgk.abs", [](double a, double) { return std::abs(a); }, true);
  expectFloats(
      "tgk.sign", [](double a, double) { return a > 0   ? 1.0
                                                : a < 0 ? -1.0
                                                        : 0.0; }, true);
  expectFloats(
      "tgk.floor", [](double a, double) { return std::floor(a); }, true);
  expectFloats(
      "tgk.sqrt", [](double a, double) { return std::sqrt(a); }, true);
  expectFloats(
      "tgk.rsqrt", [](double a, double) { return 1 / std::sqrt(a); }, true);
  expectFloats(
      "tgk.exp", [](double a, double) { return std::exp(a); }, true);
  expectFloats(
      "tgk.log", [](double a, double) { return std::log(a); }, true);
}

TEST(KernelInterpOps, FloatComparisonsAndCasts) {
  Pairs pairs;
  for (float a : kFloats)
    for (float b : kFloats) pairs.emplace_back(std::bit_cast<uint32_t>(a), std::bit_cast<uint32_t>(b));
  auto check = [&](const std::string& op, const std::string& type, auto meaning, bool unary) {
    auto got = resultsOf(op, "f32", type, pairs, unary);
    for (size_t i = 0; i < pairs.size(); ++i)
      EXPECT_EQ(got[i], static_cast<uint32_t>(meaning(std::bit_cast<float>(pairs[i].first),
                                                      std::bit_cast<float>(pairs[i].second))))
          << op << i;
  };
  check(
      "tgk.lt", "bool", [](float a, float b) { return a < b; }, false);
  check(
      "tgk.ge", "bool", [](float a, float b) { return a >= b; }, false);
  check(
      "tgk.eq", "bool", [](float a, float b) { return a == b; }, false);
  check(
      "tgk.ne", "bool", [](float a, float b) { return a != b; }, false);
  check(
      "tgk.cast", "bool", [](float a, float) { return a != 0; }, true);
  check(
      "tgk.bitcast", "u32", [](float a, float) { return std::bit_cast<uint32_t>(a); }, true);
  pairs.clear();
  for (float a : {0.0f, 0.9f, -0.9f, 7.99f, -7.99f, 100000.5f, -2147483648.0f})
    pairs.emplace_back(std::bit_cast<uint32_t>(a), 0);
  check(
      "tgk.cast", "i32", [](float a, float) { return static_cast<int32_t>(a); }, true);
}

TEST(KernelInterpOps, BitsOfIntegers) {
  using U = uint32_t;
  auto bit = [](U word, int at) { return word >> at & 1u; };
  for (std::string type : {"i32", "u32"}) {
    auto unary = [&](const std::string& op, const std::function<U(U)>& meaning) {
      expectWords(
          op, type, type, [&](U a, U) { return meaning(a); }, true);
    };
    unary("tgk.popcount", [&](U a) {
      U count = 0;
      for (int at = 0; at < 32; ++at) count += bit(a, at);
      return count;
    });
    unary("tgk.clz", [&](U a) {
      int at = 31;
      while (at >= 0 && !bit(a, at)) --at;
      return static_cast<U>(31 - at);
    });
    unary("tgk.ctz", [&](U a) {
      int at = 0;
      while (at < 32 && !bit(a, at)) ++at;
      return static_cast<U>(at);
    });
    unary("tgk.reverse_bits", [&](U a) {
      U out = 0;
      for (int at = 0; at < 32; ++at) out = out * 2 + bit(a, at);
      return out;
    });
    unary("tgk.stop_gradient", [](U a) { return a; });
  }
  EXPECT_EQ(resultsOf("tgk.reverse_bits", "u32", "u32", {{0x12345678, 0}}, true)[0], 0x1e6a2c48u);
  EXPECT_EQ(resultsOf("tgk.clz", "i32", "i32", {{0, 0}, {1, 0}, {0xffffffff, 0}}, true),
            (std::vector<U>{32, 31, 0}));
}

TEST(KernelInterpOps, UnsignedRotatesAndSaturates) {
  using U = uint32_t;
  const U most = 0xffffffff;
  auto turned = [](U a, U left) {
    for (U step = 0; step < left % 32; ++step) a = a * 2 + (a >> 31);
    return a;
  };
  expectWords("tgk.rotl", "u32", "u32", turned);
  expectWords("tgk.rotr", "u32", "u32", [&](U a, U b) { return turned(a, 32 - b % 32); });
  expectWords("tgk.add_sat", "u32", "u32",
              [&](U a, U b) { return static_cast<U>(std::min<uint64_t>(uint64_t{a} + b, most)); });
  expectWords("tgk.sub_sat", "u32", "u32",
              [](U a, U b) { return low(std::max<int64_t>(int64_t{a} - int64_t{b}, 0)); });
  expectWords("tgk.mul_sat", "u32", "u32",
              [&](U a, U b) { return static_cast<U>(std::min<uint64_t>(uint64_t{a} * b, most)); });
  expectWords("tgk.abs_diff", "u32", "u32", [](U a, U b) { return low(std::abs(int64_t{a} - int64_t{b})); });
}

TEST(KernelInterpOps, FunctionsAreRoundedOnce) {
  auto unary = [](const std::string& op, double (*exact)(double)) {
    expectFloats(
        "tgk." + op, [exact](double a, double) { return exact(a); }, true);
  };
  unary("ceil", std::ceil);
  unary("trunc", std::trunc);
  unary("exp2", std::exp2);
  unary("log2", std::log2);
  unary("log1p", std::log1p);
  unary("expm1", std::expm1);
  unary("sin", std::sin);
  unary("cos", std::cos);
  unary("tan", std::tan);
  unary("asin", std::asin);
  unary("acos", std::acos);
  unary("atan", std::atan);
  unary("sinh", std::sinh);
  unary("cosh", std::cosh);
  unary("tanh", std::tanh);
  unary("erf", std::erf);
  unary("reciprocal", [](double a) { return 1 / a; });
  unary("stop_gradient", [](double a) { return a; });
}

std::vector<uint32_t> bitsOf(const std::vector<float>& values) { return valuesOf<uint32_t>(bytesOf(values)); }

TEST(KernelInterpOps, RoundGoesToTheEvenOneAtATie) {
  const std::vector<float> x{0.5f, 1.5f, 2.5f, -0.5f, -1.5f, 0.49999997f, 3.7f, -3.2f, 8388609.0f};
  Pairs pairs;
  for (uint32_t word : bitsOf(x)) pairs.emplace_back(word, 0);
  EXPECT_EQ(resultsOf("tgk.round", "f32", "f32", pairs, true),
            bitsOf({0.0f, 2.0f, 2.0f, -0.0f, -2.0f, 0.0f, 4.0f, -3.0f, 8388609.0f}));
}

TEST(KernelInterpOps, TestsOfFloats) {
  const float inf = std::numeric_limits<float>::infinity(), most = std::numeric_limits<float>::max();
  Pairs pairs;
  for (uint32_t word : bitsOf({0.0f, -1.5f, most, inf, -inf, std::nanf("")})) pairs.emplace_back(word, 0);
  using Words = std::vector<uint32_t>;
  EXPECT_EQ(resultsOf("tgk.isnan", "f32", "bool", pairs, true), (Words{0, 0, 0, 0, 0, 1}));
  EXPECT_EQ(resultsOf("tgk.isinf", "f32", "bool", pairs, true), (Words{0, 0, 0, 1, 1, 0}));
  EXPECT_EQ(resultsOf("tgk.isfinite", "f32", "bool", pairs, true), (Words{1, 1, 1, 0, 0, 0}));
}

TEST(KernelInterpOps, BitcastKeepsEveryBit) {
  Pairs pairs;
  for (uint32_t word : {0u, 0x80000000u, 1u, 0x7f800000u, 0x7fc0beefu, 0xffffffffu, 0x3f800000u})
    pairs.emplace_back(word, 0);
  for (std::string type : {"i32", "u32"}) {
    auto floats = resultsOf("tgk.bitcast", type, "f32", pairs, true);
    for (size_t at = 0; at < pairs.size(); ++at) EXPECT_EQ(floats[at], pairs[at].first);
    EXPECT_EQ(resultsOf("tgk.bitcast", "f32", type, pairs, true), floats);
  }
}

TEST(KernelInterpOps, FunctionsWorkOnVectors) {
  auto module =
      kernels(R"(kernel @k(%x: buf<2xvec2<f32>, in>, %o: buf<2xvec2<f32>, out>) workgroup(2) grid(1) {
    %i = tgk.global_id 0 : u32
    %v = tgk.load %x[%i] : vec2<f32>
    %t = tgk.tanh %v : vec2<f32>
    %nan = tgk.isnan %t : vec2<bool>
    %r = tgk.select %nan, 7.0, %t : vec2<f32>
    tgk.store %r, %o[%i]
  })");
  std::vector<float> x{0.5f, std::nanf(""), -20.0f, 0.0f};
  runAll(verified(*module), {bytesOf(x), Memory::value_type(16)}, [](const Memory& memory) {
    EXPECT_EQ(valuesOf<float>(memory[1]),
              (std::vector<float>{static_cast<float>(std::tanh(0.5)), 7.0f, -1.0f, 0.0f}));
  });
}

}  // namespace
}  // namespace tg::test
