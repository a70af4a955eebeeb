// SPDX-License-Identifier: Apache-2.0
// Learning-rate schedules against values worked out by hand.
#include "runtime/learning_rate.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>

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
  // Without a peak of its own it rises to that of what follows.
  EXPECT_DOUBLE_EQ(rate("warmup(10, linear(1.0, 0.0, 4))", 5), 0.5);
  EXPECT_DOUBLE_EQ(rate("warmup(10, linear(1.0, 0.0, 4))", 11), 0.75);
  EXPECT_DOUBLE_EQ(rate("warmup(10, 0.5)", 5), 0.25);
  EXPECT_DOUBLE_EQ(rate("warmup(4, warmup(10, linear(1.0, 0.0, 4)))", 2), 0.5);
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
  EXPECT_NE(refusal("linear(1, 0, 0)").find("not a positive number of steps"), std::string::npos);
  EXPECT_NE(refusal("constant(1e39)").find("is not finite as an f32"), std::string::npos);
  EXPECT_NE(refusal("warmup(1, 0, constant(1))").find("not a positive number of steps"), std::string::npos);
}

TEST(Schedule, nestsAsDeepAsWritten) {
  const char* text = "warmup(1e-3, 100, cosine(1e-3, 0, 900))";
  EXPECT_DOUBLE_EQ(rate(text, 1), 1e-5);
  EXPECT_DOUBLE_EQ(rate(text, 100), 1e-3);
  EXPECT_NEAR(rate(text, 550), 0.5e-3, 1e-15);
  EXPECT_NEAR(rate(text, 1000), 0, 1e-15);
  EXPECT_NEAR(rate(text, 5000), 0, 1e-15);
  EXPECT_DOUBLE_EQ(rate("warmup(1.0, 2, warmup(4.0, 2, staircase(8.0, 0.5, 2)))", 3), 2);
  EXPECT_DOUBLE_EQ(rate("warmup(1.0, 2, warmup(4.0, 2, staircase(8.0, 0.5, 2)))", 6), 8);
  EXPECT_DOUBLE_EQ(rate("warmup(1.0, 2, warmup(4.0, 2, staircase(8.0, 0.5, 2)))", 7), 4);
}

// The formulas once more, over every step that could be a boundary.
TEST(Schedule, everyKindOverManySteps) {
  for (int64_t step = 1; step <= 60; ++step) {
    double s = static_cast<double>(step), part = std::min(s / 40, 1.0);
    EXPECT_DOUBLE_EQ(rate("constant(0.25)", step), 0.25);
    EXPECT_DOUBLE_EQ(rate("linear(0.5, 0.125, 40)", step), 0.5 - 0.375 * part);
    EXPECT_NEAR(rate("cosine(0.5, 0.125, 40)", step), 0.3125 + 0.1875 * std::cos(std::acos(-1.0) * part),
                1e-15);
    EXPECT_DOUBLE_EQ(rate("warmup(0.5, 20, linear(0.5, 0.0, 40))", step),
                     step <= 20 ? 0.5 * s / 20 : 0.5 - 0.5 * (s - 20) / 40);
    EXPECT_DOUBLE_EQ(rate("staircase(0.5, 0.5, 7)", step), 0.5 * std::pow(0.5, (step - 1) / 7));
    int passed = (step >= 3) + (step >= 30) + (step >= 10);
    EXPECT_DOUBLE_EQ(rate("multistep(0.5, 0.1, [3, 30, 10])", step), 0.5 * std::pow(0.1, passed));
  }
}

double at(const LearningRate& rate, int64_t step) {
  auto value = rate.at(step);
  EXPECT_TRUE(value) << value.error().message();
  return value ? *value : -1;
}

TEST(LearningRate, aChangeCountsFromItself) {
  LearningRate rate;
  EXPECT_FALSE(rate);
  EXPECT_FALSE(rate.at(1));
  ASSERT_TRUE(rate.set("linear(1.0, 0.0, 10)", 0));
  EXPECT_DOUBLE_EQ(at(rate, 4), 0.6);
  ASSERT_TRUE(rate.set("linear(1.0, 0.0, 10)", 4));
  EXPECT_DOUBLE_EQ(at(rate, 5), 0.9);
  EXPECT_DOUBLE_EQ(at(rate, 14), 0.0);
  EXPECT_EQ(rate.start(), 4);
  EXPECT_EQ(rate.text(), "linear(1.0, 0.0, 10)");
  auto early = rate.at(4);
  ASSERT_FALSE(early);
  EXPECT_EQ(early.error().message(),
            "the learning rate linear(1.0, 0.0, 10) begins after step 4; it has none for step 4");
  rate.rebase(0);
  EXPECT_DOUBLE_EQ(at(rate, 4), 0.6);
  rate.clear();
  EXPECT_FALSE(rate);
}

TEST(LearningRate, numbersAndFunctions) {
  LearningRate rate;
  ASSERT_TRUE(rate.set(0.125, 7));
  EXPECT_DOUBLE_EQ(at(rate, 1000), 0.125);
  EXPECT_EQ(rate.text(), "constant(0.125)");
  ASSERT_TRUE(rate.set([](int64_t step) { return 1.0 / static_cast<double>(step); }, 10));
  EXPECT_DOUBLE_EQ(at(rate, 11), 1);
  EXPECT_DOUBLE_EQ(at(rate, 14), 0.25);
  ASSERT_TRUE(rate.set([](int64_t step) { return std::log(static_cast<double>(step) - 1); }, 0, "log"));
  auto infinite = rate.at(1);
  ASSERT_FALSE(infinite);
  EXPECT_EQ(infinite.error().message(), "the learning rate log is -inf at its step 1");
  ASSERT_TRUE(rate.set([](int64_t step) { return 1 - 0.5 * static_cast<double>(step); }, 0, "falling"));
  EXPECT_DOUBLE_EQ(at(rate, 2), 0);
  EXPECT_EQ(rate.at(3).error().message(), "the learning rate falling is -0.5 at its step 3");
}

TEST(LearningRate, whatAFunctionThrowsIsAnError) {
  LearningRate rate;
  ASSERT_TRUE(
      rate.set([](int64_t step) { return step < 3 ? 0.5 : throw std::runtime_error("no more"); }, 10));
  EXPECT_DOUBLE_EQ(at(rate, 12), 0.5);
  auto thrown = rate.at(13);
  ASSERT_FALSE(thrown);
  EXPECT_EQ(thrown.error().message(), "the learning rate a function threw at its step 3: no more");
  ASSERT_TRUE(rate.set([](int64_t) -> double { throw 7; }, 0, "seven"));
  EXPECT_EQ(rate.at(1).error().message(),
            "the learning rate seven threw at its step 1: an exception that is no std::exception");
}

TEST(LearningRate, anErrorKeepsWhatWas) {
  LearningRate rate;
  ASSERT_TRUE(rate.set("staircase(1.0, 0.5, 10)", 0));
  EXPECT_FALSE(rate.set("staircase(1.0, 0.5)", 5));
  EXPECT_FALSE(rate.set("staircase(1.0, ", 5));
  EXPECT_FALSE(rate.set("warmup(1.0, 5, sine(1))", 5));
  EXPECT_FALSE(rate.set(std::nan(""), 5));
  EXPECT_FALSE(rate.set(LearningRate::Function(), 5));
  EXPECT_FALSE(rate.set("constant(1.0)", -1));
  EXPECT_EQ(rate.text(), "staircase(1.0, 0.5, 10)");
  EXPECT_DOUBLE_EQ(at(rate, 11), 0.5);
}

}  // namespace
}  // namespace tg
