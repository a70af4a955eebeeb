// SPDX-License-Identifier: Apache-2.0
// The Vulkan layer on whatever device there is, always under the validation layer.
#include <fstream>
#include <numeric>

#include <gtest/gtest.h>
#include <shaderc/shaderc.hpp>

#include "runtime/vulkan/recording.h"
#include "runtime/vulkan/share.h"
#include "test/unit/temp_folder.h"

namespace tg::vulkan {
namespace {

std::vector<uint32_t> compile(const std::string& body) {
  shaderc::Compiler compiler;
  shaderc::CompileOptions options;
  options.SetTargetEnvironment(shaderc_target_env_vulkan, shaderc_env_version_vulkan_1_1);
  auto module = compiler.CompileGlslToSpv("#version 450\n" + body, shaderc_compute_shader, "test", options);
  EXPECT_EQ(module.GetCompilationStatus(), shaderc_compilation_status_success) << module.GetErrorMessage();
  return {module.begin(), module.end()};
}

const BindingKind kStorage = BindingKind::storage;

KernelCode addKernel(const std::string& name = "add") {
  return {name,
          compile(R"(
    layout(local_size_x = 64) in;
    layout(binding = 0) readonly buffer A { float a[]; };
    layout(binding = 1) readonly buffer B { float b[]; };
    layout(binding = 2) writeonly buffer C { float c[]; };
    void main() {
      uint i = gl_GlobalInvocationID.x;
      if (i < c.length()) c[i] = a[i] + b[i];
    })"),
          {kStorage, kStorage, kStorage},
          0};
}

/// c[4i..4i+3] = 2 * texel i.
KernelCode texelKernel() {
  return {"twice",
          compile(R"(
    layout(local_size_x = 8) in;
    layout(binding = 0) uniform samplerBuffer a;
    layout(binding = 1) writeonly buffer C { vec4 c[]; };
    void main() {
      uint i = gl_GlobalInvocationID.x;
      if (i < c.length()) c[i] = 2.0 * texelFetch(a, int(i));
    })"),
          {BindingKind::texelF32x4, kStorage},
          0};
}

/// a[i] = 3 * a[i] + 1
KernelCode stepKernel() {
  return {"step",
          compile(R"(
    layout(local_size_x = 64) in;
    layout(binding = 0) buffer A { float a[]; };
    void main() {
      uint i = gl_GlobalInvocationID.x;
      if (i < a.length()) a[i] = 3.0 * a[i] + 1.0;
    })"),
          {kStorage},
          0};
}

std::vector<float> ramp(size_t n, float first = 0) {
  std::vector<float> v(n);
  std::iota(v.begin(), v.end(), first);
  return v;
}

#define ASSERT_OK(...) \
  if (auto&& r_ = (__VA_ARGS__); !r_) FAIL() << r_.error().message()

/// Opens a device per test; afterwards nothing may be left alive and nothing may have been reported.
class Vulkan : public ::testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    ASSERT_EQ(liveHandles(), 0);
    DeviceOptions options;
    options.validation = true;
    options.stageTransfers = GetParam();
    auto opened = Device::open(options);
    ASSERT_TRUE(opened) << opened.error().message();
    device_ = *opened;
    log_ = device_->validationLog();
  }
  void TearDown() override {
    device_.reset();
    if (!log_) return;
    for (const std::string& message : log_->messages()) ADD_FAILURE() << message;
    EXPECT_EQ(liveHandles(), 0);
  }

  std::unique_ptr<Buffer> buffer(const std::string& name, int64_t bytes,
                                 MemoryKind kind = MemoryKind::device) {
    auto made = Buffer::create(*device_, {name, bytes, kind});
    EXPECT_TRUE(made) << made.error().message();
    return std::move(*made);
  }
  std::unique_ptr<Buffer> buffer(const std::string& name, const std::vector<float>& values) {
    auto made = buffer(name, int64_t(values.size() * sizeof(float)));
    auto written = made->write(0, made->bytes(), values.data());
    EXPECT_TRUE(written) << written.error().message();
    return made;
  }
  std::vector<float> floats(Buffer& from) {
    std::vector<float> values(size_t(from.bytes()) / sizeof(float), -1);
    auto got = from.read(0, from.bytes(), values.data());
    EXPECT_TRUE(got) << got.error().message();
    return values;
  }
  std::shared_ptr<Pipeline> pipeline(KernelCode code) {
    auto made = createPipelines(*device_, {&code, 1});
    EXPECT_TRUE(made) << made.error().message();
    return (*made)[0];
  }
  std::unique_ptr<Recording> record(std::vector<Command> commands, RecordingOptions options = {}) {
    auto made = Recording::create(*device_, std::move(commands), std::move(options));
    EXPECT_TRUE(made) << made.error().message();
    return std::move(*made);
  }
  std::string refusalOf(Command command) {
    auto made = Recording::create(*device_, {std::move(command)});
    EXPECT_FALSE(made);
    return made ? "" : made.error().message();
  }
  void run(Recording& recording) {
    ASSERT_OK(recording.submit());
    ASSERT_OK(recording.wait());
  }

  std::shared_ptr<Device> device_;
  std::shared_ptr<ValidationLog> log_;
};

INSTANTIATE_TEST_SUITE_P(Transfers, Vulkan, ::testing::Bool(),
                         [](const auto& info) { return info.param ? "staged" : "mapped"; });

TEST_P(Vulkan, NewBuffersHoldZerosAndKeepWhatIsWritten) {
  auto a = buffer("a", 1000);
  EXPECT_EQ(floats(*a), std::vector<float>(250, 0.0f));
  const std::vector<float> part = ramp(10, 5);
  ASSERT_OK(a->write(12, 40, part.data()));
  std::vector<float> expected(250, 0.0f);
  std::copy(part.begin(), part.end(), expected.begin() + 3);
  EXPECT_EQ(floats(*a), expected);
  EXPECT_EQ(a->mapped() != nullptr, device_->info().unifiedMemory && !GetParam());
  EXPECT_NE(buffer("ring", 64, MemoryKind::host)->mapped(), nullptr);
  auto outside = a->write(990, 20, part.data());
  ASSERT_FALSE(outside);
  EXPECT_EQ(outside.error().message(),
            "a write of 20 bytes at byte 990 lies outside buffer 'a' of 1000 bytes");
}

TEST_P(Vulkan, ManyTransfersAndOnesLargerThanTheStagingBuffer) {
  const size_t n = size_t(17) << 20;  // 68 MiB of floats, more than one batch
  auto large = buffer("large", int64_t(n * sizeof(float)));
  auto small = buffer("small", 12);
  const std::vector<float> values = ramp(n), three = {7, 8, 9};
  const std::vector<HostWrite> writes = {{small.get(), 0, 12, three.data()},
                                         {large.get(), 0, large->bytes(), values.data()}};
  std::vector<float> gotLarge(n), gotSmall(3);
  const std::vector<HostRead> reads = {{large.get(), 0, large->bytes(), gotLarge.data()},
                                       {small.get(), 0, 12, gotSmall.data()}};
  ASSERT_OK(transfer(*device_, writes, reads));
  EXPECT_TRUE(gotLarge == values);
  EXPECT_EQ(gotSmall, three);
}

TEST_P(Vulkan, StorageKernelAddsAndReplays) {
  const size_t n = 1000;
  auto a = buffer("a", ramp(n)), b = buffer("b", ramp(n, 100)), c = buffer("c", int64_t(n * 4));
  auto step =
      record({Dispatch{pipeline(addKernel()), {16, 1, 1}, {{a.get()}, {b.get()}, {c.get()}}, "c = a + b"}});
  run(*step);
  for (size_t i = 0; i < n; ++i) ASSERT_EQ(floats(*c)[i], float(2 * i + 100));
  const std::vector<float> again = ramp(n, 1000);
  ASSERT_OK(a->write(0, a->bytes(), again.data()));
  run(*step);
  const std::vector<float> got = floats(*c);
  for (size_t i = 0; i < n; ++i) ASSERT_EQ(got[i], float(2 * i + 1100));
}

TEST_P(Vulkan, BindingsOfPartsOfOneBuffer) {
  const int64_t part = 256;
  auto arena = buffer("arena", ramp(192));
  auto step = record({Dispatch{pipeline(addKernel()),
                               {1, 1, 1},
                               {{arena.get(), 0, part}, {arena.get(), part, part}, {arena.get(), 2 * part}},
                               ""}});
  run(*step);
  const std::vector<float> got = floats(*arena);
  for (size_t i = 0; i < 64; ++i) EXPECT_EQ(got[128 + i], float(i + (64 + i)));
}

TEST_P(Vulkan, TexelKernelReadsAtAnOffsetAndIntoThePadding) {
  auto a = buffer("a", ramp(74));  // from float 64 on: two whole texels and a half
  auto c = buffer("c", 48);
  auto step = record({Dispatch{pipeline(texelKernel()), {1, 1, 1}, {{a.get(), 256}, {c.get()}}, ""}});
  run(*step);
  std::vector<float> expected(12, 0.0f);
  for (size_t i = 0; i < 10; ++i) expected[i] = 2.0f * float(64 + i);
  EXPECT_EQ(floats(*c), expected);
}

TEST_P(Vulkan, DispatchesWithBarriersFillAndCopy) {
  auto a = buffer("a", 256), b = buffer("b", 256);
  auto p = pipeline(stepKernel());
  const uint32_t twoAsFloat = 0x40000000;
  auto step = record(
      {Fill{a.get(), 0, 256, twoAsFloat}, Barrier{}, Dispatch{p, {1, 1, 1}, {{a.get()}}, "first"}, Barrier{},
       Dispatch{p, {1, 1, 1}, {{a.get()}}, "second"}, Barrier{}, Copy{a.get(), 0, b.get(), 128, 128}});
  run(*step);
  std::vector<float> expected(64, 0.0f);
  std::fill(expected.begin() + 32, expected.end(), 3.0f * (3.0f * 2.0f + 1.0f) + 1.0f);
  EXPECT_EQ(floats(*b), expected);
}

TEST_P(Vulkan, SubmissionsInFlightRunInOrder) {
  auto a = buffer("a", 256);
  auto step = record({Dispatch{pipeline(stepKernel()), {1, 1, 1}, {{a.get()}}, ""}});
  float expected = 0;
  for (int i = 0; i < 10; ++i) {
    ASSERT_OK(step->submit());
    expected = 3 * expected + 1;
  }
  // Reading waits by itself.
  EXPECT_EQ(floats(*a), std::vector<float>(64, expected));
  ASSERT_OK(device_->waitFor(step->lastSubmission()));
  EXPECT_GE(*device_->completed(), step->lastSubmission());
}

TEST_P(Vulkan, MappedWritesAndResultsNeedNoTransfer) {
  auto in = buffer("in", 256, MemoryKind::host), out = buffer("out", 256, MemoryKind::host);
  auto step = record({Dispatch{pipeline(addKernel()), {1, 1, 1}, {{in.get()}, {in.get()}, {out.get()}}, ""}});
  for (float value : {1.0f, 21.0f}) {
    std::fill_n(reinterpret_cast<float*>(in->mapped()), 64, value);
    run(*step);
    EXPECT_EQ(reinterpret_cast<const float*>(out->mapped())[63], 2 * value);
  }
}

TEST_P(Vulkan, TimesEachCommand) {
  if (!device_->info().timestamps) GTEST_SKIP() << "the queue has no timestamps";
  auto small = buffer("small", 256), large = buffer("large", int64_t(8) << 20);
  auto p = pipeline(stepKernel());
  const std::vector<Command> commands = {Dispatch{p, {1, 1, 1}, {{small.get()}}, ""}, Barrier{},
                                         Dispatch{p, {32768, 1, 1}, {{large.get()}}, ""}, Barrier{},
                                         Fill{large.get(), 0, int64_t(8) << 20, 0}};
  auto step = record(commands, {"timed", Timestamps::commands});
  EXPECT_FALSE(step->times()) << "nothing was submitted";
  run(*step);  // The first run may include the driver's compilation.
  run(*step);
  auto times = step->times();
  ASSERT_OK(times);
  ASSERT_EQ(times->size(), 3u);
  EXPECT_EQ(times->front().begin, 0);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_GE((*times)[i].microseconds(), 0);
    EXPECT_GE((*times)[i].begin, i ? (*times)[i - 1].end : 0);
  }
  EXPECT_GT((*times)[1].microseconds(), (*times)[0].microseconds());

  auto whole = record(commands, {"whole", Timestamps::ends});
  run(*whole);
  times = whole->times();
  ASSERT_OK(times);
  ASSERT_EQ(times->size(), 1u);
  EXPECT_GT(times->front().microseconds(), 0);
  auto empty = record({}, {"empty", Timestamps::commands});
  run(*empty);
  times = empty->times();
  ASSERT_OK(times);
  EXPECT_TRUE(times->empty());

  auto untimed = record({Dispatch{p, {1, 1, 1}, {{small.get()}}, ""}});
  run(*untimed);
  EXPECT_FALSE(untimed->times());
}

TEST_P(Vulkan, EqualKernelsShareAPipeline) {
  const std::vector<KernelCode> codes = {addKernel("k0"), stepKernel(), addKernel("k2")};
  std::vector<std::string> compiled;
  auto took = [&](const std::string& kernel, double seconds) {
    compiled.push_back(kernel);
    EXPECT_GT(seconds, 0);
  };
  auto made = createPipelines(*device_, codes, took);
  ASSERT_OK(made);
  EXPECT_EQ(compiled, (std::vector<std::string>{"k0", "step"})) << "each code once";
  EXPECT_EQ((*made)[0], (*made)[2]);
  EXPECT_NE((*made)[0], (*made)[1]);
  EXPECT_EQ(pipeline(addKernel("later")), (*made)[0]);
}

TEST_P(Vulkan, TheValidationLayerSeesAMissingBarrier) {
  auto a = buffer("a", 256), b = buffer("b", 256);
  auto step = record({Copy{a.get(), 0, b.get(), 0, 256}, Copy{b.get(), 0, a.get(), 0, 256}});
  ASSERT_FALSE(log_->messages().empty());
  EXPECT_NE(log_->messages()[0].find("READ_AFTER_WRITE"), std::string::npos) << log_->messages()[0];
  log_->clear();
}

TEST_P(Vulkan, TooLargeBuffersNameTheLimit) {
  const DeviceInfo& info = device_->info();
  auto overHeap = Buffer::create(*device_, {"huge", info.heapBytes + 1});
  ASSERT_FALSE(overHeap);
  const std::string& message = overHeap.error().message();
  for (const std::string& part :
       {std::string("'huge'"), std::to_string(info.heapBytes + 1), std::to_string(info.heapBytes)}) {
    EXPECT_NE(message.find(part), std::string::npos) << message;
  }
  if (info.maxAllocationBytes == info.heapBytes) return;
  auto overAllocation = Buffer::create(*device_, {"big", info.maxAllocationBytes + 1});
  ASSERT_FALSE(overAllocation);
  EXPECT_NE(overAllocation.error().message().find("limits one allocation to"), std::string::npos);
}

TEST_P(Vulkan, BadCommandsNameWhatTheyBreak) {
  auto a = buffer("a", 256);
  auto step = pipeline(stepKernel()), twice = pipeline(texelKernel());
  EXPECT_EQ(refusalOf(Dispatch{step, {1, 1, 1}, {}, "x"}),
            "dispatch 'x' binds 0 buffers and its kernel takes 1");
  EXPECT_EQ(refusalOf(Dispatch{step, {1, 1, 1}, {{a.get(), 0, 512}}, ""}),
            "binding 0 of dispatch 'step' takes 512 bytes at byte 0, outside buffer 'a' of 256 bytes");
  EXPECT_NE(refusalOf(Dispatch{step, {1, 1, 1}, {{a.get(), 4}}, ""}).find("minStorageBufferOffsetAlignment"),
            std::string::npos);
  EXPECT_NE(refusalOf(Dispatch{twice, {1, 1, 1}, {{a.get(), 4}, {a.get()}}, ""}).find("starts at byte 4"),
            std::string::npos);
  const int64_t limit = device_->info().target.maxGrid;
  if (limit < UINT32_MAX) {
    EXPECT_NE(
        refusalOf(Dispatch{step, {1, 1, uint32_t(limit + 1)}, {{a.get()}}, ""}).find("workgroups along z"),
        std::string::npos);
  }
  EXPECT_EQ(refusalOf(Fill{a.get(), 0, 6, 0}), "a fill of 6 bytes is not a multiple of 4 (whole words)");
  EXPECT_EQ(refusalOf(Copy{a.get(), 0, a.get(), 8, 16}),
            "a copy of 16 bytes inside buffer 'a' from byte 0 to 8 overlaps itself");
  EXPECT_NE(refusalOf(Copy{a.get(), 0, nullptr, 0, 16}).find("a copy's target names no buffer"),
            std::string::npos);
}

TEST_P(Vulkan, StorageAndTexelRangesAreLimited) {
  const DeviceInfo& info = device_->info();
  const int64_t bytes = info.target.storageRange + 256;
  if (bytes > std::min<int64_t>(info.heapBytes / 4, int64_t(256) << 20))
    GTEST_SKIP() << "the limit is too high to exceed";
  auto a = buffer("a", bytes);
  EXPECT_NE(
      refusalOf(Dispatch{pipeline(stepKernel()), {1, 1, 1}, {{a.get()}}, ""}).find("maxStorageBufferRange"),
      std::string::npos);
  // The same bytes are in reach as texels.
  auto c = buffer("c", 16);
  run(*record({Dispatch{pipeline(texelKernel()), {1, 1, 1}, {{a.get()}, {c.get()}}, ""}}));
}

TEST_P(Vulkan, PipelineCacheIsSavedAndDamageIsIgnored) {
  const TempFolder folder;
  const std::string path = folder.path("pipelines.bin");
  auto absent = device_->loadCache(path);
  ASSERT_OK(absent);
  EXPECT_FALSE(*absent);
  auto kept = pipeline(addKernel());
  ASSERT_OK(device_->saveCache(path));
  EXPECT_EQ(folder.fileCount(), 1u) << "no temporary file is left";
  auto loaded = device_->loadCache(path);
  ASSERT_OK(loaded);
  EXPECT_TRUE(*loaded);

  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(-1, std::ios::end);
  file.put(char(file.peek() ^ 1));
  file.close();
  auto damaged = device_->loadCache(path);
  ASSERT_OK(damaged);
  EXPECT_FALSE(*damaged);
  EXPECT_FALSE(device_->saveCache(folder.path("no/such/folder.bin")));
}

TEST_P(Vulkan, TwoDevicesAreIndependent) {
  auto second = Device::open({});
  ASSERT_OK(second);
  EXPECT_TRUE((*second)->validationMessages().empty());
  auto a = buffer("a", 256);
  auto p = pipeline(stepKernel());
  auto foreign = Recording::create(**second, {Fill{a.get(), 0, 4, 0}});
  ASSERT_FALSE(foreign);
  EXPECT_EQ(foreign.error().message(), "a fill names no buffer of this device");
}

TEST(VulkanDevices, ListMatchesWhatIsOpened) {
  auto devices = listDevices();
  ASSERT_OK(devices);
  ASSERT_FALSE(devices->empty());
  {
    auto byUuid = Device::open({(*devices)[0].uuid, false, false, {}});
    ASSERT_OK(byUuid);
    const DeviceInfo& info = (*byUuid)->info();
    EXPECT_EQ(info.name, (*devices)[0].name);
    EXPECT_EQ((*byUuid)->why(), "its UUID was asked for");
    // What Vulkan guarantees on every device.
    EXPECT_GE(info.target.maxInvocations, 128);
    EXPECT_GE(info.target.maxGrid, 65535);
    EXPECT_GE(info.target.sharedBytes, 16384);
    EXPECT_GE(info.target.storageRange, int64_t(1) << 27);
    EXPECT_GE(info.target.texelElements, 65536);
    EXPECT_GE(info.target.bindings, 4);
    EXPECT_LE(info.target.alignment, 256);
    EXPECT_EQ(info.target.reads, info.type == "cpu" ? "texel" : "storage");
    EXPECT_EQ(info.target.name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789.-"),
              std::string::npos);
  }
  EXPECT_EQ(liveHandles(), 0);
}

// Many more times than a driver can be loaded by one process, which is why the instance stays.
TEST(VulkanDevices, OpenAndCloseManyTimes) {
  for (int round = 0; round < 20; ++round) {
    auto opened = Device::open({});
    ASSERT_TRUE(opened) << "round " << round << ": " << opened.error().message();
    opened->reset();
    EXPECT_EQ(liveHandles(), 0);
  }
}

TEST(VulkanDevices, WhatIsGivenUpIsWaitedForNoMore) {
  auto opened = Device::open({});
  ASSERT_OK(opened);
  auto buffer = Buffer::create(**opened, {"numbers", 64, MemoryKind::device});
  ASSERT_OK(buffer);
  (*opened)->abandon(fail("rank 1 is gone"));
  (*opened)->abandon(fail("told too late"));
  const float number = 1;
  for (const Result<void>& given : {(*opened)->waitIdle(), (*buffer)->write(0, 4, &number)}) {
    ASSERT_FALSE(given);
    EXPECT_EQ(given.error().message(), "rank 1 is gone");
  }
  buffer->reset();
  opened->reset();
  EXPECT_EQ(liveHandles(), 0);
}

TEST(VulkanDevices, SharesOnlyWhatItWasOpenedFor) {
  DeviceOptions options;
  options.shared = true;
  if (auto shared = Device::open(options); !shared) {
    EXPECT_NE(shared.error().message().find("shares no memory with other APIs"), std::string::npos);
  }
  auto opened = Device::open({});
  ASSERT_OK(opened);
  EXPECT_FALSE((*opened)->shared());
  auto buffer = Buffer::create(**opened, {"numbers", 64, MemoryKind::device});
  ASSERT_OK(buffer);
  auto none = shareMemory(**buffer);
  ASSERT_FALSE(none);
  EXPECT_NE(none.error().message().find("was not opened to be shared"), std::string::npos);
  EXPECT_FALSE(shareSubmissions(**opened));
  EXPECT_FALSE(ExternalTimeline::create(**opened));
}

TEST(VulkanDevices, BadSelectionNamesWhatThereIs) {
  auto opened = Device::open({"no such device", false, false, {}});
  ASSERT_FALSE(opened);
  auto devices = listDevices();
  ASSERT_OK(devices);
  EXPECT_NE(opened.error().message().find("'no such device'"), std::string::npos);
  EXPECT_NE(opened.error().message().find((*devices)[0].name), std::string::npos) << opened.error().message();
  EXPECT_EQ(liveHandles(), 0);
}

TEST(VulkanDevices, Selection) {
  std::vector<DeviceInfo> all(5);
  const char* names[] = {"llvmpipe", "Arc", "H200", "H200", "Old 3000"};
  const char* types[] = {"cpu", "integrated", "discrete", "discrete", "discrete"};
  for (size_t i = 0; i < 5; ++i) {
    all[i].name = names[i];
    all[i].type = types[i];
    all[i].uuid = "00000000-0000-0000-0000-00000000000" + std::to_string(i);
  }
  all[4].unusable = "it offers Vulkan 1.1 and 1.2 is needed";
  auto index = [&](std::string_view select) {
    auto chosen = selectDevice(all, select);
    return chosen ? chosen->index : -1;
  };
  EXPECT_EQ(index("auto"), 2);
  EXPECT_EQ(index(""), 2);
  EXPECT_EQ(index("auto:0"), 2);
  EXPECT_EQ(index("auto:1"), 3);
  EXPECT_EQ(index("auto:2"), -1);
  EXPECT_NE(selectDevice(all, "auto:2").error().message().find("none is left for its rank 2"),
            std::string::npos);
  EXPECT_EQ(selectDevice(std::span(all).first(1), "auto:5")->index, 0) << "CPUs are shared";
  EXPECT_EQ(index("cpu"), 0);
  EXPECT_EQ(index("3"), 3);
  EXPECT_EQ(index("5"), -1);
  EXPECT_EQ(index("200"), 2) << "a number that is not an index may be part of a name";
  EXPECT_EQ(index(all[3].uuid), 3);
  EXPECT_EQ(index("arc"), 1);
  EXPECT_EQ(index("4"), -1) << "unusable";
  EXPECT_EQ(index("old"), -1);
  EXPECT_NE(selectDevice(all, "old").error().message().find("1.2 is needed"), std::string::npos);
  EXPECT_EQ(selectDevice(all, "auto")->why,
            "the first discrete device, preferring discrete > integrated > virtual > cpu");
  all.resize(2);
  EXPECT_EQ(index("auto"), 1);
  EXPECT_FALSE(selectDevice({}, "auto"));
}

/// Without the validation layer: version 1.3.239 of it crashes on a module that lacks its entry point.
TEST(VulkanDevices, BrokenKernelsAreRefusedTogetherByName) {
  KernelCode text = addKernel("text");
  text.spirv = {1, 2, 3, 4, 5, 6};
  KernelCode cut = addKernel("cut");
  while (cut.spirv.back() >> 16 == 1) cut.spirv.pop_back();  // OpReturn and OpFunctionEnd are one word each
  cut.spirv.pop_back();
  KernelCode headless = addKernel("headless");  // no entry point "main", which drivers refuse
  constexpr uint32_t wordMain = 0x6e69616d, wordMein = 0x6e69656d;
  std::replace(headless.spirv.begin(), headless.spirv.end(), wordMain, wordMein);
  KernelCode wide = addKernel("wide");
  wide.subgroupSize = 4096;
  const std::vector<KernelCode> codes = {text, addKernel("fine"), cut, headless, wide};
  auto device = Device::open({});
  ASSERT_OK(device);
  auto made = createPipelines(**device, codes);
  ASSERT_FALSE(made);
  const std::string& message = made.error().message();
  EXPECT_EQ(message.find("4 of 5 kernels cannot be used on "), 0u) << message;
  EXPECT_NE(message.find("'text': its code is not whole SPIR-V"), std::string::npos) << message;
  EXPECT_NE(message.find("'cut': its code is not whole SPIR-V"), std::string::npos) << message;
  EXPECT_NE(message.find("'headless': VK_ERROR_"), std::string::npos) << message;
  EXPECT_NE(message.find("'wide': it relies on subgroups of 4096"), std::string::npos) << message;
  EXPECT_EQ(message.find("'fine'"), std::string::npos) << message;
  device->reset();
  EXPECT_EQ(liveHandles(), 0) << "what was made before the refusal is gone";
}

TEST(VulkanDevices, IgnoredMessagesAreNotKept) {
  ValidationLog log({"FALSE-POSITIVE"});
  log.add("FALSE-POSITIVE", "one");
  log.add("VALIDATION-SETTINGS", "a layer's word on its own settings");
  log.add("OTHER", "two");
  EXPECT_EQ(log.messages(), std::vector<std::string>{"two"});
}

}  // namespace
}  // namespace tg::vulkan
