// Finished modules on a device: what is recorded, and what is refused.
#include "test/unit/session_support.h"

#include "runtime/executor.h"
#include "runtime/finish.h"

namespace tg {
namespace {

class ExecutorTest : public SessionTest {};

/// The finished module as text, to be edited.
std::string finished(const Target& target) {
  auto trained = runPasses(model(), "append-grad,append-adam{lr=0.01}");
  EXPECT_TRUE(trained) << trained.error().str();
  auto done = finish(std::move(trained->module), target);
  EXPECT_TRUE(done) << done.error().str();
  return print(*done->module);
}

TEST_F(ExecutorTest, finishedModulesRunAsTheyAre) {
  std::string text = finished(device_->info().target);
  SessionOptions plain = options();
  plain.trainPipeline.clear();
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

TEST_F(ExecutorTest, commandsAreThoseOfTheText) {
  auto module = parse(finished(device_->info().target), "done.tgir");
  ASSERT_TRUE(module);
  auto executor = Executor::create(**module, device_);
  ASSERT_TRUE(executor) << executor.error().str();
  for (const char* function : {"train", "predict"}) {
    std::map<Opcode, int64_t> written;
    for (const auto& op : (*module)->func(function)->body.ops) ++written[op->code];
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
  for (std::string_view name : targetNames()) {
    SessionOptions other = options();
    other.target = *targetByName(name);
    auto session = open(std::move(other));
    ASSERT_TRUE(session) << name;
    EXPECT_NEAR(lossAfter(*session, 3), expected, 1e-5) << name;
  }
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

TEST_F(ExecutorTest, stagesTheDeviceCannotRun) {
  auto executor = Executor::create(*model(), device_);
  ASSERT_FALSE(executor);
  EXPECT_EQ(executor.error().message(), "a device runs modules of stage spirv; this one is of stage tensor");
}

}  // namespace
}  // namespace tg
