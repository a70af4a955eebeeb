// SPDX-License-Identifier: Apache-2.0
// Attention and its gradients: modules of them, and what they compute, in f64.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "runtime/interp/interp.h"
#include "test/unit/halves.h"

namespace tg::test {

inline double rounded(DType dtype, double x) {
  return isNarrow(dtype) ? narrowValue(dtype, narrowBits(dtype, x)) : x;
}

/// Whether an attention has a bias, and what it differs by.
enum class BiasOf : uint8_t { none, keys, scores };

struct AttentionCase {
  int64_t batch, queries, keys, width, valueWidth;
  DType dtype;
  bool causal;
  const char* schedule = nullptr;  ///< in place of the chosen one
  double growth = 0;               ///< key i is 1 + growth·i times as large: maxima rise again and again
  BiasOf bias = BiasOf::none;      ///< hides many keys, the first 40 of each batch among them
  double drop = 0;                 ///< the share of weights that a keep drops
};

inline std::string nameOf(const AttentionCase& c) {
  constexpr const char* kNames[] = {"", "bias", "biases"};
  return fmt::format("B{}T{}S{}D{}x{}{}{}{}{}{}{}", c.batch, c.queries, c.keys, c.width, c.valueWidth,
                     name(c.dtype), c.causal ? "causal" : "", c.schedule ? "other" : "",
                     c.growth != 0 ? "rising" : "", kNames[static_cast<size_t>(c.bias)],
                     c.drop != 0 ? "drop" : "");
}

inline int64_t rowsOfBias(const AttentionCase& c) { return c.bias == BiasOf::scores ? c.queries : 1; }

inline std::string attentionText(const AttentionCase& c) {
  auto type = [&](int64_t rows, int64_t columns) {
    return columns ? fmt::format("tensor<{}x{}x{}xf32>", c.batch, rows, columns)
                   : fmt::format("tensor<{}x{}xf32>", c.batch, rows);
  };
  const std::string q = type(c.queries, c.width), k = type(c.keys, c.width), v = type(c.keys, c.valueWidth),
                    o = type(c.queries, c.valueWidth), l = type(c.queries, 0);
  const std::string attrs = fmt::format("{{causal = {}, precision = {}}}", c.causal, name(c.dtype));
  if (c.bias != BiasOf::none || c.drop != 0) {
    const std::string b = type(rowsOfBias(c), c.keys), keep = type(c.queries, c.keys / 16);
    const std::string more =
        fmt::format("{}{}", c.bias != BiasOf::none ? "%b" : "%none", c.drop != 0 ? ", %keep" : "");
    return fmt::format(
        "module @m {{\n"
        "  func @f(%q: {0}, %k: {1}, %v: {2}, %dy: {3}, %b: {4}, %keep: {5}) -> (o: {3}, lse: {6}, dq: {0}, "
        "dk: {1}, "
        "dv: {2}) {{\n"
        "    %none = tg.constant 0.0 : tensor<f32>\n"
        "    %o, %l = tg.attention %q, %k, %v, {7} {8} : {3}, {6}\n"
        "    %t = tg.mul %o, %dy : {3}\n    %delta = tg.sum %t {{axes = [2]}} : {6}\n"
        "    %dq = tg.attention_grad_q %q, %k, %v, %l, %delta, %dy, {7} {8} : {0}\n"
        "    %dk, %dv = tg.attention_grad_kv %q, %k, %v, %l, %delta, %dy, {7} {8} : {1}, {2}\n"
        "    return %o, %l, %dq, %dk, %dv : {3}, {6}, {0}, {1}, {2}\n  }}\n}}\n",
        q, k, v, o, b, keep, l, more,
        fmt::format("{{causal = {}, precision = {}, p = {}}}", c.causal, name(c.dtype), c.drop));
  }
  return fmt::format(
      "module @m {{\n"
      "  func @f(%q: {0}, %k: {1}, %v: {2}, %dy: {3}) -> (o: {3}, lse: {4}, dq: {0}, dk: {1}, dv: {2}) {{\n"
      "    %o, %l = tg.attention %q, %k, %v {5} : {3}, {4}\n"
      "    %dq, %dk, %dv = tg.attention_grad %q, %k, %v, %o, %l, %dy {5} : {0}, {1}, {2}\n"
      "    return %o, %l, %dq, %dk, %dv : {3}, {4}, {0}, {1}, {2}\n  }}\n}}\n",
      q, k, v, o, l, attrs);
}

using Arrays = std::map<std::string, NdArray>;

/// A bias for each key of a batch, or for each score: -1e9 for the first 40 keys and for every third, else small. One for
/// each score also hides other keys, and all of them from query 5.
inline NdArray biases(const AttentionCase& c) {
  NdArray out = drawn({c.batch, rowsOfBias(c), c.keys}, 5);
  for (size_t i = 0; i < out.data.size(); ++i) {
    const int64_t key = static_cast<int64_t>(i) % c.keys;
    const int64_t query = static_cast<int64_t>(i) / c.keys % rowsOfBias(c);
    const bool hides = key < 40 || (key + query) % 3 == 0;
    if (hides || (c.bias == BiasOf::scores && (query == 5 || key * query % 7 == 3))) out.data[i] = -1e9F;
  }
  return out;
}

/// Whether the weight of a query and a key stays: a pseudo-random choice.
inline bool stays(const AttentionCase& c, int64_t batch, int64_t query, int64_t key) {
  const auto number = static_cast<uint64_t>((batch * c.queries + query) * c.keys + key);
  return static_cast<double>(number * 0x9e3779b97f4a7c15U >> 40) >= c.drop * 0x1p24;
}

/// The bits of `stays`, 16 keys a number.
inline NdArray keeps(const AttentionCase& c) {
  NdArray out = drawn({c.batch, c.queries, c.keys / 16}, 6);
  for (size_t i = 0; i < out.data.size(); ++i) {
    const auto row = static_cast<int64_t>(i) / (c.keys / 16),
               first = static_cast<int64_t>(i) % (c.keys / 16) * 16;
    int number = 0;
    for (int bit = 0; bit < 16; ++bit)
      number |= static_cast<int>(stays(c, row / c.queries, row % c.queries, first + bit)) << bit;
    out.data[i] = number;
  }
  return out;
}

inline Arrays inputs(const AttentionCase& c) {
  NdArray keys = drawn({c.batch, c.keys, c.width}, 2);
  for (size_t i = 0; i < keys.data.size(); ++i) {
    const auto key = static_cast<double>(static_cast<int64_t>(i) / c.width % c.keys);
    keys.data[i] = static_cast<float>(keys.data[i] * (1 + c.growth * key));
  }
  Arrays out = {{"q", drawn({c.batch, c.queries, c.width}, 1)},
                {"k", std::move(keys)},
                {"v", drawn({c.batch, c.keys, c.valueWidth}, 3)},
                {"dy", drawn({c.batch, c.queries, c.valueWidth}, 4)}};
  if (c.bias == BiasOf::none && c.drop == 0) return out;
  out.emplace("b", biases(c));
  out.emplace("keep", keeps(c));
  return out;
}

/// The five results and, beside each element, the sum of the absolute terms it is rounded from.
struct AttentionFormula {
  std::map<std::string, std::vector<double>> value, size;
};

/// softmax(q·kᵀ/√D + b)·v, where some weights are dropped and the others divided by 1 - drop, and its gradients, in f64,
/// from rounded q, k, v and dy; delta, the sum of o·dy, from dy as it is.
inline AttentionFormula attentionFormula(const AttentionCase& c, const Arrays& in) {
  AttentionFormula out;
  auto given = [&](const char* array, int64_t b, int64_t rows, int64_t row, int64_t width, int64_t column) {
    return in.at(array).data[static_cast<size_t>((b * rows + row) * width + column)];
  };
  auto of = [&](auto... where) { return rounded(c.dtype, given(where...)); };
  auto add = [&](const char* result, int64_t at, int64_t count, double term, double size) {
    auto &values = out.value[result], &sizes = out.size[result];
    values.resize(static_cast<size_t>(count)), sizes.resize(static_cast<size_t>(count));
    values[static_cast<size_t>(at)] += term, sizes[static_cast<size_t>(at)] += std::fabs(size);
  };
  const int64_t queries = c.queries, keys = c.keys, width = c.width, wide = c.valueWidth, batch = c.batch;
  const double scale = 1 / std::sqrt(static_cast<double>(width));
  for (int64_t b = 0; b < batch; ++b)
    for (int64_t t = 0; t < queries; ++t) {
      const int64_t seen = c.causal ? std::min(keys, t + 1 + keys - queries) : keys;
      std::vector<double> p, dp;
      const int64_t biasRow = c.bias == BiasOf::scores ? b * queries + t : b;
      double total = 0, delta = 0, deltaSize = 0;
      for (int64_t s = 0; s < seen; ++s) {
        double score = 0, grad = 0;
        for (int64_t d = 0; d < width; ++d)
          score += of("q", b, queries, t, width, d) * of("k", b, keys, s, width, d);
        for (int64_t d = 0; d < wide; ++d)
          grad += of("dy", b, queries, t, wide, d) * of("v", b, keys, s, wide, d);
        const double share = stays(c, b, t, s) ? 1 / (1 - c.drop) : 0;
        const double bias =
            c.bias == BiasOf::none ? 0.0 : in.at("b").data[static_cast<size_t>(biasRow * keys + s)];
        p.push_back(score * scale + bias), dp.push_back(grad * share);
      }
      // A row without a visible score has equal weights, as f32 leaves nothing of the scores, and no gradient.
      const double top = *std::max_element(p.begin(), p.end());
      const bool blind = top < -1e8;
      for (double& each : p) total += each = blind ? 1 : std::exp(each - top);
      const double lse = blind ? -1e9 : top + std::log(total);
      add("lse", b * queries + t, batch * queries, lse, std::fabs(lse) + 1);
      for (int64_t s = 0; s < seen; ++s) {
        p[static_cast<size_t>(s)] /= total;
        deltaSize += p[static_cast<size_t>(s)] * std::fabs(dp[static_cast<size_t>(s)]);
        const double w = stays(c, b, t, s) ? p[static_cast<size_t>(s)] / (1 - c.drop) : 0;
        for (int64_t d = 0; d < wide; ++d) {
          const double o = w * of("v", b, keys, s, wide, d),
                       dv = blind ? 0 : w * of("dy", b, queries, t, wide, d);
          delta += o * given("dy", b, queries, t, wide, d);
          add("o", (b * queries + t) * wide + d, batch * queries * wide, o, o);
          add("dv", (b * keys + s) * wide + d, batch * keys * wide, dv, dv);
        }
      }
      for (int64_t s = 0; s < seen; ++s) {
        const double w = blind ? 0 : p[static_cast<size_t>(s)] * scale,
                     ds = w * (dp[static_cast<size_t>(s)] - delta),
                     dsSize = w * (std::fabs(dp[static_cast<size_t>(s)]) + deltaSize);
        for (int64_t d = 0; d < width; ++d) {
          const double key = of("k", b, keys, s, width, d), query = of("q", b, queries, t, width, d);
          add("dq", (b * queries + t) * width + d, batch * queries * width, ds * key, dsSize * key);
          add("dk", (b * keys + s) * width + d, batch * keys * width, ds * query, dsSize * query);
        }
      }
    }
  return out;
}

/// The root of the mean square of errors, and the largest, relative to the sizes of the terms that a result is rounded
/// from, and 2^-24 of the largest such size: weights of 2^-40 and less have fewer digits than in f32.
struct RowErrors {
  double mean = 0, largest = 0;
};

inline RowErrors errorsOf(const std::vector<double>& got, const std::vector<double>& want,
                          const std::vector<double>& size) {
  RowErrors out;
  const double least = 0x1p-24 * *std::max_element(size.begin(), size.end());
  for (size_t i = 0; i < got.size(); ++i) {
    const double difference = std::fabs(got[i] - want[i]);
    const double error = difference == 0 ? 0 : difference / (size[i] + least);
    out.mean += error * error / static_cast<double>(got.size());
    out.largest = std::isnan(error) ? error : std::fmax(out.largest, error);
  }
  out.mean = std::sqrt(out.mean);
  return out;
}

}  // namespace tg::test
