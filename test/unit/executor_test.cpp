// SPDX-License-Identifier: Apache-2.0
// Finished modules on a device: what is recorded, and what is refused.
#include "test/unit/session_support.h"

#include <fmt/format.h>

#include <thread>
#include <utility>

#include "runtime/compile.h"
#include "runtime/executor.h"
#include "test/unit/run_passes.h"
#include "test/unit/simulated_ranks.h"

namespace tg {
namespace {

class ExecutorTest : public SessionTest {};

/// The finished module as text, to be edited.
std::string finished(const Target& target) {
  auto trained = runPasses(model(), "append-grad,append-adam{lr=0.01}");
  EXPECT_TRUE(trained) << trained.error().str();
  auto done = compile(std::move(trained->module), target);
  EXPECT_TRUE(done) << done.error().str();
  return print(*done->module);
}

TEST_F(ExecutorTest, finishedModulesRunAsTheyAre) {
  std::string text = finished(device_->info().target);
  SessionOptions plain = options();
  plain.trainPipeline = "";
  auto session = Session::create(std::move(*parse(text, "done.tgir")), plain);
  ASSERT_TRUE(session) << session.error().str();
  auto stripped = runPasses(std::move(*parse(text, "done.tgir")), "strip-kernels");
  ASSERT_TRUE(stripped) << stripped.error().str();
  EXPECT_EQ(print(*stripped->module).find("tgk."), std::string::npos);
  auto bare = Session::create(std::move(stripped->module), plain);
  ASSERT_TRUE(bare) << bare.error().str();
  EXPECT_EQ(lossAfter(**session, 5), lossAfter(**bare, 5));
  EXPECT_TRUE(sameBits(*(*session)->downloadParams(), *(*bare)->downloadParams()));
}

/// Two ranks; a chunk spans several ranges, and there is more than one staging buffer.
TEST_F(ExecutorTest, stagedAllReduceRunsAgain) {
  constexpr int64_t kFloats = (int64_t{70} << 18) + 3, kBytes = kFloats * 4, kHole = 1000;
  auto engines = collective::simulatedRanks(2);
  ASSERT_TRUE(engines) << engines.error().str();
  auto run = [&](const std::shared_ptr<collective::Engine>& engine) {
    auto buffer = vulkan::Buffer::create(*device_, {"gradients", kBytes});
    ASSERT_TRUE(buffer) << buffer.error().str();
    std::vector<float> values(kFloats);
    for (size_t i = 0; i < values.size(); ++i)
      values[i] = static_cast<float>(i % 1001) + 0.5F * static_cast<float>(engine->rank());
    ASSERT_TRUE((*buffer)->write(0, kBytes, values.data()));
    const int64_t hole = int64_t{3} << 20;
    const std::vector<vulkan::Binding> ranges = {{buffer->get(), 0, hole},
                                                 {buffer->get(), hole, 0},
                                                 {buffer->get(), hole + kHole, kBytes - hole - kHole}};
    StagingBuffers staging;
    const auto allReduce = [&](collective::Reduction reduction) {
      return StagedCollective::create(*device_, "test", 7,
                                      {collective::Kind::allReduce, reduction, ranges, {}}, *engine, staging);
    };
    auto mean = allReduce(collective::Reduction::mean), sum = allReduce(collective::Reduction::sum);
    ASSERT_TRUE(mean && sum);
    EXPECT_EQ(staging.buffers.size(), 2U);
    EXPECT_EQ(staging.shared != nullptr, device_->info().takesHostMemory);
    for (DeviceCollective* each :
         {mean->get(), mean->get(), sum->get()}) {  // the second mean is of equal values
      ASSERT_TRUE(each->begin(*engine));
      ASSERT_TRUE(each->wait(*engine));
    }
    std::vector<float> after(kFloats);
    ASSERT_TRUE((*buffer)->read(0, kBytes, after.data()));
    for (size_t i = 0; i < after.size(); ++i) {
      const auto at = static_cast<int64_t>(i) * 4;
      const bool stays = at >= hole && at < hole + kHole;
      const float middle = static_cast<float>(i % 1001) + 0.25F;
      ASSERT_EQ(after[i], stays ? values[i] : 2 * middle) << i;
    }
    auto times = (*mean)->times();
    ASSERT_TRUE(times);
    EXPECT_EQ(times->times, 2);
    EXPECT_EQ(times->bytes, kBytes - kHole);
    EXPECT_GT(times->exchange, 0);
    EXPECT_GE(times->waited, 0);
    EXPECT_LE(times->waited, times->exchange);
    EXPECT_EQ(times->toHost > 0, device_->info().timestamps);
  };
  std::thread other([&, engine = std::move((*engines)[1])] { run(engine); });
  run(std::exchange((*engines)[0], nullptr));
  other.join();
}

TEST_F(ExecutorTest, commandsAreThoseOfTheText) {
  auto module = parse(finished(device_->info().target), "done.tgir");
  ASSERT_TRUE(module);
  auto executor = Executor::create(**module, device_);
  ASSERT_TRUE(executor) << executor.error().str();
  for (const char* function : {"train", "predict"}) {
    std::map<Opcode, int64_t> written;
    for (Op* op : (*module)->func(function)->body.ops) ++written[op->code];
    auto counts = (*executor)->counts(function);
    ASSERT_TRUE(counts);
    EXPECT_EQ(counts->dispatches, written[Opcode::dispatch]);
    EXPECT_EQ(counts->barriers, written[Opcode::barrier]);
    EXPECT_EQ(counts->copies, written[Opcode::copy]);
    EXPECT_EQ(counts->fills, written[Opcode::fill]);
    EXPECT_GT(counts->barriers, 0) << function;
  }
}

TEST_F(ExecutorTest, everyShippedTargetRunsWhereItsLimitsFit) {
  auto oracle = interpreter();
  double expected = lossAfter(*oracle, 3);
  int ran = 0;
  for (std::string_view name : targetNames()) {
    SessionOptions other = options();
    other.target = *targetByName(name);
    if (!checkLimits(*other.target, device_->info().target, device_->info().name)) continue;
    auto session = open(std::move(other));
    ASSERT_TRUE(session) << name;
    EXPECT_NEAR(lossAfter(*session, 3), expected, 1e-5) << name;
    ++ran;
  }
  EXPECT_GE(ran, 3);
}

/// The finished module on a device.
Result<std::unique_ptr<Executor>> executorOn(const std::shared_ptr<vulkan::Device>& device) {
  TG_TRY(const std::unique_ptr<Module> module, parse(finished(device->info().target), "done.tgir"));
  return Executor::create(*module, device);
}

// What is written behind the copy does not show in it.
TEST_F(ExecutorTest, aCopyIsOfItsMoment) {
  auto executor = executorOn(device_);
  ASSERT_TRUE(executor) << executor.error().str();
  const HostArray before = ramp({8, 2}, 1, 0.5), after = ramp({8, 2}, 100, 1);
  ASSERT_TRUE((*executor)->setStorages({{"w2", before}}));
  auto copy = (*executor)->copyStorages();
  ASSERT_TRUE(copy) << copy.error().str();
  ASSERT_TRUE((*executor)->setStorages({{"w2", after}}));
  HostArray read = HostArray::zeros(before.type());
  ASSERT_TRUE((*copy)->readRows("w2", 0, read.bytes));
  EXPECT_EQ(read.bytes, before.bytes);
  EXPECT_FALSE((*copy)->readRows("w2", 15, read.bytes));
  EXPECT_FALSE((*copy)->readRows("nobody", 0, read.bytes));
  executor->reset();
  HostArray last = HostArray::zeros(Type::tensor(before.dtype, {1, 2}));
  ASSERT_TRUE((*copy)->readRows("w2", 14, last.bytes)) << "it outlives what it was made from";
  EXPECT_EQ(last.at(1), before.at(15));
}

// A piece of a param is read and written where it lies, its neighbours stay.
TEST_F(ExecutorTest, rowsAreMovedInPieces) {
  auto executor = executorOn(device_);
  ASSERT_TRUE(executor) << executor.error().str();
  const HostArray whole = ramp({8, 2}, 1, 0.5), part = ramp({3, 2}, 100, 1);
  ASSERT_TRUE((*executor)->setStorages({{"w2", whole}}));
  ASSERT_TRUE((*executor)->writeRows("w2", 4, part.bytes));
  HostArray expected = whole, read = HostArray::zeros(part.type());
  for (int64_t i = 0; i < 6; ++i) expected.set(4 + i, part.at(i));
  EXPECT_EQ((*executor)->storage("w2")->bytes, expected.bytes);
  ASSERT_TRUE((*executor)->readRows("w2", 8, read.bytes));
  for (int64_t i = 0; i < 6; ++i) EXPECT_EQ(read.at(i), expected.at(8 + i));
  auto past = (*executor)->writeRows("w2", 12, part.bytes),
       within = (*executor)->readRows("w2", 1, read.bytes);
  ASSERT_FALSE(past);
  EXPECT_NE(past.error().message().find("24 bytes from element 12 on are not rows of @w2, tensor<8x2xf32>"),
            std::string::npos);
  EXPECT_FALSE(within);
  EXPECT_FALSE((*executor)->writeRows("nobody", 0, part.bytes));
}

TEST_F(ExecutorTest, editedKernelIsRefused) {
  std::string text = finished(device_->info().target);
  size_t at = text.find("kernel_hash = \"") + 15;
  text[at] = text[at] == '0' ? '1' : '0';
  auto module = parse(text, "edited.tgir");
  ASSERT_TRUE(module);
  auto executor = Executor::create(**module, device_);
  ASSERT_FALSE(executor);
  EXPECT_NE(executor.error().message().find("is not made of the kernel beside it"), std::string::npos);
}

TEST_F(ExecutorTest, limitsAreRefusedByName) {
  const Target& own = device_->info().target;
  Target larger = own;
  larger.storageRange *= 2;
  larger.maxInvocations += 1;
  auto module = parse(finished(larger), "larger.tgir");
  ASSERT_TRUE(module);
  auto executor = Executor::create(**module, device_);
  ASSERT_FALSE(executor);
  EXPECT_NE(executor.error().message().find("storage_range"), std::string::npos);
  EXPECT_NE(executor.error().message().find("max_invocations"), std::string::npos);
  EXPECT_EQ(executor.error().message().find("shared_bytes"), std::string::npos);

  Target device = own;
  device.alignment = own.alignment * 2;
  EXPECT_FALSE(checkLimits(own, device, "other"));
  device = own;
  device.workgroup = own.workgroup * 2;
  device.reads = "storage";
  EXPECT_TRUE(checkLimits(own, device, "other"));
}

/// Counts to 70000 in one loop and to 80000 in nested ones.
constexpr const char* kLong = R"(
module @long {
  kernel @count(%x: buf<16xf32, in>, %y: buf<16xf32, out>) workgroup(16) grid(1) {
    %i = tgk.global_id 0 : u32
    %a = tgk.load %x[%i] : f32
    %n = tgk.for %k = 0 to(70000) iter_args(%acc = 0.0) : f32 {
      %s = tgk.add %acc, %a : f32
      tgk.yield %s : f32
    }
    %m = tgk.for %k = 0 to(400) iter_args(%acc = %n) : f32 {
      %b = tgk.for %j = 0 to(200) iter_args(%inner = %acc) : f32 {
        %s = tgk.add %inner, %a : f32
        tgk.yield %s : f32
      }
      tgk.yield %b : f32
    }
    tgk.store %m, %y[%i]
  }
  func @predict(%x: tensor<16xf32>) -> (y: tensor<16xf32>) {
    %y = tg.custom @count(%x) : tensor<16xf32>
    return %y : tensor<16xf32>
  }
}
)";

// Mesa's CPU device ends an invocation's loops after 65535 iterations in all, without an error.
TEST_F(ExecutorTest, LongLoopsRunToTheirEnds) {
  SessionOptions plain = options();
  plain.trainPipeline = "";
  auto session = open(parsed(kLong), plain);
  ASSERT_TRUE(session);
  auto out = session->run("predict", {{"x", ramp({16}, 0, 1)}});
  ASSERT_TRUE(out) << out.error().str();
  for (int64_t i = 0; i < 16; ++i) EXPECT_EQ(out->results[0].second.at(i), 150000. * static_cast<double>(i));
  if (device_->info().target.loopIterations > 150000) return;
  plain.target = device_->info().target;
  plain.target->loopIterations = 1000000;
  const std::string message = messageOf(Session::create(parsed(kLong), plain));
  EXPECT_NE(message.find("make 150802 iterations in an invocation"), std::string::npos) << message;
}

/// The device's target with buffers of 256 bytes, of which each group of parameters takes most.
Target smallAllocations(const vulkan::Device& device) {
  Target target = device.info().target;
  target.name = "small";
  target.allocation = target.storageRange = 256;
  return target;
}

TEST_F(ExecutorTest, severalAllocationsComputeTheSameBits) {
  const std::string text = edited(kModel, "%x: tensor<2x3xf32>", "%x: tensor<2x3xf32> {batch = 0}");
  auto whole = open(parsed(text), options());
  SessionOptions small = options();
  small.target = smallAllocations(*device_);
  auto parts = open(parsed(text), std::move(small));
  ASSERT_TRUE(whole && parts);
  EXPECT_GT(parts->info().persistentBytes, 2 * 256);
  EXPECT_GE(parts->info().arenaBytes, 256);
  EXPECT_GT(parts->info().ioBytes, 2 * 256);
  EXPECT_EQ(lossAfter(*whole, 7), lossAfter(*parts, 7));
  EXPECT_TRUE(sameBits(*whole->downloadParams(), *parts->downloadParams()));
  EXPECT_TRUE(sameBits(*whole->downloadStates(), *parts->downloadStates()));
  // More rows than the function was compiled for: a sibling with an arena of its own size.
  Inputs rows{{"x", ramp({7, 3}, 0.5, 0.01)}};
  auto expected = whole->run("predict", rows);
  auto got = parts->run("predict", rows);
  ASSERT_TRUE(expected) << expected.error().str();
  ASSERT_TRUE(got) << got.error().str();
  EXPECT_TRUE(sameBits(expected->results, got->results));
  EXPECT_EQ(lossAfter(*whole, 2), lossAfter(*parts, 2));
}

TEST_F(ExecutorTest, eachAllocationIsABuffer) {
  auto module = parse(finished(smallAllocations(*device_)), "small.tgir");
  ASSERT_TRUE(module);
  auto executor = Executor::create(**module, device_);
  ASSERT_TRUE(executor) << executor.error().str();
  auto param = (*executor)->share("w2"), moment = (*executor)->share("adam.m.w2");
  ASSERT_TRUE(param && moment);
  EXPECT_NE(param->buffer, moment->buffer);
  EXPECT_EQ(param->buffer->bytes(), 256);
  EXPECT_EQ((*module)->storage("adam.m.w2")->place->offset, 256 + moment->offset);
}

TEST_F(ExecutorTest, labelsNameTheParametersThatAreBound) {
  auto module = parse(finished(device_->info().target), "tiny.tgir");
  ASSERT_TRUE(module);
  auto executor = Executor::create(**module, device_);
  ASSERT_TRUE(executor) << executor.error().str();
  auto predict = (*executor)->labels("predict"), train = (*executor)->labels("train");
  ASSERT_TRUE(predict && train);
  std::string read, all;
  for (const std::string& label : *predict) read += label + "\n";
  for (const std::string& label : *train) all += label + "\n";
  for (const char* name : {" @w1", " @b1", " @w2"}) EXPECT_NE(read.find(name), std::string::npos) << read;
  EXPECT_EQ(read.find("@adam"), std::string::npos) << read;
  EXPECT_NE(all.find(" @adam.m."), std::string::npos) << all;
  EXPECT_FALSE((*executor)->labels("none"));
}

TEST_F(ExecutorTest, severalAllocationsAreShared) {
  SessionOptions small = options();
  small.target = smallAllocations(*device_);
  auto owner = open(small);
  ASSERT_TRUE(owner);
  SessionOptions reading = options(9);
  reading.sharedParams = *owner->params();
  auto whole = open(reading);
  reading.target = small.target;
  auto parts = open(reading);
  ASSERT_TRUE(whole && parts);
  lossAfter(*owner, 3);
  const Inputs inputs{{"x", ramp({2, 3}, 0.5, 0.1)}};
  EXPECT_TRUE(sameBits(owner->run("predict", inputs)->results, whole->run("predict", inputs)->results));
  EXPECT_TRUE(sameBits(owner->run("predict", inputs)->results, parts->run("predict", inputs)->results));
  lossAfter(*parts, 3);
  EXPECT_TRUE(sameBits(*owner->downloadParams(), *parts->downloadParams()));
  // The other way round a buffer of the owner's may be larger than an allocation here.
  auto large = open(options());
  reading.sharedParams = *large->params();
  auto refused = Session::create(model(), reading);
  EXPECT_NE(messageOf(refused).find("one allocation of target 'small' has at most 256"), std::string::npos)
      << messageOf(refused);
}

// What counts is the size of the buffers: one that is too large is refused when it is made.
TEST_F(ExecutorTest, aLargerAllocationThanTheDevicesRuns) {
  SessionOptions vast = options();
  vast.target = device_->info().target;
  vast.target->allocation *= 4;
  auto session = open(std::move(vast));
  ASSERT_TRUE(session);
  EXPECT_EQ(lossAfter(*session, 2), lossAfter(*open(options()), 2));
}

TEST_F(ExecutorTest, stagesTheDeviceCannotRun) {
  auto executor = Executor::create(*model(), device_);
  ASSERT_FALSE(executor);
  EXPECT_EQ(executor.error().message(), "a device runs modules of stage spirv; this one is of stage tensor");
}

}  // namespace
}  // namespace tg
