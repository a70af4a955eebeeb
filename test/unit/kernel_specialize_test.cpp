// SPDX-License-Identifier: Apache-2.0
// Grids as expressions of a call's shapes, and kernels made static.
#include "ir/kernel/rewrites.h"

#include "ir/parser.h"
#include "test/unit/kernel_text.h"

namespace tg::test {
namespace {

std::unique_ptr<Module> withGrid(const std::string& grid) {
  return kernels("kernel @k(%x: buf<?x4xf32, in>, %y: buf<?xf32, out>) workgroup(64) grid(" + grid +
                 ") {\n}");
}

TEST(KernelSpecialize, GridsOfShapes) {
  struct Case {
    std::string grid;
    int64_t rows;
    std::array<int64_t, 3> expected;
  };
  const std::vector<Case> cases = {
      {"7, 3", 10, {7, 3, 1}},
      {"ceildiv(dim(%x, 0), 64)", 64, {1, 1, 1}},
      {"ceildiv(dim(%x, 0), 64)", 65, {2, 1, 1}},
      {"div(dim(%x, 0), 3), dim(%x, 1), dim(%y, 0)", 11, {3, 4, 5}},
      {"mul(dim(%x, 0), dim(%y, 0)), max(dim(%x, 0), 9)", 8, {40, 9, 1}},
      {"sub(add(dim(%x, 0), 1), 2), min(dim(%x, 0), 2)", 6, {5, 2, 1}},
  };
  for (const Case& each : cases) {
    auto module = withGrid(each.grid);
    auto grid = evaluateGrid(verified(*module), {{each.rows, 4}, {5}});
    ASSERT_TRUE(grid) << each.grid << grid.error().str();
    EXPECT_EQ(*grid, each.expected) << each.grid;
  }
}

TEST(KernelSpecialize, GridsThatShapesDoNotGive) {
  for (const std::string grid :
       {"sub(dim(%x, 0), 8)", "sub(dim(%x, 0), 9)", "div(dim(%x, 0), sub(dim(%x, 0), 8))",
        "mul(mul(4294967295, 4294967295), mul(4294967295, dim(%x, 0)))", "mul(4294967295, 2)"}) {
    auto module = withGrid(grid);
    auto evaluated = evaluateGrid(verified(*module), {{8, 4}, {5}});
    ASSERT_FALSE(evaluated) << grid;
    EXPECT_NE(evaluated.error().message().find("[kernel.grid]"), std::string::npos) << grid;
  }
}

TEST(KernelSpecialize, FormsOfGrids) {
  for (const std::string grid : {"dim(%x, 2)", "dim(%x, -1)", "dim(%x)", "dim(64, 0)", "ceildiv(dim(%x, 0))",
                                 "pow(2, 3)", "1.5", "mul(1.5, 2)", "4294967296", "%x", "0"}) {
    auto module = withGrid(grid);
    auto checked = verifyKernel(*module->find(ItemKind::kernel, "k"));
    ASSERT_FALSE(checked) << grid;
    EXPECT_NE(checked.error().message().find("[kernel.grid]"), std::string::npos) << grid;
  }
}

TEST(KernelSpecialize, TheCopyIsStaticAndTheOriginalStays) {
  auto module = kernels(R"(kernel @k(%x: buf<?xvec4<f32>, in>, %y: buf<?xvec4<f32>, out>) workgroup(4)
      grid(ceildiv(dim(%y, 0), 4)) {
    %i = tgk.global_id 0 : u32
    %n = tgk.dim %x, 0 : u32
    %in = tgk.lt %i, %n : bool
    tgk.if %in {
      %v = tgk.load %x[%i] : vec4<f32>
      tgk.store %v, %y[%i]
    }
  })");
  const Item& kernel = verified(*module);
  std::string before = print(kernel);
  std::unique_ptr<Item> copy = specialize(kernel, {{6}, {6}});
  EXPECT_EQ(print(kernel), before);
  auto checked = verifyKernel(*copy);
  ASSERT_TRUE(checked) << checked.error().str();
  EXPECT_EQ(copy->body.args[0]->type.str(), "buf<6xvec4<f32>, in>");
  EXPECT_EQ(copy->grid.size(), 3u);
  std::vector<float> values(24);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  Memory memory{bytesOf(values), std::vector<std::byte>(96)};
  KernelCounters counted = run(*copy, memory);
  EXPECT_EQ(counted.outOfRange + counted.races + counted.rewrites, 0);
  EXPECT_EQ(valuesOf<float>(memory[1]), values);
}

}  // namespace
}  // namespace tg::test
