// SPDX-License-Identifier: Apache-2.0
// Which limit a module exceeds: each one failing, and fixed at the very number it needs.
#include <functional>

#include <gtest/gtest.h>

#include "ir/parser.h"
#include "runtime/check/fit.h"
#include "runtime/compile.h"

namespace tg {
namespace {

constexpr const char* kText = R"(
module @m {
  param @w : tensor<96x80xf32> {init = xavier}
  func @f(%x: tensor<64x96xf32>) -> (p: tensor<64x80xf32>) {
    %w = tg.param @w : tensor<96x80xf32>
    %z = tg.matmul %x, %w : tensor<64x80xf32>
    %p = tg.softmax %z {axis = 1} : tensor<64x80xf32>
    return %p : tensor<64x80xf32>
  }
}
)";

/// Compiled for roomy limits, so that each one can be made too small.
std::unique_ptr<Module> compiled(const Target& target) {
  auto module = parse(kText, "m.tgir");
  EXPECT_TRUE(module) << module.error().str();
  auto done = compile(std::move(*module), target);
  EXPECT_TRUE(done) << done.error().str();
  return done ? std::move(done->module) : nullptr;
}

const Need* needOf(const Fit& fit, const std::string& limit) {
  for (const FunctionFit& function : fit.functions)
    for (const Need& need : function.needs)
      if (need.limit == limit) return &need;
  for (const Need& need : fit.memory)
    if (need.limit == limit) return &need;
  return nullptr;
}

struct Row {
  const char* limit;
  std::function<int64_t&(Target&)> member;
};

TEST(Fit, eachLimitFailsBelowItsNeedAndFitsAtIt) {
  const std::vector<Row> table = {
      {"max_invocations", [](Target& t) -> int64_t& { return t.maxInvocations; }},
      {"max_workgroup_x", [](Target& t) -> int64_t& { return t.maxWorkgroupX; }},
      {"max_grid", [](Target& t) -> int64_t& { return t.maxGrid; }},
      {"shared_bytes", [](Target& t) -> int64_t& { return t.sharedBytes; }},
      {"storage_range", [](Target& t) -> int64_t& { return t.storageRange; }},
      {"bindings", [](Target& t) -> int64_t& { return t.bindings; }},
  };
  Target roomy = *targetByName("vulkan-min");
  auto module = compiled(roomy);
  ASSERT_TRUE(module);
  auto fits = fitOf(*module, roomy);
  ASSERT_TRUE(fits) << fits.error().str();
  EXPECT_TRUE(fits->fits()) << fits->compiledFor;
  for (const Row& row : table) {
    const Need* need = needOf(*fits, row.limit);
    ASSERT_TRUE(need) << row.limit;
    ASSERT_GT(need->needed, 0) << row.limit;
    EXPECT_FALSE(need->where.empty());
    Target small = roomy;
    row.member(small) = need->needed - 1;
    auto fit = fitOf(*module, small);
    ASSERT_TRUE(fit);
    EXPECT_FALSE(fit->functions[0].fits()) << row.limit;
    const Need* failed = needOf(*fit, row.limit);
    EXPECT_FALSE(failed->fits());
    EXPECT_EQ(failed->needed, need->needed) << row.limit;
    EXPECT_EQ(failed->available, need->needed - 1) << row.limit;
    EXPECT_NE(fit->compiledFor.find(row.limit), std::string::npos) << fit->compiledFor;
    // At the very number the kernels fit; the module still says larger limits and is compiled again.
    row.member(small) = need->needed;
    fit = fitOf(*module, small);
    ASSERT_TRUE(fit);
    EXPECT_TRUE(fit->functions[0].fits()) << row.limit;
    EXPECT_EQ(fit->fits(), row.member(roomy) == need->needed) << row.limit;
  }
}

TEST(Fit, alignmentAsksForCoarserOffsets) {
  Target target = *targetByName("vulkan-min");
  target.alignment = 16;
  auto module = compiled(target);
  ASSERT_TRUE(module);
  Target coarse = target;
  coarse.alignment = int64_t(1) << 40;
  auto fit = fitOf(*module, coarse);
  ASSERT_TRUE(fit);
  const Need* need = needOf(*fit, "alignment");
  ASSERT_TRUE(need);
  EXPECT_FALSE(need->fits());
  coarse.alignment = need->needed;
  fit = fitOf(*module, coarse);
  EXPECT_TRUE(needOf(*fit, "alignment")->fits());
}

TEST(Fit, texelsCountElementsNotBytes) {
  Target target = *targetByName("lavapipe");
  target.reads = "texel";
  auto module = compiled(target);
  ASSERT_TRUE(module);
  auto fit = fitOf(*module, target);
  ASSERT_TRUE(fit);
  const Need* need = needOf(*fit, "texel_elements");
  ASSERT_TRUE(need) << "no kernel reads texels";
  target.texelElements = need->needed - 1;
  fit = fitOf(*module, target);
  EXPECT_FALSE(needOf(*fit, "texel_elements")->fits());
}

TEST(Fit, memoryIsTheSumOfBuffersAndTheLargest) {
  Target target = *targetByName("vulkan-min");
  auto module = compiled(target);
  ASSERT_TRUE(module);
  int64_t total = 0, largest = 0;
  for (const Item* buffer : module->all(ItemKind::buffer))
    total += buffer->bytes, largest = std::max(largest, buffer->bytes);
  auto fit = fitOf(*module, target, {total, largest});
  ASSERT_TRUE(fit);
  EXPECT_TRUE(fit->fits());
  EXPECT_FALSE(fitOf(*module, target, {total - 1, largest})->fits());
  EXPECT_FALSE(fitOf(*module, target, {total, largest - 1})->fits());
  // What nobody knows is not held against it.
  fit = fitOf(*module, target);
  EXPECT_TRUE(fit->fits());
  EXPECT_FALSE(needOf(*fit, "heap_bytes")->checked);
}

// A binary's words say which features it needs: OpCapability of the numbers of the specification.
TEST(Fit, featuresAreThoseTheBinariesDeclare) {
  struct Feature {
    uint32_t capability;
    const char* name;
    bool Target::*member;
  };
  Target target = *targetByName("vulkan-min");
  for (const Feature& feature :
       {Feature{63, "subgroups", &Target::subgroups}, Feature{4433, "half_storage", &Target::halfStorage},
        Feature{6033, "float_atomics", &Target::floatAtomics}}) {
    auto module = compiled(target);
    ASSERT_TRUE(module);
    std::vector<uint32_t>& code = module->all(ItemKind::binary).front()->code;
    code.insert(code.begin() + 5, {2u << 16 | 17u, feature.capability});
    auto fit = fitOf(*module, target);
    ASSERT_TRUE(fit);
    const Need* need = needOf(*fit, feature.name);
    ASSERT_TRUE(need) << feature.name;
    EXPECT_FALSE(need->fits()) << feature.name;
    EXPECT_FALSE(fit->fits());
    Target able = target;
    able.*feature.member = true;
    fit = fitOf(*module, able);
    EXPECT_TRUE(needOf(*fit, feature.name)->fits()) << feature.name;
    EXPECT_TRUE(fit->fits());
  }
}

// A target that states a width promises it to kernels that use subgroups, and to these alone.
TEST(Fit, kernelsOfSubgroupsNeedTheirWidth) {
  Target made = *targetByName("vulkan-min"), other = made;
  made.subgroups = other.subgroups = true;
  made.reduce = other.reduce = "lane";  // no kernel of the compiler uses them
  made.subgroup = 32, other.subgroup = 8;
  auto module = compiled(made);
  ASSERT_TRUE(module);
  EXPECT_TRUE(fitOf(*module, other)->fits());
  Item& binary = *module->all(ItemKind::binary).front();
  binary.code.insert(binary.code.begin() + 5, {2u << 16 | 17u, 63u});
  EXPECT_TRUE(fitOf(*module, made)->fits());
  auto fit = fitOf(*module, other);
  EXPECT_FALSE(fit->fits());
  EXPECT_EQ(fit->compiledFor, "the kernel @" + binary.name + " relies on subgroups of 32, vulkan-min has 8");
}

// CooperativeMatrixNV and CooperativeMatrixKHR.
TEST(Fit, matricesAreAFeature) {
  Target target = *targetByName("gpu");
  for (uint32_t capability : {5357u, 6022u}) {
    auto module = compiled(target);
    ASSERT_TRUE(module);
    std::vector<uint32_t>& code = module->all(ItemKind::binary).front()->code;
    code.insert(code.begin() + 5, {2u << 16 | 17u, capability});
    EXPECT_FALSE(needOf(*fitOf(*module, target), "coopmat")->fits());
    Target units = *targetByName("gpu-coopmat");
    for (const char* form : {"nv", "khr"}) {
      units.matrices = form;
      const bool same = (capability == 5357u) == (units.matrices == "nv");
      EXPECT_EQ(needOf(*fitOf(*module, units), "coopmat")->fits(), same) << capability << form;
    }
  }
}

// The executor refuses such a kernel, so a fit says so before.
TEST(Fit, loopsThatADeviceEndsEarlyAreTold) {
  Target target = *targetByName("vulkan-min");
  auto module = compiled(target);
  ASSERT_TRUE(module);
  EXPECT_FALSE(needOf(*fitOf(*module, target), "loop_iterations")) << "nothing ends them";
  target.loopIterations = 1;
  auto fit = fitOf(*module, target);
  ASSERT_TRUE(fit);
  const Need* need = needOf(*fit, "loop_iterations");
  ASSERT_TRUE(need);
  EXPECT_FALSE(need->fits());
  EXPECT_GT(need->needed, 1);
  target.loopIterations = need->needed;
  EXPECT_TRUE(fitOf(*module, target)->fits());
}

TEST(Fit, theLimitsOfADeviceStandBeforeItsTargets) {
  Target target = *targetByName("lavapipe");
  auto module = compiled(target);
  ASSERT_TRUE(module);
  Limits device = limitsOf(target);
  EXPECT_TRUE(fitOf(*module, target, {}, device)->fits());
  device[LimitId::bindings] = 0;
  auto fit = fitOf(*module, target, {}, device);
  ASSERT_TRUE(fit);
  EXPECT_FALSE(needOf(*fit, "bindings")->fits());
  EXPECT_TRUE(needOf(*fit, "texel_alignment")) << "views and storage are judged apart";
}

TEST(Fit, otherStagesAreRefused) {
  auto module = parse(kText, "m.tgir");
  ASSERT_TRUE(module);
  auto fit = fitOf(**module, {});
  ASSERT_FALSE(fit);
  EXPECT_EQ(fit.error().message(), "a module of stage tensor has no commands to check");
}

}  // namespace
}  // namespace tg
