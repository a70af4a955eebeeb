// SPDX-License-Identifier: Apache-2.0
// A small model, and sessions of it on a Vulkan device under the validation layer.
#pragma once

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "ir/parser.h"
#include "runtime/session.h"

namespace tg {

inline constexpr const char* kModel = R"(
module @tiny {
  param @w1 : tensor<3x8xf32> {init = kaiming}
  param @b1 : tensor<8xf32> {init = zeros}
  param @w2 : tensor<8x2xf32> {init = xavier}
  func @train(%x: tensor<5x3xf32>, %y: tensor<5x2xf32>) -> (loss: tensor<f32>) {
    %w1 = tg.param @w1 : tensor<3x8xf32>
    %b1 = tg.param @b1 : tensor<8xf32>
    %w2 = tg.param @w2 : tensor<8x2xf32>
    %z = tg.matmul %x, %w1 : tensor<5x8xf32>
    %a = tg.add %z, %b1 : tensor<5x8xf32>
    %h = tg.tanh %a : tensor<5x8xf32>
    %p = tg.matmul %h, %w2 : tensor<5x2xf32>
    %d = tg.sub %p, %y : tensor<5x2xf32>
    %s = tg.square %d : tensor<5x2xf32>
    %loss = tg.mean %s {axes = [0, 1]} : tensor<f32>
    tg.capture %h {name = "hidden"}
    tg.capture %p {name = "prediction"}
    return %loss : tensor<f32>
  }
  func @predict(%x: tensor<2x3xf32>) -> (p: tensor<2x2xf32>) {
    %w1 = tg.param @w1 : tensor<3x8xf32>
    %b1 = tg.param @b1 : tensor<8xf32>
    %w2 = tg.param @w2 : tensor<8x2xf32>
    %z = tg.matmul %x, %w1 : tensor<2x8xf32>
    %a = tg.add %z, %b1 : tensor<2x8xf32>
    %h = tg.tanh %a : tensor<2x8xf32>
    %p = tg.matmul %h, %w2 : tensor<2x2xf32>
    return %p : tensor<2x2xf32>
  }
}
)";

inline std::unique_ptr<Module> parsed(const std::string& text) {
  auto module = parse(text, "tiny.tgir");
  EXPECT_TRUE(module) << module.error().message();
  return module ? std::move(*module) : nullptr;
}
inline std::unique_ptr<Module> model() { return parsed(kModel); }

/// The text with every occurrence of `from` replaced.
inline std::string edited(std::string text, const std::string& from, const std::string& to) {
  for (size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
    text.replace(at, from.size(), to);
  return text;
}

inline HostArray ramp(Shape shape, double first, double step) {
  HostArray out = HostArray::zeros(DType::f32, shape);
  for (int64_t i = 0; i < out.elements(); ++i) out.set(i, first + step * static_cast<double>(i));
  return out;
}

inline Inputs trainInputs() {
  Inputs inputs;
  inputs.emplace("x", ramp({5, 3}, -1, 0.15));
  inputs.emplace("y", ramp({5, 2}, 0.5, -0.1));
  return inputs;
}

inline void expectClose(const NamedArrays& got, const NamedArrays& expected, double tolerance) {
  ASSERT_EQ(got.size(), expected.size());
  for (const auto& [name, value] : expected) {
    auto own = std::find_if(got.begin(), got.end(),
                            [&wanted = name](const auto& entry) { return entry.first == wanted; });
    ASSERT_NE(own, got.end()) << name;
    ASSERT_EQ(own->second.type(), value.type()) << name;
    for (int64_t i = 0; i < value.elements(); ++i)
      ASSERT_NEAR(own->second.at(i), value.at(i), tolerance) << name << " " << i;
  }
}

inline bool sameBits(const NamedArrays& a, const NamedArrays& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const auto& x, const auto& y) {
    return x.first == y.first && x.second.bytes == y.second.bytes;
  });
}

inline NamedArrays readOf(const CallOutputs& outputs) {
  return {outputs.captures.read().begin(), outputs.captures.read().end()};
}

template <class T>
std::string messageOf(const Result<T>& result) {
  return result ? "no error" : result.error().message();
}

/// Options of the small model without a device.
inline SessionOptions interpOptions(uint64_t seed = 3) {
  SessionOptions options;
  options.device = "interp";
  options.seed = seed;
  options.trainPipeline = "append-grad,append-adam{lr=0.01}";
  return options;
}

/// One open device per test; afterwards nothing may be left alive or have been reported.
class SessionTest : public ::testing::Test {
 protected:
  void SetUp() override {
    vulkan::DeviceOptions options;
    options.validation = true;
    auto opened = vulkan::Device::open(options);
    ASSERT_TRUE(opened) << opened.error().message();
    device_ = *opened;
    log_ = device_->validationLog();
  }
  void TearDown() override {
    device_.reset();
    if (!log_) return;
    for (const std::string& message : log_->messages()) ADD_FAILURE() << message;
    EXPECT_EQ(vulkan::liveHandles(), 0);
  }

  SessionOptions options(uint64_t seed = 3) {
    SessionOptions options;
    options.device = device_;
    options.seed = seed;
    options.trainPipeline = "append-grad,append-adam{lr=0.01}";
    options.onDiagnostic = [this](const Diagnostic& diagnostic) { said_.push_back(diagnostic.message); };
    return options;
  }
  std::unique_ptr<Session> open(SessionOptions options) {
    auto session = Session::create(model(), std::move(options));
    EXPECT_TRUE(session) << session.error().str();
    return session ? std::move(*session) : nullptr;
  }
  static std::unique_ptr<Session> open(std::unique_ptr<Module> module, SessionOptions options) {
    auto session = Session::create(std::move(module), std::move(options));
    EXPECT_TRUE(session) << session.error().str();
    return session ? std::move(*session) : nullptr;
  }
  std::unique_ptr<Session> interpreter(uint64_t seed = 3) {
    SessionOptions plain = options(seed);
    plain.device = "interp";
    return open(std::move(plain));
  }
  bool heard(const std::string& part) const {
    return std::any_of(said_.begin(), said_.end(),
                       [&](const std::string& text) { return text.find(part) != std::string::npos; });
  }

  std::shared_ptr<vulkan::Device> device_;
  std::shared_ptr<vulkan::ValidationLog> log_;
  std::vector<std::string> said_;
};

inline double lossAfter(Session& session, int steps) {
  double loss = 0;
  for (int i = 0; i < steps; ++i) {
    auto step = session.step(trainInputs());
    EXPECT_TRUE(step) << step.error().str();
    if (!step) return NAN;
    loss = step->loss;
  }
  return loss;
}

}  // namespace tg
