// SPDX-License-Identifier: Apache-2.0
// How much code kernels are. A driver's compiler takes minutes for kernels of tens of thousands of
// operations, so that none may have more than its target's `kernel_ops`: not of the examples, and not of
// attention blocks at many sizes, with rotary positions and without, forward and backward.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>

#include "docs/examples/gpt_gen.h"
#include "ir/kernel/cost.h"
#include "ir/parser.h"
#include "ir/target.h"
#include "runtime/compile.h"
#include "test/unit/run_passes.h"

namespace tg::test {
namespace {

/// The module's training step, or the module as it is, on the way to kernels.
std::unique_ptr<Module> trained(const Module& module) {
  if (!module.func("train")) return clone(module);
  auto ran = runPasses(clone(module), "append-grad,append-adam");
  EXPECT_TRUE(ran) << ran.error().str();
  return ran ? std::move(ran->module) : nullptr;
}

/// Every kernel is within the budget; one that lies close to it took a smaller tile.
void expectSmall(const Module& tensor, const std::string& name,
                 const std::vector<const char*>& targets = {"lavapipe", "gpu", "vulkan-min"}) {
  auto module = trained(tensor);
  ASSERT_TRUE(module);
  for (const char* target : targets) {
    auto lowered = runPasses(clone(*module), fmt::format("fuse{{target={}}},plan,lower-kernels", target));
    ASSERT_TRUE(lowered) << lowered.error().str();
    int64_t largest = 0;
    for (const Item* kernel : lowered->module->all(ItemKind::kernel)) {
      const int64_t size = codeSize(*kernel);
      largest = std::max(largest, size);
      EXPECT_LE(size, targetByName(target)->kernelOps) << name << " on " << target << ": @" << kernel->name;
    }
    std::cout << fmt::format("  {:<36} {:<10} {:>6}\n", name, target, largest);
  }
}

TEST(KernelSize, Examples) {
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(TG_SOURCE_DIR "/docs/examples")) {
    if (entry.path().extension() != ".tgir") continue;
    std::ifstream in(entry.path());
    auto module =
        parse(std::string(std::istreambuf_iterator<char>(in), {}), entry.path().filename().string());
    ASSERT_TRUE(module) << module.error().str();
    expectSmall(**module, entry.path().filename().string());
    ++count;
  }
  EXPECT_GE(count, 5);
}

TEST(KernelSize, Gpts) {
  for (int64_t layers : {1, 2})
    for (const char* activation : {"relu", "gelu"})
      for (const char* mixing : {"attention", "softmax"}) {
        GptConfig config{.vocab = 65, .block = 64, .layers = layers, .heads = 2, .width = 128, .batch = 4};
        config.activation = activation;
        config.mixing = mixing;
        auto module = makeGpt(config);
        ASSERT_TRUE(module);
        expectSmall(**module, fmt::format("{} layers, {}, {}", layers, activation, mixing));
      }
}

/// Attention over projections of %x.
std::string block(int64_t batch, int64_t heads, int64_t rows, int64_t width, bool turned) {
  const int64_t all = heads * width;
  const std::string x = fmt::format("tensor<{}x{}x{}xf32>", batch, rows, all),
                    w = fmt::format("tensor<{0}x{0}xf32>", all),
                    split = fmt::format("tensor<{}x{}x{}x{}xf32>", batch, rows, heads, width),
                    part = fmt::format("tensor<{}x{}x{}x{}xf32>", batch, heads, rows, width);
  std::string text = "module @m {\n";
  for (const char* name : {"q", "k", "v", "o"})
    text += fmt::format("  param @{} : {} {{init = randn(0.02)}}\n", name, w);
  text += fmt::format("  func @train(%x: {}) -> (loss: tensor<f32>) {{\n", x);
  for (const char* name : {"q", "k", "v", "o"})
    text += fmt::format("    %w{0} = tg.param @{0} : {1}\n", name, w);
  for (const char* name : {"q", "k", "v"})
    text += fmt::format(
        "    %m{0} = tg.matmul %x, %w{0} : {1}\n    %s{0} = tg.reshape %m{0} {{shape = [{2}, {3}, {4}, "
        "{5}]}} : {6}\n    %{0} = tg.transpose %s{0} {{perm = [0, 2, 1, 3]}} : {7}\n",
        name, x, batch, rows, heads, width, split, part);
  if (turned) text += fmt::format("    %rq, %rk = tg.rope %q, %k : {0}, {0}\n", part);
  text += fmt::format("    %a, %l = tg.attention {}, %v {{causal = true}} : {}, tensor<{}x{}x{}xf32>\n",
                      turned ? "%rq, %rk" : "%q, %k", part, batch, heads, rows);
  text += fmt::format(
      "    %t = tg.transpose %a {{perm = [0, 2, 1, 3]}} : {}\n    %j = tg.reshape %t {{shape = [{}, {}, "
      "{}]}} : {}\n    %y = tg.matmul %j, %wo : {}\n    %e = tg.square %y : {}\n",
      split, batch, rows, all, x, x, x);
  return text +
         "    %loss = tg.mean %e {axes = [0, 1, 2]} : tensor<f32>\n    return %loss : tensor<f32>\n  }\n}\n";
}

// Short rows, whose scores are stored, and long ones, which are streamed.
TEST(KernelSize, AttentionOfManySizes) {
  for (int64_t batch : {1, 4})
    for (int64_t heads : {1, 4})
      for (int64_t rows : {32, 128, 512})
        for (int64_t width : {16, 64})
          for (bool turned : {false, true}) {
            if (batch * heads * rows > 2048) continue;
            auto module = parse(block(batch, heads, rows, width, turned), "attention.tgir");
            ASSERT_TRUE(module) << module.error().str();
            expectSmall(**module,
                        fmt::format("{}x{}x{}x{}{}", batch, heads, rows, width, turned ? ", rope" : ""));
          }
}

// A product followed by much, whose tile stands in registers: the tile is smaller, and what is left is within
// the budget.
TEST(KernelSize, LongEpiloguesTakeSmallerTiles) {
  std::string text = "module @m {\n  func @f(%x: tensor<512x256xf32>, %w: tensor<256x256xf32>) -> (r: "
                     "tensor<512x256xf32>) {\n    %z0 = tg.matmul %x, %w : tensor<512x256xf32>\n";
  for (int i = 0; i < 12; ++i)
    text += fmt::format("    %z{} = tg.gelu %z{} : tensor<512x256xf32>\n", i + 1, i);
  auto module = parse(text + "    return %z12 : tensor<512x256xf32>\n  }\n}\n", "m.tgir");
  ASSERT_TRUE(module) << module.error().str();
  expectSmall(**module, "twelve gelus", {"lavapipe"});
}

}  // namespace
}  // namespace tg::test
