// SPDX-License-Identifier: Apache-2.0
// Scalar functions where numbers end: zeros, subnormals, infinities, NaN, huge and tiny ones. The device
// gives what the table's f64 column gives, rounded to f32.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

#include "ir/parser.h"
#include "runtime/interp/tolerance.h"
#include "test/unit/sweep_runs.h"

namespace tg::test {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity(), kNan = std::numeric_limits<float>::quiet_NaN(),
                kMost = std::numeric_limits<float>::max();

/// Of both signs.
const std::vector<float>& edges() {
  static const std::vector<float> all = [] {
    std::vector<float> out;
    for (float x : {0.0f,      0x1p-149f,   0x1p-133f,   0x1.fffffcp-127f,
                    0x1p-126f, 1e-30f,      1e-10f,      1e-4f,
                    0.1f,      0.5f,        1.0f,        1.5f,
                    2.0f,      3.0f,        10.0f,       17.0f,
                    40.0f,     80.0f,       87.0f,       88.0f,
                    88.7f,     89.0f,       89.3f,       90.0f,
                    104.0f,    128.0f,      149.0f,      1000.0f,
                    8192.0f,   16777215.0f, 16777216.0f, 1e10f,
                    1e20f,     1e30f,       kMost,       kInf,
                    kNan})
      out.insert(out.end(), {x, -x});
    return out;
  }();
  return all;
}

NdArray arrayOf(const std::vector<float>& values) {
  NdArray array = NdArray::zeros(Type::tensor(DType::f32, {static_cast<int64_t>(values.size())}));
  std::copy(values.begin(), values.end(), array.data.begin());
  return array;
}

double rounded(double x) { return static_cast<double>(static_cast<float>(x)); }
bool isSubnormal(double x) { return x != 0 && std::fabs(x) < 0x1p-126; }

/// What the table grants at any point: its ulps hold over the domain of the sweeps, and powers of e, which
/// Vulkan grants 3 + 2|x|, lose more beyond.
double allowedUlps(Scalar scalar, double x, double y) {
  const double own = info(scalar).ulps;
  switch (scalar) {
  case Scalar::exp:
  case Scalar::exp2:
  case Scalar::sigmoid:
  case Scalar::silu:
  case Scalar::expm1:
  case Scalar::sinh:
  case Scalar::cosh: return std::max(own, 6 + 2 * std::fabs(x));
  case Scalar::softplus:
  case Scalar::mish: return std::max(own, 6 + 2 * std::fabs(std::min(x, 0.0)));
  case Scalar::pow: return std::max(own, 6 + 4 * std::fabs(y * std::log2(std::fabs(x))));
  default: return own;
  }
}

bool agrees(Scalar scalar, double got, double want, double ulps) {
  if (std::isnan(want) || std::isnan(got)) return std::isnan(want) && std::isnan(got);
  if (got == want) return true;
  if (std::isinf(got) && std::isfinite(want))  // rounded up from below the largest number
    return std::signbit(got) == std::signbit(want) && std::fabs(want) * (1 + ulps * 0x1p-23) > kMost;
  if (!std::isfinite(want) || !std::isfinite(got)) return false;
  const bool logarithm = scalar == Scalar::log || scalar == Scalar::log2;  // near 1 bounded absolutely
  return std::fabs(got - want) <= ulps * std::fabs(want) * 0x1p-23 + 0x1p-126 + (logarithm ? 0x1p-21 : 0);
}

/// A device may flush subnormal operands to zero.
bool agreesFlushed(Scalar scalar, double got, double x, double y, double z) {
  auto flushed = [](double v) { return isSubnormal(v) ? std::copysign(0.0, v) : v; };
  const double ulps = allowedUlps(scalar, x, y);
  return agrees(scalar, got, rounded(evalScalar(scalar, x, y, z)), ulps) ||
         agrees(scalar, got, rounded(evalScalar(scalar, flushed(x), flushed(y), flushed(z))), ulps);
}

/// Documented as undefined in value: sine, cosine and tangent of what is more than 8192.
bool isFarAngle(Scalar scalar, double x) {
  const bool turns = scalar == Scalar::sin || scalar == Scalar::cos || scalar == Scalar::tan;
  return turns && std::isfinite(x) && std::fabs(x) > 8192;
}

/// Text of @f with results named r0, r1, …: each line of `ops` makes one of them from %x, or %x and %y.
std::string moduleOf(const std::vector<std::string>& ops, const std::vector<std::string>& types, size_t count,
                     bool two) {
  const std::string in = fmt::format("tensor<{}xf32>", count);
  std::string body, results, values, out;
  for (size_t i = 0; i < ops.size(); ++i) {
    const std::string type = fmt::format("tensor<{}x{}>", count, types[i]);
    body += fmt::format("    %r{} = {} : {}\n", i, ops[i], type);
    results += fmt::format("{}r{}: {}", i ? ", " : "", i, type);
    values += fmt::format("{}%r{}", i ? ", " : "", i);
    out += (i ? ", " : "") + type;
  }
  return fmt::format("module @m {{\n  func @f(%x: {}{}) -> ({}) {{\n{}    return {} : {}\n  }}\n}}\n", in,
                     two ? ", %y: " + in : "", results, body, values, out);
}

/// The results of @f on the device, and from the kernels lane by lane.
std::vector<std::pair<std::string, Results>> runs(Gpu& gpu, const std::string& text, const Arrays& inputs) {
  auto tensor = parse(text, "edges.tgir");
  if (!tensor) {
    ADD_FAILURE() << tensor.error().str() << text;
    return {};
  }
  Stages stages = stagesOf(**tensor, shippedTarget("lavapipe"));
  if (!stages.spirv) return {};
  std::vector<std::pair<std::string, Results>> out{{"kernel", interpret(*stages.spirv, "f", inputs)}};
  for (Results& device : gpu.run(*stages.spirv, {"f"}, {inputs}))
    out.emplace_back("vulkan", std::move(device));
  return out;
}

struct Row {
  Scalar scalar;
  std::string name;
};
/// The ops of floats that are a row of the scalar table.
std::vector<Row> rowsOf(int arity) {
  std::vector<Row> out;
  for (int i = 0; i < kOpcodeCount; ++i) {
    const OpInfo& op = info(static_cast<Opcode>(i));
    if (op.scalar == Scalar::none || info(op.scalar).arity != arity || !op.mayStand(table::inTensor))
      continue;
    if (op.slots[0].type == table::TypeClass::boolean) continue;
    out.push_back({op.scalar, std::string(op.name)});
  }
  return out;
}

void check(Gpu& gpu, const std::vector<Row>& rows, const std::vector<float>& x, const std::vector<float>& y,
           int arity) {
  std::vector<std::string> ops, types;
  for (const Row& row : rows) {
    ops.push_back(row.name + (arity == 1 ? " %x" : " %x, %y"));
    types.push_back(givesCondition(row.scalar) ? "i1" : "f32");
  }
  Arrays inputs{{"x", arrayOf(x)}};
  if (arity == 2) inputs.emplace("y", arrayOf(y));
  for (const auto& [stage, results] : runs(gpu, moduleOf(ops, types, x.size(), arity == 2), inputs))
    for (size_t r = 0; r < rows.size(); ++r)
      for (size_t i = 0; i < x.size(); ++i) {
        const double a = x[i], b = arity == 2 ? y[i] : 0, got = results.at(fmt::format("r{}", r)).data[i];
        if (isFarAngle(rows[r].scalar, a)) continue;
        EXPECT_TRUE(agreesFlushed(rows[r].scalar, got, a, b, 0))
            << fmt::format("{}: {}({:.9g}, {:.9g}) is {:.9g} instead of {:.9g}", stage, rows[r].name, a, b,
                           got, rounded(evalScalar(rows[r].scalar, a, b)));
      }
}

TEST(ScalarEdges, FunctionsOfOne) {
  Gpu gpu;
  const std::vector<Row> rows = rowsOf(1);
  ASSERT_GE(rows.size(), 25u);
  check(gpu, rows, edges(), {}, 1);
}

TEST(ScalarEdges, FunctionsOfTwo) {
  Gpu gpu;
  std::vector<float> x, y;
  for (float a : edges())
    for (float b : edges()) x.push_back(a), y.push_back(b);
  // Beside whole numbers.
  for (float a : edges())
    for (float b : {0x1.fffffep-1f, -0x1.fffffep-1f, 0x1.fffffep+0f, -0x1.fffffep+0f})
      x.push_back(a), y.push_back(b);
  const std::vector<Row> rows = rowsOf(2);
  ASSERT_GE(rows.size(), 12u);
  check(gpu, rows, x, y, 2);
}

/// What a compiler knows of one operand it may use, but not so that NaN or an infinity of the other is lost.
TEST(ScalarEdges, ConstantsLoseNoNan) {
  Gpu gpu;
  struct Use {
    Row row;
    double constant;
    bool left;
  };
  const std::vector<float>& x = edges();
  for (const Row& row : rowsOf(2)) {
    std::vector<Use> uses;
    std::string body, results, values, types;
    const std::string type =
        fmt::format("tensor<{}x{}>", x.size(), givesCondition(row.scalar) ? "i1" : "f32");
    for (double constant : {0.0, -0.0, 1.0, -1.0, 2.0, 0.5, double{kInf}})
      for (bool left : {false, true}) {
        const size_t i = uses.size();
        const char* order = left ? "%c{0}, %x" : "%x, %c{0}";
        body += fmt::format("    %c{} = tg.constant {} : tensor<f32>\n", i, formatReal(constant));
        body += fmt::format("    %r{0} = {1} {2} : {3}\n", i, row.name, fmt::format(fmt::runtime(order), i),
                            type);
        results += fmt::format("{}r{}: {}", i ? ", " : "", i, type);
        values += fmt::format("{}%r{}", i ? ", " : "", i);
        types += (i ? ", " : "") + type;
        uses.push_back({row, constant, left});
      }
    const std::string text = fmt::format(
        "module @m {{\n  func @f(%x: tensor<{}xf32>) -> ({}) {{\n{}    return {} : {}\n  }}\n}}\n", x.size(),
        results, body, values, types);
    for (const auto& [stage, got] : runs(gpu, text, {{"x", arrayOf(x)}}))
      for (size_t u = 0; u < uses.size(); ++u)
        for (size_t i = 0; i < x.size(); ++i) {
          const double a = uses[u].left ? uses[u].constant : x[i], b = uses[u].left ? x[i] : uses[u].constant;
          const double value = got.at(fmt::format("r{}", u)).data[i];
          EXPECT_TRUE(agreesFlushed(row.scalar, value, a, b, 0)) << fmt::format(
              "{}: {}({:.9g}, {:.9g}), {} constant, is {:.9g} instead of {:.9g}", stage, row.name, a, b,
              uses[u].left ? "the first" : "the second", value, rounded(evalScalar(row.scalar, a, b)));
        }
  }
}

}  // namespace
}  // namespace tg::test
