// SPDX-License-Identifier: Apache-2.0
// mixed-precision{precision=f32x3}: what its kernels of attention compute for a device with matrix units, each step
// rounded as on the device, against formulas in f64 and against the kernels of f32.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "ir/parser.h"
#include "ir/target.h"
#include "passes/pass.h"
#include "test/unit/attention_formula.h"
#include "test/unit/target_file.h"

namespace tg::test {
namespace {

using Results = std::map<std::string, std::vector<double>>;

/// The results behind passes, f32 rounded at each step of a kernel.
Results computed(const AttentionCase& c, const Arrays& in, bool halves) {
  const TargetFile target(withFragments());
  auto module = parse(attentionText(c), "halved_attention_test.tgir");
  EXPECT_TRUE(module) << module.error().str();
  std::unique_ptr<Module> lowered = *std::move(module);
  auto run = [&](const std::string& pipeline) {
    auto passes = PassManager::parse(pipeline);
    EXPECT_TRUE(passes) << passes.error().str();
    auto ran = passes->run(lowered);
    EXPECT_TRUE(ran) << ran.error().str();
  };
  if (halves) run("mixed-precision{precision=f32x3,func=f}");
  run(fmt::format("fuse{{target={}}}", halves ? target.path() : "gpu"));
  if (halves && c.schedule) {
    std::string fused = print(*lowered);
    const size_t first = fused.find("coopmat_attention{"), end = fused.find('}', first) + 1;
    EXPECT_NE(first, std::string::npos) << fused;
    const std::string chosen = fused.substr(first, end - first);
    for (size_t at; (at = fused.find(chosen)) != std::string::npos && chosen != c.schedule;)
      fused.replace(at, chosen.size(), c.schedule);
    auto other = parse(fused, "halved_attention_test.tgir");
    EXPECT_TRUE(other) << other.error().str();
    lowered = *std::move(other);
  }
  run("plan,spirv-emit");  // validates the words too
  EXPECT_EQ(print(*lowered).find("tgk.coopmat_convert") != std::string::npos, halves);
  auto interp = Interpreter::create(*lowered);
  EXPECT_TRUE(interp) << interp.error().str();
  auto got = interp->run("f", in);
  EXPECT_TRUE(got) << got.error().str();
  for (const std::string& finding : got->counters.findings) ADD_FAILURE() << finding;
  Results out;
  for (const auto& [name, value] : got->results) out[name] = value.data;
  return out;
}

using RowChange = std::function<double(double x, int64_t row)>;

void changeRows(NdArray& array, const RowChange& by) {
  const int64_t width = array.shape().back();
  for (size_t i = 0; i < array.data.size(); ++i)
    array.data[i] = static_cast<float>(by(array.data[i], static_cast<int64_t>(i) / width));
}

struct Variant {
  const char* name;
  RowChange q, k, v, dy;
};

const std::vector<Variant>& variants() {
  const RowChange same = [](double x, int64_t) { return x; };
  auto times = [](double by) { return [by](double x, int64_t) { return x * by; }; };
  static const std::vector<Variant> all = {
      {"normal", same, same, same, same},
      {"gradients", same, same, same, times(1e-7)},
      {"oneSign", same, same, [](double x, int64_t) { return std::fabs(x) * 1e20; },
       [](double x, int64_t) { return std::fabs(x) * 1e-22; }},
      {"sizes", times(1e-6), times(1e6), times(1e-12), times(1e9)},
      {"peaked", times(8), same, same, same},
      {"rows", same, same, same,
       [](double x, int64_t row) { return std::ldexp(x, -static_cast<int>(row % 13)); }},
      {"zeros", times(0), times(0), same, same},
  };
  return all;
}

class HalvedAttention : public ::testing::TestWithParam<AttentionCase> {};

TEST_P(HalvedAttention, ErrorsAreOfTheSizeOfThoseOfF32) {
  const AttentionCase& c = GetParam();
  for (const Variant& row : variants()) {
    Arrays in = inputs(c);
    changeRows(in.at("q"), row.q);
    changeRows(in.at("k"), row.k);
    changeRows(in.at("v"), row.v);
    changeRows(in.at("dy"), row.dy);
    const AttentionFormula want = attentionFormula(c, in);
    const Results halves = computed(c, in, true), whole = computed(c, in, false);
    for (const auto& [name, value] : want.value) {
      const RowErrors own = errorsOf(halves.at(name), value, want.size.at(name)),
                      other = errorsOf(whole.at(name), value, want.size.at(name));
      EXPECT_LE(own.mean, 2 * other.mean) << name << ' ' << row.name;
      EXPECT_LE(own.largest, 4 * other.largest) << name << ' ' << row.name;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, HalvedAttention,
                         ::testing::Values(AttentionCase{1, 150, 150, 64, 64, DType::f32, true},
                                           AttentionCase{1, 33, 77, 32, 48, DType::f32, false},
                                           AttentionCase{2, 20, 36, 16, 16, DType::f32, true},
                                           AttentionCase{1, 70, 100, 64, 32, DType::f32, true,
                                                         "coopmat_attention{tile = [64, 64], warp = 32}"},
                                           AttentionCase{1, 40, 50, 48, 64, DType::f32, false,
                                                         "coopmat_attention{tile = [32, 32], warp = 16, "
                                                         "share = 2}"}),
                         [](const auto& info) { return nameOf(info.param); });

}  // namespace
}  // namespace tg::test
