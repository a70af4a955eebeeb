// SPDX-License-Identifier: Apache-2.0
// Products of f16, bf16 and pairs of f16: what the precision of tg.matmul means, mixed-precision, and
// the lowering onto them, against formulas written here.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "ir/target.h"
#include "passes/pass.h"
#include "runtime/interp/interp.h"
#include "test/unit/halves.h"
#include "test/unit/kernel_text.h"
#include "test/unit/op_tolerance.h"
#include "test/unit/target_file.h"

namespace tg::test {
namespace {

std::unique_ptr<Module> parsedModule(const std::string& text) {
  auto module = parse(text, "coopmat_test.tgir");
  EXPECT_TRUE(module) << (module ? "" : module.error().str());
  return module ? *std::move(module) : nullptr;
}

std::unique_ptr<Module> after(const Module& module, const std::string& pipeline) {
  auto passes = PassManager::parse(pipeline);
  EXPECT_TRUE(passes) << (passes ? "" : passes.error().str());
  if (!passes) return nullptr;
  std::unique_ptr<Module> out = clone(module);
  auto ran = passes->run(out);
  EXPECT_TRUE(ran) << (ran ? "" : ran.error().str());
  return ran ? std::move(out) : nullptr;
}

using Arrays = std::map<std::string, NdArray>;

NdArray resultOf(const Module& module, const Arrays& inputs, const InterpOptions& options = {}) {
  auto interp = Interpreter::create(module, options);
  EXPECT_TRUE(interp) << (interp ? "" : interp.error().str());
  if (!interp) return {};
  auto run = interp->run("f", inputs);
  EXPECT_TRUE(run) << (run ? "" : run.error().str());
  if (!run) return {};
  for (const std::string& finding : run->counters.findings) ADD_FAILURE() << finding;
  return run->results[0].second;
}

std::string shapeText(const Shape& shape) { return fmt::format("tensor<{}xf32>", shape.str()); }

/// @f of one product, whose result may go through `tail`, ops from %r to %y.
std::string productModule(const Shape& a, const Shape& b, const Shape& out, const std::string& attrs,
                          const std::string& tail = "", const std::string& more = "") {
  return fmt::format("module @m stage(tensor) {{\n  func @f(%a: {}, %b: {}{}) -> (y: {}) {{\n"
                     "    %r = tg.matmul %a, %b {{{}}} : {}\n{}    return %{} : {}\n  }}\n}}\n",
                     shapeText(a), shapeText(b), more, shapeText(out), attrs, shapeText(out), tail,
                     tail.empty() ? "r" : "y", shapeText(out));
}

TEST(MatmulPrecision, RoundsOperandsToTheNearestHalf) {
  const int64_t m = 3, k = 9, n = 4;
  NdArray a = drawn({m, k}, 1), b = drawn({k, n}, 2);
  a.data[0] = 1 + 0x1p-11;      // a tie, to the even 1
  a.data[1] = 1 + 3 * 0x1p-11;  // a tie, to the even 1 + 2^-9
  a.data[2] = 0x1.8p-24;        // a tie of subnormals, to 2^-23
  for (const char* precision : {"f16", "f32x3"}) {
    auto module =
        parsedModule(productModule({m, k}, {k, n}, {m, n}, fmt::format("precision = {}", precision)));
    ASSERT_TRUE(module);
    NdArray got = resultOf(*module, {{"a", a}, {"b", b}});
    for (int64_t i = 0; i < m; ++i)
      for (int64_t j = 0; j < n; ++j) {
        double sum = 0;
        for (int64_t deep = 0; deep < k; ++deep) {
          const double x = a.data[i * k + deep], y = b.data[deep * n + j];
          sum += half(x) * half(y);
          if (std::string(precision) == "f16") continue;
          const double lowX = half(x - half(x)), lowY = half(y - half(y));
          sum += half(x) * lowY + lowX * half(y);
        }
        EXPECT_NEAR(got.data[i * n + j], sum, 1e-13) << precision;
      }
  }
}

TEST(MatmulPrecision, WhatF16CannotHoldIsInfinite) {
  auto module = parsedModule(productModule({1, 1}, {1, 1}, {1, 1}, "precision = f16"));
  ASSERT_TRUE(module);
  auto of = [&](double x) {
    NdArray a = drawn({1, 1}, 1), b = a;
    a.data[0] = x, b.data[0] = 1;
    return resultOf(*module, {{"a", a}, {"b", b}}).data[0];
  };
  EXPECT_EQ(of(65519), 65504);
  EXPECT_EQ(of(65520), INFINITY);
  EXPECT_EQ(of(-1e6), -INFINITY);
}

TEST(MatmulPrecision, TheGradientsProductsHaveIt) {
  auto module = parsedModule(
      "module @m stage(tensor) {\n  param @w : tensor<4x5xf32>\n  func @train(%x: tensor<3x4xf32>) -> (loss: "
      "tensor<f32>) {\n    %w = tg.param @w : tensor<4x5xf32>\n    %h = tg.tanh %x : tensor<3x4xf32>\n    %r "
      "= "
      "tg.matmul %h, %w {precision = f32x3} : tensor<3x5xf32>\n    %v = tg.matmul %r, %w {transpose_b = "
      "true, "
      "precision = f16} : tensor<3x4xf32>\n    %loss = tg.sum %v {axes = [0, 1]} : tensor<f32>\n    return "
      "%loss : "
      "tensor<f32>\n  }\n}\n");
  ASSERT_TRUE(module);
  auto grad = after(*module, "append-grad");
  ASSERT_TRUE(grad);
  std::map<std::string, int> seen;
  for (Op* op : grad->func("train")->body.ops)
    if (op->code == Opcode::matmul) ++seen[op->word("precision")];
  // %w's gradient takes one product of each, that of %r one more; operands of f32x3 would need scales.
  EXPECT_EQ(seen, (std::map<std::string, int>{{"f16", 3}, {"f32x3", 1}, {"f32", 1}}));
}

// --------------------------------------------------------------------------------- the lowering

struct Case {
  int64_t m, n, k;
  bool ta = false, tb = false;
  int64_t batch = 1;
  const char* precision = "f16";
  const char* schedule = nullptr;  ///< in place of the one chosen
  DType memory = DType::f32;       ///< of the operands
  DType result = DType::f32;
};

/// A real as a type of memory has it.
NdArray inMemory(NdArray array, DType dtype) {
  array.type.dtype = dtype;
  for (double& value : array.data) value = roundedTo(dtype, value);
  return array;
}

/// A product whose operands and result have types of their own in memory.
std::string narrowModule(const Case& c, const Shape& a, const Shape& b, const Shape& out,
                         const std::string& attrs) {
  auto type = [](const Shape& shape, DType dtype) {
    return fmt::format("tensor<{}x{}>", shape.str(), name(dtype));
  };
  auto wide = [&](const char* from, const char* to, const Shape& shape) {
    return fmt::format("    %{} = tg.cast %{} : {}\n", to, from, type(shape, DType::f32));
  };
  const bool casts = c.memory != DType::f32, narrows = c.result != DType::f32;
  return fmt::format("module @m stage(tensor) {{\n  func @f(%a: {}, %b: {}) -> (y: {}) {{\n{}{}    %r = "
                     "tg.matmul {} {{{}}} : "
                     "{}\n{}    return %{} : {}\n  }}\n}}\n",
                     type(a, c.memory), type(b, c.memory), type(out, c.result),
                     casts ? wide("a", "x", a) : "", casts ? wide("b", "z", b) : "",
                     casts ? "%x, %z" : "%a, %b", attrs, type(out, DType::f32),
                     narrows ? fmt::format("    %y = tg.cast %r : {}\n", type(out, c.result)) : "",
                     narrows ? "y" : "r", type(out, c.result));
}

/// Sets the schedule of every region with a product.
void schedule(Module& fused, const std::string& text) {
  auto attr = parseAttr(text);
  ASSERT_TRUE(attr) << attr.error().str();
  for (Op* op : fused.func("f")->body.ops)
    if (op->code == Opcode::fused) set(op->attrs, "schedule", *attr);
}

/// Whether every element is as near as the table asks of a product.
void expectClose(const NdArray& got, const NdArray& want, const NdArray& magnitude, int64_t k,
                 const std::string& what) {
  ASSERT_EQ(got.type.str(), want.type.str());
  int wrong = 0;
  for (size_t i = 0; i < got.data.size() && wrong < 5; ++i) {
    const double allowed = opTolerance(info(Opcode::matmul), k, magnitude.data[i]);
    if (std::fabs(got.data[i] - want.data[i]) <= allowed) continue;
    ADD_FAILURE() << what
                  << fmt::format(" element {}: {} instead of {}, allowed {}", i, got.data[i], want.data[i],
                                 allowed);
    ++wrong;
  }
}

void checkLowering(const Case& c, const std::string& tail = "", const std::string& more = "",
                   const Arrays& extra = {}) {
  auto matrix = [&](int64_t rows, int64_t columns, bool swapped) {
    Shape out;
    if (c.batch > 1) out.push(c.batch);
    out.push(swapped ? columns : rows), out.push(swapped ? rows : columns);
    return out;
  };
  const Shape a = matrix(c.m, c.k, c.ta), b = matrix(c.k, c.n, c.tb), out = matrix(c.m, c.n, false);
  const std::string attrs = fmt::format("{}{}precision = {}", c.ta ? "transpose_a = true, " : "",
                                        c.tb ? "transpose_b = true, " : "", c.precision);
  const std::string what =
      fmt::format("{}x{}x{} batch {} {} {}", c.m, c.n, c.k, c.batch, attrs, c.schedule ? c.schedule : "");
  const bool narrow = c.memory != DType::f32 || c.result != DType::f32;
  auto module =
      parsedModule(narrow ? narrowModule(c, a, b, out, attrs) : productModule(a, b, out, attrs, tail, more));
  ASSERT_TRUE(module);
  Arrays inputs{{"a", inMemory(drawn(a, 11), c.memory)}, {"b", inMemory(drawn(b, 12), c.memory)}};
  inputs.insert(extra.begin(), extra.end());
  const NdArray want = resultOf(*module, inputs);
  Arrays sizes = inputs;
  for (auto& [name, array] : sizes)
    for (double& value : array.data) value = std::fabs(value);
  const NdArray magnitude = resultOf(*module, sizes);
  const TargetFile target(c.precision == std::string("bf16") ? withBf16() : *targetByName("gpu-coopmat"));
  auto fused = after(*module, fmt::format("fuse{{target={}}}", target.path()));
  ASSERT_TRUE(fused);
  if (c.schedule) schedule(*fused, c.schedule);
  EXPECT_NE(print(*fused).find("coopmat{tile"), std::string::npos) << print(*fused);
  auto lowered = after(*fused, "plan,spirv-emit");  // validates the words too
  ASSERT_TRUE(lowered) << what;
  EXPECT_NE(print(*lowered).find("tgk.coopmat_mma"), std::string::npos);
  const std::string text = print(*lowered);
  // What memory has in 16 bits is copied by 16 bytes where eight divide its rows, and so are such results.
  const bool rowsOfA = (c.ta ? c.m : c.k) % 8 == 0, rowsOfB = (c.tb ? c.k : c.n) % 8 == 0;
  const bool copies = c.memory != DType::f32 && c.precision != std::string("f32x3") && (rowsOfA || rowsOfB);
  EXPECT_EQ(text.find("vec4<u32>, in>") != std::string::npos, copies) << what;
  EXPECT_EQ(text.find("vec4<u32>, out>") != std::string::npos, c.result != DType::f32 && c.n % 8 == 0)
      << what;
  NdArray got = resultOf(*lowered, inputs);
  if (c.result == DType::f32) return expectClose(got, want, magnitude, c.k, what);
  // A sum beside a tie rounds to either side.
  for (size_t i = 0; i < got.data.size(); ++i)
    ASSERT_NEAR(got.data[i], want.data[i],
                std::fabs(want.data[i]) * std::ldexp(1.0, 1 - info(c.result).digits) +
                    opTolerance(info(Opcode::matmul), c.k, magnitude.data[i]))
        << what << " element " << i;
}

TEST(CoopmatLowering, MemoryOfSixteenBits) {
  for (const char* precision : {"f16", "bf16"}) {
    const DType dtype = precision == std::string("f16") ? DType::f16 : DType::bf16;
    for (bool ta : {false, true})
      for (bool tb : {false, true})
        for (const DType result : {DType::f32, dtype}) {
          // Whole matrices, whole tiles, eights, fours, and neither.
          for (const Case& c : {Case{64, 64, 64}, Case{48, 80, 40}, Case{72, 88, 24}, Case{36, 68, 44},
                                Case{33, 17, 19}, Case{130, 24, 72}})
            checkLowering({c.m, c.n, c.k, ta, tb, 1, precision, nullptr, dtype, result});
          checkLowering({32, 40, 72, ta, tb, 3, precision, nullptr, dtype, result});
          checkLowering({40, 24, 36, ta, tb, 1, precision, nullptr, DType::f32, result});
        }
  }
  checkLowering({48, 80, 40, false, true, 1, "f32x3", nullptr, DType::f16, DType::f16});
}

TEST(CoopmatLowering, TilesOfTheTable) {
  for (const char* schedule : {"coopmat{tile = [128, 256, 32], warp = [64, 64], patch = 32}",
                               "coopmat{tile = [128, 192, 32], warp = [64, 48], patch = 16}",
                               "coopmat{tile = [128, 128, 32], warp = [64, 64], patch = 16}"})
    for (int form = 0; form < 4; ++form) {
      const bool ta = form & 1, tb = form & 2;
      checkLowering(
          {144, 272, 80, ta, tb, 1, "f16", schedule, DType::f16, form < 2 ? DType::f32 : DType::f16});
    }
}

TEST(CoopmatLowering, WholeTilesAndRemainders) {
  for (const Case& c : {Case{64, 64, 32}, Case{64, 64, 64}, Case{16, 16, 16}, Case{68, 20, 36},
                        Case{33, 17, 19}, Case{16, 65, 70}, Case{70, 130, 33}})
    checkLowering(c);
}

TEST(CoopmatLowering, EveryTransposedFormAndBatches) {
  for (bool ta : {false, true})
    for (bool tb : {false, true}) {
      checkLowering({40, 24, 36, ta, tb});
      checkLowering({17, 19, 21, ta, tb, 2});
    }
}

TEST(CoopmatLowering, PairsOfHalves) {
  for (bool ta : {false, true})
    for (bool tb : {false, true}) checkLowering({40, 24, 36, ta, tb, 1, "f32x3"});
  checkLowering({20, 33, 300, false, false, 1, "f32x3"});
  checkLowering({16, 16, 128, false, true, 2, "f32x3"});
}

TEST(CoopmatLowering, LargeTiles) {
  checkLowering({130, 132, 40, false, false, 1, "f16", "coopmat{tile = [128, 128, 32], warp = [64, 32]}"});
  checkLowering({100, 120, 40, true, false, 1, "f32x3", "coopmat{tile = [64, 128, 32], warp = [32, 32]}"});
  checkLowering({70, 40, 100, true, false, 1, "f16", "coopmat{tile = [64, 64, 64], warp = [32, 32]}"});
  checkLowering({50, 40, 40, false, true, 1, "f16", "coopmat{tile = [32, 32, 16], warp = [16, 16]}"});
}

TEST(CoopmatLowering, EpiloguesAreFused) {
  const std::string type = "tensor<40x24xf32>";
  checkLowering(
      {40, 24, 36},
      fmt::format("    %s = tg.add %r, %c : {0}\n    %q = tg.relu %s : {0}\n    %y = tg.add %q, %d : {0}\n",
                  type),
      fmt::format(", %c: tensor<24xf32>, %d: {}", type),
      {{"c", drawn({24}, 13)}, {"d", drawn({40, 24}, 14)}});
  checkLowering({33, 17, 19}, "    %y = tg.add %r, %c : tensor<33x17xf32>\n", ", %c: tensor<17xf32>",
                {{"c", drawn({17}, 15)}});
}

TEST(CoopmatLowering, WithoutMatricesTheOrdinaryKernelRounds) {
  for (const char* precision : {"f16", "f32x3"})
    for (const char* target : {"gpu", "lavapipe", "vulkan-min"}) {
      auto module =
          parsedModule(productModule({20, 40}, {40, 24}, {20, 24}, fmt::format("precision = {}", precision)));
      ASSERT_TRUE(module);
      Arrays inputs{{"a", drawn({20, 40}, 11)}, {"b", drawn({40, 24}, 12)}}, sizes = inputs;
      for (auto& [name, array] : sizes)
        for (double& value : array.data) value = std::fabs(value);
      auto lowered = after(*module, fmt::format("fuse{{target={}}},plan,spirv-emit", target));
      ASSERT_TRUE(lowered);
      EXPECT_EQ(print(*lowered).find("coopmat_mma"), std::string::npos);
      expectClose(resultOf(*lowered, inputs), resultOf(*module, inputs), resultOf(*module, sizes), 40,
                  fmt::format("{} on {}", precision, target));
    }
}

TEST(CoopmatSchedule, FollowsPrecisionSizeAndTarget) {
  auto scheduleOf = [&](int64_t m, int64_t n, int64_t k, const char* precision, const char* target) {
    auto module =
        parsedModule(productModule({m, k}, {k, n}, {m, n}, fmt::format("precision = {}", precision)));
    auto fused = after(*module, fmt::format("fuse{{target={}}}", target));
    for (Op* op : fused->func("f")->body.ops)
      if (op->code == Opcode::fused) return op->attr("schedule").str();
    return std::string();
  };
  EXPECT_EQ(scheduleOf(64, 64, 64, "f16", "gpu-coopmat"), "coopmat{tile = [64, 64, 32], warp = [32, 32]}");
  EXPECT_EQ(scheduleOf(2048, 2048, 64, "f16", "gpu-coopmat"),
            "coopmat{tile = [128, 128, 32], warp = [64, 32]}");
  EXPECT_EQ(scheduleOf(2048, 2048, 64, "f32x3", "gpu-coopmat"),
            "coopmat{tile = [128, 128, 32], warp = [64, 32]}");
  auto narrow = [&](int64_t m, int64_t n, int64_t k) {
    Case c{m, n, k};
    c.memory = c.result = DType::f16;
    auto fused = after(*parsedModule(narrowModule(c, {m, k}, {k, n}, {m, n}, "precision = f16")),
                       "fuse{target=gpu-coopmat}");
    return fused->func("f")->body.ops.front()->attr("schedule").str();
  };
  EXPECT_EQ(narrow(4096, 4096, 4096), "coopmat{tile = [128, 256, 32], warp = [64, 64], patch = 32}");
  // 384 tiles of 128 x 128 are three rounds of 128 processors. Larger ones do not fit beside patches of f32 sums.
  EXPECT_EQ(narrow(8192, 768, 3072), "coopmat{tile = [128, 128, 64], warp = [64, 32], patch = 16}");
  // 96 terms are three steps of 32, but two of 64, of which a quarter is empty.
  EXPECT_EQ(narrow(100352, 384, 96), "coopmat{tile = [128, 128, 32], warp = [64, 64], patch = 16}");
  // One round of large tiles, of which half are empty, or of small ones.
  EXPECT_EQ(narrow(16384, 64, 128), "coopmat{tile = [64, 64, 64], warp = [32, 32], patch = 16}");
  EXPECT_EQ(narrow(64, 64, 64), "coopmat{tile = [64, 64, 32], warp = [32, 32]}");
  // The weight gradients of a transformer are computed in pieces of the rows, which fill the device.
  Target roomy = *targetByName("gpu-coopmat");
  roomy.storageRange = roomy.allocation = int64_t{1} << 32;  // no product is split for a binding's sake
  const TargetFile file(roomy);
  auto pieces = [&](int64_t m, int64_t n, int64_t k) {
    Case c{m, n, k, true};
    c.memory = DType::f16;
    auto fused =
        after(*parsedModule(narrowModule(c, {k, m}, {k, n}, {m, n}, "transpose_a = true, precision = f16")),
              fmt::format("fuse{{target={}}}", file.path()));
    return fused->func("f")->body.ops.front()->result()->type.str();
  };
  EXPECT_EQ(pieces(768, 3072, 8192), "tensor<2x768x3072xf32>");
  EXPECT_EQ(pieces(768, 768, 8192), "tensor<8x768x768xf32>");
  EXPECT_EQ(pieces(8192, 768, 50304), "tensor<8192x768xf32>");
  EXPECT_EQ(pieces(768, 50304, 8192), "tensor<768x50304xf32>");
  Target cpu = *targetByName("gpu-coopmat");
  cpu.matmul = "register";  // whose driver makes scalar code of matrices
  const TargetFile cpuFile(cpu);
  for (const auto& plain :
       {scheduleOf(64, 64, 64, "f32", "gpu-coopmat"), scheduleOf(64, 64, 64, "f16", cpuFile.path().c_str()),
        scheduleOf(64, 8, 64, "f16", "gpu-coopmat"), scheduleOf(64, 64, 64, "f16", "gpu")})
    EXPECT_TRUE(plain.starts_with("matmul{")) << plain;
}

// --------------------------------------------------------------------------------- mixed-precision

/// loss = c·Σ x·w, so that the gradient of w is c times the sum of the rows of x.
std::unique_ptr<Module> linearModule(const std::string& pipeline) {
  auto module = parsedModule("module @m stage(tensor) {\n  param @w : tensor<4x1xf32>\n  func @train(%x: "
                             "tensor<3x4xf32>, %c: tensor<f32>) -> "
                             "(loss: tensor<f32>) {\n    %w = tg.param @w : tensor<4x1xf32>\n    %r = "
                             "tg.matmul %x, %w : tensor<3x1xf32>\n"
                             "    %s = tg.mul %r, %c : tensor<3x1xf32>\n    %loss = tg.sum %s {axes = [0, "
                             "1]} : tensor<f32>\n    return %loss "
                             ": tensor<f32>\n  }\n}\n");
  return module ? after(*module, pipeline) : nullptr;
}

/// A trained module on the interpreter.
class Training {
 public:
  explicit Training(const std::string& pipeline) : module_(linearModule(pipeline)) {
    if (!module_) return;
    auto interp = Interpreter::create(*module_);
    EXPECT_TRUE(interp) << (interp ? "" : interp.error().str());
    if (interp) interp_ = std::make_unique<Interpreter>(*std::move(interp));
    for (const char* name : {"w", "adam.m.w"}) set(name, drawn({4, 1}, 21));
    set("loss_scale", one(65536));
  }
  static NdArray one(double value) { return NdArray::scalar(value); }
  void set(const std::string& name, const NdArray& value) {
    if (!module_->storage(name)) return;
    auto done = interp_->setStorage(name, value);
    EXPECT_TRUE(done) << (done ? "" : done.error().str());
  }
  std::vector<double> get(const std::string& name) { return interp_->storage(name)->data; }
  NdArray step(const NdArray& x, double c) {
    Arrays inputs{{"x", x}, {"c", one(c)}};
    if (module_->storage("adam.t")) inputs["lr"] = one(0.01);
    auto run = interp_->run("train", inputs);
    EXPECT_TRUE(run) << (run ? "" : run.error().str());
    return run ? run->paramGrads.at("w") : NdArray();
  }

 private:
  std::unique_ptr<Module> module_;
  std::unique_ptr<Interpreter> interp_;
};

TEST(MixedPrecision, TheScaleKeepsSmallGradients) {
  const NdArray x = drawn({3, 4}, 22);
  const double c = 1e-8;  // below half of what f16 holds
  NdArray lost = Training("append-grad,mixed-precision{loss-scale=0}").step(x, c);
  NdArray kept = Training("append-grad,mixed-precision").step(x, c);
  for (int64_t k = 0; k < 4; ++k) {
    double exact = 0;
    for (int64_t i = 0; i < 3; ++i) exact += c * x.data[i * 4 + k];
    EXPECT_EQ(lost.data[k], 0);
    EXPECT_NEAR(kept.data[k], exact, 1e-3 * c * 8);
  }
}

TEST(MixedPrecision, AStepThatIsNotFiniteChangesNothingButTheScale) {
  Training training("append-grad,mixed-precision{growth=2},append-adam{weight-decay=0.1}");
  const NdArray x = drawn({3, 4}, 23);
  const std::vector<double> w = training.get("w"), m = training.get("adam.m.w");
  training.step(x, 1e6);  // the scaled gradient is infinite in f16
  EXPECT_EQ(training.get("w"), w);
  EXPECT_EQ(training.get("adam.m.w"), m);
  EXPECT_EQ(training.get("adam.v.w"), std::vector<double>(4, 0));
  EXPECT_EQ(training.get("adam.t")[0], 0);
  EXPECT_EQ(training.get("loss_scale")[0], 32768);
  NdArray bad = x;
  bad.data[5] = NAN;
  training.step(bad, 1);
  EXPECT_EQ(training.get("w"), w);
  EXPECT_EQ(training.get("loss_scale")[0], 16384);
  training.step(x, 1);
  EXPECT_NE(training.get("w"), w);
  EXPECT_EQ(training.get("adam.t")[0], 1);
  EXPECT_EQ(training.get("loss_scale")[0], 16384);
  EXPECT_EQ(training.get("loss_scale.good")[0], 1);
  training.step(x, 1);
  EXPECT_EQ(training.get("loss_scale")[0], 32768);
  EXPECT_EQ(training.get("loss_scale.good")[0], 0);
}

TEST(MixedPrecision, SummedGradientsAreJudgedWhereTheyAreApplied) {
  auto module = linearModule("append-grad{accumulate=2},mixed-precision,append-adam");
  ASSERT_TRUE(module);
  auto updates = [&](const char* func) {
    std::vector<std::string> out;
    for (Op* op : module->func(func)->body.ops)
      if (op->code == Opcode::update) out.push_back(op->operands[0].text);
    return out;
  };
  EXPECT_EQ(updates("train"), (std::vector<std::string>{"g.w"}));
  EXPECT_EQ(updates("apply"), (std::vector<std::string>{"g.w", "loss_scale", "loss_scale.good", "w",
                                                        "adam.m.w", "adam.v.w", "adam.t"}));
  // What a step adds to the sums is divided already.
  for (Op* op : module->func("train")->body.ops)
    if (op->code == Opcode::param_grad) {
      EXPECT_EQ(op->in(1)->name, "w_grad");
    }
}

TEST(MixedPrecision, GoesThroughEveryStage) {
  for (const char* target : {"gpu-coopmat", "lavapipe"}) {
    auto module = linearModule(
        fmt::format("append-grad,mixed-precision,append-adam,fuse{{target={}}},plan,spirv-emit", target));
    EXPECT_TRUE(module) << target;
  }
}

}  // namespace
}  // namespace tg::test
