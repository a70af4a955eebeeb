// SPDX-License-Identifier: Apache-2.0
// Values of rearrangements along axes and of reads by index along one, each against a loop written here.
#include "test/unit/interp_test_support.h"

namespace tg::test {
namespace {

using Numbers = std::vector<double>;

TEST(Structure, InteriorPadding) {
  const NdArray x = f32({2, 2}, {1, 2, 3, 4});
  EXPECT_EQ(evaluate("%r = tg.pad %x {low = [0, 1], high = [1, 0], interior = [1, 2], value = 9.0} : "
                     "tensor<4x5xf32>",
                     "tensor<4x5xf32>", {{"x", x}})
                .data,
            (Numbers{9, 1, 9, 9, 2, 9, 9, 9, 9, 9, 9, 3, 9, 9, 4, 9, 9, 9, 9, 9}));
}

TEST(Structure, FlipReversesTheAxes) {
  const NdArray x = scattered({2, 3, 4});
  Numbers expected;
  for (int i = 0; i < 2; ++i)
    for (int j = 2; j >= 0; --j)
      for (int k = 3; k >= 0; --k) expected.push_back(x.data[(i * 3 + j) * 4 + k]);
  const std::string type = "tensor<2x3x4xf32>";
  EXPECT_EQ(evaluate("%r = tg.flip %x {axes = [1, -1]} : " + type, type, {{"x", x}}).data, expected);
  EXPECT_EQ(evaluate("%r = tg.flip %x {axes = []} : " + type, type, {{"x", x}}).data, x.data);
}

TEST(Structure, SumOfSquares) {
  EXPECT_EQ(evaluate("%r = tg.sum_of_squares %x, %y, %z : tensor<f32>", "tensor<f32>",
                     {{"x", f32({2, 3}, {1, 2, 3, 4, 5, 6})}, {"y", f32({}, {7})}, {"z", f32({1}, {-8})}})
                .data,
            (Numbers{1 + 4 + 9 + 16 + 25 + 36 + 49 + 64}));
}

TEST(Structure, SwapStackSplitTile) {
  const NdArray x = scattered({2, 3}), y = f32({2, 3}, {1, 2, 3, 4, 5, 6});
  Numbers swapped, stacked, tiled, cut;
  for (int j = 0; j < 3; ++j)
    for (int i = 0; i < 2; ++i) swapped.push_back(x.data[i * 3 + j]);
  for (int i = 0; i < 2; ++i)
    for (const NdArray* part : {&x, &y})
      for (int j = 0; j < 3; ++j) stacked.push_back(part->data[i * 3 + j]);
  for (int i = 0; i < 4; ++i)
    for (int j = 0; j < 9; ++j) tiled.push_back(x.data[i % 2 * 3 + j % 3]);
  for (int i = 0; i < 2; ++i)
    for (int j = 1; j < 3; ++j) cut.push_back(x.data[i * 3 + j]);
  EXPECT_EQ(evaluate("%r = tg.swap_axes %x {axis0 = -1, axis1 = 0} : tensor<3x2xf32>", "tensor<3x2xf32>",
                     {{"x", x}})
                .data,
            swapped);
  EXPECT_EQ(evaluate("%r = tg.stack %x, %y {axis = 1} : tensor<2x2x3xf32>", "tensor<2x2x3xf32>",
                     {{"x", x}, {"y", y}})
                .data,
            stacked);
  EXPECT_EQ(
      evaluate("%r = tg.tile %x {repeats = [2, 3]} : tensor<4x9xf32>", "tensor<4x9xf32>", {{"x", x}}).data,
      tiled);
  EXPECT_EQ(evaluate("%a, %r = tg.split %x {axis = 1, sizes = [1, 2]} : tensor<2x1xf32>, tensor<2x2xf32>",
                     "tensor<2x2xf32>", {{"x", x}})
                .data,
            cut);
  EXPECT_EQ(evaluate("%a, %r, %d = tg.split %x {axis = 1, sections = 3} : tensor<2x1xf32>, tensor<2x1xf32>, "
                     "tensor<2x1xf32>",
                     "tensor<2x1xf32>", {{"x", x}})
                .data,
            (Numbers{x.data[1], x.data[4]}));
}

TEST(Structure, WhereCausalKeepsWhatARowMaySee) {
  for (auto [rows, columns] : {std::pair{3, 3}, {2, 4}, {4, 2}}) {
    const NdArray x = scattered({rows, columns});
    const std::string type = "tensor<" + std::to_string(rows) + "x" + std::to_string(columns) + "xf32>";
    Numbers expected;
    for (int i = 0; i < rows; ++i)
      for (int j = 0; j < columns; ++j)
        expected.push_back(j <= i + columns - rows ? x.data[static_cast<size_t>(i * columns + j)] : -8);
    EXPECT_EQ(evaluate("%r = tg.where_causal %x {fill = -8.0} : " + type, type, {{"x", x}}).data, expected);
  }
}

TEST(Structure, TakeAlongAxisAndItsAdjoint) {
  const NdArray x = scattered({2, 3, 2});
  const NdArray ids = i32({2, 4, 2}, {2, 0, 0, 3, -1, 1, 2, 1, 0, 0, 1, 1, 2, 2, 9, 0});
  Numbers taken, added(x.data.size(), 0.0);
  int outside = 0;
  for (int i = 0; i < 2; ++i)
    for (int j = 0; j < 4; ++j)
      for (int k = 0; k < 2; ++k) {
        const size_t at = static_cast<size_t>((i * 4 + j) * 2 + k);
        const int id = static_cast<int>(ids.data[at]);
        const bool inside = id >= 0 && id < 3;
        taken.push_back(inside ? x.data[static_cast<size_t>((i * 3 + id) * 2 + k)] : 0);
        if (inside) added[static_cast<size_t>((i * 3 + id) * 2 + k)] += static_cast<double>(at + 1);
        outside += !inside;
      }
  RunCounters counters;
  EXPECT_EQ(evaluate("%r = tg.take_along_axis %x, %i {axis = 1} : tensor<2x4x2xf32>", "tensor<2x4x2xf32>",
                     {{"x", x}, {"i", ids}}, InterpMode::automatic, &counters)
                .data,
            taken);
  EXPECT_EQ(counters.outOfRange, outside);
  NdArray dy = NdArray::zeros(Type::tensor(DType::f32, {2, 4, 2}));
  for (size_t at = 0; at < dy.data.size(); ++at) dy.data[at] = static_cast<double>(at + 1);
  EXPECT_EQ(evaluate("%r = tg.take_along_axis_grad %i, %g {axis = -2, extent = 3} : tensor<2x3x2xf32>",
                     "tensor<2x3x2xf32>", {{"i", ids}, {"g", dy}}, InterpMode::automatic, &counters)
                .data,
            added);
  EXPECT_EQ(counters.outOfRange, outside);
}

}  // namespace
}  // namespace tg::test
