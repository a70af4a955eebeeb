// SPDX-License-Identifier: Apache-2.0
// Arithmetic of the kernel language on a device, against the interpreter and against what is known.
#include "test/unit/kernel_device.h"

#include <fmt/format.h>

#include <cmath>

#include "ir/scalar.h"

namespace tg::test {
namespace {

/// A kernel that stores each op of `ops` over %x, %y (of `type`) in a row of its own. Conditions are stored
/// as 0 and 1.
std::string rowsKernel(const std::vector<std::string>& ops, const std::string& type,
                       const std::string& result, size_t count, int lanes) {
  auto of = [&](const std::string& scalar) {
    return lanes == 1 ? scalar : fmt::format("vec{}<{}>", lanes, scalar);
  };
  size_t length = count / static_cast<size_t>(lanes);
  std::string row = elements(count, result == "bool" ? "u32" : result, lanes);
  std::string text = fmt::format(
      "kernel @k(%a: buf<{0}, in>, %b: buf<{0}, in>, %o: buf<{1}x{2}, out>) workgroup(64) grid({3}) {{\n"
      "  %i = tgk.global_id 0 : u32\n  %inside = tgk.lt %i, {4} : bool\n  tgk.if %inside {{\n"
      "    %x = tgk.load %a[%i] : {5}\n    %y = tgk.load %b[%i] : {5}\n",
      elements(count, type, lanes), ops.size(), row, (length + 63) / 64, length, of(type));
  for (size_t k = 0; k < ops.size(); ++k) {
    text += fmt::format("    %r{0} = tgk.{1} : {2}\n", k, ops[k], of(result));
    if (result == "bool") text += fmt::format("    %s{0} = tgk.cast %r{0} : {1}\n", k, of("u32"));
    text += fmt::format("    tgk.store %{1}{0}, %o[{0}, %i]\n", k, result == "bool" ? "s" : "r");
  }
  return text + "  }\n}\n";
}

const std::vector<uint32_t> kBits = {0,          1,          2,       3,          7,          31,
                                     32,         33,         63,      0x7fffffff, 0x80000000, 0x80000001,
                                     0xfffffffe, 0xffffffff, 0x10000, 0xdeadbeef};

/// All pairs of boundary values.
std::pair<std::vector<uint32_t>, std::vector<uint32_t>> pairs() {
  std::pair<std::vector<uint32_t>, std::vector<uint32_t>> out;
  for (uint32_t a : kBits)
    for (uint32_t b : kBits) out.first.push_back(a), out.second.push_back(b);
  return out;
}

class KernelDevice : public DeviceTest {
 protected:
  /// Runs integer ops on device and interpreter and compares all bits; returns the results, row by row.
  std::vector<uint32_t> integers(const std::vector<std::string>& ops, const std::string& type,
                                 const std::string& result, int lanes) {
    auto [a, b] = pairs();
    auto module = kernels(rowsKernel(ops, type, result, a.size(), lanes));
    Memory memory{bytesOf(a), bytesOf(b), std::vector<std::byte>(a.size() * 4 * ops.size())};
    Memory expected = memory;
    run(verified(*module), expected);
    onDevice(*module, memory);
    auto got = valuesOf<uint32_t>(memory[2]), want = valuesOf<uint32_t>(expected[2]);
    for (size_t k = 0; k < got.size(); ++k)
      EXPECT_EQ(got[k], want[k]) << ops[k / a.size()] << " " << type << " lanes " << lanes << " of "
                                 << a[k % a.size()] << ", " << b[k % a.size()];
    return got;
  }
};

TEST_F(KernelDevice, IntegersBitForBit) {
  const std::vector<std::string> both = {
      "add %x, %y", "sub %x, %y", "mul %x, %y",  "div %x, %y", "mod %x, %y", "min %x, %y",     "max %x, %y",
      "neg %x",     "abs %x",     "sign %x",     "and %x, %y", "or %x, %y",  "xor %x, %y",     "not %x",
      "shl %x, %y", "shr %x, %y", "popcount %x", "clz %x",     "ctz %x",     "reverse_bits %x"};
  std::vector<std::string> wide = both;
  for (const char* op : {"mulhi", "rotl", "rotr", "add_sat", "sub_sat", "mul_sat", "abs_diff"})
    wide.push_back(fmt::format("{} %x, %y", op));
  wide.push_back("rotl %x, 0");
  wide.push_back("rotr 1, %y");
  wide.push_back("add_sat %x, 4294967295");
  for (int lanes : {1, 4}) {
    integers(both, "i32", "i32", lanes);
    integers(wide, "u32", "u32", lanes);
    for (const char* type : {"i32", "u32"})
      integers({"lt %x, %y", "le %x, %y", "gt %x, %y", "ge %x, %y", "eq %x, %y", "ne %x, %y"}, type, "bool",
               lanes);
  }
}

// Against C++ and not the interpreter, which could be wrong in the same way.
TEST_F(KernelDevice, BitOperationsAreWhatTheySay) {
  const std::vector<std::string> ops = {
      "popcount %x",  "clz %x",         "ctz %x",         "rotl %x, %y",    "rotr %x, %y",
      "mulhi %x, %y", "add_sat %x, %y", "sub_sat %x, %y", "mul_sat %x, %y", "abs_diff %x, %y"};
  auto got = integers(ops, "u32", "u32", 2);
  auto [a, b] = pairs();
  for (size_t i = 0; i < a.size(); ++i) {
    uint64_t x = a[i], y = b[i], most = UINT32_MAX;
    const uint64_t want[] = {static_cast<uint64_t>(std::popcount(a[i])),
                             static_cast<uint64_t>(std::countl_zero(a[i])),
                             static_cast<uint64_t>(std::countr_zero(a[i])),
                             std::rotl(a[i], static_cast<int>(y & 31)),
                             std::rotr(a[i], static_cast<int>(y & 31)),
                             x * y >> 32,
                             std::min(x + y, most),
                             x > y ? x - y : 0,
                             std::min(x * y, most),
                             x > y ? x - y : y - x};
    for (size_t k = 0; k < ops.size(); ++k)
      EXPECT_EQ(got[k * a.size() + i], want[k]) << ops[k] << " " << x << " " << y;
  }
}

/// Distance in units of the last place of an f32 of the reference's size.
double ulps(float got, double want) {
  return std::abs(got - want) / std::ldexp(1.0, std::max(want == 0 ? -126 : std::ilogb(want), -126) - 23);
}

// Over the domain of each row of the scalar table, within the ulps the row grants.
TEST_F(KernelDevice, FunctionsWithinTheirUlps) {
  constexpr size_t kCount = 256;
  for (int i = 0; i < kOpcodeCount; ++i) {
    const OpInfo& row = tg::info(static_cast<Opcode>(i));
    if (!row.mayStand(table::inKernel) || row.scalar == Scalar::none || row.scalar == Scalar::select ||
        givesCondition(row.scalar))
      continue;
    const ScalarInfo& scalar = info(row.scalar);
    std::vector<float> a, b;
    for (size_t n = 0; n < kCount; ++n) {
      a.push_back(
          static_cast<float>(scalar.lo + (scalar.hi - scalar.lo) * (static_cast<double>(n) + 0.3) / kCount));
      b.push_back(static_cast<float>(scalar.lo + (scalar.hi - scalar.lo) *
                                                     (static_cast<double>(n * 37 % kCount) + 0.6) / kCount));
    }
    std::string op = fmt::format("{} %x{}", row.name.substr(4), scalar.arity == 2 ? ", %y" : "");
    for (int lanes : {1, 4}) {
      auto module = kernels(rowsKernel({op}, "f32", "f32", kCount, lanes));
      verified(*module);
      Memory memory{bytesOf(a), bytesOf(b), std::vector<std::byte>(kCount * 4)};
      onDevice(*module, memory);
      auto got = valuesOf<float>(memory[2]);
      for (size_t n = 0; n < kCount; ++n) {
        double want = evalScalar(row.scalar, a[n], b[n]);
        // Of a logarithm near 1 Vulkan bounds the absolute error.
        bool logarithm = row.scalar == Scalar::log || row.scalar == Scalar::log2;
        if (logarithm && a[n] >= 0.5f && a[n] <= 2 && std::abs(got[n] - want) <= 0x1p-21) continue;
        EXPECT_LE(ulps(got[n], want), std::max(scalar.ulps, 0.5))
            << row.name << " of " << a[n] << ", " << b[n];
      }
    }
  }
}

// What a shader's own conversion leaves undefined: out of range the nearest end of it, 0 of NaN.
TEST_F(KernelDevice, CastsToIntegersClamp) {
  struct Cast {
    float x;
    int32_t i;
    uint32_t u;
  };
  const std::vector<Cast> casts{{0.0f, 0, 0},
                                {-0.75f, 0, 0},
                                {2.75f, 2, 2},
                                {-2.75f, -2, 0},
                                {2147483520.0f, 2147483520, 2147483520u},
                                {2147483648.0f, INT32_MAX, 2147483648u},
                                {-2147483648.0f, INT32_MIN, 0},
                                {-2147483904.0f, INT32_MIN, 0},
                                {4294967040.0f, INT32_MAX, 4294967040u},
                                {4294967296.0f, INT32_MAX, UINT32_MAX},
                                {3e38f, INT32_MAX, UINT32_MAX},
                                {-3e38f, INT32_MIN, 0},
                                {1e-40f, 0, 0},
                                {kInf, INT32_MAX, UINT32_MAX},
                                {-kInf, INT32_MIN, 0},
                                {std::nanf(""), 0, 0}};
  std::vector<float> x;
  for (const Cast& cast : casts) x.push_back(cast.x);
  for (int lanes : {1, 4})
    for (const char* type : {"i32", "u32"}) {
      auto module = kernels(rowsKernel({"cast %x"}, "f32", type, x.size(), lanes));
      Memory memory{bytesOf(x), bytesOf(x), std::vector<std::byte>(x.size() * 4)};
      Memory reference = memory;
      run(verified(*module), reference);
      onDevice(*module, memory);
      auto got = valuesOf<uint32_t>(memory[2]), interpreted = valuesOf<uint32_t>(reference[2]);
      for (size_t n = 0; n < x.size(); ++n) {
        uint32_t want = *type == 'i' ? static_cast<uint32_t>(casts[n].i) : casts[n].u;
        EXPECT_EQ(got[n], want) << type << " of " << x[n];
        EXPECT_EQ(interpreted[n], want) << type << " of " << x[n] << ", interpreted";
      }
    }
}

// An integer of more than 24 bits is rounded on its way through f32, at a tie to the even one. Mesa took the integer
// itself.
TEST_F(KernelDevice, IntegersAreRoundedOnTheirWayThroughFloat) {
  const std::vector<uint32_t> x{16777215, 16777217, 16777219, 33554438, 1073741889, 2147483583, 5, 0};
  const std::vector<uint32_t> want{16777215, 16777216, 16777220, 33554440, 1073741952, 2147483520, 5, 0};
  for (const char* type : {"i32", "u32", "vec4<i32>", "vec4<u32>"}) {
    const bool vector = *type == 'v';
    auto module = kernels(
        fmt::format("kernel @k(%a: buf<{0}x{1}, in>, %o: buf<{0}x{1}, out>) workgroup({0}) grid(1) {{\n"
                    "  %i = tgk.local_id 0 : u32\n  %x = tgk.load %a[%i] : {1}\n"
                    "  %f = tgk.cast %x : {2}\n  %r = tgk.cast %f : {1}\n"
                    "  tgk.store %r, %o[%i]\n}}\n",
                    vector ? 2 : 8, type, vector ? "vec4<f32>" : "f32"));
    Memory memory{bytesOf(x), std::vector<std::byte>(x.size() * 4)};
    onDevice(*module, memory);
    EXPECT_EQ(valuesOf<uint32_t>(memory[1]), want) << type;
  }
}

/// All pairs of edges: bases and exponents.
std::pair<std::vector<float>, std::vector<float>> powerEdges() {
  const std::vector<float> edges{0,    -0.0f, 0.5f, -0.5f, 1,    -1,    2,           -2,
                                 2.5f, -2.5f, 3,    -3,    kInf, -kInf, 16777216.0f, std::nanf("")};
  std::vector<float> x, y;
  for (float a : edges)
    for (float b : edges) x.push_back(a), y.push_back(b);
  return {x, y};
}

/// Whether a power is C's.
void expectPower(float x, float y, float value) {
  auto want = static_cast<float>(std::pow(static_cast<double>(x), static_cast<double>(y)));
  bool same = std::isnan(want) ? std::isnan(value)
                               : std::signbit(value) == std::signbit(want) &&
                                     (value == want || std::abs(value - want) <= 4e-6f * std::abs(want));
  EXPECT_TRUE(same) << x << " to the power " << y << " is " << value << ", not " << want;
}

TEST_F(KernelDevice, PowersAreDefinedEverywhere) {
  const auto [x, y] = powerEdges();
  for (int lanes : {1, 4}) {
    auto module = kernels(rowsKernel({"pow %x, %y"}, "f32", "f32", x.size(), lanes));
    Memory memory{bytesOf(x), bytesOf(y), std::vector<std::byte>(x.size() * 4)};
    Memory reference = memory;
    run(verified(*module), reference);
    onDevice(*module, memory);
    auto got = valuesOf<float>(memory[2]), interpreted = valuesOf<float>(reference[2]);
    for (size_t n = 0; n < x.size(); ++n)
      for (float value : {got[n], interpreted[n]}) expectPower(x[n], y[n], value);
  }
}

// Drivers compute with literals themselves, and take the absolute value of -0 for -0.
TEST_F(KernelDevice, PowersOfLiteralsAreThoseOfValues) {
  const auto [x, y] = powerEdges();
  std::string body;
  for (size_t n = 0; n < x.size(); ++n)
    body += fmt::format("    %x{0} = tgk.constant {1:.1f} : f32\n    %y{0} = tgk.constant {2:.1f} : f32\n"
                        "    tgk.store pow(%x{0}, %y{0}), %o[{0}]\n",
                        n, x[n], y[n]);
  auto module =
      kernels(fmt::format("kernel @k(%o: buf<{}xf32, out>) workgroup(1) grid(1) {{\n{}  }}", x.size(), body));
  Memory memory{std::vector<std::byte>(x.size() * 4)};
  onDevice(*module, memory);
  const auto got = valuesOf<float>(memory[0]);
  for (size_t n = 0; n < x.size(); ++n) expectPower(x[n], y[n], got[n]);
}

TEST_F(KernelDevice, FloatsAtTheirEdges) {
  std::vector<float> x{0,     -0.0f,   1e-40f, -1e-40f, 0.5f,          -0.5f,   1.5f,     2.5f,
                       -2.5f, 8388609, kInf,   -kInf,   std::nanf(""), 3.4e38f, -3.4e38f, 0x1p-126f};
  const std::vector<std::string> tests = {"isnan %x", "isinf %x", "isfinite %x"};
  const std::vector<std::string> ops = {"floor %x", "ceil %x",    "trunc %x",   "round %x",        "abs %x",
                                        "neg %x",   "min %x, %y", "max %x, %y", "stop_gradient %x"};
  std::vector<float> y(x.rbegin(), x.rend());
  for (int lanes : {1, 4}) {
    Memory memory{bytesOf(x), bytesOf(y), std::vector<std::byte>(x.size() * 4 * tests.size())};
    onDevice(*kernels(rowsKernel(tests, "f32", "bool", x.size(), lanes)), memory);
    auto got = valuesOf<uint32_t>(memory[2]);
    for (size_t i = 0; i < x.size(); ++i) {
      EXPECT_EQ(got[i], static_cast<uint32_t>(std::isnan(x[i]))) << x[i];
      EXPECT_EQ(got[x.size() + i], static_cast<uint32_t>(std::isinf(x[i]))) << x[i];
      EXPECT_EQ(got[2 * x.size() + i], static_cast<uint32_t>(std::isfinite(x[i]))) << x[i];
    }
    memory[2].assign(x.size() * 4 * ops.size(), {});
    onDevice(*kernels(rowsKernel(ops, "f32", "f32", x.size(), lanes)), memory);
    auto values = valuesOf<float>(memory[2]);
    for (size_t i = 0; i < x.size(); ++i) {
      bool nan = std::isnan(x[i]) || std::isnan(y[i]);
      const float want[] = {std::floor(x[i]),
                            std::ceil(x[i]),
                            std::trunc(x[i]),
                            std::nearbyint(x[i]),
                            std::abs(x[i]),
                            -x[i],
                            nan ? std::nanf("") : std::min(x[i], y[i]),
                            nan ? std::nanf("") : std::max(x[i], y[i]),
                            x[i]};
      for (size_t k = 0; k < ops.size(); ++k) {
        float value = values[k * x.size() + i];
        bool subnormal = x[i] != 0 && std::abs(x[i]) < 0x1p-126f;  // a device may flush it
        if (subnormal || (k > 5 && y[i] != 0 && std::abs(y[i]) < 0x1p-126f)) continue;
        EXPECT_TRUE(value == want[k] || (std::isnan(value) && std::isnan(want[k])))
            << ops[k] << " " << x[i] << ": " << value;
      }
    }
  }
}

// Mesa takes 0·x, 0/x and x/0 for 0 where it finds the zero itself: from the index of a loop that it unrolls, from what
// the loop starts with, or in a lane.
TEST_F(KernelDevice, ZerosThatTheDriverFinds) {
  auto module = kernels(R"(kernel @k(%in: buf<4xf32, in>, %o: buf<6x4xf32, out>) workgroup(4) grid(1) {
    %i = tgk.local_id 0 : u32
    %x = tgk.load %in[%i] : f32
    %a, %b, %c, %d, %e = tgk.for %k = 0 to(2) iter_args(%a0 = 0.0, %b0 = 0.0, %c0 = 0.0, %d0 = 0.0, %e0 = 0.0) : f32, f32, f32, f32, f32 {
      %f = tgk.cast %k : f32
      tgk.yield %a0 + %x * %f, %b0 + %x / %f, %c0 + %f / %x, %d0 * %x + 1.0, fma(%f, %x, %e0) : f32, f32, f32, f32, f32
    }
    %v = tgk.vec 0.0, 1.0, 2.0, 3.0 : vec4<f32>
    %w = tgk.mul %v, %x : vec4<f32>
    tgk.store %a, %o[0, %i]
    tgk.store %b, %o[1, %i]
    tgk.store %c, %o[2, %i]
    tgk.store %d, %o[3, %i]
    tgk.store %e, %o[4, %i]
    tgk.store %w.x + %w.y + %w.z + %w.w, %o[5, %i]
  })");
  const float nan = std::nanf("");
  const std::vector<float> x{nan, kInf, 0, 2};
  const std::vector<float> want{nan, nan, 0, 2, nan, kInf, nan, kInf, nan, 0,   nan, 0.5,
                                nan, nan, 1, 3, nan, nan,  0,   2,    nan, nan, 0,   12};
  Memory memory{bytesOf(x), std::vector<std::byte>(want.size() * 4)};
  onDevice(*module, memory);
  const auto got = valuesOf<float>(memory[1]);
  for (size_t n = 0; n < want.size(); ++n)
    EXPECT_TRUE(got[n] == want[n] || (std::isnan(got[n]) && std::isnan(want[n])))
        << "row " << n / 4 << " of " << x[n % 4] << " is " << got[n];
}

TEST_F(KernelDevice, AShaderThatNeedsMoreIsRefused) {
  auto code = compiled(*kernels(R"(kernel @k(%o: buf<1xu32, out>) workgroup(1) grid(1) {
    tgk.store 1, %o[0]
  })"));
  ASSERT_EQ(code[5], 2u << 16 | 17u);    // OpCapability Shader comes first
  for (uint32_t missing : {10u, 24u}) {  // Float64, TessellationPointSize
    std::vector<uint32_t> words = code;
    words.insert(words.begin() + 5, {2u << 16 | 17u, missing});
    std::string message = refusal(words);
    EXPECT_NE(message.find(fmt::format("'k': it needs SPIR-V capability {}", missing)), std::string::npos)
        << message;
  }
}

}  // namespace
}  // namespace tg::test
