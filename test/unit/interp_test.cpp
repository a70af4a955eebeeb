// SPDX-License-Identifier: Apache-2.0
// The interpreter's walk over each stage: storage, updates, groups, planned bytes, commands, errors.
#include "runtime/interp/interp.h"

#include "test/unit/interp_test_support.h"

namespace tg::test {
namespace {

const std::string kCounter = R"(module @m {
  param @w : tensor<2xf32>
  state @t : tensor<i32>
  func @train(%x: tensor<2xf32>) -> (w: tensor<2xf32>, t: tensor<i32>) {
    %one = tg.constant 1 : tensor<i32>
    %t0 = tg.state @t : tensor<i32>
    %t1 = tg.add %t0, %one : tensor<i32>
    tg.update @t, %t1
    %w0 = tg.param @w : tensor<2xf32>
    %w1 = tg.add %w0, %x : tensor<2xf32>
    tg.update @w, %w1
    %again = tg.param @w : tensor<2xf32>
    tg.capture %w1 {name = "sum"}
    tg.param_grad @w, %x
    return %again, %t1 : tensor<2xf32>, tensor<i32>
  }
}
)";

TEST(Interpreter, UpdatesCommitAtTheEnd) {
  auto module = verified(kCounter);
  ASSERT_TRUE(module);
  auto interp = Interpreter::create(*module);
  ASSERT_TRUE(interp);
  EXPECT_EQ(interp->storage("w")->data, (std::vector<double>{0, 0}));
  ASSERT_TRUE(interp->setStorage("w", f32({2}, {10, 20})));
  const Inputs inputs{{"x", f32({2}, {1, 2})}};
  auto first = interp->run("train", inputs);
  ASSERT_TRUE(first) << first.error().str();
  EXPECT_EQ(first->result("w")->data,
            (std::vector<double>{10, 20}));  // as at entry, although it stands below
  EXPECT_EQ(first->captures.at("sum").data, (std::vector<double>{11, 22}));
  EXPECT_EQ(first->paramGrads.at("w").data, (std::vector<double>{1, 2}));
  EXPECT_EQ(interp->storage("w")->data, (std::vector<double>{11, 22}));
  auto second = interp->run("train", inputs);
  EXPECT_EQ(second->results[0].first, "w");
  EXPECT_EQ(second->result("t")->data[0], 2);
  EXPECT_EQ(second->result("nothing"), nullptr);
  EXPECT_EQ(interp->storage("w")->data, (std::vector<double>{12, 24}));
}

/// The message of a failed result, or "".
template <class T>
std::string messageOf(const Result<T>& result) {
  return result ? "" : result.error().message();
}

TEST(Interpreter, SaysWhatIsWrongWithACall) {
  auto module = verified(kCounter);
  ASSERT_TRUE(module);
  auto interp = *Interpreter::create(*module);
  const NdArray good = f32({2}, {1, 2});
  EXPECT_EQ(messageOf(interp.run("eval", {})), "no function @eval; the module has @train");
  EXPECT_EQ(messageOf(interp.run("train", {})), "@train needs the input %x: tensor<2xf32>");
  EXPECT_EQ(messageOf(interp.run("train", {{"x", good}, {"y", good}})),
            "@train has no input %y; it takes %x");
  EXPECT_EQ(messageOf(interp.run("train", {{"x", f32({3}, {1, 2, 3})}})),
            "input %x of @train is tensor<2xf32>, but tensor<3xf32> was given");
  EXPECT_EQ(messageOf(interp.run("train", {{"x", i32({2}, {1, 2})}})),
            "input %x of @train is tensor<2xf32>, but tensor<2xi32> was given");
  EXPECT_EQ(messageOf(interp.run("train", {{"x", f32({2}, {1})}})),
            "input %x of @train has 2 elements, but 1 was given");
  EXPECT_EQ(messageOf(interp.setStorage("v", good)), "no param or state @v; the module has @w, @t");
  EXPECT_EQ(messageOf(interp.storage("v")), "no param or state @v; the module has @w, @t");
  EXPECT_EQ(messageOf(interp.setStorage("t", good)), "state @t is tensor<i32>, but tensor<2xf32> was given");
  EXPECT_EQ(interp.storage("t")->data[0], 0);
}

TEST(Interpreter, FusedRegionsAndGroups) {
  // Members of 3 and 2 elements: the flat tensor is 4 + 4 elements, its padding zero.
  auto module = verified(R"(module @m stage(fused) {
  param @a : tensor<3xf32>
  param @b : tensor<2xf32>
  func @train(%s: tensor<f32>) -> (flat: tensor<8xf32>) {
    %a = tg.param @a : tensor<3xf32>
    %b = tg.param @b : tensor<2xf32>
    [%a2, %b2], %flat = tg.fused (%ws = [%a, %b], %k = %s) {schedule = map}
        : [tensor<3xf32>, tensor<2xf32>], tensor<8xf32> {
      %r = tg.mul %ws, %k : tensor<8xf32>
      tg.yield %r, %ws : tensor<8xf32>, tensor<8xf32>
    }
    tg.update @a, %a2
    tg.update @b, %b2
    return %flat : tensor<8xf32>
  }
}
)");
  ASSERT_TRUE(module);
  auto interp = *Interpreter::create(*module);
  ASSERT_TRUE(interp.setStorage("a", f32({3}, {1, 2, 3})));
  ASSERT_TRUE(interp.setStorage("b", f32({2}, {4, 5})));
  auto run = interp.run("train", {{"s", NdArray::scalar(10)}});
  ASSERT_TRUE(run) << run.error().str();
  EXPECT_EQ(run->result("flat")->data, (std::vector<double>{1, 2, 3, 0, 4, 5, 0, 0}));
  EXPECT_EQ(interp.storage("a")->data, (std::vector<double>{10, 20, 30}));
  EXPECT_EQ(interp.storage("b")->data, (std::vector<double>{40, 50}));
}

/// y = (x + w)·x, w ← x + w, with the sum and the product at the given places.
std::string plannedText(const std::string& sumPlace, const std::string& productPlace) {
  return R"(module @m stage(planned) {
  buffer @persistent : 16
  buffer @io : 64
  buffer @arena : 64
  param @w : tensor<2x2xf32> -> @persistent[0]
  func @train(%x: tensor<2x2xf32> -> @io[0]) -> (y: tensor<2x2xf32>) {
    %w = tg.param @w : tensor<2x2xf32> -> @persistent[0]
    %sum = tg.fused (%a = %x, %b = %w) {schedule = map} : tensor<2x2xf32> -> )" +
         sumPlace + R"( {
      %r = tg.add %a, %b : tensor<2x2xf32>
      tg.yield %r : tensor<2x2xf32>
    }
    %p = tg.fused (%a = %x) {schedule = map} : tensor<2x2xf32> -> )" +
         productPlace + R"( {
      %r = tg.square %a : tensor<2x2xf32>
      tg.yield %r : tensor<2x2xf32>
    }
    %y = tg.fused (%a = %sum, %b = %p) {schedule = map} : tensor<2x2xf32> -> @io[16] {
      %r = tg.sub %a, %b : tensor<2x2xf32>
      tg.yield %r : tensor<2x2xf32>
    }
    tg.update @w, %sum
    return %y : tensor<2x2xf32>
  }
}
)";
}

Result<RunResult> runPlannedText(const std::string& text, std::vector<double>* storage = nullptr) {
  auto module = parsed(text);  // not verified: some plans are wrong on purpose
  if (!module) return fail("no module");
  TG_TRY(Interpreter interp, Interpreter::create(*module));
  TG_CHECK(interp.setStorage("w", f32({2, 2}, {10, 20, 30, 40})));
  Result<RunResult> run = interp.run("train", {{"x", f32({2, 2}, {1, 2, 3, 4})}});
  if (storage) *storage = interp.storage("w")->data;
  return run;
}

TEST(Planned, RunsInItsBytes) {
  const std::vector<double> y{10, 18, 24, 28}, w{11, 22, 33, 44};
  std::vector<double> storage;
  auto copied = runPlannedText(plannedText("@arena[0]", "@arena[16]"), &storage);
  ASSERT_TRUE(copied) << copied.error().str();
  EXPECT_EQ(copied->result("y")->data, y);
  EXPECT_EQ(storage, w);
  auto inPlace = runPlannedText(plannedText("@persistent[0] inplace(%w)", "@arena[0]"), &storage);
  ASSERT_TRUE(inPlace) << inPlace.error().str();
  EXPECT_EQ(inPlace->result("y")->data, y);
  EXPECT_EQ(storage, w);
}

TEST(Planned, AliasingIsAWrongNumber) {
  auto whole = runPlannedText(plannedText("@arena[0]", "@arena[0]"));
  ASSERT_TRUE(whole);
  EXPECT_EQ(whole->result("y")->data, (std::vector<double>{0, 0, 0, 0}));  // x² - x²
  auto part = runPlannedText(plannedText("@arena[0]", "@arena[12]"));
  EXPECT_EQ(part->result("y")->data[2], 24);
  EXPECT_NE(part->result("y")->data[3], 28);
  // A result over part of an operand that is read in the same dispatch.
  auto overOperand = runPlannedText(plannedText("@arena[0]", "@io[4]"));
  EXPECT_TRUE(std::isnan(overOperand->result("y")->data[1]));
}

TEST(Planned, OutsideTheBufferIsAnError) {
  EXPECT_EQ(messageOf(runPlannedText(plannedText("@arena[0]", "@arena[56]"))),
            "@arena[56] with 16 bytes is outside the buffer of 64 bytes");
  EXPECT_EQ(messageOf(runPlannedText(plannedText("@arena[0]", "@scratch[0]"))),
            "the module has no buffer @scratch");
}

TEST(Planned, ArenaStartsAsGarbageEachCall) {
  // The first 8 bytes are only ever written by tg.fill.
  auto text = [](const std::string& fill) {
    return R"(module @m stage(planned) {
  buffer @io : 32
  buffer @arena : 16
  func @f() -> (y: tensor<4xf32>) {
    )" + fill +
           R"(
    %z = tg.fused () {schedule = map} : tensor<2xf32> -> @arena[8] {
      %r = tg.constant 3.0 : tensor<2xf32>
      tg.yield %r : tensor<2xf32>
    }
    %y = tg.fused (%g = [%lo]) {schedule = map} : tensor<4xf32> -> @io[0] {
      %r = tg.stop_gradient %g : tensor<4xf32>
      tg.yield %r : tensor<4xf32>
    }
    return %y : tensor<4xf32>
  }
}
)";
  };
  // The group's one member is the value at 8; its place is moved to the start of the arena.
  auto runWith = [&](const std::string& fill) {
    std::string source = text(fill);
    source.replace(source.find("[%lo]"), 5, "[%z]");
    auto module = parsed(source);
    Value* z = nullptr;
    for (Op* op : module->func("f")->body.ops)
      if (op->code == Opcode::fused && !z) z = op->result();
    z->place->offset = 0;
    auto interp = *Interpreter::create(*module);
    auto run = interp.run("f", {});
    EXPECT_TRUE(run) << messageOf(run);
    return run->result("y")->data;
  };
  EXPECT_TRUE(std::isnan(runWith("")[3]));
  EXPECT_EQ(runWith("tg.fill args(out(@arena[8:8]))"), (std::vector<double>{3, 3, 0, 0}));
}

TEST(Planned, ElementTypesAreFourBytes) {
  auto module = parsed(R"(module @m stage(planned) {
  buffer @io : 64
  buffer @arena : 16
  func @f(%c: tensor<2xi1> -> @io[0], %i: tensor<2xi32> -> @io[8]) -> (r: tensor<2xi32>, c: tensor<2xi1>) {
    %r, %d = tg.fused (%a = %c, %b = %i) {schedule = map} : tensor<2xi32>, tensor<2xi1> -> @io[16], @io[24] {
      %n = tg.neg %b : tensor<2xi32>
      %s = tg.select %a, %b, %n : tensor<2xi32>
      %l = tg.less %s, %b : tensor<2xi1>
      tg.yield %s, %l : tensor<2xi32>, tensor<2xi1>
    }
    return %r, %d : tensor<2xi32>, tensor<2xi1>
  }
}
)");
  ASSERT_TRUE(module);
  auto interp = *Interpreter::create(*module);
  auto run = interp.run("f", {{"c", array(DType::i1, {2}, {1, 0})}, {"i", i32({2}, {2147483647, 16777217})}});
  ASSERT_TRUE(run) << run.error().str();
  EXPECT_EQ(run->result("r")->data, (std::vector<double>{2147483647, -16777217}));
  EXPECT_EQ(run->result("c")->data, (std::vector<double>{0, 1}));
}

const std::string kCommands = R"(module @m stage(kernel) {
  buffer @persistent : 16
  buffer @io : 64
  buffer @arena : 32
  param @w : tensor<4xf32> -> @persistent[0]
  kernel @k0(%x: buf<4xf32, in>, %w: buf<4xf32, in>, %o: buf<4xf32, out>) workgroup(2) grid(2) {
    %i = tgk.global_id 0 : u32
    %a = tgk.load %x[%i] : f32
    %b = tgk.load %w[%i] : f32
    %r = tgk.add %a, %b : f32
    tgk.store %r, %o[%i]
  }
  func @train(%x: tensor<4xf32> -> @io[0]) -> (y: tensor<4xf32>, z: tensor<4xf32>) {
    tg.dispatch @k0 grid(2) args(in(@io[0:16]), in(@persistent[0:16]), out(@arena[16:16]))
    tg.barrier
    tg.copy args(in(@arena[16:16]), out(@persistent[0:16]))
    tg.copy args(in(@arena[8:16]), out(@io[16:16]))
    tg.fill args(out(@io[32:12]))
    %y = tg.home : tensor<4xf32> -> @io[16]
    %z = tg.home : tensor<4xf32> -> @io[32]
    tg.capture %y {name = "y"}
    return %y, %z : tensor<4xf32>, tensor<4xf32>
  }
}
)";

TEST(Commands, RunOverBytesUnderEverySchedule) {
  auto module = parsed(kCommands);
  ASSERT_TRUE(module);
  for (LaneOrder order : {LaneOrder::roundRobin, LaneOrder::wholeLane, LaneOrder::lockstep})
    for (bool reversed : {false, true}) {
      InterpOptions options;
      options.kernel.order = order;
      options.kernel.reversed = reversed;
      auto interp = *Interpreter::create(*module, options);
      ASSERT_TRUE(interp.setStorage("w", f32({4}, {10, 20, 30, 40})));
      auto run = interp.run("train", {{"x", f32({4}, {1, 2, 3, 4})}});
      ASSERT_TRUE(run) << run.error().str();
      EXPECT_EQ(interp.storage("w")->data, (std::vector<double>{11, 22, 33, 44}));
      // Bytes 8 to 16 of the arena were never written; io[44] is an output no command reaches.
      const std::vector<double>& y = run->result("y")->data;
      EXPECT_TRUE(std::isnan(y[0]) && std::isnan(y[1]));
      EXPECT_EQ(y[2], 11);
      EXPECT_EQ(run->captures.at("y").data[3], 22);
      const std::vector<double>& z = run->result("z")->data;
      EXPECT_EQ(z[2], 0);
      EXPECT_TRUE(std::isnan(z[3]));
      EXPECT_EQ(run->counters.races + run->counters.outOfRange + run->counters.rewrites, 0);
    }
}

TEST(Commands, FindingsNameTheKernel) {
  std::string text = kCommands;
  const std::string store = "tgk.store %r, %o[%i]";
  text.replace(text.find(store), store.size(), "tgk.store %r, %o[0]");
  auto module = parsed(text);
  ASSERT_TRUE(module);
  auto run = Interpreter::create(*module)->run("train", {{"x", f32({4}, {1, 2, 3, 4})}});
  ASSERT_TRUE(run) << run.error().str();
  EXPECT_GT(run->counters.races + run->counters.rewrites, 0);
  ASSERT_FALSE(run->counters.findings.empty());
  EXPECT_EQ(run->counters.findings[0].substr(0, 4), "@k0:");
}

TEST(Commands, StrippedKernelsAreAnError) {
  auto module = parsed(kCommands);
  ASSERT_TRUE(module);
  module->items.eraseIf([](const auto& item) { return item->kind == ItemKind::kernel; });
  auto run = Interpreter::create(*module)->run("train", {{"x", f32({4}, {1, 2, 3, 4})}});
  EXPECT_NE(messageOf(run).find("no source of kernel @k0"), std::string::npos) << messageOf(run);
}

}  // namespace
}  // namespace tg::test
