// SPDX-License-Identifier: Apache-2.0
// 3x3 convolutions of f32 by Winograd's algorithm: by the interpreter of kernels, against that of tensors.
#include <string>

#include "test/unit/convolution_case.h"

namespace tg::test {
namespace {

class Winograd : public ::testing::TestWithParam<ConvolutionCase> {};

TEST_P(Winograd, GivesWhatTensorsGive) {
  expectKernelsGiveWhatTensorsGive(GetParam(), *targetByName("gpu"), "winograd_result");
}

// Extents of results that tiles of 2x2 divide and others; windows that begin before the image, in it, and with padding of
// more than a window, where only the gradient of the image is a sum over windows.
INSTANTIATE_TEST_SUITE_P(
    Shapes, Winograd,
    ::testing::Values(ConvolutionCase{"even", {1, 80, 22, 24}, {80, 80, 3, 3}, 1, 1, 1, 1, DType::f32},
                      ConvolutionCase{"odd", {3, 88, 13, 13}, {80, 88, 3, 3}, 1, 1, 1, 1, DType::f32},
                      ConvolutionCase{"unpadded", {2, 80, 18, 21}, {96, 80, 3, 3}, 1, 0, 1, 1, DType::f32},
                      ConvolutionCase{"padded", {2, 80, 14, 17}, {84, 80, 3, 3}, 1, 2, 1, 1, DType::f32},
                      ConvolutionCase{"outside", {3, 80, 11, 10}, {80, 80, 3, 3}, 1, 3, 1, 1, DType::f32},
                      ConvolutionCase{"single", {130, 80, 3, 3}, {81, 80, 3, 3}, 1, 0, 1, 1, DType::f32}),
    [](const auto& param) { return std::string(param.param.label); });

}  // namespace
}  // namespace tg::test
