// SPDX-License-Identifier: Apache-2.0
// The tolerance table: it accepts honest f32 arithmetic and refuses real mistakes.
#include "runtime/interp/tolerance.h"

#include "runtime/interp/eval_ops.h"
#include "test/unit/interp_test_support.h"
#include "test/unit/op_tolerance.h"

namespace tg::test {
namespace {

TEST(Tolerance, EveryOpHasItsClass) {
  for (int i = 0; i < kOpcodeCount; ++i) {
    const OpInfo& row = info(static_cast<Opcode>(i));
    if (row.mayStand(table::inKernel)) continue;
    const ToleranceClass kind = toleranceClass(row);
    if (row.has(table::view) || row.fusion == table::Fusion::leaf) {
      EXPECT_EQ(kind, ToleranceClass::exact) << row.name;
    }
    if (row.fusion == table::Fusion::row) {
      EXPECT_EQ(kind, ToleranceClass::row) << row.name;
    }
    if (row.fusion == table::Fusion::contraction || row.fusion == table::Fusion::scatter) {
      EXPECT_EQ(kind, ToleranceClass::reduction) << row.name;
    }
  }
  EXPECT_EQ(opTolerance(info(Opcode::less), 1, 1), 0);
  EXPECT_EQ(opTolerance(info(Opcode::transpose), 1, 100), 0);
  EXPECT_EQ(opTolerance(info(Opcode::add), 1, 1, DType::i32), 0);
  EXPECT_NEAR(opTolerance(info(Opcode::exp), 1, 2), info(Scalar::exp).ulps * 2 * 0x1p-23, 1e-30);
  // Half a unit in the last place on top of what f32 is off, however many terms a sum has.
  for (const auto& [dtype, unit] : {std::pair(DType::f16, 0x1p-10), std::pair(DType::bf16, 0x1p-7)}) {
    EXPECT_NEAR(opTolerance(info(Opcode::add), 1, 2, dtype), unit, unit / 100) << name(dtype);
    EXPECT_NEAR(opTolerance(info(Opcode::sum), 1000, 2, dtype), unit, unit / 50) << name(dtype);
  }
  EXPECT_LT(opTolerance(info(Opcode::sum), 10, 1), opTolerance(info(Opcode::sum), 1000, 1));
  EXPECT_LT(opTolerance(info(Opcode::sum), 1000000, 1), 1e-3);
}

/// A dot product of length n in f32, in text order; `skip` leaves one term out.
float dot(const NdArray& a, const NdArray& b, size_t skip) {
  float total = 0;
  for (size_t i = 0; i < a.data.size(); ++i)
    if (i != skip) total += static_cast<float>(a.data[i]) * static_cast<float>(b.data[i]);
  return total;
}

TEST(Tolerance, SeparatesRoundingFromMistakes) {
  for (int64_t n : {3, 50, 1000}) {
    const NdArray a = scattered({1, n}), b = scattered({n, 1});
    const std::string shape = std::to_string(n);
    auto module = verified("module @m {\n func @f(%a: tensor<1x" + shape + "xf32>, %b: tensor<" + shape +
                           "x1xf32>) -> (r: tensor<1x1xf32>) {\n  %r = tg.matmul %a, %b : tensor<1x1xf32>\n"
                           "  return %r : tensor<1x1xf32>\n }\n}\n");
    ASSERT_TRUE(module);
    const Op& op = *module->func("f")->body.ops.front();
    const NdArray* operands[] = {&a, &b};
    EvalContext context;
    const double reference = (*evalOp(op, operands, context))[0].data[0];
    const double allowed = opTolerance(op.info(), n, evalMagnitude(op, operands)->data[0]);
    EXPECT_LE(std::fabs(dot(a, b, a.data.size()) - reference), allowed);
    EXPECT_GT(std::fabs(dot(a, b, 1) - reference), allowed);
  }
}

TEST(Tolerance, WholeFunctions) {
  const NdArray wide = f32({3}, {1, 100, -3}), exact = f32({3}, {1, 100.001, -3});
  std::string why;
  EXPECT_TRUE(wholeFunctionClose(exact, wide, exact));
  EXPECT_TRUE(wholeFunctionClose(f32({3}, {1.003, 99.997, -3}), wide, exact, kWholeFunctionFloor, &why))
      << why;
  EXPECT_FALSE(wholeFunctionClose(f32({3}, {1.005, 100, -3}), wide, exact, kWholeFunctionFloor, &why));
  EXPECT_NE(why.find("element 0"), std::string::npos) << why;
  EXPECT_FALSE(wholeFunctionClose(f32({3}, {1, std::nan(""), -3}), wide, exact));
  // Without any rounding of the oracle's own, the floor is left.
  EXPECT_TRUE(wholeFunctionClose(f32({3}, {1, 100.0001, -3}), wide, wide));
  EXPECT_FALSE(wholeFunctionClose(f32({3}, {1, 100.001, -3}), wide, wide));
  EXPECT_FALSE(wholeFunctionClose(f32({2}, {1, 100}), wide, exact));
  // A third run, whose rounding errors are larger: four times the largest of them is allowed.
  const NdArray third = f32({3}, {1, 100, -3.01});
  const NdArray* others[] = {&third};
  EXPECT_TRUE(wholeFunctionClose(f32({3}, {1.03, 100, -3}), wide, exact, kWholeFunctionFloor, &why, others))
      << why;
  EXPECT_FALSE(wholeFunctionClose(f32({3}, {1.05, 100, -3}), wide, exact, kWholeFunctionFloor, &why, others));
}

TEST(Tolerance, InfiniteAndDiscreteResults) {
  const double inf = std::numeric_limits<double>::infinity(), nan = std::nan("");
  const NdArray wide = f32({2}, {inf, nan});
  EXPECT_TRUE(wholeFunctionClose(wide, wide, wide));
  EXPECT_FALSE(wholeFunctionClose(f32({2}, {3e38, nan}), wide, wide));
  EXPECT_FALSE(wholeFunctionClose(f32({2}, {inf, 0}), wide, wide));
  // The last element stands at a boundary: the two oracles disagree about it.
  const NdArray ids = i32({3}, {1, 2, 3}), rounded = i32({3}, {1, 2, 4});
  EXPECT_TRUE(wholeFunctionClose(i32({3}, {1, 2, 9}), ids, rounded));
  EXPECT_FALSE(wholeFunctionClose(i32({3}, {1, 3, 3}), ids, rounded));
}

}  // namespace
}  // namespace tg::test
