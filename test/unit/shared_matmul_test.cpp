// SPDX-License-Identifier: Apache-2.0
// Products staged in shared memory: every blocking, layout and kind of edge against the interpreter in f64. And
// those in registers that sum step by step.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <span>

#include "codegen/schedule.h"
#include "ir/parser.h"
#include "runtime/compile.h"
#include "runtime/interp/tolerance.h"
#include "test/unit/run_passes.h"
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

/// A causal attention of T queries and S keys, and its gradient: seven products.
std::string attention(int64_t queries, int64_t keys) {
  const std::string q = fmt::format("tensor<2x{}x8xf32>", queries),
                    k = fmt::format("tensor<2x{}x8xf32>", keys), v = fmt::format("tensor<2x{}x12xf32>", keys),
                    o = fmt::format("tensor<2x{}x12xf32>", queries);
  return fmt::format(
      "module @m {{\n  func @f(%q: {0}, %k: {1}, %v: {2}, %dy: {3}) -> (o: {3}, dq: {0}, dk: {1}, dv: {2}) "
      "{{\n"
      "    %o, %lse = tg.attention %q, %k, %v {{causal = true}} : {3}, tensor<2x{4}xf32>\n"
      "    %dq, %dk, %dv = tg.attention_grad %q, %k, %v, %o, %lse, %dy {{causal = true}} : {0}, {1}, {2}\n"
      "    return %o, %dq, %dk, %dv\n  }}\n}}\n",
      q, k, v, o, queries);
}

/// Loops of the module's kernels whose bounds a workgroup computes.
size_t boundedLoops(const Module& module) {
  size_t count = 0;
  for (const Item* kernel : module.all(ItemKind::kernel))
    walk(kernel->body, [&](const Op& op) {
      if (op.code != Opcode::k_for) return;
      const Operand &from = op.operands[0].items[0], &to = op.keyword("to")->items[0];
      count += !from.isLiteral() || !to.isLiteral();
    });
  return count;
}

/// Products of which not every block is stored.
size_t sparseResults(const Module& module) {
  const OpList& ops = module.func("f")->body.ops;
  return static_cast<size_t>(std::count_if(ops.begin(), ops.end(), [](const Op* op) {
    return op->code == Opcode::fused && op->attr("schedule").find("unread");
  }));
}

/// A module's products by schedules, in turn, on a device (or in the interpreter of kernels, which reports races and
/// reads of what is not stored) against the interpreter of tensors. `bounded`: loops that leave something out;
/// `sparse`: products whose results are not all stored.
void check(const std::vector<Attr>& schedules, const std::string& text, size_t products, size_t bounded,
           size_t sparse, bool onDevice) {
  auto parsed = parse(text, "products");
  ASSERT_TRUE(parsed) << parsed.error().str();
  const std::unique_ptr<Module> tensor = std::move(*parsed);
  Target target = *targetByName("gpu");
  target.maxInvocations = target.maxWorkgroupX = 1024;
  auto fused = runPasses(clone(*tensor), "fuse{target=" + targetOption(target) + "}");
  ASSERT_TRUE(fused) << fused.error().str();
  size_t changed = 0;
  for (Op* op : fused->module->func("f")->body.ops)
    if (op->code == Opcode::fused && op->attr("schedule").text == "matmul")
      op->setAttr("schedule", schedules[changed++ % schedules.size()]);
  ASSERT_EQ(changed, products);
  auto settled = runPasses(std::move(fused->module), "choose-schedules");
  ASSERT_TRUE(settled) << settled.error().str();
  EXPECT_EQ(sparseResults(*settled->module), sparse);
  auto done = runPasses(std::move(settled->module), "plan,spirv-emit");
  ASSERT_TRUE(done) << done.error().str();
  EXPECT_EQ(boundedLoops(*done->module), bounded);

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
        << schedules[0].str() << " " << name << ": " << why;
  }
}

void checkLayouts(const Attr& schedule, std::span<const Extents> extents, bool onDevice) {
  check({schedule}, products(extents), extents.size() * std::size(kLayouts), 0, 0, onDevice);
}

class SharedMatmul : public ::testing::TestWithParam<size_t> {};
TEST_P(SharedMatmul, OnADevice) {
  checkLayouts(scheduleAttr(sharedMatmulSchedules()[GetParam()]), kExtents, true);
}
TEST_P(SharedMatmul, Interpreted) {
  checkLayouts(scheduleAttr(sharedMatmulSchedules()[GetParam()]), kSmall, false);
}
INSTANTIATE_TEST_SUITE_P(Blockings, SharedMatmul,
                         ::testing::Range(size_t{0}, sharedMatmulSchedules().size()));

// One loop of steps, and blocks of them.
TEST(RegisterMatmul, SumsAStepByItself) {
  const Schedule stepwise = MatmulSchedule{.tile = {4, 4}, .depth = 4, .workgroup = 8, .stepwise = true};
  constexpr Extents kShort[] = {{2, 20, 24, 36}}, kLong[] = {{1, 40, 44, 3072}};
  checkLayouts(scheduleAttr(stepwise), kShort, false);
  checkLayouts(scheduleAttr(stepwise), kShort, true);
  checkLayouts(scheduleAttr(stepwise), kLong, true);
}

Attr blocking(std::vector<int64_t> tile, std::vector<int64_t> shared) {
  return Attr::call("matmul", {}, {{"tile", Attr::ints(tile)}, {"shared", Attr::ints(shared)}});
}

// Three products of scores that a mask hides above the diagonal, a product of weights that are zero there,
// and three of their gradients: what lies above is left out, block by block and tile by tile.
TEST(CausalProducts, LeaveOutWhatIsHidden) {
  check({blocking({4, 4}, {32, 32, 16})}, attention(100, 100), 7, 7, 2, true);
  check({blocking({4, 4}, {32, 32, 16})}, attention(70, 70), 7, 7, 2, false);
}
// Blocks of 64 rows are read, blocks of 32 stored: hidden blocks in a block that is read have to be stored as zeros.
TEST(CausalProducts, StoreTheZerosThatLargerBlocksRead) {
  const Attr small = blocking({4, 4}, {32, 32, 16}), large = blocking({8, 4}, {64, 32, 16});
  const std::vector<Attr> schedules = {small, small, small, small, large, large, large};
  check(schedules, attention(150, 150), 7, 7, 2, true);
  check(schedules, attention(130, 130), 7, 7, 2, false);
}
// The diagonal ends in the last row's last column: the first query sees 40 keys before its own. Gradients of
// keys start with the first query.
TEST(CausalProducts, OfMoreKeysThanQueries) {
  check({blocking({8, 4}, {64, 32, 16})}, attention(90, 130), 7, 5, 0, true);
  check({blocking({4, 4}, {32, 32, 16})}, attention(33, 70), 7, 5, 0, false);
}
TEST(CausalProducts, OfRowsThatSeeNothingLeaveNothingOut) {
  check({blocking({4, 4}, {32, 32, 16})}, attention(70, 33), 7, 0, 0, false);
}

}  // namespace
}  // namespace tg::test
