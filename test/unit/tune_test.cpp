// SPDX-License-Identifier: Apache-2.0
// Schedules chosen by timing: the rule, the table, and a device. No time is asserted.
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <set>

#include "codegen/schedule.h"
#include "ir/access.h"
#include "ir/op_view.h"
#include "passes/tuning.h"
#include "runtime/compile.h"
#include "runtime/tune.h"
#include "test/unit/session_support.h"
#include "test/unit/temp_folder.h"

namespace tg {
namespace {

Attr schedule(const std::string& text) {
  auto attr = parseAttr(text);
  EXPECT_TRUE(attr) << text;
  return attr ? *attr : Attr();
}

/// Times {least, median} of schedules numbered from 0.
std::vector<TimedSchedule> timed(const std::vector<std::pair<double, double>>& times) {
  std::vector<TimedSchedule> out;
  for (const auto& [least, median] : times)
    out.push_back({schedule("map{vec = 1, workgroup = " + std::to_string(out.size()) + "}"), least, median});
  return out;
}

TEST(Tune, OnlyWhatIsClearlyFasterTakesThePlace) {
  EXPECT_EQ(fastest(timed({{100, 110}})), 0u);
  EXPECT_EQ(fastest(timed({{100, 110}, {98, 107}})), 0u) << "2 % are noise";
  EXPECT_EQ(fastest(timed({{100, 110}, {96, 106}})), 1u);
  EXPECT_EQ(fastest(timed({{100, 110}, {50, 109}})), 0u) << "fast once is luck";
  EXPECT_EQ(fastest(timed({{100, 110}, {99, 50}})), 0u) << "and so is slow the rest of the time";
  EXPECT_EQ(fastest(timed({{100, 110}, {96, 100}, {80, 90}, {90, 80}})), 2u);
}

TEST(Tune, MergesWhatWasMeasuredIntoWhatIsThere) {
  TunedRegion faster{"ra", "", "", 1, timed({{9, 9}, {3, 3}}), 1};
  TunedRegion fresh{"rb", "", "", 1, timed({{9, 9}, {9, 9}, {4, 4}}), 2};
  TunedRegion kept{"rc", "", "", 1, timed({{3, 3}, {9, 9}}), 0};
  AttrList table = {
      {"ra", schedule("map{vec = 4}")}, {"rc", schedule("map{vec = 4}")}, {"rd", schedule("map{vec = 4}")}};
  mergeTuning(table, {faster, fresh, kept});
  EXPECT_EQ(printTuning(table),
            "{\n  ra = map{vec = 1, workgroup = 1},\n  rb = map{vec = 1, workgroup = 2},\n"
            "  rd = map{vec = 4}\n}\n")
      << "the rule is as good for rc, and rd was not measured";
}

TEST(Tune, FilesAreOfOneDeviceAndDriver) {
  vulkan::DeviceInfo a, b;
  a.cacheKey = "10de-2336-aa", b.cacheKey = "10de-2336-ab";
  EXPECT_EQ(tuningFile("", a), "");
  EXPECT_EQ(tuningFile("/c", a), "/c/tuning-10de-2336-aa.txt");
  EXPECT_NE(tuningFile("/c", a), tuningFile("/c", b));
}

/// A block twice, whose regions are a product with ids read on the way, rows and columns.
constexpr const char* kBlocks = R"(
module @blocks {
  param @table : tensor<7x8xf32> {init = randn(1.0)}
  param @w1 : tensor<8x8xf32> {init = kaiming}
  param @w2 : tensor<8x8xf32> {init = kaiming}
  func @train(%ids: tensor<16xi32>, %y: tensor<16x8xf32>) -> (loss: tensor<f32>, rows: tensor<16x8xf32>) {
    %table = tg.param @table : tensor<7x8xf32>
    %w1 = tg.param @w1 : tensor<8x8xf32>
    %w2 = tg.param @w2 : tensor<8x8xf32>
    %x = tg.embedding %table, %ids : tensor<16x8xf32>
    %first = tg.matmul %x, %w1 : tensor<16x8xf32>
    %second = tg.matmul %first, %w2 : tensor<16x8xf32>
    %rows = tg.softmax %second : tensor<16x8xf32>
    %d = tg.sub %rows, %y : tensor<16x8xf32>
    %s = tg.square %d : tensor<16x8xf32>
    %loss = tg.mean %s {axes = [0, 1]} : tensor<f32>
    return %loss, %rows : tensor<f32>, tensor<16x8xf32>
  }
}
)";

std::unique_ptr<Module> fusedFor(const char* target, const char* text) {
  CompileOptions options;
  options.until = Stage::fused;
  auto done = compile(parsed(text), *targetByName(target), options);
  EXPECT_TRUE(done) << done.error().str();
  return done ? std::move(done->module) : nullptr;
}

TEST(Tune, DataAreNormalFloatsOfAnyWidthAndIdsOfRows) {
  constexpr const char* kText = R"(
module @m {
  func @f(%ids: tensor<4096xi32>, %table: tensor<7x64xbf16>) -> (x: tensor<4096x64xbf16>) {
    %x = tg.embedding %table, %ids : tensor<4096x64xbf16>
    return %x : tensor<4096x64xbf16>
  }
}
)";
  const std::unique_ptr<Module> module = fusedFor("gpu", kText);
  ASSERT_TRUE(module);
  const Op& region = *module->func("f")->body.ops.front();
  ASSERT_EQ(region.code, Opcode::fused);
  for (int binding = 0; binding < region.numOperands(); ++binding) {
    const Type& type = bindingSources(region, binding)[0]->type;
    auto data = randomData(region, binding, type, 1);
    ASSERT_TRUE(data) << data.error().str();
    std::set<double> values;
    double squares = 0;
    for (int64_t i = 0; i < type.elements(); ++i) {
      values.insert(data->at(i));
      squares += data->at(i) * data->at(i);
    }
    if (type.dtype == DType::i32) {
      EXPECT_EQ(values, (std::set<double>{0, 1, 2, 3, 4, 5, 6}));
    } else {
      EXPECT_GT(values.size(), 100u) << type.str();
      EXPECT_NEAR(std::sqrt(squares / static_cast<double>(type.elements())), 0.02, 0.004) << "randn(0.02)";
    }
  }
}

TEST(Tune, OffsetsOfSortedIdsAscend) {
  constexpr const char* kText = R"(
module @m {
  func @f(%ids: tensor<4096xi32>, %u: tensor<4096x8xf32>) -> (y: tensor<8192x8xf32>) {
    %y = tg.scatter_add %ids, %u {rows = 8192} : tensor<8192x8xf32>
    return %y : tensor<8192x8xf32>
  }
}
)";
  const std::unique_ptr<Module> module = fusedFor("lavapipe", kText);
  ASSERT_TRUE(module);
  for (const Op* op : module->func("f")->body.ops) {
    if (op->code != Opcode::fused) continue;
    for (const Op* inner : op->regions[0]->ops) {
      if (inner->code != Opcode::scatter_add) continue;
      const Value* offsets = as::scatter_add(*inner).offsets();
      ASSERT_NE(offsets, nullptr) << "the ids are not sorted";
      for (int binding = 0; binding < op->numOperands(); ++binding) {
        if (op->operands[binding].value != offsets) continue;
        auto data = randomData(*op, binding, offsets->type, 1);
        ASSERT_TRUE(data) << data.error().str();
        for (int64_t row = 0; row <= 8192; ++row) ASSERT_EQ(data->at(row), static_cast<double>(row / 2));
        return;
      }
    }
  }
  FAIL() << "no kernel reads offsets";
}

class TuneOnADevice : public SessionTest {
 protected:
  void SetUp() override {
    SessionTest::SetUp();
    if (!device_ || !device_->info().timestamps) GTEST_SKIP() << "the queue has no timestamps";
  }
  std::unique_ptr<Module> fused(const Target& target) {
    CompileOptions options;
    options.pipeline = "append-grad,append-adam{lr=0.01}";
    options.until = Stage::fused;
    auto done = compile(parsed(kBlocks), target, options);
    EXPECT_TRUE(done) << done.error().str();
    return done ? std::move(done->module) : nullptr;
  }
  const TempFolder folder_;
};

TEST_F(TuneOnADevice, TimesEverySchedule) {
  auto module = fused(device_->info().target);
  ASSERT_TRUE(module);
  std::map<std::string, int64_t> places;
  std::map<std::string, std::vector<Schedule>> schedules;
  for (Op* op : module->func("train")->body.ops) {
    if (op->code != Opcode::fused) continue;
    std::vector<Schedule> all = scheduleCandidates(*op, device_->info().target);
    if (all.size() < 2) continue;
    ++places[tuningKey(*op)];
    schedules[tuningKey(*op)] = std::move(all);
  }
  TuneOptions options;
  options.rounds = 2;
  options.leastSeconds = options.warmSeconds = 0;
  int told = 0;
  options.onRegion = [&](const TunedRegion&) { ++told; };
  auto regions = tune(*module, device_, options);
  ASSERT_TRUE(regions) << regions.error().str();
  ASSERT_EQ(regions->size(), places.size());
  EXPECT_EQ(told, static_cast<int>(places.size()));
  bool shared = false;
  for (const TunedRegion& region : *regions) {
    EXPECT_EQ(region.count, places.at(region.key)) << region.label;
    shared = shared || region.count > 1;
    const std::vector<Schedule>& wanted = schedules.at(region.key);
    ASSERT_EQ(region.schedules.size(), wanted.size()) << region.label;
    for (size_t i = 0; i < wanted.size(); ++i) {
      EXPECT_EQ(region.schedules[i].schedule, scheduleAttr(wanted[i]));
      EXPECT_GT(region.schedules[i].least, 0) << region.label;
      EXPECT_GE(region.schedules[i].median, region.schedules[i].least);
    }
    EXPECT_EQ(region.best, fastest(region.schedules));
    EXPECT_NE(region.source.find("tiny.tgir:"), std::string::npos) << region.source;
  }
  EXPECT_TRUE(shared) << "the two products are one region at two places";
}

TEST_F(TuneOnADevice, KeepsWhatTheDriverTellsOfEachKernel) {
  vulkan::DeviceOptions telling;
  telling.validation = true;
  telling.statistics = true;
  auto asked = vulkan::Device::open(telling);
  ASSERT_TRUE(asked) << asked.error().message();
  auto module = fused(device_->info().target);
  ASSERT_TRUE(module);
  TuneOptions options;
  options.rounds = 1;
  options.leastSeconds = options.warmSeconds = 0;
  auto told = tune(*module, *asked, options), silent = tune(*module, device_, options);
  ASSERT_TRUE(told && silent);
  for (const TunedRegion& region : *told)
    for (const TimedSchedule& each : region.schedules)
      EXPECT_EQ(!each.statistics.told.empty(), (*asked)->info().statistics) << region.label;
  for (const TunedRegion& region : *silent)
    for (const TimedSchedule& each : region.schedules)
      EXPECT_TRUE(each.statistics.told.empty()) << "it was not opened for them";
  EXPECT_TRUE((*asked)->validationMessages().empty()) << (*asked)->validationMessages().front();
}

TEST_F(TuneOnADevice, OtherSchedulesGiveTheSameResults) {
  AttrList table;
  auto module = fused(device_->info().target);
  ASSERT_TRUE(module);
  for (Op* op : module->func("train")->body.ops)
    if (op->code == Opcode::fused)
      if (auto all = scheduleCandidates(*op, device_->info().target); all.size() > 1)
        set(table, tuningKey(*op), scheduleAttr(all.back()));
  const std::string file = folder_.path("tuning.txt");
  std::ofstream(file) << printTuning(table);
  Inputs inputs;
  inputs.emplace("ids", HostArray::zeros(DType::i32, {16}));
  for (int64_t i = 0; i < 16; ++i) inputs["ids"].set(i, static_cast<double>(i % 7));
  inputs.emplace("y", ramp({16, 8}, -1, 0.02));
  auto plain = Session::create(parsed(kBlocks), options());
  SessionOptions with = options();
  with.tuning = file;
  auto tuned = Session::create(parsed(kBlocks), with);
  ASSERT_TRUE(plain) << plain.error().str();
  ASSERT_TRUE(tuned) << tuned.error().str();
  EXPECT_NE(print(*(*plain)->module()), print(*(*tuned)->module())) << "the file acts";
  for (int step = 0; step < 3; ++step) {
    auto a = (*plain)->step(inputs), b = (*tuned)->step(inputs);
    ASSERT_TRUE(a && b);
    EXPECT_NEAR(a->loss, b->loss, 1e-6 * std::fabs(a->loss));
    expectClose({a->results.back()}, {b->results.back()}, 1e-5);
  }
}

TEST_F(TuneOnADevice, SaysWhatItCannotTune) {
  auto late = fused(device_->info().target);
  ASSERT_TRUE(late);
  late->stage = Stage::planned;
  EXPECT_NE(messageOf(tune(*late, device_, {})).find("this module is of stage planned"), std::string::npos);
  auto other = fused(*targetByName("vulkan-min"));
  ASSERT_TRUE(other);
  EXPECT_NE(messageOf(tune(*other, device_, {})).find("made for target 'vulkan-min'"), std::string::npos);
}

}  // namespace
}  // namespace tg
