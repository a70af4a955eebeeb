// SPDX-License-Identifier: Apache-2.0
// planned → kernel → spirv: commands, barriers, equal kernels, copies, limits.
#include <cmath>
#include <functional>
#include <numbers>

#include "codegen/glsl.h"
#include "ir/parser.h"
#include "ir/target.h"
#include "ir/verify.h"
#include "ir/work.h"
#include "passes/pass.h"
#include "runtime/interp/interp.h"
#include "test/unit/plan_support.h"

namespace tg::test {
namespace {

/// A planned module lowered to kernels, verified, barriers and all.
std::unique_ptr<Module> lowered(const std::string& text, const PassContext& context = {}) {
  auto module = planned(text);
  if (!module) return nullptr;
  auto ran = run_lower_kernels(*module, {}, context);
  EXPECT_TRUE(ran) << (ran ? "" : ran.error().str());
  if (!ran) return nullptr;
  auto verified = verify(*module);
  EXPECT_TRUE(verified) << (verified ? "" : verified.error().str()) << print(*module);
  return module;
}

/// The commands of @train by name, `dispatch` ones with their label.
std::vector<std::string> commands(const Module& module) {
  std::vector<std::string> out;
  for (Op* op : module.func("train")->body.ops)
    out.push_back(op->code == Opcode::dispatch ? op->word("label") : std::string(op->info().name));
  return out;
}

using Texts = std::vector<std::string>;

TEST(LowerKernels, BarriersStandAtHazardsAlone) {
  auto module = lowered(fusedModule("  func @train(%x: " + kT + ") -> (a: " + kT + ", b: " + kT +
                                    ", c: " + kT + ") {\n" + unary("a", "x", kT) +
                                    unary("b", "x", kT, "exp") + added("c", "a", "b", kT) +
                                    "    return %a, %b, %c : " + kT + ", " + kT + ", " + kT + "\n  }\n"));
  ASSERT_TRUE(module);
  EXPECT_EQ(commands(*module),
            (Texts{"a: relu", "b: exp", "tg.barrier", "c: add", "tg.home", "tg.home", "tg.home", "return"}));
}

TEST(LowerKernels, EqualKernelsStandOnce) {
  auto module = lowered(fusedModule("  func @train(%x: " + kT + ") -> (c: " + kT + ") {\n" +
                                        unary("a", "x", kT, "exp") + unary("b", "a", kT, "neg") +
                                        unary("c", "b", kT, "neg") + "    return %c : " + kT + "\n  }\n",
                                    "alignment = 16"));
  ASSERT_TRUE(module);
  auto kernels = module->all(ItemKind::kernel);
  ASSERT_EQ(kernels.size(), 2u);
  EXPECT_EQ(kernels[0]->name, "k0_exp");
  EXPECT_EQ(kernels[1]->name, "k1_neg");
}

/// A region that adds a constant to %x, with a schedule.
std::string shifted(const std::string& name, const std::string& constant, const std::string& schedule) {
  return "    %" + name + " = tg.fused (%i = %x) {schedule = " + schedule + "} : " + kT +
         " {\n      %k = tg.constant " + constant + " : tensor<f32>\n      %s = tg.add %i, %k : " + kT +
         "\n      tg.yield %s : " + kT + "\n    }\n";
}

std::vector<Item*> kernelsOf(const Module& module) { return module.all(ItemKind::kernel); }

/// The kernels of two such regions side by side.
std::unique_ptr<Module> loweredPair(const std::string& a, const std::string& b) {
  return lowered(fusedModule("  func @train(%x: " + kT + ") -> (a: " + kT + ", b: " + kT + ") {\n" + a + b +
                             "    return %a, %b : " + kT + ", " + kT + "\n  }\n"));
}

TEST(LowerKernels, EqualRegionsAreOneKernel) {
  auto module = loweredPair(shifted("a", "1.5", "map{}"), shifted("b", "1.5", "map{}"));
  ASSERT_TRUE(module);
  EXPECT_EQ(kernelsOf(*module).size(), 1u);
  EXPECT_EQ(commands(*module), (Texts{"a: add", "b: add", "tg.home", "tg.home", "return"}));
  for (Op* op : module->func("train")->body.ops) {
    if (op->code == Opcode::dispatch) {
      EXPECT_EQ(op->operands[0].text, kernelsOf(*module)[0]->name);
    }
  }
}

TEST(LowerKernels, TheSignOfAZeroMakesAnotherKernel) {
  auto module = loweredPair(shifted("a", "0.0", "map{}"), shifted("b", "-0.0", "map{}"));
  ASSERT_TRUE(module);
  auto kernels = kernelsOf(*module);
  ASSERT_EQ(kernels.size(), 2u);
  EXPECT_EQ(print(*kernels[0]).find("-0.0"), std::string::npos);
  EXPECT_NE(print(*kernels[1]).find("-0.0"), std::string::npos);
}

TEST(LowerKernels, TheScheduleMakesAnotherKernel) {
  auto module = loweredPair(shifted("a", "1.5", "map{}"), shifted("b", "1.5", "map{workgroup = 32}"));
  ASSERT_TRUE(module);
  auto kernels = kernelsOf(*module);
  ASSERT_EQ(kernels.size(), 2u);
  EXPECT_NE(kernels[0]->workgroup[0], kernels[1]->workgroup[0]);
}

TEST(LowerKernels, UpdatesThatAreNotInPlaceAreCopiedAfterAllReads) {
  auto module = lowered(fusedModule("  param @w : " + kT + "\n  func @train() -> (y: " + kT +
                                    ") {\n    %w = tg.param @w : " + kT + "\n" + unary("n", "w", kT, "neg") +
                                    "    tg.update @w, %n\n" + added("y", "w", "n", kT) +
                                    "    return %y : " + kT + "\n  }\n"));
  ASSERT_TRUE(module);
  EXPECT_EQ(commands(*module),
            (Texts{"n: neg", "tg.barrier", "y: add", "tg.barrier", "tg.copy", "tg.home", "return"}));
}

TEST(LowerKernels, UpdatesInPlaceCostNothing) {
  auto module = lowered(fusedModule("  param @w : " + kT + "\n  func @train(%x: " + kT + ") -> (y: " + kT +
                                    ") {\n    %w = tg.param @w : " + kT + "\n" + added("y", "w", "x", kT) +
                                    added("n", "w", "x", kT) + "    tg.update @w, %n\n    return %y : " + kT +
                                    "\n  }\n"));
  ASSERT_TRUE(module);
  EXPECT_EQ(commands(*module), (Texts{"y: add", "tg.barrier", "n: add", "tg.home", "return"}));
}

TEST(LowerKernels, BytesSharedWithAResultAreNotReadAsTexels) {
  std::string text = "  param @w : " + kT + "\n  func @train(%x: " + kT + ") -> (y: " + kT +
                     ") {\n    %w = tg.param @w : " + kT + "\n" + unary("y", "x", kT) +
                     added("n", "w", "x", kT) + "    tg.update @w, %n\n    return %y : " + kT + "\n  }\n";
  auto module = lowered(fusedModule(text, "alignment = 16, reads = \"texel\""));
  ASSERT_TRUE(module);
  int texel = 0, in = 0;
  for (Op* op : module->func("train")->body.ops)
    if (op->code == Opcode::dispatch)
      for (const Operand& arg : op->keyword("args")->items) {
        texel += arg.text == "texel";
        in += arg.text == "in";
        EXPECT_TRUE(arg.text != "in" || arg.items[0].text == "persistent");
      }
  EXPECT_EQ(texel, 2);  // %x, twice
  EXPECT_EQ(in, 1);     // @w
}

TEST(LowerKernels, AViewOverTheTexelLimitIsALocatedError) {
  const std::string head = "  func @train(%x: " + kT + ") -> (y: " + kT + ") {\n",
                    tail = "    return %y : " + kT + "\n  }\n",
                    target = "alignment = 16, reads = \"texel\", texel_elements = 8";
  auto module = planned(fusedModule(head + unary("y", "x", kT) + tail, target));
  ASSERT_TRUE(module);
  auto ran = run_lower_kernels(*module, {}, {});
  ASSERT_FALSE(ran);
  EXPECT_EQ(locString(ran.error().diagnostics()[0].loc), "test.tgir:3:5");
  EXPECT_NE(ran.error().message().find("schedule map{vec = 1} reads %x through a view"), std::string::npos)
      << ran.error().message();
  auto storage =
      lowered(fusedModule(head + unary("y", "x", kT, "relu", "map{vec = 1, storage = [0]}") + tail, target));
  ASSERT_TRUE(storage);
  EXPECT_EQ(print(*storage).find("texel}"), std::string::npos);
}

/// An example fused for a target and planned.
std::unique_ptr<Module> plannedExample(const std::string& name, const std::string& target) {
  auto module = parseFile(TG_SOURCE_DIR "/docs/examples/" + name + ".tgir");
  EXPECT_TRUE(module) << name;
  auto passes = PassManager::parse("append-grad,append-adam,fuse{target=" + target + "},plan");
  EXPECT_TRUE(passes);
  if (!module || !passes) return nullptr;
  auto ran = passes->run(*module);
  EXPECT_TRUE(ran) << (ran ? "" : ran.error().str());
  return ran ? std::move(*module) : nullptr;
}

/// The functions and kernels that lowering makes of a copy of a module, with other preferences on it.
std::string loweredText(const Module& planned, const std::function<void(Target&)>& change) {
  auto module = clone(planned);
  auto target = targetOf(module->attrs);
  EXPECT_TRUE(target);
  change(*target);
  set(module->attrs, "target", targetToAttr(*target));
  auto ran = run_lower_kernels(*module, {}, {});
  EXPECT_TRUE(ran) << (ran ? "" : ran.error().str());
  tg::erase(module->attrs, "target");
  return print(*module);
}

// Preferences are for fuse: all that follows from them is in the text that it wrote.
TEST(LowerKernels, LoweringChoosesNothing) {
  for (const char* target : {"lavapipe", "gpu", "gpu-coopmat"})
    for (const char* example : {"char_mlp", "gpt", "cnn"}) {
      auto module = plannedExample(example, target);
      ASSERT_TRUE(module);
      const std::string text = loweredText(*module, [](Target&) {});
      EXPECT_EQ(loweredText(*module, [](Target&) {}), text);
      EXPECT_EQ(loweredText(*module,
                            [](Target& other) {
                              other.name = "other";
                              other.reduce = other.reduce == "lane" ? "workgroup" : "lane";
                              other.matmul = other.matmul == "shared" ? "register" : "shared";
                              other.workgroup = 32;
                              other.parallel = 1024;
                              other.streamScores = 4096;
                              other.kernelOps = 1 << 20;
                            }),
                text)
          << example << " for " << target;
      // Nor do limits matter that the kernels stay within.
      EXPECT_EQ(loweredText(*module,
                            [](Target& other) {
                              other.bindings += 8;
                              other.sharedBytes *= 2;
                              other.texelElements *= 2;
                              other.storageRange *= 2;
                              other.maxInvocations *= 2;
                              other.maxWorkgroupX *= 2;
                            }),
                text)
          << example << " for " << target;
    }
}

TEST(LowerKernels, TooManyBindingsIsALocatedError) {
  auto module = planned(fusedModule("  func @train(%x: " + kT + ", %z: " + kT + ") -> (y: " + kT + ") {\n" +
                                        added("y", "x", "z", kT) + "    return %y : " + kT + "\n  }\n",
                                    "alignment = 16, bindings = 2"));
  ASSERT_TRUE(module);
  auto ran = run_lower_kernels(*module, {}, {});
  ASSERT_FALSE(ran);
  EXPECT_EQ(locString(ran.error().diagnostics()[0].loc), "test.tgir:3:5");
  EXPECT_NE(ran.error().message().find("the kernel of %y"), std::string::npos);
}

TEST(SpirvEmit, BinariesStandBesideTheirKernels) {
  auto module =
      planned(fusedModule("  func @train(%x: " + kT + ") -> (y: " + kT + ") {\n" + unary("h", "x", kT) +
                          unary("y", "h", kT, "exp") + "    return %y : " + kT + "\n  }\n"));
  ASSERT_TRUE(module);
  auto ran = run_spirv_emit(*module, {}, {});
  ASSERT_TRUE(ran) << ran.error().str();
  EXPECT_EQ(module->stage, Stage::spirv);
  EXPECT_TRUE(verify(*module));
  for (const Item* kernel : module->all(ItemKind::kernel)) {
    const Item* binary = module->find(ItemKind::binary, kernel->name);
    ASSERT_TRUE(binary);
    EXPECT_EQ(binary->code.at(0), 0x07230203u);  // SPIR-V's magic number
    EXPECT_EQ(find(binary->attrs, "modes")->str(), "[in, out]");
  }
  auto glsl = emitGlsl(*module);
  ASSERT_TRUE(glsl);
  EXPECT_NE(glsl->find("// kernel @k0_relu\n#version 450"), std::string::npos);
  ASSERT_TRUE(run_strip_kernels(*module, {}, {}));
  EXPECT_TRUE(module->all(ItemKind::kernel).empty());
  EXPECT_TRUE(verify(*module));
}

TEST(SpirvEmit, StopsWhereItIsTold) {
  std::string text = fusedModule("  func @train(%x: " + kT + ") -> (y: " + kT + ") {\n" +
                                 unary("y", "x", kT) + "    return %y : " + kT + "\n  }\n");
  auto kernels = planned(text);
  ASSERT_TRUE(run_spirv_emit(*kernels, {.emit = "kernel", .cache = ""}, {}));
  EXPECT_EQ(kernels->stage, Stage::kernel);
  // And goes on from there to the same bytes.
  auto direct = planned(text);
  ASSERT_TRUE(run_spirv_emit(*direct, {}, {}));
  ASSERT_TRUE(run_spirv_emit(*kernels, {}, {}));
  EXPECT_EQ(print(*kernels), print(*direct));
  auto wrong = planned(text);
  auto ran = run_spirv_emit(*wrong, {.emit = "ptx", .cache = ""}, {});
  ASSERT_FALSE(ran);
  EXPECT_EQ(ran.error().message(), "spirv-emit: emit=ptx is unknown; known: kernel, glsl, spirv");
}

// The kernel computes 1 - s from the exponential of s, which overflows far to the left.
TEST(LowerKernels, GeluGradientsKeepTheirTails) {
  const NdArray x{Type::tensor(DType::f32, {12}), {-100, -11, -10.5, -9, -6, -3, -1, 0, 1, 6, 9, 100}};
  NdArray dy = x;
  for (double& value : dy.data) value = 1;
  auto module = parse("module @m stage(tensor) {\n  func @f(%x: tensor<12xf32>, %dy: tensor<12xf32>) -> "
                      "(y: tensor<12xf32>) {\n    %y = tg.gelu_grad %x, %dy {approximate = tanh} : "
                      "tensor<12xf32>\n    return %y : tensor<12xf32>\n  }\n}\n",
                      "lower_kernels_test.tgir");
  ASSERT_TRUE(module) << module.error().str();
  auto passes = PassManager::parse("fuse,plan,spirv-emit");
  ASSERT_TRUE(passes) << passes.error().str();
  std::unique_ptr<Module> kernels = *std::move(module);
  auto lowering = passes->run(kernels);
  ASSERT_TRUE(lowering) << lowering.error().str();
  auto interp = Interpreter::create(*kernels);
  ASSERT_TRUE(interp) << interp.error().str();
  auto run = interp->run("f", {{"x", x}, {"dy", dy}});
  ASSERT_TRUE(run) << run.error().str();
  for (size_t i = 0; i < x.data.size(); ++i) {
    // Of f64's formula by tanh; where 1 + tanh(u) cancels, e^2u stands for half of it.
    const double at = x.data[i], root = std::sqrt(2 / std::numbers::pi),
                 u = root * (at + 0.044715 * at * at * at);
    const double s = u < -12 ? std::exp(2 * u) : (1 + std::tanh(u)) / 2;
    const double rest = u > 12 ? std::exp(-2 * u) : (1 - std::tanh(u)) / 2;
    const double want = s + at * s * rest * 2 * root * (1 + 3 * 0.044715 * at * at);
    // An exponential of -2u loses 2|u| ulps; results below the least normal f32 may be 0.
    EXPECT_NEAR(run->results[0].second.data[i], want,
                std::fabs(want) * (16 + 16 * std::fabs(u)) * 0x1p-24 + 0x1p-126)
        << "x = " << at;
  }
}

// A resumed run finds its module lowered: whether a step is tiny must not depend on the stage.
TEST(LowerKernels, KernelsComputeWhatTheirOpsDo) {
  const std::string text = R"(
module @m {
  func @train(%x: tensor<256x512xf32>, %w: tensor<512x256xf32>) -> (y: tensor<256x256xf32>) {
    %y = tg.matmul %x, %w : tensor<256x256xf32>
    return %y : tensor<256x256xf32>
  }
}
)";
  auto module = parse(text, "m.tgir");
  ASSERT_TRUE(module) << module.error().str();
  const double work = workOf(*(*module)->func("train"), **module);
  EXPECT_FALSE(isTiny(**module));
  auto passes = PassManager::parse("fuse,plan,lower-kernels");
  ASSERT_TRUE(passes) << passes.error().str();
  auto ran = passes->run(*module);
  ASSERT_TRUE(ran) << ran.error().str();
  EXPECT_NEAR(workOf(*(*module)->func("train"), **module), work, work / 8);
  EXPECT_FALSE(isTiny(**module));
}

}  // namespace
}  // namespace tg::test
