// SPDX-License-Identifier: Apache-2.0
// Whether a device's matrix units are used: the decision, the module's part in it, the file, the measurement. No time
// is asserted.
#include <algorithm>
#include <fstream>

#include "codegen/schedule.h"
#include "runtime/compile.h"
#include "runtime/matrix_units.h"
#include "test/unit/session_support.h"
#include "test/unit/temp_folder.h"

namespace tg {
namespace {

/// Like one of NVIDIA's, of a driver with this key.
vulkan::DeviceInfo deviceWithMatrices(const std::string& key) {
  vulkan::DeviceInfo info;
  info.name = "Some GPU";
  info.cacheKey = key;
  info.target = *targetByName("gpu-coopmat");
  info.target.matrices = "nv";
  info.target.fragments = "quads";
  return info;
}

std::unique_ptr<Module> product(const std::string& precision, const std::string& type = "f32") {
  return parsed("module @m {\n"
                "  func @f(%a: tensor<64x64x" +
                type + ">, %b: tensor<64x64x" + type + ">) -> (c: tensor<64x64x" + type +
                ">) {\n"
                "    %c = tg.matmul %a, %b {precision = " +
                precision + "} : tensor<64x64x" + type +
                ">\n"
                "    return %c : tensor<64x64x" +
                type + ">\n  }\n}\n");
}

/// Figures, and how often they were asked for.
struct Measured {
  MatrixFigures figures;
  int times = 0;
  Measure measure() {
    return [this]() -> Result<std::optional<MatrixFigures>> {
      ++times;
      return std::optional(figures);
    };
  }
};

constexpr MatrixFigures kFast = {100000, 20000}, kSlow = {20, 20000};

TEST(MatrixUnits, AreUsedWhereTheyAreClearlyFaster) {
  EXPECT_TRUE(matricesPay(kFast));
  EXPECT_FALSE(matricesPay(kSlow));
  EXPECT_TRUE(matricesPay({kMatrixGain * 64, 64}));
  EXPECT_FALSE(matricesPay({kMatrixGain * 64 - 1, 64}));
  EXPECT_FALSE(matricesPay({64, 64})) << "as fast is no gain";
}

TEST(MatrixUnits, ATargetWithoutThemIsElseTheSame) {
  const vulkan::DeviceInfo device = deviceWithMatrices("a");
  Target expected = device.target;
  expected.coopmat = {};
  expected.matrices = "khr";
  expected.fragments = "opaque";
  EXPECT_EQ(targetToJson(targetFrom(device, kSlow)), targetToJson(expected));
  EXPECT_EQ(targetToJson(targetFrom(device, kFast)), targetToJson(device.target));
  EXPECT_EQ(targetToJson(targetFrom(device, std::nullopt)), targetToJson(device.target)) << "not measured";
}

TEST(MatrixUnits, ALineTellsWhatIsKnown) {
  Target target = *targetByName("gpu-coopmat");
  target.coopmat.push_back({8, 8, 16, DType::bf16, DType::f32});
  const std::string shapes = "matrix units, khr: 16x16x16 f16 in f32, 8x8x16 bf16 in f32; ";
  EXPECT_EQ(matrixLine(target, std::nullopt), shapes + "not measured yet");
  EXPECT_EQ(matrixLine(target, kSlow), shapes + "20.0 GFLOP/s, 20000.0 without them: not used");
  EXPECT_EQ(matrixLine(target, kFast), shapes + "100000.0 GFLOP/s, 20000.0 without them: used");
  EXPECT_EQ(matrixLine(*targetByName("gpu"), std::nullopt), "");
}

TEST(MatrixUnits, ChoiceMattersToProductsOfSixteenBits) {
  EXPECT_FALSE(choosesMatrices(*product("f32")));
  EXPECT_TRUE(choosesMatrices(*product("f16")));
  EXPECT_TRUE(choosesMatrices(*product("f32x3")));
  EXPECT_TRUE(choosesMatrices(*product("f32", "bf16"))) << "typed so by its author";
  CompileOptions until;
  until.until = Stage::fused;
  auto fused = compile(product("f16"), *targetByName("gpu-coopmat"), until);
  ASSERT_TRUE(fused) << fused.error().str();
  EXPECT_FALSE(choosesMatrices(*fused->module)) << "its schedules are chosen";
}

TEST(MatrixUnits, AKernelThatAsksForThemKeepsThem) {
  const std::string own = R"(
  kernel @k(%a: buf<256xf16, in>, %y: buf<256xf32, out>) workgroup(32) grid(1) {
    %l = tgk.coopmat_load %a[0] : coopmat<f16, 16x16, A>
    %r = tgk.coopmat_load %a[0] : coopmat<f16, 16x16, B>
    %z = tgk.coopmat_splat 0.0 : coopmat<f32, 16x16, acc>
    %c = tgk.coopmat_mma %l, %r, %z : coopmat<f32, 16x16, acc>
    tgk.coopmat_store %c, %y[0]
  }
)";
  const std::string text = print(*product("f16"));
  const size_t end = text.rfind('}');
  auto module = parsed(text.substr(0, end) + own + "}\n");
  ASSERT_TRUE(module);
  EXPECT_FALSE(choosesMatrices(*module));
}

class MatrixFile : public FolderTest {
 protected:
  std::string file_ = path("matrices.json");
  std::optional<MatrixFigures> readOf(const std::string& text) {
    std::ofstream(file_) << text;
    return readMatrixFigures(file_);
  }
};

TEST_F(MatrixFile, GivesBackWhatWasWritten) {
  EXPECT_FALSE(readMatrixFigures(file_)) << "absent";
  EXPECT_FALSE(readMatrixFigures("")) << "nothing is kept";
  EXPECT_FALSE(readMatrixFigures(path(""))) << "a folder";
  ASSERT_TRUE(writeMatrixFigures(file_, kSlow));
  EXPECT_EQ(readMatrixFigures(file_), kSlow);
  ASSERT_TRUE(writeMatrixFigures(file_, kFast));
  EXPECT_EQ(readMatrixFigures(file_), kFast);
}

TEST_F(MatrixFile, OfOtherTextIsAsIfAbsent) {
  const std::string good = R"({"kernels": 1, "matrices_gflops": 20.0, "scalars_gflops": 5})";
  EXPECT_EQ(readOf(good), (MatrixFigures{20, 5}));
  for (size_t length = 0; length < good.size(); ++length)
    EXPECT_FALSE(readOf(good.substr(0, length))) << length;
  EXPECT_FALSE(readOf(edited(good, "\"kernels\": 1", "\"kernels\": 0"))) << "older kernels";
  EXPECT_FALSE(readOf(edited(good, "\"kernels\": 1, ", "")));
  EXPECT_FALSE(readOf(edited(good, "20.0", "-20.0")));
  EXPECT_FALSE(readOf(edited(good, "20.0", "0")));
  EXPECT_FALSE(readOf(edited(good, "20.0", "\"20\"")));
  EXPECT_FALSE(readOf("[1, 20.0, 5]"));
  EXPECT_FALSE(readOf(std::string("\0\xff\x80", 3)));
}

TEST_F(MatrixFile, IsOfOneDeviceAndDriver) {
  EXPECT_EQ(matrixFile("", deviceWithMatrices("10de-aa")), "");
  EXPECT_EQ(matrixFile("/c", deviceWithMatrices("10de-aa")), "/c/matrices-10de-aa.json");
}

class MatrixChoice : public FolderTest {
 protected:
  ChosenTarget choose(const std::string& key, Measured& measured, const std::string& precision = "f16") {
    return targetFor(*product(precision), deviceWithMatrices(key), directory_ + "/new", measured.measure());
  }
  std::string fileOf(const std::string& key) const {
    return matrixFile(directory_ + "/new", deviceWithMatrices(key));
  }
};

TEST_F(MatrixChoice, IsMeasuredOnceAndKept) {
  Measured slow{kSlow};
  const ChosenTarget first = choose("d1", slow);
  EXPECT_EQ(slow.times, 1);
  EXPECT_TRUE(first.target.coopmat.empty());
  EXPECT_EQ(first.note,
            "products on Some GPU use no matrix units: 20.0 GFLOP/s were measured by them, 20000.0 without");
  EXPECT_EQ(readMatrixFigures(fileOf("d1")), kSlow);
  const ChosenTarget second = choose("d1", slow);
  EXPECT_EQ(slow.times, 1);
  EXPECT_TRUE(second.target.coopmat.empty());
  EXPECT_EQ(second.note, "") << "it is told once";
  EXPECT_TRUE(keptTarget(*product("f16"), deviceWithMatrices("d1"), directory_ + "/new").coopmat.empty());
}

TEST_F(MatrixChoice, FastOnesStay) {
  Measured fast{kFast};
  const ChosenTarget chosen = choose("d2", fast);
  EXPECT_EQ(fast.times, 1);
  EXPECT_EQ(targetToJson(chosen.target), targetToJson(deviceWithMatrices("d2").target));
  EXPECT_EQ(chosen.note, "");
}

TEST_F(MatrixChoice, AnotherProcessReadsWhatIsKept) {
  std::filesystem::create_directories(directory_ + "/new");
  ASSERT_TRUE(writeMatrixFigures(fileOf("d3"), kSlow));
  Measured fast{kFast};
  EXPECT_TRUE(choose("d3", fast).target.coopmat.empty());
  EXPECT_EQ(fast.times, 0);
  EXPECT_FALSE(choose("d4", fast).target.coopmat.empty()) << "another driver";
  EXPECT_EQ(fast.times, 1);
}

TEST_F(MatrixChoice, ADamagedFileIsMeasuredAgain) {
  std::filesystem::create_directories(directory_ + "/new");
  std::ofstream(fileOf("d5")) << "{\"kernels\": 1, \"matr";
  Measured slow{kSlow};
  EXPECT_TRUE(choose("d5", slow).target.coopmat.empty());
  EXPECT_EQ(slow.times, 1);
  EXPECT_EQ(readMatrixFigures(fileOf("d5")), kSlow);
}

TEST_F(MatrixChoice, NothingIsMeasuredForModulesAndDevicesWithoutSuchProducts) {
  Measured slow{kSlow};
  EXPECT_FALSE(choose("d6", slow, "f32").target.coopmat.empty());
  vulkan::DeviceInfo plain = deviceWithMatrices("d6");
  plain.target = *targetByName("gpu");
  EXPECT_EQ(targetToJson(targetFor(*product("f16"), plain, directory_, slow.measure()).target),
            targetToJson(plain.target));
  plain.target = *targetByName("gpu-coopmat");
  plain.target.coopmat = {{8, 8, 32, DType::f32, DType::f32}};
  EXPECT_FALSE(targetFor(*product("f16"), plain, directory_, slow.measure()).target.coopmat.empty());
  EXPECT_EQ(slow.times, 0);
  EXPECT_FALSE(std::filesystem::exists(fileOf("d6")));
}

TEST_F(MatrixChoice, WithoutAFolderItHoldsForTheProcess) {
  Measured slow{kSlow};
  for (int i = 0; i < 2; ++i)
    EXPECT_TRUE(
        targetFor(*product("f16"), deviceWithMatrices("d7"), "", slow.measure()).target.coopmat.empty());
  EXPECT_EQ(slow.times, 1);
}

TEST_F(MatrixChoice, WhatCannotBeMeasuredStays) {
  const Measure refused = []() -> Result<std::optional<MatrixFigures>> { return fail("no memory"); };
  const Measure nothing = []() -> Result<std::optional<MatrixFigures>> {
    return std::optional<MatrixFigures>();
  };
  const vulkan::DeviceInfo device = deviceWithMatrices("d8");
  const ChosenTarget first = targetFor(*product("f16"), device, directory_, refused);
  EXPECT_FALSE(first.target.coopmat.empty());
  EXPECT_EQ(first.note, "the matrix units of Some GPU could not be measured: no memory");
  EXPECT_EQ(targetFor(*product("f16"), device, directory_, nothing).note, "");
  Measured slow{kSlow};
  EXPECT_TRUE(targetFor(*product("f16"), device, directory_, slow.measure()).target.coopmat.empty())
      << "the next one tries again";
}

TEST(MatrixUnits, SchedulesToCompareAreWithAndWithoutThem) {
  const Target target = *targetByName("gpu-coopmat");
  CompileOptions until;
  until.until = Stage::fused;
  auto fused = compile(product("f16"), target, until);
  ASSERT_TRUE(fused) << fused.error().str();
  const Op* region = fused->module->func("f")->body.ops.front();
  ASSERT_EQ(region->code, Opcode::fused);
  const auto pair = matrixSchedules(target)(*region);
  ASSERT_TRUE(pair);
  EXPECT_TRUE(std::holds_alternative<SharedMatmulSchedule>((*pair)[0])) << scheduleAttr((*pair)[0]).str();
  EXPECT_TRUE(std::holds_alternative<CoopmatSchedule>((*pair)[1])) << scheduleAttr((*pair)[1]).str();
  EXPECT_FALSE(matrixSchedules(*targetByName("gpu"))(*region));

  auto halves = compile(product("f32x3"), target, until);
  ASSERT_TRUE(halves) << halves.error().str();
  const auto both = matrixSchedules(target)(*halves->module->func("f")->body.ops.front());
  ASSERT_TRUE(both) << "of f32, by products of f16";
  EXPECT_TRUE(std::holds_alternative<SharedMatmulSchedule>((*both)[0])) << scheduleAttr((*both)[0]).str();
  EXPECT_TRUE(std::holds_alternative<CoopmatSchedule>((*both)[1])) << scheduleAttr((*both)[1]).str();
}

class MatrixMeasurement : public SessionTest {};

TEST_F(MatrixMeasurement, TimesTwoSchedulesOfAProduct) {
  if (!device_->info().timestamps) GTEST_SKIP() << "the queue has no timestamps";
  int64_t side = 0;
  const SchedulePair pair = [&](const Op& fused) -> std::optional<std::array<Schedule, 2>> {
    side = fused.result()->type.shape[0];
    const std::vector<Schedule> all = scheduleCandidates(fused, withoutMatrices(device_->info().target));
    EXPECT_GE(all.size(), 2u);
    if (all.size() < 2) return {};
    return std::array<Schedule, 2>{all[0], all[1]};
  };
  auto figures = measureProduct(device_, "f16", pair, "", {128, 512, 0});
  ASSERT_TRUE(figures) << figures.error().str();
  ASSERT_TRUE(*figures);
  EXPECT_EQ(side, 128);
  EXPECT_GT((*figures)->matrices, 0);
  EXPECT_GT((*figures)->scalars, 0);
  const double ratio = (*figures)->matrices / (*figures)->scalars;
  EXPECT_TRUE(ratio > 1e-3 && ratio < 1e3) << ratio << ": both are rates of the same product";
  figures = measureProduct(device_, "f16", pair, "", {16, 64, 1e9});
  ASSERT_TRUE(figures && *figures);
  EXPECT_EQ(side, 64) << "larger ones follow, to the largest";
  figures = measureProduct(device_, "f32x3", pair, "", {32, 32, 0});
  ASSERT_TRUE(figures) << figures.error().str();
  ASSERT_TRUE(*figures) << "f32 in memory";
  EXPECT_EQ(side, 32);
}

TEST_F(MatrixMeasurement, NothingIsTimedWithoutTwoSchedules) {
  auto figures = measureProduct(device_, "f16", matrixSchedules(*targetByName("gpu")), "");
  ASSERT_TRUE(figures) << figures.error().str();
  EXPECT_FALSE(*figures);
}

TEST_F(MatrixMeasurement, SessionsRunWithTheTargetThatWasChosen) {
  const vulkan::DeviceInfo& info = device_->info();
  if (info.target.coopmat.empty()) GTEST_SKIP() << "the device has no matrix units";
  const TempFolder folder;
  SessionOptions with = options();
  with.trainPipeline = "";
  with.cache = folder.path("");
  ASSERT_TRUE(writeMatrixFigures(matrixFile(with.cache, info), kSlow));
  auto session = Session::create(product("f16"), with);
  ASSERT_TRUE(session) << session.error().str();
  auto target = targetOf((*session)->module()->attrs);
  ASSERT_TRUE(target);
  EXPECT_EQ(targetToJson(*target), targetToJson(withoutMatrices(info.target)));
  EXPECT_EQ(std::count(said_.begin(), said_.end(),
                       "products on " + info.name +
                           " use no matrix units: 20.0 GFLOP/s were measured by them, 20000.0 without"),
            1);
}

TEST_F(MatrixMeasurement, ADeviceWithThemIsMeasured) {
  const vulkan::DeviceInfo& info = device_->info();
  if (!info.timestamps || info.target.matmul != "shared" || !info.target.multiplies(DType::f16))
    GTEST_SKIP() << "the device has no matrix units for products of f16";
  const TempFolder folder;
  const ChosenTarget chosen = targetFor(*product("f16"), device_, folder.path(""));
  const auto kept = readMatrixFigures(matrixFile(folder.path(""), info));
  ASSERT_TRUE(kept) << chosen.note;
  EXPECT_EQ(targetToJson(chosen.target), targetToJson(targetFrom(info, kept)));
}

}  // namespace
}  // namespace tg
