// SPDX-License-Identifier: Apache-2.0
// Interpreters that are ranks of a job.
#include <thread>

#include <gtest/gtest.h>

#include "ir/parser.h"
#include "runtime/collective/simulated.h"
#include "runtime/interp/interp.h"

namespace tg {
namespace {

/// The interpreter is the oracle: two ranks of it, each with its own input.
TEST(InterpRanksTest, interpretersMeet) {
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
    for (int count : {1, 2}) {
      auto module = parse(text, "m");
      ASSERT_TRUE(module) << module.error().str();
      auto run = [&](std::shared_ptr<collective::Engine> engine, int rank) {
        InterpOptions options;
        options.ranks = std::move(engine);
        auto interpreter = Interpreter::create(**module, options);
        ASSERT_TRUE(interpreter);
        NdArray x = NdArray::zeros(Type::tensor(DType::f32, {3})),
                y = NdArray::zeros(Type::tensor(DType::f32, {}));
        x.data = {1.0 + rank, 2, 3};
        y.data = {10.0 * rank};
        auto result = interpreter->run("f", {{"x", x}, {"y", y}});
        ASSERT_TRUE(result) << result.error().str();
        EXPECT_EQ(result->result("a")->data[0], count == 2 ? 1.5 : 1);
        EXPECT_EQ(result->result("a")->data[2], 3);
        EXPECT_EQ(result->result("b")->data[0], count == 2 ? 5 : 0);
      };
      if (count == 1) {
        run(nullptr, 0);
        continue;
      }
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
}

}  // namespace
}  // namespace tg
