// Products staged in shared memory: every blocking, layout and kind of edge against the interpreter in f64.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <span>

#include "codegen/schedule.h"
#include "ir/parser.h"
#include "runtime/finish.h"
#include "runtime/interp/tolerance.h"
#include "test/unit/sweep_runs.h"

namespace tg::test {
namespace {

struct Extents {
  int64_t batch, m, n, k;
};
// Edges that four lanes divide, along each axis; edges they do not; more columns than a block; less than a
// step.
constexpr Extents kExtents[] = {{2, 68, 72, 36}, {1, 67, 41, 37}, {1, 20, 130, 64}, {3, 33, 64, 3}};
/// Those whose kernels are interpreted too, which takes its time.
constexpr Extents kSmall[] = {{2, 20, 24, 36}, {1, 17, 35, 21}};
constexpr const char* kLayouts[] = {"NN", "NT", "TN", "TT"};

/// A function f with a product, a bias and a relu for each layout and extents.
std::string products(std::span<const Extents> extents) {
  std::string args, body, results, names;
  int next = 0;
  for (const Extents& e : extents)
    for (const std::string layout : kLayouts) {
      bool ta = layout[0] == 'T', tb = layout[1] == 'T';
      std::string lead = e.batch > 1 ? fmt::format("{}x", e.batch) : "";
      std::string a = fmt::format("tensor<{}{}x{}xf32>", lead, ta ? e.k : e.m, ta ? e.m : e.k);
      std::string b = fmt::format("tensor<{}{}x{}xf32>", lead, tb ? e.n : e.k, tb ? e.k : e.n);
      std::string out = fmt::format("tensor<{}{}x{}xf32>", lead, e.m, e.n);
      std::string comma = next ? ", " : "";
      args += fmt::format("{}%a{}: {}, %b{}: {}, %c{}: tensor<{}xf32>", comma, next, a, next, b, next, e.n);
      body +=
          fmt::format("    %p{0} = tg.matmul %a{0}, %b{0} {{transpose_a = {1}, transpose_b = {2}}} : {3}\n"
                      "    %q{0} = tg.add %p{0}, %c{0} : {3}\n    %y{0} = tg.relu %q{0} : {3}\n",
                      next, ta, tb, out);
      results += fmt::format("{}y{}: {}", comma, next, out);
      names += fmt::format("{}%y{}", comma, next);
      ++next;
    }
  return fmt::format("module @m {{\n  func @f({}) -> ({}) {{\n{}    return {}\n  }}\n}}\n", args, results,
                     body, names);
}

/// The products on a device (or in the interpreter of kernels, which reports races and reads out of range)
/// against the interpreter of tensors.
void check(const Attr& schedule, std::span<const Extents> extents, bool onDevice) {
  auto parsed = parse(products(extents), "products");
  ASSERT_TRUE(parsed) << parsed.error().str();
  const std::unique_ptr<Module> tensor = std::move(*parsed);
  Target target = *targetByName("gpu");
  target.maxInvocations = target.maxWorkgroupX = 1024;
  auto fused = runPasses(clone(*tensor), "fuse{target=" + targetOption(target) + "}");
  ASSERT_TRUE(fused) << fused.error().str();
  size_t changed = 0;
  for (auto& op : fused->module->func("f")->body.ops)
    if (op->code == Opcode::fused && op->attr("schedule").text == "matmul") {
      for (auto& [name, value] : op->attrs)
        if (name == "schedule") value = schedule;
      ++changed;
    }
  ASSERT_EQ(changed, extents.size() * std::size(kLayouts));
  auto done = runPasses(std::move(fused->module), "plan,spirv-emit");
  ASSERT_TRUE(done) << done.error().str();

  Arrays inputs;
  uint32_t state = 7;
  for (const auto& arg : tensor->func("f")->body.args) {
    NdArray value = NdArray::zeros(arg->type);
    for (double& element : value.data) {
      state = state * 1664525u + 1013904223u;
      element = static_cast<float>(static_cast<double>(state >> 8) / (1 << 24) - 0.5);
    }
    inputs.emplace(arg->name, std::move(value));
  }
  InterpOptions rounded;
  rounded.mode = InterpMode::exact;
  const Results wide = interpret(*tensor, "f", inputs), exact = interpret(*tensor, "f", inputs, {}, rounded);
  std::vector<Results> got;
  if (onDevice)
    got = Gpu().run(*done->module, {"f"}, {inputs});
  else
    got.push_back(interpret(*done->module, "f", inputs));
  ASSERT_EQ(got.size(), 1u);
  for (const auto& [name, value] : wide) {
    std::string why;
    EXPECT_TRUE(wholeFunctionClose(got[0].at(name), value, exact.at(name), kWholeFunctionFloor, &why))
        << schedule.str() << " " << name << ": " << why;
  }
}

class SharedMatmul : public ::testing::TestWithParam<size_t> {};
TEST_P(SharedMatmul, OnADevice) { check(sharedMatmulSchedules()[GetParam()], kExtents, true); }
TEST_P(SharedMatmul, Interpreted) { check(sharedMatmulSchedules()[GetParam()], kSmall, false); }
INSTANTIATE_TEST_SUITE_P(Blockings, SharedMatmul,
                         ::testing::Range(size_t{0}, sharedMatmulSchedules().size()));

}  // namespace
}  // namespace tg::test
