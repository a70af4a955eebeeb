// SPDX-License-Identifier: Apache-2.0
// What a model in C++ may get wrong: each is one error, at the author's line, and no crash.
#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "ir/op_info.h"
#include "test/unit/trace_support.h"

namespace trace_user::wrong {
namespace {

using namespace tg::nn;
using tg::DType;
using tg::Opcode;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

/// The only error of a result as "line: message", line 0 where it has no place in this file.
template <class T>
std::string onlyError(const tg::Result<T>& result) {
  if (result) return "no error";
  const auto& all = result.error().diagnostics();
  if (all.size() != 1) return "several:\n" + result.error().str();
  const tg::LocNode* place = tg::placeOf(all[0].loc);
  const bool here = place && place->file->name.find("trace_errors_test.cpp") != std::string::npos;
  return std::to_string(here ? place->line : 0) + ": " + all[0].message;
}
std::string at(int line, const std::string& message) { return std::to_string(line) + ": " + message; }

Tensor x() { return tensorInput("x", {2, 4}); }

/// The message of a traced body, whose error lies in this file.
std::string messageOf(const std::function<Tensor()>& body) {
  const std::string error = onlyError(trace([&] { return Outputs(body()); }));
  EXPECT_FALSE(error.starts_with("0: ")) << error;
  return error.substr(error.find(' ') + 1);
}

TEST(TraceErrors, LogicalOperatorsPointAtTheirUse) {
  int line = 0;
  auto both = trace([&] {
    Tensor a = x() > 0, b = tensorInput("b", {3}, DType::i1);
    line = __LINE__ + 1;
    return a && b;
  });
  EXPECT_EQ(onlyError(both),
            at(line, "tg.and [and.c1]: shapes do not broadcast: tensor<2x4xi1> and tensor<3xi1>"));
  auto either = trace([&] {
    Tensor a = x() > 0, b = tensorInput("b", {3}, DType::i1);
    line = __LINE__ + 1;
    return a || b;
  });
  EXPECT_EQ(onlyError(either),
            at(line, "tg.or [or.c1]: shapes do not broadcast: tensor<2x4xi1> and tensor<3xi1>"));
  auto no = trace([&] {
    Tensor a = x();
    line = __LINE__ + 1;
    return !a;
  });
  EXPECT_EQ(onlyError(no), at(line, "tg.not [op.operand]: operand 'x' is tensor<2x4xf32>, not i1"));
}

TEST(TraceErrors, MomentsOfChannelsNeedAnAxisOfThem) {
  for (const Dims& shape : {Dims{}, Dims{3}})
    EXPECT_EQ(messageOf([&] { return channelMoments(tensorInput("y", shape)).first; }),
              "channelMoments: the operand needs rank 2 or more");
  EXPECT_TRUE(trace([] { return Outputs(channelMoments(x()).second); }));
}

TEST(TraceErrors, NumbersOutOfTheirRange) {
  for (double delta : {0.0, -1.0, kNan, HUGE_VAL})
    EXPECT_EQ(messageOf([&] { return huberLoss(x(), 1, delta); }).substr(0, 37),
              "huberLoss: delta is positive and fini");
  for (double eps : {-1.0, -1e-30, kNan, HUGE_VAL}) {
    EXPECT_NE(
        messageOf([&] { return rmsNorm(x(), ones({4}), eps); }).find("tg.rms_norm [rms_norm.c2]: eps = "),
        std::string::npos);
    EXPECT_NE(messageOf([&] {
                return layerNorm(x(), ones({4}), ones({4}), eps);
              }).find("tg.layer_norm [layer_norm.c2]: eps = "),
              std::string::npos);
    EXPECT_EQ(messageOf([&] { return groupNorm(x(), 2, ones({4}), ones({4}), eps); }).substr(0, 15),
              "groupNorm: eps ");
  }
  EXPECT_TRUE(trace([] { return Outputs(rmsNorm(x(), ones({4}), 0)); }));
}

TEST(TraceErrors, AnOpWithoutItsOperands) {
  EXPECT_EQ(messageOf([] { return make(Opcode::matmul, {}); }),
            "tg.matmul [op.operand]: operand 'lhs' is missing");
  EXPECT_EQ(messageOf([] { return make(Opcode::matmul, {x()}); }),
            "tg.matmul [op.operand]: operand 'rhs' is missing");
  EXPECT_EQ(messageOf([] { return make(Opcode::return_, {}); }), "return gives no value to a model");
  EXPECT_EQ(messageOf([] { return make(Opcode::return_, {x()}); }), "return gives no value to a model");
}

TEST(TraceErrors, NoOpCrashes) {
  for (int op = 0; op < tg::kOpcodeCount; ++op)
    for (int count = 0; count < 6; ++count)
      for (DType dtype : {DType::f32, DType::i32, DType::i1}) {
        const auto code = static_cast<Opcode>(op);
        auto result = trace([&] {
          Tensor y = tensorInput("y", {4, 4}, dtype);
          return Outputs{{"a", make(code, std::vector<Arg>(static_cast<size_t>(count), Arg(y)))}, {"b", y}};
        });
        EXPECT_TRUE(result || !result.error().str().empty()) << tg::info(code).name;
      }
}

TEST(TraceErrors, AModuleThatWasMovedIsStillTheSame) {
  struct Model : Module {
    Linear a = child("a", Linear(4, 4));
    Linear b = Linear(4, 4), moved = std::move(b);
    Linear c = child("c", b);
  } model;
  Model* from = &model;
  Model other = std::move(*from);
  for (const Model* each : {&model, &other}) {
    auto module = traced(
        trace(*each, {{"f", {{"x", {2, 4}}}, [&](const Inputs& in) { return each->c(each->a(in["x"])); }}}));
    ASSERT_TRUE(module);
    EXPECT_TRUE(module->storage("a.w"));
    EXPECT_TRUE(module->storage("c.b"));
  }
}

TEST(TraceErrors, ListsOfModules) {
  using Make = std::function<Linear(int64_t)>;
  struct Lists : Module {
    std::vector<Linear> few = children("few", -1, [](int64_t) { return Linear(2, 2); });
    std::vector<Linear> unmade = children("unmade", 2, Make());
    std::vector<Linear> none = children("none", 0, [](int64_t) { return Linear(2, 2); });
  } model;
  auto result = trace(model, {{"f", {{"x", {2}}}, [](const Inputs& in) { return in["x"]; }}});
  ASSERT_FALSE(result);
  std::vector<std::string> messages;
  for (const auto& each : result.error().diagnostics()) messages.push_back(each.message);
  EXPECT_EQ(messages, (std::vector<std::string>{"'few' is a list of -1 modules",
                                                "the modules of 'unmade' are made by an empty function"}));
}

TEST(TraceErrors, MoreSectionsThanThereCanBe) {
  for (int64_t sections : {int64_t{5}, int64_t{1} << 30, std::numeric_limits<int64_t>::max()})
    EXPECT_EQ(messageOf([&] { return split(x(), sections, 1)[0]; }).substr(0, 21), "tg.split [split.c3]: ");
}

TEST(TraceErrors, AResultsNameIsAWord) {
  for (const std::string name : {"0", "1.5", "$", ".", "", "a b"}) {
    const int line = __LINE__ + 1;
    auto result = trace([&] { return Outputs{{name, x()}}; });
    EXPECT_EQ(onlyError(result), at(line, "'" + name + "' is not a valid name of a result"));
  }
  EXPECT_TRUE(traced(trace([] {
    Tensor y = x();
    return Outputs{{"a.b", y}, {"_", y + 1}};
  })));
}

TEST(TraceErrors, ABatchAxisIsAnAxis) {
  struct Empty : Module {
  } model;
  for (int axis : {-7, -2, 1}) {
    const int line = __LINE__ + 2;
    auto result =
        trace(model, {{"f", {{"x", {4}, DType::f32, axis}}, [](const Inputs& in) { return in["x"]; }}});
    EXPECT_EQ(onlyError(result),
              at(line, "input 'x': the batch axis " + std::to_string(axis) + " is none of tensor<4xf32>"));
  }
}

TEST(TraceErrors, BatchNormOfOtherChannels) {
  const Dims four{2, 3, 4, 4};
  auto error = [&](int64_t channels, const BatchNormOptions& options) {
    struct Model : Module {
      Model(int64_t channels, const BatchNormOptions& options)
          : norm(child("norm", BatchNorm(channels, options))) {}
      BatchNorm norm;
    } model(channels, options);
    const std::string all = onlyError(trace(model, {{"f", {{"x", four}}, [&](const Inputs& in) {
                                                       return model.norm(in["x"], /*trains=*/true);
                                                     }}}));
    return all.substr(all.find(' ') + 1);
  };
  EXPECT_EQ(error(3, {}), "error");
  EXPECT_EQ(error(5, {}), "BatchNorm: tensor<2x3x4x4xf32> has 3 channels along axis 1, not 5");
  EXPECT_EQ(error(3, {.eps = -1}), "BatchNorm: eps is 0 or more and finite, not -1");
  EXPECT_EQ(error(3, {.momentum = 1.5}), "BatchNorm: momentum is from 0 to 1, not 1.5");
  EXPECT_EQ(error(3, {.momentum = kNan}), "BatchNorm: momentum is from 0 to 1, not nan");
}

TEST(TraceErrors, EmptyFunctions) {
  struct Empty : Module {
  } model;
  int line = __LINE__ + 1;
  std::string error = onlyError(trace(model, {{"f", {{"x", {2}}}, {}}}));
  EXPECT_EQ(error, at(line, "@f: the function of its body is empty"));
  line = __LINE__ + 1;
  error = onlyError(trace(std::function<Outputs()>(), {}, "g"));
  EXPECT_EQ(error, at(line, "@g: the function of its body is empty"));
  auto module = traced(trace([] { return Outputs(x()); }));
  ASSERT_TRUE(module);
  const std::string before = tg::print(*module);
  line = __LINE__ + 1;
  error = onlyError(traceInto(*module, std::function<Outputs()>(), "h"));
  EXPECT_EQ(error, at(line, "@h: the function of its body is empty"));
  line = __LINE__ + 1;
  error = onlyError(traceInto(*module, std::function<Outputs(const Inputs&)>(), "train"));
  EXPECT_EQ(error, at(line, "@train: the function of its body is empty"));
  EXPECT_EQ(tg::print(*module), before);
  struct Unmade : Module {
    Param w = param("w", {2}, {.init = Init::from(Init::Maker())});
  } unmade;
  EXPECT_EQ(onlyError(trace(unmade, {{"f", {{"x", {2}}}, [](const Inputs& in) { return in["x"]; }}}))
                    .find(": the function of the init is empty") == std::string::npos,
            false);
}

}  // namespace
}  // namespace trace_user::wrong
