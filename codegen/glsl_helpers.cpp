// SPDX-License-Identifier: Apache-2.0
// The helper functions of printed shaders, as GLSL text. They fix what GLSL leaves to the device.
#include <algorithm>
#include <optional>

#include <fmt/format.h>

#include "codegen/glsl_expr.h"
#include "codegen/glsl_printer.h"
#include "ir/kernel/exact_sum.h"

namespace tg {
namespace {

static_assert(exact_sum::kWords == kExactWords);

/// Minimum or maximum that gives NaN if either operand is NaN.
std::string minMax(const std::string& kind, const Type& type) {
  std::string beats = type.lanes == 1 ? fmt::format("y {} x", kind == "Min" ? "<" : ">")
                                      : fmt::format("{}(y, x)", kind == "Min" ? "lessThan" : "greaterThan");
  return fmt::format("{0} tg{1}({0} x, {0} y) {{ return mix(x, y, mix({2}, {3}(true), isnan(y))); }}\n",
                     glslType(type), kind, beats,
                     type.lanes == 1 ? "bool" : fmt::format("bvec{}", type.lanes));
}

/// Minimum or maximum of a subgroup that gives NaN if any operand is NaN, which GLSL leaves to the device.
std::string subgroupMinMax(const std::string& kind, const Type& type) {
  const char* own = kind == "SubgroupMin" ? "subgroupMin" : "subgroupMax";
  std::string isNan = type.lanes == 1 ? "(floatBitsToUint(x) & 0x7fffffffu) > 0x7f800000u"
                                      : fmt::format("greaterThan(floatBitsToUint(x) & 0x7fffffffu, "
                                                    "uvec{}(0x7f800000u))",
                                                    type.lanes);
  std::string any = type.lanes == 1 ? "found != 0u" : fmt::format("notEqual(found, uvec{}(0u))", type.lanes);
  return fmt::format("{0} tg{1}({0} x) {{\n"
                     "  {2} found = subgroupOr({2}({3}));\n"
                     "  return mix({4}(mix(x, {0}(0.0), {5})), {0}(uintBitsToFloat(0x7fc00000u)), {5});\n"
                     "}}\n",
                     glslType(type), kind, glslType(Type::scalar(DType::u32, type.lanes)), isNan, own, any);
}

/// The logarithm of a subnormal number is taken of x·2^24, since a driver may take such a number's exponent for its
/// value. A device that flushes subnormal numbers to zero gives -inf.
std::string logarithm(const std::string& kind, const Type& type) {
  std::string low = type.lanes == 1 ? "x < 1.1754944e-38"
                                    : fmt::format("lessThan(x, {}(1.1754944e-38))", glslType(type)),
              condition = type.lanes == 1 ? "bool" : fmt::format("bvec{}", type.lanes);
  return fmt::format("{0} tg{1}({0} x) {{\n"
                     "  {2} low = {3};\n"
                     "  precise {0} scaled = x * 16777216.0;\n"
                     "  precise {0} value = {4}(mix(x, scaled, low)) - mix({0}(0.0), {0}({5}), low);\n"
                     "  return value;\n"
                     "}}\n",
                     glslType(type), kind, condition, low, kind == "Log" ? "log" : "log2",
                     kind == "Log" ? "16.635532" : "24.0");
}

/// 0·x, 0/x or x/0 by the bits of x: a zero or an infinity with the sign of x, or NaN.
std::string zeroOf(const std::string& kind, const Type& type) {
  const std::string bits = glslType(Type::scalar(DType::u32, type.lanes));
  // The test for a result that is not NaN: x is finite, or x is neither zero nor NaN.
  const std::string size = kind == "ZeroTimes" ? "(bits & 0x7fffffffu)" : "(bits & 0x7fffffffu) - 1u";
  const std::string fine =
      type.lanes == 1 ? size + " < 0x7f800000u" : fmt::format("lessThan({}, {}(0x7f800000u))", size, bits);
  return fmt::format("{0} tg{1}({0} x) {{\n"
                     "  {2} bits = floatBitsToUint(x);\n"
                     "  return uintBitsToFloat(mix({2}(0x7fc00000u), bits & 0x80000000u{4}, {3}));\n"
                     "}}\n",
                     glslType(type), kind, bits, fine, kind == "OverZero" ? " | 0x7f800000u" : "");
}

/// Product of u32 that saturates.
std::string mulSat(const Type& type) {
  std::string over = type.lanes == 1 ? "high != 0u" : fmt::format("notEqual(high, {}(0u))", glslType(type));
  return fmt::format("{0} tgMulSat({0} x, {0} y) {{\n  {0} high, low;\n  umulExtended(x, y, high, low);\n"
                     "  return mix(low, {0}(0xffffffffu), {1});\n}}\n",
                     glslType(type), over);
}

// Bits of f16 to f32. A subnormal f16 (below 2^-14) is a multiple of 2^-24.
constexpr const char* kHalfValue = R"(float tgHalfValue(uint half16) {
  uint sign = (half16 & 0x8000u) << 16, digits = half16 & 0x7fffu;
  uint size = (digits << 13) + 0x38000000u;
  precise float small = float(digits) * 5.9604644775390625e-08;
  if (digits < 0x400u) size = floatBitsToUint(small);
  if (digits >= 0x7c00u) size = 0x7f800000u | digits << 13;
  return uintBitsToFloat(sign | size);
}
)";

// f32 to the nearest f16, at a tie to the even one. 0x477ff000 is 65520, from where on it is infinity; below
// 0x38800000 (2^-14) the results are subnormal and lose one bit more for each halving.
constexpr const char* kHalfBits = R"(uint tgHalfBits(float x) {
  uint bits = floatBitsToUint(x), sign = bits >> 16 & 0x8000u, size = bits & 0x7fffffffu;
  if (size > 0x7f800000u) return sign | 0x7e00u;
  if (size >= 0x477ff000u) return sign | 0x7c00u;
  uint drop = 13u, digits = size - 0x38000000u;
  if (size < 0x38800000u) {
    drop = 126u - (size >> 23);
    digits = drop > 24u ? 0u : size & 0x7fffffu | 0x800000u;
    drop = min(drop, 25u);
  }
  uint even = digits >> drop, rest = digits & (1u << drop) - 1u, tie = 1u << drop - 1u;
  return sign | even + uint(rest > tie || rest == tie && (even & 1u) != 0u);
}
)";

// The bits of a bf16 are the upper half of an f32's. Rounds to the nearest, at a tie to the even one; NaN stays
// NaN.
constexpr const char* kBf16Value = "float tgBf16Value(uint bits) { return uintBitsToFloat(bits << 16); }\n";
constexpr const char* kBf16Bits = R"(uint tgBf16Bits(float x) {
  uint bits = floatBitsToUint(x);
  uint near = bits + 0x7fffu + (bits >> 16 & 1u);
  return mix(near, bits | 0x400000u, (bits & 0x7fffffffu) > 0x7f800000u) >> 16;
}
)";

/// Rounds to the 8 significant bits of a bf16, to the nearest and at a tie to the even one. For 2^e <= |x| <
/// 2^(e+1) the sum x + 1.5·2^(e+16) has bits from 2^(e-7) on, so the addition rounds x there, and the subtraction
/// is exact. e is clamped to 86, so that the sum stays finite for the largest x; an |x| from 2^87 (1.5e26) on keeps
/// more bits, which the conversion to bf16 may truncate. Infinities and NaN stay what they are.
constexpr const char* kBf16Near = R"(float tgBf16Near(float x) {
  precise float scale = uintBitsToFloat(min(floatBitsToUint(x) & 0x7f800000u, 0x6a800000u));
  precise float rounded = fma(scale, 98304.0, x);
  return fma(scale, -98304.0, rounded);
}
)";

/// Drops the digits that a bf16 lacks. NaN that an operation gives stays NaN.
constexpr const char* kBf16Cut = R"(float tgBf16Cut(float x) {
  return uintBitsToFloat(floatBitsToUint(x) & 0xffff0000u);
}
)";

/// A function of one lane, applied to each lane.
std::string eachLane(const char* function, const Type& from, const Type& to) {
  std::string lanes;
  for (int lane = 0; lane < from.lanes; ++lane)
    lanes += fmt::format("{}{}(x.{})", lane ? ", " : "", function, glslLane(lane));
  return fmt::format("{0} {1}({2} x) {{ return {0}({3}); }}\n", glslType(to), function, glslType(from),
                     lanes);
}

// Rounds towards zero and clamps to the type; NaN gives 0. GLSL's own conversion is undefined out of range. A float
// from 2^24 on is even, and its half is converted: Mesa takes uint(float(n)) for n, although float(n) may be rounded.
constexpr const char* kToInt = R"(int tgToInt(float x) {
  precise float part = 0.5 * x;
  if (x >= 2147483648.0) return 2147483647;
  if (x >= -2147483648.0) return abs(x) < 16777216.0 ? int(x) : 2 * int(part);
  return (floatBitsToUint(x) & 0x7fffffffu) > 0x7f800000u ? 0 : int(0x80000000u);
}
)";
constexpr const char* kToUint = R"(uint tgToUint(float x) {
  precise float part = 0.5 * x;
  if (x >= 4294967296.0) return 0xffffffffu;
  if (x >= 16777216.0) return 2u * uint(part);
  return x >= 1.0 ? uint(x) : 0u;
}
)";

// x^y as in C and IEEE 754, from the power of |x|: GLSL's pow is undefined for x <= 0. NaN is tested by bits, since
// compilers may assume that there is none. Mesa 26 uses a square root for y = 0.5, which gives NaN for infinity.
constexpr const char* kPow = R"(float tgPow(float x, float y) {
  float size = abs(x), infinity = uintBitsToFloat(0x7f800000u), nan = uintBitsToFloat(0x7fc00000u);
  precise float even = 2.0 * floor(0.5 * y);
  bool whole = floor(y) == y, odd = whole && even != y;
  precise float power = size == 1.0 ? 1.0 : exp2(y * log2(size == 0.0 ? 1.0 : size));
  if (size == 0.0) power = y > 0.0 ? 0.0 : infinity;
  if (size == infinity) power = y > 0.0 ? infinity : 0.0;
  if (x < 0.0 && !whole && size != infinity) power = nan;
  if (floatBitsToUint(x) >> 31 != 0u && odd) power = -power;
  if (max(floatBitsToUint(x) & 0x7fffffffu, floatBitsToUint(y) & 0x7fffffffu) > 0x7f800000u) power = nan;
  return y == 0.0 || x == 1.0 ? 1.0 : power;
}
)";

// Exact sums (see ir/kernel/exact_sum.h) are 320-bit fixed-point numbers in ten words, and a word of flags: 1 for
// NaN, 2 for +inf, 4 for -inf. ExactTerm gives the place of an f32 in one: ±(low + high·2^32) at a word, or flags.
constexpr const char* kExactTerm =
    R"(uint tgExactTerm(float value, out uint word, out uint low, out uint high) {
  uint bits = floatBitsToUint(value), exponent = bits >> 23 & 255u, fraction = bits & 0x7fffffu;
  uint shift = max(exponent, 1u) - 1u, offset = shift & 31u;
  uint digits = exponent == 0u ? fraction : fraction | 0x800000u;
  if (exponent == 255u) digits = 0u;
  word = shift >> 5;
  low = digits << offset;
  high = offset == 0u ? 0u : digits >> 32u - offset;
  return exponent < 255u ? 0u : fraction != 0u ? 1u : 2u << (bits >> 31);
}
)";

// The f32 nearest to an exact sum, at a tie the even one.
constexpr const char* kExactRound = R"(float tgExactRound(uint words[11]) {
  uint flags = words[10] & 7u;
  if (flags == 2u || flags == 4u) return uintBitsToFloat(flags == 2u ? 0x7f800000u : 0xff800000u);
  if (flags != 0u) return uintBitsToFloat(0x7fc00000u);
  uint sign = words[9] & 0x80000000u, carry = 1u;
  int top = -1;
  for (int at = 0; at < 10; ++at) {
    if (sign != 0u) {
      words[at] = ~words[at] + carry;
      carry = words[at] == 0u ? carry : 0u;
    }
    if (words[at] != 0u) top = at;
  }
  if (top < 0) return 0.0;
  int highest = 32 * top + findMSB(words[top]);
  if (highest < 24) return uintBitsToFloat(sign | words[0]);
  if (highest > 276) return uintBitsToFloat(sign | 0x7f800000u);
  int word = highest - 24 >> 5, offset = highest - 24 & 31;
  uint digits = words[word] >> offset;
  if (offset != 0 && word < 9) digits |= words[word + 1] << 32 - offset;
  digits &= 0x1ffffffu;
  bool rest = (words[word] & (1u << offset) - 1u) != 0u;
  for (int at = 0; at < word; ++at) rest = rest || words[at] != 0u;
  uint bits = (uint(highest - 23) << 23) + (digits >> 1);
  bits += digits & 1u & uint(rest || (digits & 2u) != 0u);
  return uintBitsToFloat(sign | bits);
}
)";

// Adds a term: each atomic addition to a word gives its old value, from which the carry into the next follows.
constexpr const char* kExactAdd = R"(void {0}(uint at, float value) {{
  uint word, amount, next, flags = tgExactTerm(value, word, amount, next);
  if (flags != 0u) atomicOr({1}[at + 10u], int(flags));
  bool negative = floatBitsToUint(value) >> 31 != 0u;
  for (; word < 10u && (amount | next) != 0u; ++word) {{
    uint carry = 0u;
    if (amount != 0u) {{
      uint before = uint(atomicAdd({1}[at + word], int(negative ? 0u - amount : amount)));
      carry = uint(negative ? before < amount : before > ~amount);
    }}
    amount = next + carry;
    next = 0u;
  }}
}}
)";

constexpr const char* kExactLoad = R"(float {0}(uint at) {{
  uint words[11];
  for (uint word = 0u; word < 11u; ++word) words[word] = uint({1}[at + word]);
  return tgExactRound(words);
}}
)";

// Sets an exact sum to a value, in two's complement.
constexpr const char* kExactStore = R"(void {0}(uint at, float value) {{
  uint first, low, high, flags = tgExactTerm(value, first, low, high), carry = 1u;
  bool negative = floatBitsToUint(value) >> 31 != 0u;
  for (uint word = 0u; word < 10u; ++word) {{
    uint digits = word == first ? low : word == first + 1u ? high : 0u;
    if (negative) {{
      digits = ~digits + carry;
      carry = digits == 0u ? carry : 0u;
    }}
    {1}[at + word] = int(digits);
  }}
  {1}[at + 10u] = int(flags);
}}
)";

// The divisor is replaced, not only the result, since hardware may trap on a division whose result is unused.
constexpr const char* kDivUint =
    "uint tgDiv(uint x, uint y) { return y == 0u ? 0xffffffffu : x / max(y, 1u); }\n";
constexpr const char* kModUint = "uint tgMod(uint x, uint y) { return y == 0u ? 0u : x % max(y, 1u); }\n";
constexpr const char* kModInt = "int tgMod(int x, int y) { return y == 0 ? 0 : x - y * tgDiv(x, y); }\n";
constexpr const char* kDivInt = R"(int tgDiv(int x, int y) {
  int q = x / (y == 0 || y == -1 ? 1 : y);
  return y == 0 ? 0 : y == -1 ? -q : q;
}
)";

/// A helper whose text is the same for all types. If it has a `lane`, vectors call it for each lane, with results of
/// that type.
struct FixedText {
  std::string_view kind;
  const char* text;
  std::optional<DType> lane;
};
constexpr FixedText kFixed[] = {
    {"HalfValue", kHalfValue, DType::f32},
    {"HalfBits", kHalfBits, DType::u32},
    {"Bf16Value", kBf16Value, DType::f32},
    {"Bf16Bits", kBf16Bits, DType::u32},
    {"Bf16Near", kBf16Near, {}},
    {"Bf16Cut", kBf16Cut, {}},
    {"Pow", kPow, {}},
    {"ToInt", kToInt, DType::i32},
    {"ToUint", kToUint, DType::u32},
    {"ExactTerm", kExactTerm, {}},
    {"ExactRound", kExactRound, {}},
};

}  // namespace

std::string exactFunction(const std::string& kind, const std::string& function, const std::string& buffer) {
  const char* text = kind == "Add" ? kExactAdd : kind == "Load" ? kExactLoad : kExactStore;
  return fmt::format(fmt::runtime(text), function, buffer);
}

std::string GlslHelpers::need(const std::string& kind, const Type& type) {
  std::string& text = texts_[kind + glslType(type)];
  std::string name = "tg" + kind;
  if (!text.empty()) return name;
  const auto fixed = std::ranges::find(kFixed, kind, &FixedText::kind);
  if (fixed != std::end(kFixed) && fixed->lane && type.lanes > 1) {
    need(kind, Type::scalar(type.dtype));
    text = eachLane(name.c_str(), type, Type::scalar(*fixed->lane, type.lanes));
  } else if (fixed != std::end(kFixed)) {
    text = fixed->text;
  } else if (kind == "MulHi") {
    text = fmt::format("{0} tgMulHi({0} x, {0} y) {{\n  {0} high, low;\n  umulExtended(x, y, high, low);\n"
                       "  return high;\n}}\n",
                       glslType(type));
  } else if (kind == "MulSat") {
    text = mulSat(type);
  } else if (kind == "Min" || kind == "Max") {
    text = minMax(kind, type);
  } else if (kind.starts_with("Log")) {
    text = logarithm(kind, type);
  } else if (kind.starts_with("Zero") || kind == "OverZero") {
    text = zeroOf(kind, type);
  } else if (kind.starts_with("Subgroup")) {
    text = subgroupMinMax(kind, type);
  } else if (type.dtype == DType::u32) {
    text = kind == "Div" ? kDivUint : kModUint;
  } else if (kind == "Div") {
    text = kDivInt;
  } else {
    need("Div", type);
    text = kModInt;
  }
  return name;
}

std::string GlslHelpers::text() const {
  std::string out;
  for (const auto& [key, text] : texts_) out += text;  // "Div…" before "Mod…", which calls it; lanes last
  return out;
}

}  // namespace tg
