// SPDX-License-Identifier: Apache-2.0
// The peak of a memory report is the planner's lower bound, found again from the text of the planned module.
#include <algorithm>

#include <gtest/gtest.h>

#include "ir/parser.h"
#include "ir/verify.h"
#include "runtime/compile.h"
#include "runtime/session.h"
#include "runtime/train/plan_report.h"
#include "test/unit/run_passes.h"
#include "tools/driver/bench_models.h"

namespace tg {
namespace {

class PlanBound : public ::testing::TestWithParam<const char*> {
 protected:
  static std::unique_ptr<Module> learning(const std::string& name) {
    auto made = benchModel(name);
    auto module = made ? std::move(*made) : parseFile(TG_SOURCE_DIR "/docs/examples/" + name + ".tgir");
    EXPECT_TRUE(module) << name;
    if (!module) return nullptr;
    const Attr* own = find((*module)->attrs, "train_pipeline");
    auto ran = runPasses(std::move(*module), own ? own->text : "append-grad,append-adam");
    EXPECT_TRUE(ran) << (ran ? "" : ran.error().message());
    return ran ? std::move(ran->module) : nullptr;
  }
};

INSTANTIATE_TEST_SUITE_P(Workloads, PlanBound, ::testing::Values("mlp", "cnn", "gpt-nano", "sin"),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

TEST_P(PlanBound, IsThePeak) {
  for (const Stage stage : {Stage::planned, Stage::kernel}) {
    std::unique_ptr<Module> module = learning(GetParam());
    ASSERT_TRUE(module);
    CompileOptions options;
    options.until = stage;
    auto done = compile(std::move(module), Target{}, options);
    ASSERT_TRUE(done) << done.error().message();
    int64_t peak = 0;
    for (const Item* func : done->module->all(ItemKind::func)) {
      const MemoryReport memory = memoryReport(*done->module, *func);
      peak = std::max(peak, memory.peakBytes());
      int64_t live = 0;
      for (const MemoryValue& value : memory.liveAtPeak()) live += value.bytes;
      EXPECT_GE(live, memory.peakBytes() / 2) << "what is listed is what is counted";
    }
    SessionOptions interp;
    interp.device = "interp";
    auto session = Session::create(std::move(done->module), interp);
    ASSERT_TRUE(session) << session.error().message();
    EXPECT_EQ(peak, (*session)->info().lowerBoundBytes) << "stage " << static_cast<int>(stage);
  }
}

}  // namespace
}  // namespace tg
