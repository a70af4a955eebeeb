// SPDX-License-Identifier: Apache-2.0
// What kernels need against what there is: each need alone makes one message, and is met at its very number.
#include "ir/needs.h"

#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>

#include "ir/parser.h"

namespace tg {
namespace {

constexpr LimitId limitAt(size_t i) { return static_cast<LimitId>(i); }

KernelNeeds manyNeeds() {
  KernelNeeds needs;
  for (size_t i = 0; i < kLimitCount; ++i)
    needs.amounts[i] = kLimits[i].multiple ? 64 : 1000 + static_cast<int64_t>(i);
  needs.subgroup = 32;
  for (const CapabilityRow& each : kCapabilities) needs.capabilities.push_back(each.number);
  needs.products = {{16, 16, 16, "f16", "f32"}};
  return needs;
}

/// Gives these needs and nothing more.
Limits justEnough(const KernelNeeds& needs) {
  Limits limits;
  for (size_t i = 0; i < kLimitCount; ++i) limits.amounts[i] = needs.amounts[i];
  limits.subgroupLeast = limits.subgroupMost = needs.subgroup;
  limits.products = needs.products;
  return limits;
}

TEST(Needs, AreMetAtTheirVeryNumbers) {
  EXPECT_EQ(listed(unmet(manyNeeds(), justEnough(manyNeeds()))), "");
  EXPECT_EQ(listed(unmet(KernelNeeds(), Limits())), "");
}

TEST(Needs, EachAmountThatIsShortIsOneMessage) {
  const KernelNeeds needs = manyNeeds();
  for (size_t i = 0; i < kLimitCount; ++i) {
    Limits limits = justEnough(needs);
    limits.amounts[i] = kLimits[i].multiple ? 128 : limits.amounts[i] - 1;
    const std::vector<Unmet> lacking = unmet(needs, limits);
    ASSERT_EQ(lacking.size(), 1u) << kLimits[i].name;
    EXPECT_EQ(lacking[0].text(), std::string(kLimits[i].name) + " " + std::to_string(needs.amounts[i]) +
                                     " (the device: " + std::to_string(limits.amounts[i]) + ")");
    EXPECT_NE(sentence(lacking[0]).find(kLimits[i].what), std::string::npos) << sentence(lacking[0]);
  }
}

TEST(Needs, OffsetsAreMultiples) {
  KernelNeeds needs;
  addRange(needs, 0, 100, 0);
  EXPECT_EQ(needs[LimitId::alignment], kAnyAlignment);
  addRange(needs, 768, 100, 0);
  EXPECT_EQ(needs[LimitId::alignment], 256);
  addRange(needs, 48, 40, 16);
  EXPECT_EQ(needs[LimitId::alignment], 256);
  EXPECT_EQ(needs[LimitId::texelAlignment], 16);
  EXPECT_EQ(needs[LimitId::texelElements], 3);
  EXPECT_EQ(needs[LimitId::storageRange], 100);
  Limits coarse;
  coarse[LimitId::texelAlignment] = 256;
  EXPECT_EQ(listed(unmet(needs, coarse)), "texel_alignment 16 (the device: 256)");
}

TEST(Needs, AWidthOfSubgroupsIsOneOfTheDevices) {
  KernelNeeds needs;
  needs.subgroup = 32;
  auto with = [&](int64_t least, int64_t most) {
    Limits limits;
    limits.subgroupLeast = least, limits.subgroupMost = most;
    return listed(unmet(needs, limits));
  };
  EXPECT_EQ(with(32, 32), "");
  EXPECT_EQ(with(8, 64), "");
  EXPECT_EQ(with(64, 64), "subgroup 32 (the device: 64)");
  EXPECT_EQ(with(4, 16), "subgroup 32 (the device: 4 to 16)");
  EXPECT_EQ(with(0, 0), "subgroup 32 (the device: none of a fixed width)");
}

TEST(Needs, EachFeatureThatLacksIsTold) {
  for (const CapabilityRow& each : kCapabilities) {
    KernelNeeds needs;
    addCode(needs, std::vector<uint32_t>{0, 0, 0, 0, 0, 2u << 16 | 17u, 1, 2u << 16 | 17u, each.number, 1},
            {});
    Limits limits;
    EXPECT_EQ(listed(unmet(needs, limits)), "");
    limits.lacks[static_cast<size_t>(each.feature)] = true;
    const std::vector<Unmet> lacking = unmet(needs, limits);
    ASSERT_EQ(lacking.size(), 1u) << each.name;
    EXPECT_NE(sentence(lacking[0]).find(each.name), std::string::npos) << sentence(lacking[0]);
  }
  KernelNeeds other;
  other.capabilities = {10};
  const std::vector<Unmet> unknown = unmet(other, Limits());
  ASSERT_EQ(unknown.size(), 1u);
  EXPECT_EQ(sentence(unknown[0]), "it needs SPIR-V capability 10, which no kernel of this runtime uses");
}

TEST(Needs, AProductOfMatricesIsOneOfTheDevices) {
  KernelNeeds needs;
  needs.products = {{16, 16, 16, "f16", "f32"}};
  Limits limits;
  limits.products = {{16, 8, 16, "f16", "f32"}, {16, 16, 16, "f16", "f16"}};
  EXPECT_EQ(listed(unmet(needs, limits)), "products of matrices of 16x16x16 in f16 into f32");
  limits.products.push_back(needs.products[0]);
  EXPECT_EQ(listed(unmet(needs, limits)), "");
}

TEST(Needs, OfAKernelAreInItsText) {
  auto module = parse(R"(
module @m {
  kernel @k(%a: buf<8xvec4<f32>, in, texel>, %b: buf<8xf32, in>, %o: buf<8xf32, out>) workgroup(8, 2) grid(1) {
    %s = tgk.shared : buf<64xf32, shared>
    %t = tgk.shared : buf<16xu32, shared>
    %l = tgk.local_id 0 : u32
    %x = tgk.load %b[%l] : f32
    %r = tgk.subgroup_reduce %x : f32
    %w = tgk.workgroup_reduce %x : f32
    %m = tgk.workgroup_reduce %x {kind = max} : f32
    %n = tgk.workgroup_reduce %l : u32
    tgk.store %r, %o[%l]
  }
}
)",
                      "m.tgir");
  ASSERT_TRUE(module) << module.error().str();
  const KernelNeeds needs = needsOf(*(*module)->find(ItemKind::kernel, "k"));
  EXPECT_EQ(needs[LimitId::invocations], 16);
  EXPECT_EQ(needs[LimitId::workgroupX], 8);
  EXPECT_EQ(needs[LimitId::sharedBytes], 64 * 4 + 16 * 4 + 2 * 16 * 4);
  EXPECT_EQ(needs[LimitId::bindings], 2);
  EXPECT_EQ(needs[LimitId::texelViews], 1);
  EXPECT_EQ(needs[LimitId::resources], 3);
  EXPECT_EQ(listed(unmet(needs, limitsOf(*targetByName("vulkan-min")))),
            "subgroup operations (GroupNonUniform)");
  EXPECT_EQ(listed(unmet(needs, limitsOf(*targetByName("lavapipe")))), "");
}

TEST(Needs, CodeReliesOnTheWidthItWasMadeFor) {
  Target made;
  made.subgroup = 32;
  const std::vector<uint32_t> plain = {0, 0, 0, 0, 0, 2u << 16 | 17u, 1},
                              grouped = {0, 0, 0, 0, 0, 2u << 16 | 17u, 63};
  KernelNeeds needs;
  addCode(needs, plain, made);
  EXPECT_EQ(needs.subgroup, 0);
  EXPECT_TRUE(needs.capabilities.empty());
  addCode(needs, grouped, Target());
  EXPECT_EQ(needs.subgroup, 0);
  addCode(needs, grouped, made);
  EXPECT_EQ(needs.subgroup, 32);
}

TEST(Needs, OfSeveralAreTheLargest) {
  KernelNeeds a = manyNeeds(), b;
  b[LimitId::bindings] = 5000;
  b[LimitId::alignment] = 16;
  b.products = {{8, 8, 8, "f16", "f16"}, a.products[0]};
  join(a, b);
  EXPECT_EQ(a[LimitId::bindings], 5000);
  EXPECT_EQ(a[LimitId::grid], manyNeeds()[LimitId::grid]);
  EXPECT_EQ(a[LimitId::alignment], 16);
  EXPECT_EQ(a.products.size(), 2u);
}

// A column of traits.def is read as its file is, which a person would start from.
TEST(Targets, ThoseThatShipAreWhatTheirTextSays) {
  for (std::string_view name : targetNames()) {
    const std::string text = targetToJson(*targetByName(name));
    auto read = targetFromJson(text, "it");
    ASSERT_TRUE(read) << name;
    EXPECT_EQ(targetToJson(*read), text);
  }
  EXPECT_EQ(targetToJson(*targetByName("vulkan-min")), targetToJson(Target()));
}

// A bundle is checked by what stands here.
TEST(Needs, AllOfThemAreInTheirText) {
  const KernelNeeds needs = manyNeeds();
  const nlohmann::json json = needsToJson(needs);
  for (size_t i = 0; i < kLimitCount; ++i) EXPECT_EQ(json.at(kLimits[i].name), needs.amounts[i]);
  EXPECT_EQ(json.at("subgroup"), 32);
  EXPECT_EQ(json.at("capabilities").size(), needs.capabilities.size());
  EXPECT_EQ(json.at("coopmat").dump(), R"([[16,16,16,"f16","f32"]])");
}

TEST(Needs, ATargetsLimitsAreWhatItsMembersSay) {
  for (std::string_view name : targetNames()) {
    const Target own = *targetByName(name);
    EXPECT_TRUE(checkLimits(own, own, "it"));
    for (size_t i = 0; i < kLimitCount; ++i) {
      Target less = own;
      const LimitId id = limitAt(i);
      const std::map<LimitId, int64_t Target::*> members = {{LimitId::invocations, &Target::maxInvocations},
                                                            {LimitId::workgroupX, &Target::maxWorkgroupX},
                                                            {LimitId::grid, &Target::maxGrid},
                                                            {LimitId::sharedBytes, &Target::sharedBytes},
                                                            {LimitId::storageRange, &Target::storageRange},
                                                            {LimitId::texelElements, &Target::texelElements},
                                                            {LimitId::bindings, &Target::bindings},
                                                            {LimitId::alignment, &Target::alignment}};
      const auto member = members.find(id);
      if (member == members.end()) continue;
      less.*member->second = kLimits[i].multiple ? own.alignment * 2 : own.*member->second - 1;
      auto refused = checkLimits(own, less, "it");
      ASSERT_FALSE(refused) << kLimits[i].name;
      EXPECT_EQ(refused.error().message(), "the module is made for target '" + own.name +
                                               "', whose limits it lacks: " + kLimits[i].name + " " +
                                               std::to_string(own.*member->second) +
                                               " (the device: " + std::to_string(less.*member->second) + ")");
    }
  }
}

TEST(Needs, ADevicesTargetPromisesWhatItGives) {
  for (std::string_view name : targetNames()) {
    const Target own = *targetByName(name);
    Target made;
    setLimits(made, limitsOf(own));
    made.name = own.name, made.allocation = own.allocation, made.subgroup = own.subgroup,
    made.reads = own.reads;
    made.reduce = own.reduce, made.matmul = own.matmul, made.workgroup = own.workgroup;
    made.parallel = own.parallel, made.processors = own.processors, made.streamScores = own.streamScores,
    made.kernelOps = own.kernelOps;
    EXPECT_EQ(targetToJson(made), targetToJson(own));
  }
  Target made;
  Limits fine;
  fine[LimitId::texelAlignment] = 64;
  fine[LimitId::alignment] = 4;
  fine[LimitId::invocations] = 4096;
  setLimits(made, fine);
  EXPECT_EQ(made.alignment, 64);
  EXPECT_EQ(made.maxInvocations, 1024);
  EXPECT_EQ(made.loopIterations, Target().loopIterations);
}

TEST(Needs, ATargetsFeaturesAreWhatItsMembersSay) {
  Target target;
  for (bool there : {false, true}) {
    target.subgroups = target.halfStorage = target.floatAtomics = there;
    if (there) target.coopmat = {{16, 16, 16, DType::f16, DType::f32}};
    for (const char* form : {"nv", "khr"}) {
      target.matrices = form;
      const Limits limits = limitsOf(target);
      for (FeatureId id : {FeatureId::subgroups, FeatureId::halfStorage, FeatureId::floatAtomics})
        EXPECT_EQ(limits.gives(id), there) << kFeatures[static_cast<size_t>(id)].name;
      EXPECT_EQ(limits.gives(FeatureId::matricesNv), there && target.matrices == "nv");
      EXPECT_EQ(limits.gives(FeatureId::matricesKhr), there && target.matrices == "khr");
      EXPECT_FALSE(limits.gives(FeatureId::matricesBf16));
      EXPECT_EQ(limits.products.size(), there ? 1u : 0u);
    }
  }
  target.coopmat = {{16, 16, 16, DType::bf16, DType::f32}};
  EXPECT_TRUE(limitsOf(target).gives(FeatureId::matricesBf16));
}

}  // namespace
}  // namespace tg
