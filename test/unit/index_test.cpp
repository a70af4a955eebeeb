// SPDX-License-Identifier: Apache-2.0
// The index algebra of kernels: whatever it simplifies has the value that integers give.
#include "codegen/index.h"

#include <gtest/gtest.h>

#include <array>
#include <random>
#include <string>
#include <vector>

namespace tg::test {
namespace {

/// Three variables: any number, a multiple of 8, a multiple of 6.
constexpr std::array<int64_t, 3> kRanges = {7, 4800, 36}, kAligns = {1, 8, 6};
using Values = std::array<int64_t, 3>;

class IndexAlgebra : public ::testing::Test {
 protected:
  IndexAlgebra() {
    for (int axis = 0; axis < 3; ++axis) {
      const auto at = static_cast<size_t>(axis);
      vars_[at] = space_.variable(kernel_.id(Opcode::k_local_id, axis), kRanges[at], kAligns[at]);
    }
  }

  /// What a kernel's value is where the variables have these values.
  static int64_t valueOf(const Value* value, const Values& at) {
    const Op& op = *value->def;
    auto in = [&](size_t i) {
      return op.operands[i].isLiteral() ? op.operands[i].integer : valueOf(op.in(i), at);
    };
    switch (op.code) {
    case Opcode::k_local_id: return at[static_cast<size_t>(op.operands[0].integer)];
    case Opcode::k_add: return in(0) + in(1);
    case Opcode::k_sub: return in(0) - in(1);
    case Opcode::k_mul: return in(0) * in(1);
    case Opcode::k_div: return in(0) / in(1);
    case Opcode::k_mod: return in(0) % in(1);
    default: ADD_FAILURE() << "no value of " << info(op.code).name; return 0;
    }
  }
  int64_t valueOf(const Index& index, const Values& at) {
    const KV kv = space_.materialize(index);
    return kv.isLiteral() ? static_cast<int64_t>(kv.number) : valueOf(kv.value, at);
  }

  Block body_;
  KernelBuilder kernel_{body_};
  IndexSpace space_{kernel_};
  std::array<Index, 3> vars_;
};

TEST_F(IndexAlgebra, NeighboursOfAlignedPlacesShareTheirDivisions) {
  // Columns 8i and 8i + 4 of 1600 x 3 lie in one part, and in one head of 64 of it.
  const Index column = vars_[1], next = space_.add(column, IndexSpace::constant(4));
  EXPECT_EQ(space_.div(next, 1600), space_.div(column, 1600));
  const Index within = space_.mod(column, 1600), nextWithin = space_.mod(next, 1600);
  EXPECT_EQ(nextWithin, space_.add(within, IndexSpace::constant(4)));
  EXPECT_EQ(space_.div(nextWithin, 64), space_.div(within, 64));
  EXPECT_EQ(space_.mod(nextWithin, 64), space_.add(space_.mod(within, 64), IndexSpace::constant(4)));
  // Not where eights cross the bound.
  EXPECT_NE(space_.div(next, 1602), space_.div(column, 1602));
}

TEST_F(IndexAlgebra, ValuesAreThoseOfIntegers) {
  std::mt19937 random(1);
  auto below = [&](int64_t n) { return static_cast<int64_t>(random() % static_cast<uint64_t>(n)); };
  auto drawn = [&] {
    Values out{};
    for (size_t i = 0; i < out.size(); ++i) out[i] = below(kRanges[i] / kAligns[i]) * kAligns[i];
    return out;
  };
  constexpr std::array<int64_t, 10> kDivisors = {2, 3, 4, 6, 8, 12, 18, 64, 160, 1600};
  for (int round = 0; round < 2000; ++round) {
    Index index = IndexSpace::constant(below(50));
    std::vector<Values> points(8);
    for (Values& point : points) point = drawn();
    std::vector<int64_t> want(points.size(), index.c);
    auto eachPoint = [&](auto change) {
      for (size_t p = 0; p < points.size(); ++p) want[p] = change(want[p], points[p]);
    };
    std::string told = std::to_string(index.c);
    for (int64_t step = 0, steps = 2 + below(6); step < steps; ++step) {
      const auto variable = static_cast<size_t>(below(3));
      const int64_t factor = 1 + below(16), n = kDivisors[static_cast<size_t>(below(kDivisors.size()))];
      switch (below(4)) {
      case 0:
        index = space_.div(index, n);
        eachPoint([&](int64_t x, const Values&) { return x / n; });
        told = "(" + told + ") / " + std::to_string(n);
        break;
      case 1:
        index = space_.mod(index, n);
        eachPoint([&](int64_t x, const Values&) { return x % n; });
        told = "(" + told + ") % " + std::to_string(n);
        break;
      default:
        index = space_.add(index, space_.scale(vars_[variable], factor));
        index = space_.add(index, IndexSpace::constant(factor % 5));
        eachPoint([&](int64_t x, const Values& at) { return x + at[variable] * factor + factor % 5; });
        told += " + " + std::to_string(factor) + "v" + std::to_string(variable) + " + " +
                std::to_string(factor % 5);
      }
    }
    for (size_t p = 0; p < points.size(); ++p) {
      ASSERT_EQ(valueOf(index, points[p]), want[p]) << told;
      ASSERT_LE(want[p], space_.max(index)) << told;
      ASSERT_EQ(want[p] % space_.align(index), 0) << told;
    }
  }
}

}  // namespace
}  // namespace tg::test
