// SPDX-License-Identifier: Apache-2.0
// Regions that meet a target's bindings, and scatters that skip blocks: through every stage, on the kernel
// interpreter and on Vulkan, bit for bit.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "ir/parser.h"
#include "ir/verify.h"
#include "test/unit/sweep_runs.h"

namespace tg::test {
namespace {

struct Program {
  std::string args, body, result;  ///< `%a: tensor<…>, …`; lines that define %r; its type

  std::unique_ptr<Module> module() const {
    auto parsed =
        parse(fmt::format("module @m {{\n  func @f({}) -> (r: {}) {{\n{}    return %r : {}\n  }}\n}}\n", args,
                          result, body, result),
              "test.tgir");
    EXPECT_TRUE(parsed) << (parsed ? "" : parsed.error().str());
    if (!parsed) return nullptr;
    auto valid = verify(**parsed);
    EXPECT_TRUE(valid) << (valid ? "" : valid.error().str());
    return valid ? std::move(*parsed) : nullptr;
  }
};

/// Whole numbers, whose sums no order of f32 additions rounds.
Arrays wholeInputs(const Module& module, int64_t idLimit) {
  std::mt19937 random(7);
  Arrays out;
  for (const auto& arg : module.func("f")->body.args) {
    NdArray array = NdArray::zeros(arg->type);
    const bool real = isFloat(arg->type.dtype);
    for (double& value : array.data)
      value =
          static_cast<double>(random() % static_cast<uint64_t>(real ? 41 : idLimit + 3)) - (real ? 20 : 1);
    out.emplace(arg->name, std::move(array));
  }
  return out;
}

/// Runs the program everywhere and expects the oracle's numbers; returns its kernels' storage buffers.
std::vector<int64_t> storageOfKernels(const Program& program, const Target& target, int64_t idLimit = 1) {
  std::unique_ptr<Module> tensor = program.module();
  if (!tensor) return {};
  const Arrays inputs = wholeInputs(*tensor, idLimit);
  const NdArray wanted = interpret(*tensor, "f", inputs).at("r");
  Stages stages = stagesOf(*tensor, target);
  if (!stages.spirv) return {};
  EXPECT_EQ(interpret(*stages.fused, "f", inputs).at("r").data, wanted.data) << "fused";
  EXPECT_EQ(interpret(*stages.planned, "f", inputs).at("r").data, wanted.data) << "planned";
  EXPECT_EQ(interpret(*stages.spirv, "f", inputs).at("r").data, wanted.data) << "kernel";
  Gpu gpu;
  EXPECT_EQ(gpu.run(*stages.spirv, {"f"}, {inputs})[0].at("r").data, wanted.data) << "vulkan";
  std::vector<int64_t> counts;
  for (const Item* kernel : stages.spirv->all(ItemKind::kernel)) {
    counts.push_back(0);
    for (const auto& arg : kernel->body.args) counts.back() += !arg->type.texel;
  }
  return counts;
}

Program join(int operands, const std::string& op, const std::string& type, const std::string& result) {
  Program program;
  std::string names;
  for (int i = 0; i < operands; ++i) {
    program.args += fmt::format("{}%x{}: {}", i ? ", " : "", i, type);
    names += fmt::format("{}%x{}", i ? ", " : "", i);
  }
  program.body = fmt::format("    %r = {} : {}\n", fmt::format(fmt::runtime(op), names), result);
  program.result = result;
  return program;
}

TEST(Bindings, JoinsOfMoreTensorsThanAKernelBinds) {
  const Target target = *targetByName("vulkan-min");
  const int many = static_cast<int>(3 * target.bindings);
  for (const auto& [op, type, result] :
       {std::tuple{"tg.concat {} {{axis = 0}}", "tensor<4x8xf32>", fmt::format("tensor<{}x8xf32>", 4 * many)},
        std::tuple{"tg.concat {} {{axis = 1}}", "tensor<5x3xf32>", fmt::format("tensor<5x{}xf32>", 3 * many)},
        std::tuple{"tg.stack {} {{axis = 1}}", "tensor<2x3xf32>", fmt::format("tensor<2x{}x3xf32>", many)}}) {
    std::vector<int64_t> storage = storageOfKernels(join(many, op, type, result), target);
    EXPECT_GT(storage.size(), 1u) << op;
    for (int64_t count : storage) EXPECT_LE(count, target.bindings) << op;
  }
}

TEST(Bindings, ATargetThatBindsThreeBuffers) {
  Target target = *targetByName("vulkan-min");
  target.bindings = 3;
  for (int64_t count :
       storageOfKernels(join(9, "tg.concat {} {{axis = 0}}", "tensor<4xf32>", "tensor<36xf32>"), target))
    EXPECT_LE(count, target.bindings);
}

/// Each operand is read along its rows by vectors, and transposed by elements.
TEST(Bindings, TensorsReadInTwoWaysAreBoundOnceWhereBothDoNotFit) {
  const std::string type = "tensor<8x8xf32>";
  Program program;
  program.result = type;
  for (int i = 0; i < 5; ++i) {
    const std::string last = i == 4 ? "r" : fmt::format("s{}", i);
    program.args += fmt::format("{}%x{}: {}", i ? ", " : "", i, type);
    program.body += fmt::format("    %t{0} = tg.transpose %x{0} {{perm = [1, 0]}} : {1}\n", i, type);
    if (i > 0) program.body += fmt::format("    %u{0} = tg.add %s{1}, %x{0} : {2}\n", i, i - 1, type);
    program.body += fmt::format("    %{0} = tg.sub %{1}{2}, %t{2} : {3}\n", last, i ? "u" : "x", i, type);
  }
  const Target target = *targetByName("vulkan-min");
  std::vector<int64_t> storage = storageOfKernels(program, target);
  ASSERT_FALSE(storage.empty());
  EXPECT_LE(*std::max_element(storage.begin(), storage.end()), target.bindings);
  // One kernel of a five-operand chain would bind ten and a result: it reads by element.
  EXPECT_EQ(storage[0], 6);
}

TEST(Scatter, SortsIdsAndAddsTheSame) {
  const Program program = {"%i: tensor<8x128xi32>, %u: tensor<8x128x4xf32>",
                           "    %r = tg.scatter_add %i, %u {rows = 4100} : tensor<4100x4xf32>\n",
                           "tensor<4100x4xf32>"};
  // Ids of rows, sorted blocks, merged ones, offsets, sums. Of ids up to 20 most rows have none, others many.
  EXPECT_EQ(storageOfKernels(program, *targetByName("vulkan-min"), 4100).size(), 5u);
  EXPECT_EQ(storageOfKernels(program, *targetByName("lavapipe"), 20).size(), 5u);
  // So many blocks that they are merged twice.
  const Program more = {"%i: tensor<40x128xi32>, %u: tensor<40x128x4xf32>",
                        "    %r = tg.scatter_add %i, %u {rows = 2100} : tensor<2100x4xf32>\n",
                        "tensor<2100x4xf32>"};
  EXPECT_EQ(storageOfKernels(more, *targetByName("vulkan-min"), 2200).size(), 6u);
  EXPECT_EQ(storageOfKernels(more, *targetByName("lavapipe"), 20).size(), 6u);
}

TEST(Scatter, AddsPiecesToFewRows) {
  const Program program = {"%i: tensor<8x1024xi32>, %u: tensor<8x1024x4x2xf32>",
                           "    %r = tg.scatter_add %i, %u {rows = 20} : tensor<20x4x2xf32>\n",
                           "tensor<20x4x2xf32>"};
  // Of ids up to 40, half are outside: the ids of pieces, sums of pieces, their sum.
  for (double ids : {20.0, 40.0})
    EXPECT_EQ(storageOfKernels(program, *targetByName("vulkan-min"), ids).size(), 3u);
  EXPECT_EQ(storageOfKernels(program, *targetByName("lavapipe"), 20).size(), 1u);
}

}  // namespace
}  // namespace tg::test
