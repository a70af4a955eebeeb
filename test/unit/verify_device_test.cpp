// SPDX-License-Identifier: Apache-2.0
// A device that computes something else is caught, and the kernel that does it is named.
#include "test/unit/session_support.h"

#include <map>
#include <set>

#include <fmt/format.h>

#include "codegen/glsl.h"
#include "codegen/shader.h"
#include "ir/kernel/element.h"
#include "runtime/check/kernel_steps.h"
#include "runtime/check/random_point.h"
#include "runtime/check/verify_device.h"
#include "runtime/compile.h"
#include "runtime/interp_runner.h"
#include "test/unit/run_passes.h"

namespace tg {
namespace {

class VerifyTest : public SessionTest {
 protected:
  void SetUp() override {
    SessionTest::SetUp();
    train("append-grad,append-adam{lr=0.01}");
  }

  void compileSource() {
    CompileOptions options;
    options.keepGrads = true;
    auto done = compile(clone(*source_), device_->info().target, options);
    ASSERT_TRUE(done) << done.error().str();
    spirv_ = std::move(done->module);
    storage_ = storageOf(*source_);
  }

  /// What is verified: the model behind these passes.
  void train(const std::string& passes) {
    auto trained = runPasses(model(), passes);
    ASSERT_TRUE(trained) << trained.error().str();
    source_ = std::move(trained->module);
    compileSource();
    auto inputs = randomInputs(*source_->func("train"), {}, 3);
    ASSERT_TRUE(inputs) << inputs.error().str();
    inputs_ = std::move(*inputs);
  }

  static NamedArrays storageOf(const Module& module) {
    auto storage = randomStorage(module, 3);
    EXPECT_TRUE(storage) << storage.error().str();
    return storage ? std::move(*storage) : NamedArrays{};
  }

  /// The name of the first kernel that differs, "" when none does, and the step itself.
  std::string blamed(const Module& module, KernelStep& step) {
    auto steps = KernelSteps::create(module, "train", device_);
    EXPECT_TRUE(steps) << steps.error().str();
    auto begun = steps->begin(storage_, inputs_);
    EXPECT_TRUE(begun) << begun.error().str();
    int64_t count = 0;
    while (true) {
      auto more = steps->next(step);
      EXPECT_TRUE(more) << more.error().str();
      if (!more || !*more) break;
      EXPECT_EQ(step.number, ++count);
      if (step.wrong()) return step.kernel->name;
    }
    EXPECT_EQ(count, steps->dispatches());
    return "";
  }

  /// Gives the binary of a kernel the code of an edited one; the text and its hash stay, as they would with a
  /// driver that compiles wrongly.
  void compileOther(Module& module, const Item& edited) {
    auto glsl = printGlsl(edited, device_->info().target);
    ASSERT_TRUE(glsl) << glsl.error().str();
    auto words = compileGlsl(*glsl, edited.name);
    ASSERT_TRUE(words) << words.error().str();
    module.find(ItemKind::binary, edited.name)->code = *words;
  }

  std::unique_ptr<Module> source_, spirv_;
  NamedArrays storage_;
  Inputs inputs_;
};

// In f64, too, subgroups are as wide as the device's: otherwise the two runs of the interpreter differ by so much that
// whatever the device gives is close.
TEST_F(VerifyTest, subgroupsAreAsWideAsTheDevices) {
  if (device_->info().target.subgroup < 8) GTEST_SKIP() << "no subgroups wider than the interpreter's own";
  constexpr const char* kText = R"(module @m {
  kernel @sums(%x: buf<64xf32, in>, %y: buf<64xf32, out>) workgroup(64) grid(1) {
    %i = tgk.global_id 0 : u32
    %v = tgk.load %x[%i] : f32
    %s = tgk.subgroup_reduce %v : f32
    tgk.store %s, %y[%i]
  }
  func @f(%x: tensor<64xf32>) -> (y: tensor<64xf32>) {
    %y = tg.custom @sums(%x) : tensor<64xf32>
    return %y : tensor<64xf32>
  }
})";
  const std::unique_ptr<Module> source = parsed(kText);
  Target unknown = device_->info().target;
  unknown.subgroup = 1;
  unknown.coopmat.clear();
  const Inputs inputs{{"x", ramp({64}, 1, 1)}};
  for (const Target& target : {device_->info().target, unknown}) {
    auto done = compile(clone(*source), target, CompileOptions());
    ASSERT_TRUE(done) << done.error().str();
    auto checks = compareFunction(*source, *done->module, "f", {}, inputs, device_);
    ASSERT_TRUE(checks) << checks.error().str();
    EXPECT_TRUE(checks->at(0).close) << checks->at(0).why;
    const std::unique_ptr<Module> other = clone(*done->module);
    Item& edited = **other->all(ItemKind::kernel).begin();
    edited.body.ops.back()->operands[0] = Operand::literal(3.0);
    compileOther(*done->module, edited);
    auto wrong = compareFunction(*source, *done->module, "f", {}, inputs, device_);
    ASSERT_TRUE(wrong) << wrong.error().str();
    EXPECT_FALSE(wrong->at(0).close);
  }
}

TEST_F(VerifyTest, everythingAgrees) {
  auto checks = compareFunction(*source_, *spirv_, "train", storage_, inputs_, device_);
  ASSERT_TRUE(checks) << checks.error().str();
  std::map<std::string, int> kinds;
  for (const ResultCheck& check : *checks) {
    EXPECT_TRUE(check.close) << check.kind << " " << check.name << ": " << check.why;
    ++kinds[check.kind];
  }
  EXPECT_EQ(kinds["result"], 2);  // the loss and the norm of the gradient
  EXPECT_EQ(kinds["capture"], 2);
  EXPECT_EQ(kinds["gradient"], 3);
  EXPECT_EQ(kinds["param"], 3);
  EXPECT_GE(kinds["state"], 6);
  KernelStep step;
  EXPECT_EQ(blamed(*spirv_, step), "");
}

/// What a step leaves in the interpreter: results, captures, gradients, params and states.
std::map<std::string, NdArray> outcome(const Module& module, const NamedArrays& params,
                                       const Inputs& inputs) {
  auto interpreter = Interpreter::create(module);
  EXPECT_TRUE(interpreter) << interpreter.error().str();
  for (const auto& [name, value] : params) EXPECT_TRUE(interpreter->setStorage(name, toNdArray(value)));
  std::map<std::string, NdArray> arrays, out;
  for (const auto& [name, value] : inputs) arrays.emplace(name, toNdArray(value));
  auto run = interpreter->run("train", arrays);
  EXPECT_TRUE(run) << run.error().str();
  for (const auto& [name, value] : run->results) out["result " + name] = value;
  for (const auto& [name, value] : run->captures) out["capture " + name] = value;
  for (const auto& [name, value] : run->paramGrads) out["gradient " + name] = value;
  for (const auto& item : module.items)
    if (isStorage(item->kind)) out[item->name] = *interpreter->storage(item->name);
  return out;
}

/// How far two outcomes are apart, relative to the largest element of each value.
double apart(const std::map<std::string, NdArray>& a, const std::map<std::string, NdArray>& b) {
  double worst = 0;
  for (const auto& [name, value] : a) {
    double off = 0, scale = 1e-30;
    for (size_t i = 0; i < value.data.size(); ++i) {
      off = std::max(off, std::fabs(value.data[i] - b.at(name).data[i]));
      scale = std::max(scale, std::fabs(value.data[i]));
    }
    worst = std::max(worst, off / scale);
  }
  return worst;
}

/// Every kernel of a training step, wrong in one float operation, of which `judge` is told. Some operations hardly
/// matter here (the epsilon of adam, a branch of expm1 that is not taken): the interpreter, with the edited text, says
/// which.
template <class Judge>
void forEachMutant(const Module& spirv, const NamedArrays& storage, const Inputs& inputs, double least,
                   Judge judge) {
  const auto sound = outcome(spirv, storage, inputs);
  std::set<std::string> names;
  for (Op* op : spirv.func("train")->body.ops)
    if (op->code == Opcode::dispatch) names.insert(op->operands[0].text);
  for (const std::string& name : names) {
    for (Opcode from : {Opcode::k_add, Opcode::k_mul, Opcode::k_sub}) {
      auto edited = clone(spirv);
      Item* kernel = edited->find(ItemKind::kernel, name);
      Op* found = nullptr;
      walk(kernel->body, [&](Op& op) {
        if (op.code == from && op.result()->type.dtype == DType::f32) found = &op;
      });
      if (!found) continue;
      found->code = from == Opcode::k_mul   ? Opcode::k_sub
                    : from == Opcode::k_add ? Opcode::k_sub
                                            : Opcode::k_add;
      if (apart(sound, outcome(*edited, storage, inputs)) >= least) judge(*kernel, info(from).name);
    }
  }
}

TEST_F(VerifyTest, mutatedKernelsAreBlamed) {
  int mutants = 0;
  std::set<std::string> mutated;
  forEachMutant(*spirv_, storage_, inputs_, 1e-3, [&](const Item& kernel, std::string_view mutation) {
    auto module = clone(*spirv_);
    compileOther(*module, kernel);
    KernelStep step;
    EXPECT_EQ(blamed(*module, step), kernel.name) << "the last " << mutation << " of @" << kernel.name;
    ++mutants;
    mutated.insert(kernel.name);
    auto checks = compareFunction(*source_, *module, "train", storage_, inputs_, device_);
    ASSERT_TRUE(checks) << checks.error().str();
    EXPECT_TRUE(std::any_of(checks->begin(), checks->end(), [](const ResultCheck& c) { return !c.close; }))
        << kernel.name;
  });
  EXPECT_GE(mutants, 10);
  EXPECT_GE(mutated.size(), 5u);
}

// With f16 more is allowed to results of few elements; a wrong kernel changes them, or larger ones, by more.
TEST_F(VerifyTest, mutatedKernelsOfHalvesAreSeen) {
  train("append-grad,mixed-precision{precision=f16},append-adam{lr=0.01}");
  int mutants = 0;
  forEachMutant(*spirv_, storage_, inputs_, 1e-1, [&](const Item& kernel, std::string_view mutation) {
    auto module = clone(*spirv_);
    compileOther(*module, kernel);
    ++mutants;
    auto checks = compareFunction(*source_, *module, "train", storage_, inputs_, device_);
    ASSERT_TRUE(checks) << checks.error().str();
    EXPECT_TRUE(std::any_of(checks->begin(), checks->end(), [](const ResultCheck& c) { return !c.close; }))
        << "the last " << mutation << " of @" << kernel.name;
  });
  EXPECT_GE(mutants, 10);
}

// Equal logits: their gradient is g - softmax·Σg, whose terms cancel out in the interpreter, but not in the exp of a device.
// What is left of them there is right. Anything more is not, nor is an error in a gradient that is as small.
TEST_F(VerifyTest, termsThatCancelOutMayLeaveTheirRounding) {
  constexpr const char* kCancelled = R"(
    %b = tg.broadcast_to %x {shape = [2, 3, 3]} : tensor<2x3x3xf32>
    %y = tg.log_softmax %b {axis = 2} : tensor<2x3x3xf32>
    %w = tg.tanh %y : tensor<2x3x3xf32>)";
  constexpr const char* kSmall = R"(
    %s = tg.constant 1e-9 : tensor<f32>
    %y = tg.mul %x, %s : tensor<2x3x1xf32>
    %w = tg.mul %x, %y : tensor<2x3x1xf32>)";
  for (const auto& [body, wrong] : {std::pair{kCancelled, 1e-5}, std::pair{kSmall, 1e-9}}) {
    const std::string text = fmt::format(R"(module @m {{
  param @p : tensor<2x3x1xf32> {{init = randn(1)}}
  func @train() -> (loss: tensor<f32>) {{
    %x = tg.param @p : tensor<2x3x1xf32>{}
    %loss = tg.sum %w {{axes = [0, 1, 2]}} : tensor<f32>
    return %loss : tensor<f32>
  }}
}})",
                                         body);
    auto trained = runPasses(parsed(text), "append-grad");
    ASSERT_TRUE(trained) << trained.error().str();
    source_ = std::move(trained->module);
    compileSource();
    const auto gradient = [&] {
      auto checks = compareFunction(*source_, *spirv_, "train", storage_, {}, device_);
      EXPECT_TRUE(checks) << checks.error().str();
      for (const ResultCheck& check : *checks)
        if (check.kind == "gradient") return check;
      return ResultCheck{};
    };
    const ResultCheck sound = gradient();
    EXPECT_TRUE(sound.close) << sound.why;
    const auto edited = clone(*spirv_);
    for (Item* kernel : edited->all(ItemKind::kernel)) {
      Op* store = nullptr;
      walk(kernel->body, [&](Op& op) {
        if (op.code == Opcode::k_store && elementOf(op)->value->name.starts_with("d_x")) store = &op;
      });
      if (!store) continue;
      store->operands[0] = Operand::literal(wrong);
      compileOther(*spirv_, *kernel);
    }
    EXPECT_FALSE(gradient().close) << body;
  }
}

// Adam divides a gradient by its own size, however small it is: what rounding leaves of terms that cancel out becomes an
// update of the size of the rate. The device's update must be the one of the device's own gradient.
TEST_F(VerifyTest, updatesOfCancelledGradientsAreThoseOfTheDevicesGradients) {
  constexpr const char* kText = R"(module @m {
  param @p : tensor<2x3x1xf32> {init = randn(1)}
  func @train() -> (loss: tensor<f32>) {
    %x = tg.param @p : tensor<2x3x1xf32>
    %b = tg.broadcast_to %x {shape = [2, 3, 3]} : tensor<2x3x3xf32>
    %y = tg.log_softmax %b {axis = 2} : tensor<2x3x3xf32>
    %w = tg.tanh %y : tensor<2x3x3xf32>
    %loss = tg.sum %w {axes = [0, 1, 2]} : tensor<f32>
    return %loss : tensor<f32>
  }
})";
  for (const char* optimizer :
       {"append-adam{lr=0.01}", "append-adam{lr=0.01 normalize-grads}", "append-adam{lr=0.01 clip-norm=1e-9}",
        "append-sgd{lr=0.01 normalize-grads}"}) {
    auto trained = runPasses(parsed(kText), fmt::format("append-grad,{}", optimizer));
    ASSERT_TRUE(trained) << trained.error().str();
    source_ = std::move(trained->module);
    compileSource();
    auto inputs = randomInputs(*source_->func("train"), {}, 3);
    ASSERT_TRUE(inputs) << inputs.error().str();
    const auto differing = [&](const Module& module) {
      auto checks = compareFunction(*source_, module, "train", storage_, *inputs, device_);
      EXPECT_TRUE(checks) << checks.error().str();
      std::string names;
      for (const ResultCheck& check : *checks)
        if (!check.close) names += fmt::format("{} {}: {}\n", check.kind, check.name, check.why);
      return names;
    };
    EXPECT_EQ(differing(*spirv_), "") << optimizer;
    int mutants = 0;
    forEachMutant(*spirv_, storage_, *inputs, 1e-3, [&](const Item& kernel, std::string_view mutation) {
      auto module = clone(*spirv_);
      compileOther(*module, kernel);
      ++mutants;
      EXPECT_NE(differing(*module), "") << optimizer << ": the last " << mutation << " of @" << kernel.name;
    });
    EXPECT_GE(mutants, 2) << optimizer;
  }
}

// The norm of normalized gradients is one of what rounding leaves of them. A loss may be small because terms cancel out,
// though not below all rounding: one run that rounds says little of a single number.
TEST_F(VerifyTest, singleNumbersAreJudgedByMoreRuns) {
  constexpr const char* kText = R"(module @m {
  param @w : tensor<1xf32> {init = ones}
  param @p : tensor<8x1xf32> {init = randn(0.5)}
  func @train(%x: tensor<4x8xf32>) -> (loss: tensor<f32>) {
    %p = tg.param @p : tensor<8x1xf32>
    %w = tg.param @w : tensor<1xf32>
    %y = tg.matmul %x, %p : tensor<4x1xf32>
    %n = tg.rms_norm %y, %w : tensor<4x1xf32>
    %t = tg.tanh %n : tensor<4x1xf32>
    %loss = tg.mean %t {axes = [0, 1]} : tensor<f32>
    return %loss : tensor<f32>
  }
})";
  auto trained = runPasses(parsed(kText), "append-grad,append-adam{lr=0.01 normalize-grads}");
  ASSERT_TRUE(trained) << trained.error().str();
  source_ = std::move(trained->module);
  compileSource();
  for (uint64_t seed = 0; seed < 16; ++seed) {
    auto inputs = randomInputs(*source_->func("train"), {}, seed);
    auto storage = randomStorage(*source_, seed);
    ASSERT_TRUE(inputs && storage);
    auto checks = compareFunction(*source_, *spirv_, "train", *storage, *inputs, device_);
    ASSERT_TRUE(checks) << checks.error().str();
    for (const ResultCheck& check : *checks)
      EXPECT_TRUE(check.close) << seed << ": " << check.kind << " " << check.name << ": " << check.why;
  }
}

// The worst element and what both computed, of a difference in one element of many.
TEST_F(VerifyTest, worstElementIsNamed) {
  inputs_ = trainInputs();
  storage_ = storageOf(*model());
  auto module = parsed(edited(kModel, "%d = tg.sub %p, %y", "%d = tg.add %p, %y"));
  auto fused = compile(clone(*module), device_->info().target, {});
  auto sound = compile(model(), device_->info().target, {});
  ASSERT_TRUE(fused && sound);
  // The same plan with another function in one kernel: its binary stands in for the sound one.
  auto binaries = sound->module->all(ItemKind::binary), others = fused->module->all(ItemKind::binary);
  ASSERT_EQ(binaries.size(), others.size());
  int swapped = 0;
  for (size_t i = 0; i < binaries.size(); ++i)
    if (binaries[i]->code != others[i]->code) binaries[i]->code = others[i]->code, ++swapped;
  ASSERT_GE(swapped, 1);
  KernelStep step;
  EXPECT_NE(blamed(*sound->module, step), "");
  const StepBuffer* wrong = step.wrong();
  ASSERT_TRUE(wrong);
  EXPECT_TRUE(wrong->written);
  EXPECT_NE(wrong->why.find("element "), std::string::npos) << wrong->why;
  EXPECT_NE(wrong->device.bytes, wrong->exact.bytes);
}

TEST_F(VerifyTest, whatCannotBeWalked) {
  EXPECT_FALSE(KernelSteps::create(*spirv_, "nothing", device_));
  auto stripped = runPasses(clone(*spirv_), "strip-kernels");
  ASSERT_TRUE(stripped);
  auto steps = KernelSteps::create(*stripped->module, "train", device_);
  ASSERT_FALSE(steps);
  EXPECT_NE(steps.error().message().find("no source of kernel"), std::string::npos);
}

}  // namespace
}  // namespace tg
