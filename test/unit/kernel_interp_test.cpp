// Kernels on the interpreter: what they compute, under every schedule, and what it reports of wrong ones.
#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "test/unit/kernel_text.h"

namespace tg::test {
namespace {

TEST(KernelInterp, GuardedMap) {
  auto module =
      kernels(R"(kernel @k(%a: buf<1xf32, in>, %x: buf<?xf32, in>, %o: buf<?xf32, out>) workgroup(8) grid(2) {
    %i = tgk.global_id 0 : u32
    %n = tgk.dim %o, 0 : u32
    %in = tgk.lt %i, %n : bool
    tgk.if %in {
      %av = tgk.load %a[0] : f32
      %xv = tgk.load %x[%i] : f32
      %r = tgk.fma %av, %xv, 0.1 : f32
      tgk.store %r, %o[%i]
    }
  })");
  std::vector<float> x;
  for (int i = 0; i < 13; ++i) x.push_back(1.0f / static_cast<float>(i + 3));
  runAll(verified(*module), {bytesOf<float>({1.7f}), bytesOf(x), Memory::value_type(13 * 4)},
         [&](const Memory& memory) {
           auto o = valuesOf<float>(memory[2]);
           for (size_t i = 0; i < x.size(); ++i) EXPECT_EQ(o[i], std::fma(1.7f, x[i], 0.1f));
         });
}

TEST(KernelInterp, SharedTreeAndWorkgroupIds) {
  auto module =
      kernels(R"(kernel @k(%x: buf<3x16xf32, in>, %o: buf<3xf32, out>) workgroup(16, 1, 1) grid(3, 1, 1) {
    %l = tgk.local_id 0 : u32
    %r = tgk.workgroup_id 0 : u32
    %s = tgk.shared : buf<16xf32, shared>
    %v = tgk.load %x[%r, %l] : f32
    tgk.store %v, %s[%l]
    tgk.barrier
    tgk.for %k = 0 to(4) {
      %w = tgk.shr 8, %k : u32
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
  })");
  std::vector<float> x, sums(3, 0.0f);
  for (int i = 0; i < 48; ++i) {
    x.push_back(static_cast<float>(i * i % 17));  // small integers: every order of summation is exact
    sums[static_cast<size_t>(i) / 16] += x.back();
  }
  runAll(verified(*module), {bytesOf(x), Memory::value_type(12)},
         [&](const Memory& memory) { EXPECT_EQ(valuesOf<float>(memory[1]), sums); });
}

TEST(KernelInterp, WorkgroupReduceOfAnySize) {
  auto module = kernels(R"(kernel @k(%x: buf<12xi32, in>, %o: buf<4x12xi32, out>) workgroup(4, 3) grid(1) {
    %c = tgk.local_id 0 : u32
    %r = tgk.local_id 1 : u32
    %r4 = tgk.mul %r, 4 : u32
    %i = tgk.add %r4, %c : u32
    %v = tgk.load %x[%i] : i32
    %sum = tgk.workgroup_reduce %v : i32
    %most = tgk.workgroup_reduce %v {kind = max} : i32
    %least = tgk.workgroup_reduce %v {kind = min} : i32
    %ones = tgk.workgroup_reduce 1 : i32
    tgk.store %sum, %o[0, %i]
    tgk.store %most, %o[1, %i]
    tgk.store %least, %o[2, %i]
    tgk.store %ones, %o[3, %i]
  })");
  std::vector<int32_t> x{5, -7, 3, 900, -2, 8, 8, -1000, 44, 6, 0, 1}, expected;
  int32_t sum = 0;
  for (int32_t v : x) sum += v;
  for (int32_t value : {sum, 900, -1000, 12})
    for (int lane = 0; lane < 12; ++lane) expected.push_back(value);
  runAll(verified(*module), {bytesOf(x), Memory::value_type(4 * 12 * 4)},
         [&](const Memory& memory) { EXPECT_EQ(valuesOf<int32_t>(memory[1]), expected); });
}

TEST(KernelInterp, ReduceKeepsNanAndFixedOrder) {
  auto module = kernels(R"(kernel @k(%x: buf<6xf32, in>, %o: buf<2xf32, out>) workgroup(6) grid(1) {
    %l = tgk.local_id 0 : u32
    %v = tgk.load %x[%l] : f32
    %sum = tgk.workgroup_reduce %v : f32
    %inv = tgk.div 0.0, %v : f32
    %most = tgk.workgroup_reduce %inv {kind = max} : f32
    %z = tgk.eq %l, 3 : bool
    tgk.if %z {
      tgk.store %sum, %o[0]
      tgk.store %most, %o[1]
    }
  })");
  std::vector<float> x{1e8f, 1.25f, -1e8f, 0.0f, 3.5f, 7.1f};
  float pairs = (x[0] + x[4]) + x[2], rest = (x[1] + x[5]) + x[3];  // halves of 8: 0+4 1+5, 0+2 1+3, 0+1
  runAll(verified(*module), {bytesOf(x), Memory::value_type(8)}, [&](const Memory& memory) {
    auto o = valuesOf<float>(memory[1]);
    EXPECT_EQ(o[0], pairs + rest);
    EXPECT_TRUE(std::isnan(o[1]));  // 0/0 of one invocation
  });
}

TEST(KernelInterp, CarriedValuesSwap) {
  auto module = kernels(R"(kernel @k(%o: buf<32xu32, out>) workgroup(32) grid(1) {
    %i = tgk.global_id 0 : u32
    %a, %b = tgk.for %k = 0 to(%i) iter_args(%p = 0, %q = 1) : u32, u32 {
      %s = tgk.add %p, %q : u32
      tgk.yield %q, %s : u32, u32
    }
    %c, %d = tgk.for %k2 = 1 to(%i) step(3) iter_args(%e = %a, %f = %b) : u32, u32 {
      tgk.yield %f, %e : u32, u32
    }
    tgk.store %c, %o[%i]
  })");
  std::vector<uint32_t> expected;
  for (uint32_t i = 0; i < 32; ++i) {
    uint32_t p = 0, q = 1;
    for (uint32_t k = 0; k < i; ++k) {
      p += q;
      std::swap(p, q);
    }
    for (uint32_t k = 1; k < i; k += 3) std::swap(p, q);
    expected.push_back(p);
  }
  runAll(verified(*module), {Memory::value_type(128)},
         [&](const Memory& memory) { EXPECT_EQ(valuesOf<uint32_t>(memory[0]), expected); });
}

TEST(KernelInterp, IfResultsVectorsAndLocals) {
  auto module = kernels(
      R"(kernel @k(%x: buf<4xvec4<f32>, in, texel>, %o: buf<4xvec4<f32>, out>, %p: buf<4xf32, out>)
      workgroup(4) grid(1) {
    %i = tgk.global_id 0 : u32
    %v = tgk.load %x[%i] : vec4<f32>
    %two = tgk.vec 2.0 : vec4<f32>
    %w = tgk.mul %v, %two : vec4<f32>
    %m = tgk.lt %w, 3.0 : vec4<bool>
    %s = tgk.select %m, %w, -1.0 : vec4<f32>
    %odd = tgk.and %i, 1 : u32
    %isOdd = tgk.cast %odd : bool
    %r = tgk.if %isOdd : vec4<f32> {
      %l = tgk.local : buf<4xf32, local>
      tgk.for %k = 0 to(4) {
        %kf = tgk.cast %k : f32
        tgk.store %kf, %l[%k]
      }
      %l1 = tgk.load %l[1] : f32
      %l3 = tgk.load %l[3] : f32
      %mixed = tgk.vec %l3, %l1, 0.5, %l3 : vec4<f32>
      tgk.yield %mixed : vec4<f32>
    } else {
      tgk.yield %s : vec4<f32>
    }
    tgk.store %r, %o[%i]
    %z = tgk.extract %r, 2 : f32
    tgk.store %z, %p[%i]
  })");
  std::vector<float> x, o, p;
  for (int i = 0; i < 16; ++i) x.push_back(static_cast<float>(i) * 0.25f);
  for (int i = 0; i < 4; ++i) {
    std::array<float, 4> r{3, 1, 0.5f, 3};
    if (i % 2 == 0)
      for (int lane = 0; lane < 4; ++lane) {
        float w = 2 * x[static_cast<size_t>(4 * i + lane)];
        r[static_cast<size_t>(lane)] = w < 3 ? w : -1;
      }
    o.insert(o.end(), r.begin(), r.end());
    p.push_back(r[2]);
  }
  runAll(verified(*module), {bytesOf(x), Memory::value_type(64), Memory::value_type(16)},
         [&](const Memory& memory) {
           EXPECT_EQ(valuesOf<float>(memory[1]), o);
           EXPECT_EQ(valuesOf<float>(memory[2]), p);
         });
}

/// Runs `%r = OP %x, %y : TYPE` over pairs of words and returns the results' bits.
std::vector<uint32_t> evaluate(const std::string& op, const std::string& type, const std::string& resultType,
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
  auto got = evaluate(op, type, resultType, pairs, unary);
  for (size_t i = 0; i < pairs.size(); ++i)
    EXPECT_EQ(got[i], meaning(pairs[i].first, pairs[i].second))
        << op << " " << type << " " << pairs[i].first << " " << pairs[i].second;
}

int64_t wide(uint32_t word) { return static_cast<int32_t>(word); }
uint32_t low(int64_t value) { return static_cast<uint32_t>(value); }

TEST(KernelInterp, IntegerArithmetic) {
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
  auto got = evaluate(op, "f32", "f32", pairs, unary);
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

TEST(KernelInterp, FloatsAreRoundedOnce) {
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

TEST(KernelInterp, FloatComparisonsAndCasts) {
  Pairs pairs;
  for (float a : kFloats)
    for (float b : kFloats) pairs.emplace_back(std::bit_cast<uint32_t>(a), std::bit_cast<uint32_t>(b));
  auto check = [&](const std::string& op, const std::string& type, auto meaning, bool unary) {
    auto got = evaluate(op, "f32", type, pairs, unary);
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

TEST(KernelInterp, AtomicsFromAllWorkgroups) {
  auto module = kernels(R"(kernel @k(%f: buf<2xf32, accum>, %n: buf<2xi32, accum>) workgroup(8) grid(5) {
    %i = tgk.global_id 0 : u32
    %s = tgk.shared : buf<2xu32, shared>
    %l = tgk.local_id 0 : u32
    %b = tgk.lt %l, 2 : bool
    tgk.if %b {
      tgk.store 0, %s[%l]
    }
    tgk.barrier
    %odd = tgk.and %i, 1 : u32
    tgk.atomic_add 3, %s[%odd]
    tgk.barrier
    tgk.if %b {
      %sum = tgk.load %s[%l] : u32
      %isum = tgk.cast %sum : i32
      tgk.atomic_add %isum, %n[%l]
    }
    %v = tgk.cast %i : f32
    tgk.atomic_add %v, %f[%odd]
  })");
  runAll(verified(*module), {bytesOf<float>({0, 0}), bytesOf<int32_t>({0, -1})}, [&](const Memory& memory) {
    EXPECT_EQ(valuesOf<float>(memory[0]),
              (std::vector<float>{380, 400}));  // sums of the even and odd below 40
    EXPECT_EQ(valuesOf<int32_t>(memory[1]), (std::vector<int32_t>{60, 59}));
  });
}

// Wrong kernels: each must be found under every schedule, whatever it happens to compute.

void expectFound(const std::string& text, Memory memory,
                 const std::function<void(const KernelCounters&)>& check) {
  auto module = kernels(text);
  for (const KernelRunOptions& options : schedules()) {
    Memory copy = memory;
    KernelCounters counters = run(verified(*module), copy, options);
    check(counters);
    EXPECT_FALSE(counters.findings.empty());
  }
}

TEST(KernelInterp, OutOfRangeIsCountedAndHarmless) {
  auto module = kernels(R"(kernel @k(%x: buf<2x3xf32, in>, %o: buf<4xf32, out>) workgroup(1) grid(1) {
    %w = tgk.num_workgroups 0 : u32
    %i = tgk.add %w, 2 : u32
    %v = tgk.load %x[0, %i] : f32
    %one = tgk.add %v, 1.0 : f32
    tgk.store %one, %o[%i]
    %j = tgk.cast %w : i32
    %m = tgk.sub %j, 2 : i32
    tgk.store 9.0, %o[%m]
  })");
  for (const KernelRunOptions& options : schedules()) {
    Memory memory{bytesOf<float>({1, 2, 3, 4, 5, 6}), bytesOf<float>({0, 0, 0, 0})};
    KernelCounters counters = run(verified(*module), memory, options);
    EXPECT_EQ(counters.outOfRange, 2);  // row 0 has no column 3, although the bytes exist; and index -1
    EXPECT_EQ(valuesOf<float>(memory[1]), (std::vector<float>{0, 0, 0, 1}));
    ASSERT_EQ(counters.findings.size(), 2u);
    EXPECT_NE(counters.findings[0].find("%x: index [0, 3] is out of range"), std::string::npos)
        << counters.findings[0];
    EXPECT_NE(counters.findings[1].find("%o: index [-1] is out of range"), std::string::npos)
        << counters.findings[1];
  }
}

std::string sharedNeighbour(const std::string& between) {
  return R"(kernel @k(%o: buf<8xu32, out>) workgroup(8) grid(1) {
    %s = tgk.shared : buf<8xu32, shared>
    %l = tgk.local_id 0 : u32
    tgk.store %l, %s[%l]
    )" + between +
         R"(
    %j = tgk.xor %l, 1 : u32
    %v = tgk.load %s[%j] : u32
    tgk.store %v, %o[%l]
  })";
}

TEST(KernelInterp, MissingBarrierIsARace) {
  expectFound(sharedNeighbour(""), {Memory::value_type(32)},
              [](const KernelCounters& c) { EXPECT_GE(c.races, 4); });
  auto module = kernels(sharedNeighbour("tgk.barrier"));
  runAll(verified(*module), {Memory::value_type(32)}, [](const Memory& memory) {
    EXPECT_EQ(valuesOf<uint32_t>(memory[0]), (std::vector<uint32_t>{1, 0, 3, 2, 5, 4, 7, 6}));
  });
}

TEST(KernelInterp, ReadThenWriteIsARace) {
  expectFound(R"(kernel @k(%x: buf<8xf32, inout>) workgroup(8) grid(1) {
    %l = tgk.local_id 0 : u32
    %j = tgk.xor %l, 1 : u32
    %v = tgk.load %x[%j] : f32
    tgk.store %v, %x[%l]
  })",
              {Memory::value_type(32)}, [](const KernelCounters& c) { EXPECT_GE(c.races, 4); });
}

TEST(KernelInterp, WorkgroupsAreNeverOrdered) {
  expectFound(R"(kernel @k(%x: buf<2xf32, inout>) workgroup(1) grid(2) {
    %g = tgk.workgroup_id 0 : u32
    tgk.store 1.0, %x[%g]
    tgk.barrier
    %j = tgk.xor %g, 1 : u32
    %v = tgk.load %x[%j] : f32
  })",
              {Memory::value_type(8)}, [](const KernelCounters& c) { EXPECT_GE(c.races, 1); });
}

TEST(KernelInterp, AtomicBesideLoadIsARace) {
  expectFound(R"(kernel @k(%x: buf<1xi32, inout>, %o: buf<4xi32, out>) workgroup(4) grid(1) {
    %l = tgk.local_id 0 : u32
    tgk.atomic_add 1, %x[0]
    %v = tgk.load %x[0] : i32
    tgk.store %v, %o[%l]
  })",
              {Memory::value_type(4), Memory::value_type(16)},
              [](const KernelCounters& c) { EXPECT_GE(c.races, 3); });
}

TEST(KernelInterp, OverlappingBuffersRaceUnderTwoNames) {
  auto module = kernels(R"(kernel @k(%x: buf<8xf32, in>, %o: buf<8xf32, out>) workgroup(8) grid(1) {
    %l = tgk.local_id 0 : u32
    %v = tgk.load %x[%l] : f32
    tgk.store %v, %o[%l]
  })");
  std::vector<std::byte> bytes(9 * 4);
  for (const KernelRunOptions& options : schedules())
    for (int64_t shift : {0, 4}) {  // element by element in place is fine, one apart is not
      std::vector<KernelBuffer> buffers{{bytes.data(), 32}, {bytes.data() + shift, 32}};
      auto counters = runKernel(verified(*module), buffers, {1, 1, 1}, options);
      ASSERT_TRUE(counters);
      EXPECT_EQ(counters->races > 0, shift != 0);
    }
}

TEST(KernelInterp, OutIsWrittenOnce) {
  expectFound(R"(kernel @k(%o: buf<4xf32, out>) workgroup(4) grid(1) {
    %l = tgk.local_id 0 : u32
    tgk.store 1.0, %o[%l]
    tgk.store 2.0, %o[%l]
  })",
              {Memory::value_type(16)}, [](const KernelCounters& c) {
                EXPECT_EQ(c.rewrites, 4);
                EXPECT_EQ(c.races, 0);
              });
}

TEST(KernelInterp, RefusesWhatItCannotRun) {
  auto module = kernels(R"(kernel @k(%n: buf<1xu32, in>) workgroup(2) grid(1) {
    %l = tgk.local_id 0 : u32
    %z = tgk.eq %l, 0 : bool
    tgk.if %z {
      tgk.barrier
    }
  }
  kernel @s(%n: buf<1xu32, in>) workgroup(2) grid(1) {
    %v = tgk.load %n[0] : u32
    tgk.for %k = 0 to(4) step(%v) {
    }
  })");
  std::vector<std::byte> bytes(4);
  std::vector<KernelBuffer> buffers{{bytes.data(), 4}}, small{{bytes.data(), 3}}, none;
  auto message = [&](const char* name, std::vector<KernelBuffer>& given, std::array<int64_t, 3> grid) {
    auto result = runKernel(*module->find(ItemKind::kernel, name), given, grid);
    return result ? std::string() : result.error().message();
  };
  EXPECT_NE(message("k", buffers, {1, 1, 1}).find("tgk.barrier is reached by some"), std::string::npos);
  EXPECT_NE(message("s", buffers, {1, 1, 1}).find("step is 0"), std::string::npos);
  EXPECT_NE(message("s", small, {1, 1, 1}).find("%n needs 4 bytes, 3 are given"), std::string::npos);
  EXPECT_NE(message("s", none, {1, 1, 1}).find("1 buffers, 0 are given"), std::string::npos);
  EXPECT_NE(message("s", buffers, {1, 0, 1}).find("grid extent of 0"), std::string::npos);
}

TEST(KernelInterp, UndefinedMemoryIsNan) {
  auto module = kernels(R"(kernel @k(%o: buf<2xf32, out>) workgroup(1) grid(1) {
    %s = tgk.shared : buf<2xf32, shared>
    %l = tgk.local : buf<2xf32, local>
    %a = tgk.load %s[0] : f32
    %b = tgk.load %l[1] : f32
    tgk.store %a, %o[0]
    tgk.store %b, %o[1]
  })");
  for (const KernelRunOptions& options : schedules()) {
    Memory memory{Memory::value_type(8)};
    KernelCounters counters = run(verified(*module), memory, options);
    EXPECT_EQ(counters.uninitialised, 2);
    for (float value : valuesOf<float>(memory[0])) EXPECT_TRUE(std::isnan(value));
  }
}

}  // namespace
}  // namespace tg::test
