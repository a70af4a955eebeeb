// SPDX-License-Identifier: Apache-2.0
// Kernels that stand together in one: side by side, each in workgroups of its own, and over the same rows.
#include <gtest/gtest.h>

#include "ir/parser.h"
#include "runtime/compile.h"
#include "test/unit/run_passes.h"
#include "test/unit/sweep_graphs.h"
#include "test/unit/sweep_runs.h"

namespace tg::test {
namespace {

/// Extents that no vector, lane count or workgroup divides, beside some that they do.
constexpr const char* kModule = R"(
module @m {
  func @sums(%x: tensor<333x20xf32>, %y: tensor<77x33xf32>, %z: tensor<2050xf32>, %n: tensor<i32>, %u: tensor<3x50x12xf32>) -> (a: tensor<20xf32>, b: tensor<33xf32>, c: tensor<f32>, d: tensor<i32>, e: tensor<3x12xf32>, f: tensor<f32>) {
    %a = tg.sum %x {axes = [0]} : tensor<20xf32>
    %s = tg.max_reduce %y {axes = [0]} : tensor<33xf32>
    %b = tg.exp %s : tensor<33xf32>
    %c = tg.mean %z {axes = [0]} : tensor<f32>
    %one = tg.constant 1 : tensor<i32>
    %d = tg.add %n, %one : tensor<i32>
    %e = tg.min_reduce %u {axes = [1]} : tensor<3x12xf32>
    %w = tg.square %y : tensor<77x33xf32>
    %f = tg.sum %w {axes = [0, 1]} : tensor<f32>
    return %a, %b, %c, %d, %e, %f : tensor<20xf32>, tensor<33xf32>, tensor<f32>, tensor<i32>, tensor<3x12xf32>, tensor<f32>
  }
  func @stages(%x: tensor<20000x8xf32>, %y: tensor<10000x12xf32>, %v: tensor<12x8xf32>) -> (a: tensor<8xf32>, b: tensor<12xf32>, c: tensor<12xf32>) {
    %a = tg.sum %x {axes = [0]} : tensor<8xf32>
    %b = tg.sum %y {axes = [0]} : tensor<12xf32>
    %m = tg.mul %v, %a : tensor<12x8xf32>
    %c = tg.sum %m {axes = [1]} : tensor<12xf32>
    return %a, %b, %c : tensor<8xf32>, tensor<12xf32>, tensor<12xf32>
  }
  func @norm(%x: tensor<5x70x36xf32>, %g: tensor<36xf32>, %h: tensor<5x70x36xf32>) -> (dx: tensor<5x70x36xf32>, dg: tensor<36xf32>, db: tensor<36xf32>) {
    %dx, %mean, %scale = tg.layer_norm_grad %x, %g, %h : tensor<5x70x36xf32>, tensor<5x70x1xf32>, tensor<5x70x1xf32>
    %off = tg.sub %x, %mean : tensor<5x70x36xf32>
    %w = tg.mul %h, %off : tensor<5x70x36xf32>
    %p = tg.mul %w, %scale : tensor<5x70x36xf32>
    %dg = tg.sum %p {axes = [0, 1]} : tensor<36xf32>
    %db = tg.sum %h {axes = [0, 1]} : tensor<36xf32>
    return %dx, %dg, %db : tensor<5x70x36xf32>, tensor<36xf32>, tensor<36xf32>
  }
  func @rows(%z: tensor<45x10xf32>, %i: tensor<45xi32>, %s: tensor<f32>) -> (l: tensor<45xf32>, dz: tensor<45x10xf32>) {
    %l = tg.cross_entropy %z, %i {reduction = none} : tensor<45xf32>
    %dz = tg.cross_entropy_grad %z, %i, %s : tensor<45x10xf32>
    return %l, %dz : tensor<45xf32>, tensor<45x10xf32>
  }
}
)";

constexpr const char* kTwo = R"(
module @m {
  func @two(%x: tensor<333x20xf32>, %y: tensor<333x20xf32>) -> (a: tensor<20xf32>, b: tensor<20xf32>) {
    %p = tg.mul %x, %y : tensor<333x20xf32>
    %a = tg.sum %p {axes = [0]} : tensor<20xf32>
    %b = tg.sum %y {axes = [0]} : tensor<20xf32>
    return %a, %b : tensor<20xf32>, tensor<20xf32>
  }
}
)";

Arrays inputsFor(const Item& func) {
  Arrays out;
  uint32_t state = 77;
  for (const auto& arg : func.body.args) {
    NdArray array = NdArray::zeros(arg->type);
    for (double& value : array.data) {
      state = state * 1664525u + 1013904223u;
      const uint32_t bits = state >> 8;
      value = arg->type.dtype == DType::i32 ? static_cast<double>(bits % 10)
                                            : static_cast<double>(static_cast<float>(bits) * 0x1p-24f) - 0.4;
    }
    roundAll(array);
    out.emplace(arg->name, std::move(array));
  }
  return out;
}

/// What the kernels of a final module compute, in the interpreter and on the device, against the tensors.
void compare(const Module& tensor, const Module& final) {
  std::vector<std::string> functions;
  std::vector<Arrays> inputs;
  for (const Item* func : tensor.all(ItemKind::func)) {
    functions.push_back(func->name);
    inputs.push_back(inputsFor(*func));
  }
  expectMeaning(tensor, final, functions, inputs);
}

struct Case {
  const char* target;
  int64_t subgroup;
  const char* kernels;  ///< of @sums, @stages, @norm and @rows
};

class MergedKernels : public ::testing::TestWithParam<Case> {};
TEST_P(MergedKernels, MatchTheOracle) {
  auto tensor = parse(kModule, "merge.tgir");
  ASSERT_TRUE(tensor) << tensor.error().str();
  Target target = *targetByName(GetParam().target);
  target.subgroup = GetParam().subgroup;
  Stages stages = stagesOf(**tensor, target);
  ASSERT_TRUE(stages.fused && stages.spirv);
  std::string kernels;
  for (const Item* func : stages.fused->all(ItemKind::func)) {
    size_t count = 0;
    for (Op* op : func->body.ops) count += op->code == Opcode::fused;
    kernels += std::to_string(count) + " ";
  }
  EXPECT_EQ(kernels, GetParam().kernels);
  compare(**tensor, *stages.spirv);
}
INSTANTIATE_TEST_SUITE_P(Targets, MergedKernels,
                         ::testing::Values(Case{"lavapipe", 8, "1 3 2 1 "}, Case{"gpu", 1, "1 3 2 1 "},
                                           Case{"gpu", 8, "1 3 2 1 "}, Case{"vulkan-min", 1, "2 3 2 1 "}));

/// Schedules that nobody chooses for these two sums, and that a tuning file may.
TEST(MergedKernels, FollowOtherSchedules) {
  auto tensor = parse(kTwo, "two.tgir");
  ASSERT_TRUE(tensor) << tensor.error().str();
  Target target = *targetByName("gpu");
  target.subgroup = 8;
  for (const char* text :
       {"column{lanes = 64, side = 4, vec = 4}", "map{vec = 4, workgroup = 64}",
        "parts{of = [column{lanes = 16, side = 4, vec = 1}, map{vec = 4, workgroup = 64}], results = [1, 1]}",
        "parts{of = [map{vec = 1, workgroup = 4}, map{vec = 4, workgroup = 4}], results = [1, 1]}",
        "parts{of = [column{lanes = 8, side = 3, vec = 4}], results = [2]}"}) {
    auto schedule = parseAttr(text, "schedule");
    ASSERT_TRUE(schedule) << schedule.error().str();
    auto fused = runPasses(clone(**tensor), "fuse{target=" + targetOption(target) + "}");
    ASSERT_TRUE(fused) << fused.error().str();
    for (Op* op : fused->module->func("two")->body.ops)
      if (op->code == Opcode::fused) op->setAttr("schedule", *schedule);
    auto done = runPasses(std::move(fused->module), "plan,spirv-emit");
    ASSERT_TRUE(done) << text << ": " << done.error().str();
    compare(**tensor, *done->module);
  }
}

}  // namespace
}  // namespace tg::test
