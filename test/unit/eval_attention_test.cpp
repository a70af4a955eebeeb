// SPDX-License-Identifier: Apache-2.0
// attention and its gradients against sums over queries and keys written out here.
#include <cmath>

#include "test/unit/interp_test_support.h"

namespace tg::test {
namespace {

/// One head: what attention and attention_grad give, by their definition, element by element.
struct Head {
  int queries, keys, width, valueWidth;
  double scale;
  bool causal;
  std::vector<double> q, k, v, dy, dlse;

  bool sees(int i, int j) const { return !causal || j <= i + keys - queries; }
  double score(int i, int j) const {
    double sum = 0;
    for (int c = 0; c < width; ++c) sum += q[i * width + c] * k[j * width + c];
    return sum * scale;
  }
  double total(int i) const {
    double sum = 0;
    for (int j = 0; j < keys; ++j)
      if (sees(i, j)) sum += std::exp(score(i, j));
    return sum;
  }
  double weight(int i, int j) const { return sees(i, j) ? std::exp(score(i, j)) / total(i) : 0; }
  double output(int i, int c) const {
    double sum = 0;
    for (int j = 0; j < keys; ++j) sum += weight(i, j) * v[j * valueWidth + c];
    return sum;
  }
  /// d/d score(i, j) of Σ dy·o + Σ dlse·lse: the softmax's Jacobian row by row.
  double scoreGrad(int i, int j) const {
    double sum = 0;
    for (int other = 0; other < keys; ++other) {
      double dp = 0;
      for (int c = 0; c < valueWidth; ++c) dp += dy[i * valueWidth + c] * v[other * valueWidth + c];
      sum += dp * weight(i, other) * ((other == j) - weight(i, j));
    }
    return sum + dlse[i] * weight(i, j);
  }
  std::vector<double> outputs() const {
    std::vector<double> out;
    for (int i = 0; i < queries; ++i)
      for (int c = 0; c < valueWidth; ++c) out.push_back(output(i, c));
    return out;
  }
  std::vector<double> logSums() const {
    std::vector<double> out;
    for (int i = 0; i < queries; ++i) out.push_back(total(i) > 0 ? std::log(total(i)) : 0);
    return out;
  }
  std::vector<double> dq() const {
    std::vector<double> out(q.size(), 0);
    for (int i = 0; i < queries; ++i)
      for (int j = 0; j < keys; ++j)
        for (int c = 0; c < width; ++c) out[i * width + c] += scoreGrad(i, j) * scale * k[j * width + c];
    return out;
  }
  std::vector<double> dk() const {
    std::vector<double> out(k.size(), 0);
    for (int i = 0; i < queries; ++i)
      for (int j = 0; j < keys; ++j)
        for (int c = 0; c < width; ++c) out[j * width + c] += scoreGrad(i, j) * scale * q[i * width + c];
    return out;
  }
  std::vector<double> dv() const {
    std::vector<double> out(v.size(), 0);
    for (int i = 0; i < queries; ++i)
      for (int j = 0; j < keys; ++j)
        for (int c = 0; c < valueWidth; ++c) out[j * valueWidth + c] += weight(i, j) * dy[i * valueWidth + c];
    return out;
  }
};

class Attention : public ::testing::TestWithParam<std::tuple<int, int, bool>> {
 protected:
  void SetUp() override {
    const auto& [queries, keys, causal] = GetParam();
    constexpr int kWidth = 4, kValueWidth = 2;  // so that 1/√D has no rounding
    inputs_ = {{"q", scattered({queries, kWidth})},
               {"k", scattered({keys, kWidth})},
               {"v", scattered({keys, kValueWidth})},
               {"dy", scattered({queries, kValueWidth})},
               {"dl", scattered({queries})}};
    head_ = {queries,
             keys,
             kWidth,
             kValueWidth,
             0.5,
             causal,
             inputs_["q"].data,
             inputs_["k"].data,
             inputs_["v"].data,
             inputs_["dy"].data,
             inputs_["dl"].data};
    attrs_ = causal ? " {causal = true}" : "";
    o_ = "tensor<" + std::to_string(queries) + "x2xf32>",
    rows_ = "tensor<" + std::to_string(queries) + "xf32>";
    q_ = "tensor<" + std::to_string(queries) + "x4xf32>", k_ = "tensor<" + std::to_string(keys) + "x4xf32>";
    v_ = "tensor<" + std::to_string(keys) + "x2xf32>";
  }
  std::string forward(const char* names) const {
    return std::string(names) + " = tg.attention %q, %k, %v" + attrs_ + " : " + o_ + ", " + rows_ + "\n";
  }
  std::string backward(const char* names) const {
    return forward("%o, %l") + names + " = tg.attention_grad %q, %k, %v, %o, %l, %dy, %dl" + attrs_ + " : " +
           q_ + ", " + k_ + ", " + v_ + "\n";
  }

  Inputs inputs_;
  Head head_{};
  std::string attrs_, o_, rows_, q_, k_, v_;
};

TEST_P(Attention, IsItsDefinition) {
  expectNear(evaluate(forward("%r, %l"), o_, inputs_), head_.outputs(), 1024);
  expectNear(evaluate(forward("%o, %r"), rows_, inputs_), head_.logSums(), 1024);
}

TEST_P(Attention, GradientsAreTheSumsOverScores) {
  // A row that sees nothing has no statistics to differentiate.
  for (int i = 0; i < head_.queries; ++i)
    if (head_.total(i) == 0) head_.dlse[i] = inputs_["dl"].data[i] = 0;
  expectNear(evaluate(backward("%r, %b, %c"), q_, inputs_), head_.dq(), 65536);
  expectNear(evaluate(backward("%a, %r, %c"), k_, inputs_), head_.dk(), 65536);
  expectNear(evaluate(backward("%a, %b, %r"), v_, inputs_), head_.dv(), 65536);
}

INSTANTIATE_TEST_SUITE_P(Sizes, Attention,
                         ::testing::Combine(::testing::Values(1, 3, 6), ::testing::Values(1, 4),
                                            ::testing::Bool()),
                         [](const auto& info) {
                           return std::to_string(std::get<0>(info.param)) + "x" +
                                  std::to_string(std::get<1>(info.param)) +
                                  (std::get<2>(info.param) ? "causal" : "");
                         });

TEST(AttentionScale, IsAFactorOfTheScores) {
  const Inputs inputs{{"q", scattered({2, 4})}, {"k", scattered({3, 4})}, {"v", scattered({3, 2})}};
  Inputs doubled = inputs;
  for (double& value : doubled["q"].data) value *= 2;
  const std::string type = "tensor<2x2xf32>";
  // 1/√4 is the default.
  expectNear(evaluate("%r = tg.attention %q, %k, %v {scale = 1.0} : " + type, type, inputs),
             evaluate("%r = tg.attention %q, %k, %v : " + type, type, doubled).data);
}

TEST(AttentionRange, LargeScoresStayFinite) {
  const Inputs inputs{{"q", f32({1, 1}, {1000})}, {"k", f32({2, 1}, {10, -10})}, {"v", f32({2, 1}, {3, 5})}};
  expectNear(evaluate("%r, %l = tg.attention %q, %k, %v : tensor<1x1xf32>, tensor<1xf32>", "tensor<1x1xf32>",
                      inputs),
             {3});
  expectNear(
      evaluate("%o, %r = tg.attention %q, %k, %v : tensor<1x1xf32>, tensor<1xf32>", "tensor<1xf32>", inputs),
      {10000});
}

}  // namespace
}  // namespace tg::test
