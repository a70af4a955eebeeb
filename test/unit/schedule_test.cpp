// Learning-rate schedules against values worked out by hand.
#include "runtime/schedule.h"

#include <gtest/gtest.h>

#include "ir/parser.h"

namespace tg {
namespace {

double rate(const char* schedule, int64_t step) {
  auto attr = parseAttr(schedule);
  EXPECT_TRUE(attr) << schedule;
  auto value = learningRate(*attr, step);
  EXPECT_TRUE(value) << value.error().message();
  return value ? *value : -1;
}

std::string refusal(const char* schedule) {
  auto value = learningRate(*parseAttr(schedule), 1);
  EXPECT_FALSE(value) << schedule;
  return value ? "" : value.error().message();
}

TEST(Schedule, linearReachesItsFinalRateAndStays) {
  EXPECT_DOUBLE_EQ(rate("linear(1.0, 0.0, 4)", 1), 0.75);
  EXPECT_DOUBLE_EQ(rate("linear(1.0, 0.5, 4)", 2), 0.75);
  EXPECT_DOUBLE_EQ(rate("linear(1.0, 0.5, 4)", 4), 0.5);
  EXPECT_DOUBLE_EQ(rate("linear(1.0, 0.5, 4)", 400), 0.5);
}

TEST(Schedule, cosineIsHalfwayInTheMiddle) {
  EXPECT_NEAR(rate("cosine(0.8, 0.2, 100)", 50), 0.5, 1e-15);
  EXPECT_NEAR(rate("cosine(0.8, 0.2, 3)", 1), 0.65, 1e-15);  // cos(π/3) = 1/2
  EXPECT_NEAR(rate("cosine(0.8, 0.2, 100)", 100), 0.2, 1e-15);
  EXPECT_NEAR(rate("cosine(0.8, 0.2, 100)", 250), 0.2, 1e-15);
}

TEST(Schedule, warmupClimbsAndHandsOver) {
  EXPECT_DOUBLE_EQ(rate("warmup(0.1, 10, constant(0.1))", 1), 0.01);
  EXPECT_DOUBLE_EQ(rate("warmup(0.1, 10, linear(1.0, 0.0, 4))", 10), 0.1);
  EXPECT_DOUBLE_EQ(rate("warmup(0.1, 10, linear(1.0, 0.0, 4))", 11), 0.75);
}

TEST(Schedule, staircaseAndMultistepDropAtTheirSteps) {
  EXPECT_DOUBLE_EQ(rate("staircase(1.0, 0.5, 10)", 10), 1.0);
  EXPECT_DOUBLE_EQ(rate("staircase(1.0, 0.5, 10)", 11), 0.5);
  EXPECT_DOUBLE_EQ(rate("staircase(1.0, 0.5, 10)", 31), 0.125);
  EXPECT_DOUBLE_EQ(rate("multistep(1.0, 0.5, [3, 5])", 2), 1.0);
  EXPECT_DOUBLE_EQ(rate("multistep(1.0, 0.5, [3, 5])", 3), 0.5);
  EXPECT_DOUBLE_EQ(rate("multistep(1.0, 0.5, [3, 5])", 5), 0.25);
}

TEST(Schedule, constantsAndPlainNumbers) {
  EXPECT_DOUBLE_EQ(rate("constant(1e-3)", 7), 1e-3);
  EXPECT_DOUBLE_EQ(rate("1e-3", 7), 1e-3);
}

TEST(Schedule, errorsSayTheForm) {
  EXPECT_NE(refusal("cosin(1, 0, 5)").find("cosine(peak, final, steps)"), std::string::npos);
  EXPECT_NE(refusal("cosine(1, 0)").find("is not cosine(peak, final, steps)"), std::string::npos);
  EXPECT_NE(refusal("linear(1, 0, 0)").find("must be positive"), std::string::npos);
  EXPECT_NE(refusal("warmup(1, 0, constant(1))").find("must be positive"), std::string::npos);
}

}  // namespace
}  // namespace tg
