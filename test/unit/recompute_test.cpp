// SPDX-License-Identifier: Apache-2.0
// Kernels that run again: fewer bytes are alive, each reads what it did before, the bits stay.
#include <algorithm>
#include <map>

#include "passes/plan/recompute.h"
#include "runtime/interp/interp.h"
#include "test/unit/plan_support.h"

namespace tg::test {
namespace {

using plan::Kernel;
using plan::Recompute;

/// A chain of `depth` kernels and the way back: kernel d + i reads what kernel d - 1 - i made. Block i is that
/// of kernel i; the last kernel reads nothing more.
std::vector<Kernel> thereAndBack(int depth) {
  std::vector<Kernel> kernels(static_cast<size_t>(2 * depth));
  for (int at = 0; at < 2 * depth; ++at) {
    Kernel& kernel = kernels[static_cast<size_t>(at)];
    kernel.work = 1;
    kernel.again = true;
    kernel.task.writes = {at};
    if (at > 0) kernel.task.reads = {at - 1};
    if (at > depth) kernel.task.reads.push_back(2 * depth - 1 - at);
  }
  return kernels;
}

/// Bytes alive at most, when each kernel reads what ran last; fails where one reads what has not run.
int64_t peakOf(const std::vector<Kernel>& kernels, const std::vector<int64_t>& bytes,
               const std::vector<int>& steps) {
  std::map<int, std::pair<int, int>> open;  // of a block: made, last read
  std::vector<std::pair<int, std::pair<int, int>>> lives;
  for (int place = 0; place < static_cast<int>(steps.size()); ++place) {
    const plan::Task& task = kernels[static_cast<size_t>(steps[static_cast<size_t>(place)])].task;
    for (int block : task.reads) {
      EXPECT_TRUE(open.contains(block)) << "kernel at " << place << " reads block " << block;
      open[block].second = place;
    }
    for (int block : task.writes) {
      if (open.contains(block)) lives.emplace_back(block, open[block]);
      open[block] = {place, place};
    }
  }
  for (const auto& life : open) lives.emplace_back(life);
  int64_t most = 0;
  for (int place = 0; place < static_cast<int>(steps.size()); ++place) {
    int64_t live = 0;
    for (const auto& [block, life] : lives)
      if (life.first <= place && place <= life.second) live += bytes[static_cast<size_t>(block)];
    most = std::max(most, live);
  }
  return most;
}

TEST(Recompute, EachStepLowersThePeakAndKeepsWhatIsRead) {
  const std::vector<Kernel> kernels = thereAndBack(16);
  const std::vector<int64_t> bytes(32, 100);
  Recompute recompute(kernels, bytes);
  const int64_t free = recompute.peak();
  EXPECT_EQ(free, peakOf(kernels, bytes, recompute.steps()));
  EXPECT_EQ(recompute.runsAgain(), 0);
  int64_t before = free;
  while (recompute.step()) {
    EXPECT_LE(recompute.peak(), before);
    before = recompute.peak();
    EXPECT_EQ(before, peakOf(kernels, bytes, recompute.steps()));
    EXPECT_LE(recompute.addedWork(), 1);
  }
  EXPECT_LE(before, free / 2);
}

TEST(Recompute, TheCheapestBytesGoFirst) {
  // Two values of one size span the peak: block 0 takes 10 of work to make again, block 1 takes 2.
  std::vector<Kernel> kernels(5);
  for (int at = 0; at < 5; ++at) {
    kernels[static_cast<size_t>(at)].task.writes = {at};
    kernels[static_cast<size_t>(at)].work = 1;
    kernels[static_cast<size_t>(at)].again = true;
  }
  kernels[0].work = 10;
  kernels[1].work = 2;
  kernels[2].task.reads = {0, 1};
  kernels[3].task.reads = {2};
  kernels[4].task.reads = {3, 0, 1};
  Recompute recompute(kernels, {100, 100, 1, 500, 1});
  ASSERT_TRUE(recompute.step());
  EXPECT_EQ(recompute.steps(), (std::vector<int>{0, 1, 2, 3, 1, 4}));
  EXPECT_DOUBLE_EQ(recompute.addedWork(), 2 / 15.0);
}

TEST(Recompute, WhatMayNotRunAgainStays) {
  std::vector<Kernel> kernels = thereAndBack(4);
  for (Kernel& kernel : kernels) kernel.again = false;
  Recompute recompute(kernels, std::vector<int64_t>(8, 100));
  EXPECT_FALSE(recompute.step());
}

TEST(Recompute, ARunOfAnEarlierKernelIsItsRun) {
  // Kernel 1 makes block 1 from block 0, and kernel 3 makes it once more, behind the peak at 2, for kernel 5. Kernel 4
  // reads block 2, which is made from block 1: so it can be made again there, too.
  std::vector<Kernel> kernels(6);
  for (Kernel& kernel : kernels) {
    kernel.work = 1;
    kernel.again = true;
  }
  kernels[0].task.writes = {0};
  kernels[1].task = {{}, {0}, {1}, {}};
  kernels[2].task = {{}, {1}, {2}, {}};
  kernels[3].task = {{}, {0}, {1}, {}};
  kernels[3].repeats = 1;
  kernels[4].task = {{}, {1}, {3}, {}};
  kernels[5].task = {{}, {2, 1}, {4}, {}};
  const std::vector<int64_t> bytes(5, 100);
  const Recompute recompute(kernels, bytes);
  EXPECT_EQ(recompute.steps(), (std::vector<int>{0, 1, 2, 1, 4, 5}));
  EXPECT_EQ(recompute.runsAgain(), 0);
  EXPECT_EQ(recompute.peak(), peakOf(kernels, bytes, recompute.steps()));
}

TEST(Recompute, RunsThatABudgetDoesWithoutAreLeftOut) {
  const std::vector<Kernel> kernels = thereAndBack(16);
  const std::vector<int64_t> bytes(32, 100);
  Recompute recompute(kernels, bytes);
  const int64_t free = recompute.peak();
  while (recompute.step()) {
  }
  ASSERT_GT(recompute.runsAgain(), 0);
  Recompute half = recompute;
  half.spare((free + recompute.peak()) / 2);
  EXPECT_LT(half.runsAgain(), recompute.runsAgain());
  EXPECT_LE(half.peak(), (free + recompute.peak()) / 2);
  EXPECT_EQ(half.peak(), peakOf(kernels, bytes, half.steps()));
  half.spare(free);
  EXPECT_EQ(half.runsAgain(), 0);
}

/// A network of `depth` layers with dropout, its gradient and Adam, planned within a budget; "" is without.
std::unique_ptr<Module> plannedWithin(int depth, const std::string& budget,
                                      const std::string& gradient = "append-grad") {
  std::string params, body;
  for (int at = 0; at < depth; ++at) {
    params += fmt::format("  param @w{} : tensor<32x32xf32> {{init = randn(0.2)}}\n", at);
    body += fmt::format("    %w{0} = tg.param @w{0} : tensor<32x32xf32>\n"
                        "    %m{0} = tg.matmul %h{0}, %w{0} : tensor<64x32xf32>\n"
                        "    %g{0} = tg.gelu %m{0} : tensor<64x32xf32>\n"
                        "    %h{1} = tg.dropout %g{0}, %rng {{p = 0.1, salt = {0}}} : tensor<64x32xf32>\n",
                        at, at + 1);
  }
  auto module =
      parsed("module @m {\n" + params +
             "  func @train(%h0: tensor<64x32xf32>, %rng: tensor<2xi32> {host = \"rng\"}) -> (loss: "
             "tensor<f32>) {\n" +
             body +
             fmt::format("    %loss = tg.mean %h{} {{axes = [0, 1]}} : tensor<f32>\n"
                         "    return %loss : tensor<f32>\n  }}\n}}\n",
                         depth));
  const std::string plan = budget.empty() ? "plan" : "plan{budget=" + budget + "}";
  auto passes = PassManager::parse(gradient + ",append-adam{lr=1e-2},fuse," + plan);
  EXPECT_TRUE(passes) << passes.error().str();
  auto ran = passes->run(module);
  EXPECT_TRUE(ran) << ran.error().str();
  return module;
}

int64_t totalBytes(const Module& module) {
  int64_t bytes = 0;
  for (const Item* buffer : module.all(ItemKind::buffer)) bytes += buffer->bytes;
  return bytes;
}

NdArray spread(const Type& type) {
  NdArray out = NdArray::zeros(type);
  for (size_t i = 0; i < out.data.size(); ++i) out.data[i] = static_cast<double>(i * 29 % 17) / 16 - 0.5;
  return out;
}

/// The losses of three steps and the parameters after them.
std::vector<std::vector<double>> trained(const Module& module) {
  std::vector<std::vector<double>> out;
  auto interp = Interpreter::create(module);
  EXPECT_TRUE(interp) << (interp ? "" : interp.error().str());
  if (!interp) return out;
  for (const Item* param : module.all(ItemKind::param))
    EXPECT_TRUE(interp->setStorage(param->name, spread(param->type)));
  for (int step = 0; step < 3; ++step) {
    NdArray rng = NdArray::zeros(Type::tensor(DType::i32, {2}));
    rng.data = {7, static_cast<double>(step)};
    NdArray lr = NdArray::zeros(Type::tensor(DType::f32, {}));
    lr.data = {0.01};
    auto ran =
        interp->run("train", {{"h0", spread(Type::tensor(DType::f32, {64, 32}))}, {"rng", rng}, {"lr", lr}});
    EXPECT_TRUE(ran) << (ran ? "" : ran.error().str());
    if (!ran) return out;
    out.push_back(ran->result("loss")->data);
  }
  for (const Item* param : module.all(ItemKind::param)) out.push_back(interp->storage(param->name)->data);
  return out;
}

// A collective keeps its place among the kernels.
TEST(Recompute, KernelsRunAgainBetweenCollectives) {
  const std::string gradient = "append-grad,data-parallel{ranks=2 bucket=0}";
  auto free = plannedWithin(8, "", gradient), least = plannedWithin(8, "least", gradient);
  EXPECT_NE(print(*free).find("tg.all_reduce"), std::string::npos);
  EXPECT_LT(totalBytes(*least), totalBytes(*free) * 3 / 4);
}

TEST(Recompute, ABudgetChangesNoBit) {
  auto free = plannedWithin(8, "");
  const int64_t bytes = totalBytes(*free);
  auto tight = plannedWithin(8, std::to_string(bytes - 30000));
  EXPECT_LE(totalBytes(*tight), bytes - 30000);
  EXPECT_NE(print(*tight).find("_again = tg.fused"), std::string::npos);
  EXPECT_EQ(trained(*tight), trained(*free));
  auto roomy = plannedWithin(8, std::to_string(bytes));
  EXPECT_EQ(print(*roomy), print(*free));
}

}  // namespace
}  // namespace tg::test
