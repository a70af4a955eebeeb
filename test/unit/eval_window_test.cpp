// SPDX-License-Identifier: Apache-2.0
// Windows, convolutions and pooling against nested loops written here.
#include <fmt/format.h>

#include <array>
#include <limits>

#include "test/unit/interp_test_support.h"

namespace tg::test {
namespace {

using Pair = std::array<int64_t, 2>;

std::string text(Pair p) { return fmt::format("[{}, {}]", p[0], p[1]); }
std::string type(const Shape& shape) { return Type::tensor(DType::f32, shape).str(); }

struct Conv {
  Shape x, w;
  Pair stride{1, 1}, padding{0, 0}, dilation{1, 1};
  int64_t groups = 1;
  Pair extra{0, 0};  ///< conv_transpose2d: output_padding

  std::string attrs() const {
    return fmt::format("stride = {}, padding = {}, dilation = {}, groups = {}", text(stride), text(padding),
                       text(dilation), groups);
  }
  Shape out() const {
    Shape shape{x[0], w[0], 0, 0};
    for (int i = 0; i < 2; ++i)
      shape[2 + i] = (x[2 + i] + 2 * padding[i] - dilation[i] * (w[2 + i] - 1) - 1) / stride[i] + 1;
    return shape;
  }
  /// fn(x's offset, w's offset, y's offset) for every product of the convolution.
  template <class Fn>
  void eachTerm(Fn fn) const {
    const Shape y = out();
    const int64_t outputs = w[0] / groups, inputs = w[1];
    for (int64_t n = 0; n < x[0]; ++n)
      for (int64_t k = 0; k < w[0]; ++k)
        for (int64_t oh = 0; oh < y[2]; ++oh)
          for (int64_t ow = 0; ow < y[3]; ++ow)
            for (int64_t c = 0; c < inputs; ++c)
              for (int64_t u = 0; u < w[2]; ++u)
                for (int64_t v = 0; v < w[3]; ++v) {
                  const int64_t i = oh * stride[0] + u * dilation[0] - padding[0],
                                j = ow * stride[1] + v * dilation[1] - padding[1];
                  if (i < 0 || j < 0 || i >= x[2] || j >= x[3]) continue;
                  const int64_t channel = k / outputs * inputs + c;
                  fn(((n * x[1] + channel) * x[2] + i) * x[3] + j, ((k * inputs + c) * w[2] + u) * w[3] + v,
                     ((n * w[0] + k) * y[2] + oh) * y[3] + ow);
                }
  }
};

/// Dense to depthwise, every attribute, even kernels, 1x1, padding beyond the kernel's reach.
const std::vector<Conv> kConvs = {
    {{2, 3, 5, 7}, {4, 3, 3, 3}},
    {{2, 3, 5, 7}, {4, 3, 3, 3}, {1, 1}, {1, 1}},
    {{1, 2, 8, 9}, {3, 2, 3, 2}, {2, 3}, {1, 0}},
    {{2, 2, 9, 11}, {2, 2, 3, 3}, {1, 1}, {2, 1}, {2, 3}},
    {{1, 3, 9, 8}, {2, 3, 2, 4}, {3, 2}, {2, 1}, {2, 1}},
    {{2, 4, 6, 5}, {6, 2, 3, 3}, {1, 1}, {1, 1}, {1, 1}, 2},
    {{2, 6, 7, 6}, {6, 1, 3, 3}, {2, 1}, {1, 1}, {1, 2}, 6},
    {{2, 3, 4, 4}, {6, 1, 2, 2}, {1, 1}, {0, 0}, {1, 1}, 3},
    {{3, 5, 4, 3}, {2, 5, 1, 1}},
    {{1, 2, 5, 5}, {3, 2, 1, 1}, {2, 2}, {1, 2}},
    {{1, 1, 4, 4}, {1, 1, 4, 4}},
    {{1, 1, 2, 3}, {2, 1, 2, 2}, {1, 1}, {3, 4}},
};

TEST(Windows, UnfoldReadsForwardsAndBackwards) {
  const NdArray x = scattered({2, 7, 3});
  for (int64_t dilation : {2, -2}) {
    std::vector<double> expected;
    for (int64_t a = 0; a < 2; ++a)
      for (int64_t o = 0; o < 2; ++o)
        for (int64_t b = 0; b < 3; ++b)
          for (int64_t k = 0; k < 3; ++k) {
            const int64_t at = o * 2 + 2 * (dilation > 0 ? k : 2 - k);
            expected.push_back(x.data[(a * 7 + at) * 3 + b]);
          }
    const std::string line =
        fmt::format("%r = tg.unfold %x {{axis = -2, size = 3, step = 2, dilation = {}}}", dilation);
    EXPECT_EQ(evaluate(line + " : tensor<2x2x3x3xf32>", "tensor<2x2x3x3xf32>", {{"x", x}}).data, expected);
  }
}

TEST(Windows, FoldAddsWhereWindowsOverlap) {
  const NdArray p = scattered({3, 2, 4});  // 3 windows of 4 along axis 0
  for (int64_t dilation : {1, -1}) {
    std::vector<double> expected(9 * 2, 0);
    for (int64_t o = 0; o < 3; ++o)
      for (int64_t b = 0; b < 2; ++b)
        for (int64_t k = 0; k < 4; ++k)
          expected[(o * 2 + (dilation > 0 ? k : 3 - k)) * 2 + b] += p.data[(o * 2 + b) * 4 + k];
    const std::string line =
        fmt::format("%r = tg.fold %p {{axis = 0, extent = 9, step = 2, dilation = {}}}", dilation);
    expectNear(evaluate(line + " : tensor<9x2xf32>", "tensor<9x2xf32>", {{"p", p}}), expected);
  }
}

TEST(Convolution, MatchesNestedLoops) {
  for (const Conv& conv : kConvs) {
    SCOPED_TRACE(type(conv.x) + " " + type(conv.w) + " " + conv.attrs());
    const NdArray x = scattered(conv.x), w = scattered(conv.w);
    std::vector<double> y(static_cast<size_t>(conv.out().elements()), 0);
    conv.eachTerm([&](int64_t xAt, int64_t wAt, int64_t yAt) { y[yAt] += x.data[xAt] * w.data[wAt]; });
    const std::string out = type(conv.out());
    expectNear(evaluate(fmt::format("%r = tg.conv2d %x, %w {{{}}} : {}", conv.attrs(), out), out,
                        {{"x", x}, {"w", w}}),
               y);
  }
}

TEST(Convolution, GradientsMatchNestedLoops) {
  for (const Conv& conv : kConvs) {
    SCOPED_TRACE(type(conv.x) + " " + type(conv.w) + " " + conv.attrs());
    const NdArray x = scattered(conv.x), w = scattered(conv.w), dy = scattered(conv.out());
    std::vector<double> dx(x.data.size(), 0), dw(w.data.size(), 0);
    conv.eachTerm([&](int64_t xAt, int64_t wAt, int64_t yAt) {
      dx[xAt] += w.data[wAt] * dy.data[yAt];
      dw[wAt] += x.data[xAt] * dy.data[yAt];
    });
    expectNear(evaluate(fmt::format("%r = tg.conv2d_grad_input %w, %y {{input_size = {}, {}}} : {}",
                                    text({conv.x[2], conv.x[3]}), conv.attrs(), type(conv.x)),
                        type(conv.x), {{"w", w}, {"y", dy}}),
               dx);
    expectNear(evaluate(fmt::format("%r = tg.conv2d_grad_weight %x, %y {{kernel_size = {}, {}}} : {}",
                                    text({conv.w[2], conv.w[3]}), conv.attrs(), type(conv.w)),
                        type(conv.w), {{"x", x}, {"y", dy}}),
               dw);
  }
}

TEST(Convolution, TransposedScattersEveryElement) {
  const std::vector<Conv> cases = {
      {{2, 3, 4, 5}, {3, 2, 3, 3}},
      {{2, 3, 4, 5}, {3, 2, 3, 2}, {2, 3}, {1, 0}, {1, 1}, 1, {1, 2}},
      {{1, 4, 3, 3}, {4, 3, 2, 2}, {2, 2}, {0, 1}, {2, 1}, 2, {0, 1}},
  };
  for (const Conv& t : cases) {
    Shape y{t.x[0], t.w[1] * t.groups, 0, 0};
    for (int i = 0; i < 2; ++i)
      y[2 + i] = (t.x[2 + i] - 1) * t.stride[i] - 2 * t.padding[i] + t.dilation[i] * (t.w[2 + i] - 1) +
                 t.extra[i] + 1;
    SCOPED_TRACE(type(t.x) + " " + type(t.w) + " " + t.attrs() + " gives " + type(y));
    const NdArray x = scattered(t.x), w = scattered(t.w);
    std::vector<double> expected(static_cast<size_t>(y.elements()), 0);
    const int64_t inputs = t.x[1] / t.groups;
    for (int64_t n = 0; n < t.x[0]; ++n)
      for (int64_t c = 0; c < t.x[1]; ++c)
        for (int64_t i = 0; i < t.x[2]; ++i)
          for (int64_t j = 0; j < t.x[3]; ++j)
            for (int64_t k = 0; k < t.w[1]; ++k)
              for (int64_t u = 0; u < t.w[2]; ++u)
                for (int64_t v = 0; v < t.w[3]; ++v) {
                  const int64_t row = i * t.stride[0] + u * t.dilation[0] - t.padding[0],
                                column = j * t.stride[1] + v * t.dilation[1] - t.padding[1];
                  if (row < 0 || column < 0 || row >= y[2] || column >= y[3]) continue;
                  const int64_t channel = c / inputs * t.w[1] + k;
                  expected[((n * y[1] + channel) * y[2] + row) * y[3] + column] +=
                      x.data[((n * t.x[1] + c) * t.x[2] + i) * t.x[3] + j] *
                      w.data[((c * t.w[1] + k) * t.w[2] + u) * t.w[3] + v];
                }
    expectNear(evaluate(fmt::format("%r = tg.conv_transpose2d %x, %w {{{}, output_padding = {}}} : {}",
                                    t.attrs(), text(t.extra), type(y)),
                        type(y), {{"x", x}, {"w", w}}),
               expected);
  }
}

struct Pool {
  Shape x;
  Pair kernel, stride, padding{0, 0}, dilation{1, 1};

  Shape out() const {
    Shape shape{x[0], x[1], 0, 0};
    for (int i = 0; i < 2; ++i)
      shape[2 + i] = (x[2 + i] + 2 * padding[i] - dilation[i] * (kernel[i] - 1) - 1) / stride[i] + 1;
    return shape;
  }
  /// fn(y's offset, offsets of the x inside the window) for every window.
  template <class Fn>
  void eachWindow(Fn fn) const {
    const Shape y = out();
    for (int64_t image = 0; image < x[0] * x[1]; ++image)
      for (int64_t oh = 0; oh < y[2]; ++oh)
        for (int64_t ow = 0; ow < y[3]; ++ow) {
          std::vector<int64_t> inside;
          for (int64_t u = 0; u < kernel[0]; ++u)
            for (int64_t v = 0; v < kernel[1]; ++v) {
              const int64_t i = oh * stride[0] + u * dilation[0] - padding[0],
                            j = ow * stride[1] + v * dilation[1] - padding[1];
              if (i >= 0 && j >= 0 && i < x[2] && j < x[3]) inside.push_back((image * x[2] + i) * x[3] + j);
            }
          fn((image * y[2] + oh) * y[3] + ow, inside);
        }
  }
  std::string attrs() const {
    return fmt::format("kernel = {}, stride = {}, padding = {}", text(kernel), text(stride), text(padding));
  }
};

const std::vector<Pool> kPools = {
    {{2, 3, 4, 6}, {2, 2}, {2, 2}},
    {{1, 2, 7, 5}, {3, 3}, {2, 2}, {1, 1}},
    {{2, 1, 5, 6}, {2, 3}, {1, 2}, {1, 0}},
    {{1, 1, 3, 3}, {3, 3}, {1, 1}, {1, 1}},
};

TEST(Pooling, MaximumAndItsGradient) {
  std::vector<Pool> pools = kPools;
  pools.push_back({{1, 2, 9, 8}, {3, 2}, {2, 1}, {1, 1}, {2, 3}});
  // Windows whose maxima are taken along W, then along H.
  pools.push_back({{2, 2, 11, 12}, {5, 7}, {1, 1}, {2, 3}});
  pools.push_back({{1, 2, 14, 13}, {6, 9}, {1, 2}, {0, 4}, {2, 1}});
  for (const Pool& pool : pools) {
    SCOPED_TRACE(type(pool.x) + " " + pool.attrs());
    NdArray x = scattered(pool.x);
    // Ties, and everything below zero, where padding at zero would win.
    for (double& value : x.data) value = std::floor(value) - 4;
    const NdArray dy = scattered(pool.out());
    std::vector<double> y(dy.data.size()), dx(x.data.size(), 0);
    pool.eachWindow([&](int64_t at, const std::vector<int64_t>& inside) {
      int64_t best = inside.at(0);
      for (int64_t each : inside)
        if (x.data[each] > x.data[best]) best = each;
      y[at] = x.data[best];
      dx[best] += dy.data[at];
    });
    const std::string attrs = pool.attrs() + ", dilation = " + text(pool.dilation);
    const std::string out = type(pool.out());
    EXPECT_EQ(evaluate(fmt::format("%r = tg.max_pool2d %x {{{}}} : {}", attrs, out), out, {{"x", x}}).data,
              y);
    expectNear(evaluate(fmt::format("%r = tg.max_pool2d_grad %x, %y {{{}}} : {}", attrs, type(pool.x)),
                        type(pool.x), {{"x", x}, {"y", dy}}),
               dx);
  }
}

TEST(Pooling, PaddingDoesNotBeatMinusInfinity) {
  const double inf = std::numeric_limits<double>::infinity();
  const NdArray x = f32({1, 1, 2, 2}, {-inf, -inf, -inf, 5});
  EXPECT_EQ(evaluate("%r = tg.max_pool2d %x {kernel = [2, 2], padding = [1, 1]} : tensor<1x1x2x2xf32>",
                     "tensor<1x1x2x2xf32>", {{"x", x}})
                .data,
            (std::vector<double>{-inf, -inf, -inf, 5}));
}

TEST(Pooling, MeanAndItsGradient) {
  for (const Pool& pool : kPools)
    for (bool counts : {true, false}) {
      SCOPED_TRACE(type(pool.x) + " " + pool.attrs() + (counts ? " padding counts" : ""));
      const NdArray x = scattered(pool.x), dy = scattered(pool.out());
      std::vector<double> y(dy.data.size(), 0), dx(x.data.size(), 0);
      pool.eachWindow([&](int64_t at, const std::vector<int64_t>& inside) {
        const auto over = static_cast<double>(counts ? pool.kernel[0] * pool.kernel[1]
                                                     : static_cast<int64_t>(inside.size()));
        for (int64_t each : inside) {
          y[at] += x.data[each] / over;
          dx[each] += dy.data[at] / over;
        }
      });
      const std::string attrs = pool.attrs() + fmt::format(", count_include_pad = {}", counts);
      const std::string out = type(pool.out());
      expectNear(evaluate(fmt::format("%r = tg.avg_pool2d %x {{{}}} : {}", attrs, out), out, {{"x", x}}), y);
      expectNear(evaluate(fmt::format("%r = tg.avg_pool2d_grad %y {{input_size = {}, {}}} : {}",
                                      text({pool.x[2], pool.x[3]}), attrs, type(pool.x)),
                          type(pool.x), {{"y", dy}}),
                 dx);
    }
}

TEST(Pooling, AnAbsentStrideIsTheKernel) {
  const NdArray x = scattered({1, 1, 4, 6});
  std::vector<double> y;
  for (int i = 0; i < 2; ++i)
    for (int j = 0; j < 2; ++j) {
      double most = -1e9;
      for (int u = 0; u < 2; ++u)
        for (int v = 0; v < 3; ++v) most = std::max(most, x.data[(i * 2 + u) * 6 + j * 3 + v]);
      y.push_back(most);
    }
  EXPECT_EQ(evaluate("%r = tg.max_pool2d %x {kernel = [2, 3]} : tensor<1x1x2x2xf32>", "tensor<1x1x2x2xf32>",
                     {{"x", x}})
                .data,
            y);
}

TEST(Upsampling, RepeatsElements) {
  const NdArray x = scattered({2, 1, 2, 3});
  std::vector<double> y;
  for (int n = 0; n < 2; ++n)
    for (int i = 0; i < 4; ++i)
      for (int j = 0; j < 9; ++j) y.push_back(x.data[(n * 2 + i / 2) * 3 + j / 3]);
  EXPECT_EQ(evaluate("%r = tg.upsample_nearest2d %x {scale = [2, 3]} : tensor<2x1x4x9xf32>",
                     "tensor<2x1x4x9xf32>", {{"x", x}})
                .data,
            y);
}

}  // namespace
}  // namespace tg::test
