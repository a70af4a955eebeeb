// SPDX-License-Identifier: Apache-2.0
// Interpreters as ranks of a job.
#include <functional>
#include <string>
#include <thread>

#include <gtest/gtest.h>

#include "ir/parser.h"
#include "runtime/interp/interp.h"
#include "test/unit/interp_test_support.h"
#include "test/unit/simulated_ranks.h"

namespace tg {
namespace {

using test::Inputs;

/// Runs @f on so many ranks of the interpreter, each with its own inputs; 1 is without an engine.
void onRanks(const char* text, int count, const std::function<Inputs(int)>& inputs,
             const std::function<void(int, Result<RunResult>&)>& check) {
  auto module = parse(text, "m");
  ASSERT_TRUE(module) << module.error().str();
  auto run = [&](std::shared_ptr<collective::Engine> engine, int rank) {
    InterpOptions options;
    options.ranks = std::move(engine);
    auto interpreter = Interpreter::create(**module, options);
    ASSERT_TRUE(interpreter);
    auto result = interpreter->run("f", inputs(rank));
    check(rank, result);
  };
  if (count == 1) return run(nullptr, 0);
  auto engines = collective::simulatedRanks(count);
  ASSERT_TRUE(engines) << engines.error().str();
  std::vector<std::thread> threads;
  for (auto& engine : *engines)
    threads.emplace_back([&run, own = std::move(engine)]() mutable {
      const int rank = own->rank();
      run(std::move(own), rank);
    });
  for (std::thread& thread : threads) thread.join();
}

TEST(InterpRanksTest, allReduce) {
  const char* tensor = R"(
module @m {
  func @f(%x: tensor<3xf32>, %y: tensor<f32>) -> (a: tensor<3xf32>, b: tensor<f32>) {
    %a, %b = tg.all_reduce %x, %y : tensor<3xf32>, tensor<f32>
    return %a, %b : tensor<3xf32>, tensor<f32>
  }
})";
  const char* kernel = R"(
module @m stage(kernel) {
  buffer @io : 512
  func @f(%x: tensor<3xf32> -> @io[0], %y: tensor<f32> -> @io[256]) -> (a: tensor<3xf32>, b: tensor<f32>) {
    tg.collective_begin args(inout(@io[0:12]), inout(@io[256:4])) {id = 0, reduction = mean}
    tg.collective_wait {id = 0}
    %a = tg.home : tensor<3xf32> -> @io[0]
    %b = tg.home : tensor<f32> -> @io[256]
    return %a, %b : tensor<3xf32>, tensor<f32>
  }
})";
  for (const char* text : {tensor, kernel})
    for (int count : {1, 2})
      onRanks(
          text, count,
          [](int rank) {
            NdArray x = NdArray::zeros(Type::tensor(DType::f32, {3})),
                    y = NdArray::zeros(Type::tensor(DType::f32, {}));
            x.data = {1.0 + rank, 2, 3};
            y.data = {10.0 * rank};
            return Inputs{{"x", x}, {"y", y}};
          },
          [&](int, Result<RunResult>& result) {
            ASSERT_TRUE(result) << result.error().str();
            EXPECT_EQ(result->result("a")->data[0], count == 2 ? 1.5 : 1);
            EXPECT_EQ(result->result("a")->data[2], 3);
            EXPECT_EQ(result->result("b")->data[0], count == 2 ? 5 : 0);
          });
}

/// At the stages tensor, planned and kernel.
TEST(InterpRanksTest, reduceScatterAndAllGather) {
  const char* tensor = R"(
module @m {
  func @f(%x: tensor<2x3xf32>) -> (a: tensor<3xf32>, b: tensor<3xf32>, c: tensor<3x2xf32>) {
    %a = tg.reduce_scatter %x {ranks = 2, reduction = sum} : tensor<3xf32>
    %b = tg.reduce_scatter %x {ranks = 2, reduction = same} : tensor<3xf32>
    %c = tg.all_gather %a {ranks = 2} : tensor<3x2xf32>
    return %a, %b, %c : tensor<3xf32>, tensor<3xf32>, tensor<3x2xf32>
  }
})";
  const char* planned = R"(
module @m stage(planned) {
  buffer @io : 1024
  func @f(%x: tensor<2x3xf32> -> @io[0]) -> (a: tensor<3xf32>, b: tensor<3xf32>, c: tensor<3x2xf32>) {
    %a = tg.reduce_scatter %x {ranks = 2, reduction = sum} : tensor<3xf32> -> @io[256]
    %b = tg.reduce_scatter %x {ranks = 2, reduction = same} : tensor<3xf32> -> @io[512]
    %c = tg.all_gather %a {ranks = 2} : tensor<3x2xf32> -> @io[768]
    return %a, %b, %c : tensor<3xf32>, tensor<3xf32>, tensor<3x2xf32>
  }
})";
  const char* kernel = R"(
module @m stage(kernel) {
  buffer @io : 1024
  func @f(%x: tensor<2x3xf32> -> @io[0]) -> (a: tensor<3xf32>, b: tensor<3xf32>, c: tensor<3x2xf32>) {
    tg.collective_begin args(in(@io[0:24]), out(@io[256:12])) {id = 0, kind = reduce_scatter, reduction = sum}
    tg.collective_wait {id = 0}
    tg.collective_begin args(in(@io[0:24]), out(@io[512:12])) {id = 1, kind = reduce_scatter, reduction = same}
    tg.collective_wait {id = 1}
    tg.collective_begin args(in(@io[256:12]), out(@io[768:24])) {id = 2, kind = all_gather, reduction = same}
    tg.collective_wait {id = 2}
    %a = tg.home : tensor<3xf32> -> @io[256]
    %b = tg.home : tensor<3xf32> -> @io[512]
    %c = tg.home : tensor<3x2xf32> -> @io[768]
    return %a, %b, %c : tensor<3xf32>, tensor<3xf32>, tensor<3x2xf32>
  }
})";
  for (const char* text : {tensor, planned, kernel})
    for (int count : {1, 2, 3})
      onRanks(
          text, count,
          [](int rank) {
            NdArray x = NdArray::zeros(Type::tensor(DType::f32, {2, 3}));
            for (size_t i = 0; i < 6; ++i) x.data[i] = static_cast<double>(i) + 10 * rank;
            return Inputs{{"x", x}};
          },
          [&](int rank, Result<RunResult>& result) {
            if (count != 2) {
              ASSERT_FALSE(result);
              EXPECT_NE(result.error().message().find(count == 1 ? "sharded for 2 ranks, and there is 1"
                                                                 : "sharded for 2 ranks, and there are 3"),
                        std::string::npos)
                  << result.error().message();
              return;
            }
            ASSERT_TRUE(result) << result.error().str();
            for (size_t i = 0; i < 3; ++i) {
              const double index = static_cast<double>(i) + 3 * rank;
              EXPECT_EQ(result->result("a")->data[i], 2 * index + 10);
              EXPECT_EQ(result->result("b")->data[i], index + 10 * rank);
            }
            for (size_t i = 0; i < 6; ++i)
              EXPECT_EQ(result->result("c")->data[i], 2 * static_cast<double>(i) + 10);
          });
}

}  // namespace
}  // namespace tg
