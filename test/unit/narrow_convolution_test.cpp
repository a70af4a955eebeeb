// SPDX-License-Identifier: Apache-2.0
// Convolutions of 16 bits by matrix units, from images with channels last: by the interpreter of kernels, against that of
// tensors.
#include <memory>
#include <string>

#include "test/unit/convolution_case.h"

namespace tg::test {
namespace {

class NarrowConvolution : public ::testing::TestWithParam<ConvolutionCase> {};

TEST_P(NarrowConvolution, GivesWhatTensorsGive) {
  expectKernelsGiveWhatTensorsGive(GetParam(), withFragments(), "tgk.coopmat_mma");
}

TEST_P(NarrowConvolution, StoresTheImageOnce) {
  const ConvolutionCase& c = GetParam();
  auto module = parse(textOf(c), "convolution.tgir");
  ASSERT_TRUE(module) << module.error().str();
  const TargetFile file(withFragments());
  ASSERT_TRUE(PassManager::parse(fmt::format("fuse{{target={}}}", file.path()))->run(*module));
  int copies = 0;
  const Shape last{c.x[0], c.x[2] + 2 * c.padding, c.x[3] + 2 * c.padding, c.x[1]};
  for (const Op* op : (*module)->func("both")->body.ops)
    for (const auto& result : op->results) copies += result->type.shape == last;
  EXPECT_EQ(copies, c.last ? 1 : 0) << print(**module);
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, NarrowConvolution,
    ::testing::Values(
        ConvolutionCase{"plain", {2, 16, 8, 8}, {16, 16, 3, 3}, 1, 1},
        ConvolutionCase{"half", {2, 16, 8, 8}, {24, 16, 3, 3}, 1, 1, 1, 1, DType::f16},
        ConvolutionCase{"odd", {1, 24, 9, 7}, {40, 24, 3, 2}, 1, 1},
        ConvolutionCase{"strided", {2, 8, 13, 11}, {16, 8, 3, 3}, 2, 1},
        ConvolutionCase{"dilated", {1, 8, 12, 12}, {16, 8, 3, 3}, 1, 2, 2},
        ConvolutionCase{"unpadded", {1, 32, 8, 9}, {16, 32, 2, 2}},
        ConvolutionCase{"strided4", {2, 16, 12, 13}, {32, 16, 4, 3}, 2, 1},
        ConvolutionCase{"strided5", {1, 16, 14, 17}, {16, 16, 5, 5}, 3, 2},
        ConvolutionCase{"strided2", {1, 16, 8, 8}, {24, 16, 2, 2}, 2, 0, 1, 1, DType::f16},
        ConvolutionCase{"single7", {2, 16, 7, 7}, {24, 16, 1, 1}},
        ConvolutionCase{"strided1", {1, 16, 16, 16}, {16, 16, 1, 1}, 2},
        ConvolutionCase{"single", {1, 16, 8, 8}, {16, 16, 1, 1}, 1, 0, 1, 1, DType::bf16, false},
        ConvolutionCase{"channels3", {1, 3, 12, 12}, {16, 3, 3, 3}, 1, 1, 1, 1, DType::bf16, false},
        ConvolutionCase{"groups", {1, 32, 8, 8}, {32, 16, 3, 3}, 1, 1, 1, 2, DType::bf16, false}),
    [](const auto& param) { return std::string(param.param.label); });

}  // namespace
}  // namespace tg::test
