// SPDX-License-Identifier: Apache-2.0
// mixed-precision{precision=f32x3}: what its kernels compute for a device with matrix units, each step rounded as on
// the device, against sums in f64 of the exact products.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "ir/parser.h"
#include "passes/pass.h"
#include "runtime/interp/interp.h"
#include "test/unit/halves.h"

namespace tg::test {
namespace {

struct Form {
  int64_t m, n, k;
  bool ta = false, tb = false;
  Shape left() const { return ta ? Shape{k, m} : Shape{m, k}; }
  Shape right() const { return tb ? Shape{n, k} : Shape{k, n}; }
  size_t leftAt(int64_t i, int64_t deep) const {
    return static_cast<size_t>(ta ? deep * m + i : i * k + deep);
  }
  size_t rightAt(int64_t deep, int64_t j) const {
    return static_cast<size_t>(tb ? j * k + deep : deep * n + j);
  }
  std::string str() const { return fmt::format("{}x{}x{}{}{}", m, n, k, ta ? " ta" : "", tb ? " tb" : ""); }
};

std::string module(const Form& form) {
  auto type = [](const Shape& shape) { return fmt::format("tensor<{}xf32>", shape.str()); };
  const std::string out = type({form.m, form.n});
  return fmt::format(
      "module @m stage(tensor) {{\n  func @f(%a: {}, %b: {}) -> (y: {}) {{\n    %y = tg.matmul %a, "
      "%b {{transpose_a = {}, transpose_b = {}}} : {}\n    return %y : {}\n  }}\n}}\n",
      type(form.left()), type(form.right()), out, form.ta, form.tb, out, out);
}

/// The result behind a pipeline, f32 rounded at each step of a kernel.
std::vector<double> computed(const Form& form, const NdArray& a, const NdArray& b,
                             const std::string& pipeline) {
  auto parsed = parse(module(form), "halved_products_test.tgir");
  EXPECT_TRUE(parsed) << parsed.error().str();
  auto passes = PassManager::parse(pipeline);
  EXPECT_TRUE(passes) << passes.error().str();
  std::unique_ptr<Module> lowered = *std::move(parsed);
  auto ran = passes->run(lowered);
  EXPECT_TRUE(ran) << ran.error().str();
  const bool units = pipeline.find("f32x3") != std::string::npos;
  EXPECT_EQ(print(*lowered).find("tgk.coopmat_mma") != std::string::npos, units);
  auto interp = Interpreter::create(*lowered);
  EXPECT_TRUE(interp) << interp.error().str();
  auto run = interp->run("f", {{"a", a}, {"b", b}});
  EXPECT_TRUE(run) << run.error().str();
  for (const std::string& finding : run->counters.findings) ADD_FAILURE() << finding;
  return run->results[0].second.data;
}

constexpr const char* kLower = "fuse{target=gpu-coopmat},plan,spirv-emit";
const std::string kHalves = std::string("mixed-precision{precision=f32x3,func=f},") + kLower;

/// The root of the mean square of errors, relative to what `sizes` says of each result.
struct Errors {
  double mean = 0, largest = 0;
};
struct Exact {
  std::vector<double> sums, sizes;
};

Exact exact(const Form& form, const NdArray& a, const NdArray& b) {
  Exact out;
  for (int64_t i = 0; i < form.m; ++i)
    for (int64_t j = 0; j < form.n; ++j) {
      double sum = 0, size = 0;
      for (int64_t deep = 0; deep < form.k; ++deep) {
        const double term = a.data[form.leftAt(i, deep)] * b.data[form.rightAt(deep, j)];
        sum += term, size += std::fabs(term);
      }
      out.sums.push_back(sum), out.sizes.push_back(size);
    }
  return out;
}

Errors errorsOf(const std::vector<double>& got, const Exact& want) {
  Errors out;
  for (size_t i = 0; i < got.size(); ++i) {
    const double error = std::fabs(got[i] - want.sums[i]) / want.sizes[i];
    out.mean += error * error / static_cast<double>(got.size());
    out.largest = std::fmax(out.largest, error);
  }
  out.mean = std::sqrt(out.mean);
  return out;
}

const std::vector<Form>& forms() {
  static const std::vector<Form> all = {{48, 32, 768},
                                        {48, 32, 1024},
                                        {33, 17, 301},
                                        {40, 24, 516, true, false},
                                        {20, 36, 300, false, true},
                                        {64, 130, 256, true, true}};
  return all;
}

/// Each operand of each form, changed by something that has the element's place along m or n, and along k.
using Change = std::function<double(double x, int64_t place, int64_t deep)>;
void eachForm(const Change& left, const Change& right,
              const std::function<void(const Form&, const NdArray&, const NdArray&)>& check) {
  for (const Form& form : forms()) {
    NdArray a = drawn(form.left(), 31), b = drawn(form.right(), 32);
    for (int64_t deep = 0; deep < form.k; ++deep) {
      for (int64_t i = 0; i < form.m; ++i) {
        double& x = a.data[form.leftAt(i, deep)];
        x = static_cast<float>(left(x, i, deep));
      }
      for (int64_t j = 0; j < form.n; ++j) {
        double& x = b.data[form.rightAt(deep, j)];
        x = static_cast<float>(right(x, j, deep));
      }
    }
    check(form, a, b);
  }
}

/// The bound that docs/precision.md gives: 2^-21 of the terms' sizes, and what f32 loses by adding sums of 16 terms.
void expectAccurate(const Form& form, const NdArray& a, const NdArray& b, const char* what,
                    bool asF32 = true) {
  const Exact want = exact(form, a, b);
  const Errors errors = errorsOf(computed(form, a, b, kHalves), want);
  const double additions = static_cast<double>(form.k) / 16 + 16;
  EXPECT_LE(errors.largest, 0x1p-21 + 0x1p-24 * additions) << what << " " << form.str();
  const double most = asF32 ? errorsOf(computed(form, a, b, kLower), want).mean : 0x1p-24;
  EXPECT_LE(errors.mean, most) << what << " " << form.str();
}

TEST(HalvedProducts, ErrorsAreOnAverageNoLargerThanThoseOfF32) {
  const Change same = [](double x, int64_t, int64_t) { return x; };
  auto check = [](const char* what, bool asF32 = true) {
    return [=](const Form& form, const NdArray& a, const NdArray& b) {
      expectAccurate(form, a, b, what, asF32);
    };
  };
  eachForm(same, same, check("activations"));
  eachForm([](double x, int64_t, int64_t) { return x * 1e-7; }, same, check("gradients"));
  eachForm([](double x, int64_t, int64_t) { return std::fabs(x) * 1e20; },
           [](double x, int64_t, int64_t) { return std::fabs(x) * 1e-22; }, check("of one sign"));
  // 2^-12 of the largest row keeps all digits.
  eachForm([](double x, int64_t place, int64_t) { return std::ldexp(x, -static_cast<int>(place % 13)); },
           same, check("rows of other sizes"));
  // Terms cancel others but for a 2^-16th, far ones or neighbours; f32, which adds them exactly, may be nearer.
  for (const int64_t apart : {int64_t{128}, int64_t{1}})
    eachForm(
        [=](double, int64_t place, int64_t deep) {
          return 1 + std::sin(static_cast<double>(place + deep / (2 * apart) * apart + deep % apart)) / 4;
        },
        [=](double, int64_t place, int64_t deep) {
          const int64_t pair = deep / (2 * apart) * apart + deep % apart;
          const double x = 1 + std::cos(static_cast<double>(7 * place + pair)) / 4;
          return deep / apart % 2 ? -x * (1 + 0x1p-16) : x;
        },
        check("cancelling", false));
}

TEST(HalvedProducts, SmallRowsLoseWhatTheLargestElementSays) {
  const Form form{32, 16, 256};
  NdArray a = drawn(form.left(), 33), b = drawn(form.right(), 34);
  double most = 0;
  for (double x : a.data) most = std::fmax(most, std::fabs(x));
  for (int64_t deep = 0; deep < form.k; ++deep) a.data[form.leftAt(1, deep)] *= 0x1p-30;
  const Exact want = exact(form, a, b);
  const std::vector<double> got = computed(form, a, b, kHalves);
  for (int64_t j = 0; j < form.n; ++j) {
    double sizes = 0;
    for (int64_t deep = 0; deep < form.k; ++deep) sizes += std::fabs(b.data[form.rightAt(deep, j)]);
    const auto at = static_cast<size_t>(form.n + j);
    EXPECT_NEAR(got[at], want.sums[at], 0x1p-38 * most * sizes + 0x1p-20 * want.sizes[at]);
    EXPECT_NE(got[at], 0);
  }
}

TEST(HalvedProducts, WhatIsNotFiniteReachesItsResultsAlone) {
  const Form form{32, 32, 48};
  for (const double bad : {double(NAN), double(INFINITY), -double(INFINITY)}) {
    NdArray a = drawn(form.left(), 35, 1e-6), b = drawn(form.right(), 36);
    a.data[form.leftAt(5, 17)] = bad;
    NdArray finite = a;
    finite.data[form.leftAt(5, 17)] = 0;
    const Exact want = exact(form, finite, b);
    const std::vector<double> got = computed(form, a, b, kHalves);
    for (int64_t i = 0; i < form.m; ++i)
      for (int64_t j = 0; j < form.n; ++j) {
        const auto at = static_cast<size_t>(i * form.n + j);
        if (i == 5)
          EXPECT_TRUE(std::isnan(got[at])) << bad;
        else
          EXPECT_NEAR(got[at], want.sums[at], 0x1p-20 * want.sizes[at]) << bad;
      }
  }
}

TEST(HalvedProducts, ZerosAndTheEndsOfF32) {
  const Form form{16, 32, 16};
  const NdArray b = drawn(form.right(), 37);
  NdArray a = drawn(form.left(), 38, 0);
  for (double x : computed(form, a, b, kHalves)) EXPECT_EQ(x, 0);
  for (const double size : {0x1p-84, 0x1p90, 0x1p125}) {
    a = drawn(form.left(), 39);
    for (double& x : a.data) x = std::fmax(-1, std::fmin(x, 1)) * size;
    const Exact want = exact(form, a, b);
    const std::vector<double> got = computed(form, a, b, kHalves);
    for (size_t i = 0; i < got.size(); ++i) {
      // Where elements are larger than any scale makes small the result says so.
      if (size == 0x1p125)
        EXPECT_FALSE(std::isfinite(got[i])) << i;
      else
        EXPECT_NEAR(got[i], want.sums[i], 0x1p-20 * want.sizes[i]) << size;
    }
  }
}

}  // namespace
}  // namespace tg::test
