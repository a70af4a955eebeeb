// SPDX-License-Identifier: Apache-2.0
// Rows and columns that invocations share: softmax and its kin, sums over leading axes, scatters, at shapes
// where lanes, rounds, subgroups and workgroups do not come out even.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "ir/parser.h"
#include "ir/verify.h"
#include "runtime/executor.h"
#include "test/unit/sweep_graphs.h"
#include "test/unit/sweep_runs.h"

namespace tg::test {
namespace {

struct Line {
  std::string inputs;  ///< `%x: tensor<9x128xf32>, …`
  std::string op;      ///< makes %r
  std::string type;    ///< of %r
  const char* schedule;
};

Line unary(const std::string& op, const std::string& in, const std::string& out, const char* schedule) {
  return {"%x: tensor<" + in + ">", "%r = tg." + fmt::format(fmt::runtime(op), "%x"), "tensor<" + out + ">",
          schedule};
}

std::vector<Line> lines() {
  std::vector<Line> out;
  for (const char* shape :
       {"9x128", "7x65", "50x10", "3x1028", "2x4999", "1x3001", "33x256", "5x8x36", "1x40004"})
    for (const char* op : {"softmax {}", "log_softmax {}", "rms_norm {}, %g"}) {
      const std::string type = fmt::format("{}xf32", shape);
      Line line = unary(op, type, type, "row");
      if (std::string(op).find("%g") != std::string::npos)
        line.inputs +=
            fmt::format(", %g: tensor<{}xf32>", std::string(shape).substr(std::string(shape).rfind('x') + 1));
      out.push_back(line);
    }
  out.push_back(unary("sum {} {{axes = [1]}}", "700x10xf32", "700xf32", "row"));
  out.push_back(unary("sum {} {{axes = [1]}}", "5000x3xf32", "5000xf32", "row"));
  out.push_back(unary("max_reduce {} {{axes = [1, 2]}}", "6x5x7xf32", "6xf32", "row"));
  out.push_back(unary("mean {} {{axes = [0]}}", "2050xf32", "f32", "row"));
  out.push_back({"%x: tensor<40x65xf32>, %i: tensor<40xi32>",
                 "%r = tg.cross_entropy %x, %i {reduction = none}", "tensor<40xf32>", "row"});
  for (const char* op : {"sum", "mean", "max_reduce", "min_reduce"}) {
    auto column = [&](const char* in, const char* axes, const char* result) {
      out.push_back(unary(fmt::format("{} {{}} {{{{axes = [{}]}}}}", op, axes), in, result, "column"));
    };
    column("1030x128xf32", "0", "128xf32");
    column("777x10xf32", "0", "10xf32");
    column("3x50x12xf32", "1", "3x12xf32");
    column("20x6x4xf32", "0, 1", "4xf32");
    column("4x100x3x5xf32", "1", "4x3x5xf32");
    column("100x2x1xf32", "0", "2x1xf32");
  }
  out.push_back(unary("sum {} {{axes = [0]}}", "9001x8xf32", "8xf32", "column"));
  out.push_back(unary("sum {} {{axes = [0]}}", "10000x3xf32", "3xf32", "column"));
  out.push_back(unary("sum {} {{axes = [0]}}", "300x12xi32", "12xi32", "column"));
  auto scatter = [&](const char* ids, const char* updates, int rows, const char* result) {
    out.push_back({fmt::format("%i: tensor<{}xi32>, %u: tensor<{}xf32>", ids, updates),
                   fmt::format("%r = tg.scatter_add %i, %u {{rows = {}}}", rows),
                   fmt::format("tensor<{}xf32>", result), "column"});
  };
  scatter("300", "300x12", 65, "65x12");
  scatter("300", "300x3", 5, "5x3");
  scatter("20x30", "20x30x8", 10, "10x8");
  scatter("45", "45", 7, "7");
  return out;
}

/// One function for each line; ids lie in -1 … 65, outside of some tables.
std::string moduleText() {
  std::string text = "module @m {\n";
  const std::vector<Line> all = lines();
  for (size_t i = 0; i < all.size(); ++i)
    text += fmt::format("  func @f{}({}) -> (r: {}) {{\n    {} : {}\n    return %r : {}\n  }}\n", i,
                        all[i].inputs, all[i].type, all[i].op, all[i].type, all[i].type);
  // A gain's and a bias' gradient and a map of one of them: one kernel.
  text += "  func @many(%x: tensor<333x20xf32>, %y: tensor<333x20xf32>) -> (a: tensor<20xf32>, b: "
          "tensor<20xf32>) {\n"
          "    %p = tg.mul %x, %y : tensor<333x20xf32>\n    %a = tg.sum %p {axes = [0]} : tensor<20xf32>\n"
          "    %s = tg.sum %y {axes = [0]} : tensor<20xf32>\n    %b = tg.exp %s : tensor<20xf32>\n"
          "    return %a, %b : tensor<20xf32>, tensor<20xf32>\n  }\n";
  return text + "}\n";
}

Arrays inputsFor(const Item& func, uint32_t seed) {
  Arrays out;
  uint32_t state = seed * 2654435761u + 12345;
  for (const auto& arg : func.body.args) {
    NdArray array = NdArray::zeros(arg->type);
    for (double& value : array.data) {
      state = state * 1664525u + 1013904223u;
      const uint32_t bits = state >> 8;
      value = arg->type.dtype == DType::i32 ? static_cast<double>(bits % 67) - 1
                                            : static_cast<double>(static_cast<float>(bits) * 0x1p-24f) - 0.4;
    }
    roundAll(array);
    out.emplace(arg->name, std::move(array));
  }
  return out;
}

Target sharing(int64_t subgroup) {
  Target target = *targetByName("gpu");
  target.subgroup = subgroup;
  return target;
}

class SharedRows : public ::testing::TestWithParam<int> {};
TEST_P(SharedRows, MatchTheOracle) {
  auto tensor = parse(moduleText(), "rows.tgir");
  ASSERT_TRUE(tensor) << tensor.error().str();
  const Target target = sharing(GetParam());
  Stages stages = stagesOf(**tensor, target);
  ASSERT_TRUE(stages.fused && stages.spirv);
  auto schedules = [&](const std::string& function) {
    std::string text;
    for (Op* op : stages.fused->func(function)->body.ops)
      if (op->code == Opcode::fused) text += op->attr("schedule").text + " ";
    return text;
  };
  std::vector<std::string> functions;
  std::vector<Arrays> inputs;
  const std::vector<Line> all = lines();
  for (size_t i = 0; i <= all.size(); ++i) {
    functions.push_back(i < all.size() ? fmt::format("f{}", i) : "many");
    inputs.push_back(inputsFor(*(*tensor)->func(functions.back()), static_cast<uint32_t>(i)));
    if (i == all.size()) continue;
    EXPECT_NE(schedules(functions.back()).find(all[i].schedule), std::string::npos)
        << all[i].op << all[i].type;
  }
  EXPECT_EQ(schedules("many"), "parts ");
  size_t reductions = 0;
  for (const Item* kernel : stages.spirv->all(ItemKind::kernel))
    walk(kernel->body, [&](Op& op) { reductions += op.code == Opcode::k_subgroup_reduce; });
  EXPECT_EQ(reductions > 0, target.subgroup > 1);
  expectMeaning(**tensor, *stages.spirv, functions, inputs);
}
// lavapipe's subgroups have 8 invocations.
INSTANTIATE_TEST_SUITE_P(Subgroups, SharedRows, ::testing::Values(1, 8));

/// The gradient of a norm with those of its gain, of its bias and of a bias behind it: sums over rows, which the kernel
/// over rows adds up on its way. 64 rows to a sum, of which each subgroup has two.
TEST(SharedRows, SumRowsOnTheirWay) {
  const std::string text = R"(module @m {
  func @norm(%x: tensor<8x64x96xf32>, %g: tensor<96xf32>, %d: tensor<8x64x96xf32>, %e: tensor<8x64x96xf32>)
      -> (dx: tensor<8x64x96xf32>, dg: tensor<96xf32>, db: tensor<96xf32>, dr: tensor<96xf32>) {
    %n, %mean, %scale = tg.layer_norm_grad %x, %g, %d : tensor<8x64x96xf32>, tensor<8x64x1xf32>, tensor<8x64x1xf32>
    %c = tg.sub %x, %mean : tensor<8x64x96xf32>
    %p = tg.mul %d, %c : tensor<8x64x96xf32>
    %q = tg.mul %p, %scale : tensor<8x64x96xf32>
    %dg = tg.sum %q {axes = [0, 1]} : tensor<96xf32>
    %db = tg.sum %d {axes = [0, 1]} : tensor<96xf32>
    %dx = tg.add %e, %n : tensor<8x64x96xf32>
    %dr = tg.sum %dx {axes = [0, 1]} : tensor<96xf32>
    return %dx, %dg, %db, %dr : tensor<8x64x96xf32>, tensor<96xf32>, tensor<96xf32>, tensor<96xf32>
  }
}
)";
  auto tensor = parse(text, "norm.tgir");
  ASSERT_TRUE(tensor) << tensor.error().str();
  Target target = sharing(8);
  target.parallel = 8 * 512;
  const Stages stages = stagesOf(**tensor, target);
  ASSERT_TRUE(stages.fused && stages.spirv);
  std::vector<const Op*> kernels;
  for (const Op* op : stages.fused->func("norm")->body.ops)
    if (op->code == Opcode::fused) kernels.push_back(op);
  ASSERT_EQ(kernels.size(), 2u);  // the second adds up the sums' parts
  EXPECT_EQ(kernels[0]->results.size(), 4u);
  EXPECT_EQ(kernels[0]->attr("schedule").str(), "row{lanes = 8, vec = 4, workgroup = 256}");
  expectMeaning(**tensor, *stages.spirv, {"norm"}, {inputsFor(*(*tensor)->func("norm"), 7)});
}

TEST(SharedRows, AnotherSubgroupWidthIsRefused) {
  auto tensor = parse("module @m {\n  func @f(%x: tensor<9x64xf32>) -> (r: tensor<9x64xf32>) {\n"
                      "    %r = tg.softmax %x : tensor<9x64xf32>\n    return %r : tensor<9x64xf32>\n  }\n}\n",
                      "m.tgir");
  ASSERT_TRUE(tensor);
  Stages stages = stagesOf(**tensor, sharing(16));
  ASSERT_TRUE(stages.spirv);
  auto device = vulkan::Device::open({});
  ASSERT_TRUE(device);
  auto executor = Executor::create(*stages.spirv, *device);
  ASSERT_FALSE(executor);
  EXPECT_NE(executor.error().str().find("relies on subgroups of 16 and the device has 8"), std::string::npos)
      << executor.error().str();
}

}  // namespace
}  // namespace tg::test
