// SPDX-License-Identifier: Apache-2.0
#include "runtime/vulkan/pipeline.h"

#include <algorithm>

#include <fmt/format.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "ir/all_cores.h"
#include "ir/exceptions.h"
#include "ir/stopwatch.h"
#include "ir/text.h"
#include "runtime/vulkan/device_state.h"

namespace tg::vulkan {

Pipeline::~Pipeline() = default;

/// Creates one pipeline. Its member functions set `refusal` and return false on failure.
struct PipelineMaker {
  Device& device;
  const KernelCode& kernel;
  std::shared_ptr<Pipeline> made;
  std::string refusal;
  double seconds = 0;

  void make() {
    const Stopwatch watch;
    made.reset(new Pipeline());
    made->name_ = kernel.name;
    made->bindings_ = kernel.bindings;
    made->device_ = device.shared_from_this();
    made->state_ = std::make_unique<PipelineState>();
    if (!makeLayouts() || !makePipeline()) made.reset();
    seconds = watch.seconds();
  }

 private:
  bool ok(VkResult result) {
    if (result == VK_SUCCESS) return true;
    refusal = resultName(result);
    return false;
  }

  bool makeLayouts() {
    DeviceState& state = device.state();
    PipelineState& p = *made->state_;
    std::vector<VkDescriptorSetLayoutBinding> bindings;
    for (size_t i = 0; i < kernel.bindings.size(); ++i) {
      const bool storage = kernel.bindings[i] == BindingKind::storage;
      bindings.push_back(
          {uint32_t(i), storage ? VK_DESCRIPTOR_TYPE_STORAGE_BUFFER : VK_DESCRIPTOR_TYPE_UNIFORM_TEXEL_BUFFER,
           1, VK_SHADER_STAGE_COMPUTE_BIT, nullptr});
    }
    auto setInfo =
        typed<VkDescriptorSetLayoutCreateInfo>(VK_STRUCTURE_TYPE_DESCRIPTOR_SET_LAYOUT_CREATE_INFO);
    setInfo.bindingCount = uint32_t(bindings.size());
    setInfo.pBindings = bindings.data();
    if (!ok(state.make(p.setLayout, setInfo, state.vk().vkCreateDescriptorSetLayout,
                       state.vk().vkDestroyDescriptorSetLayout, VK_OBJECT_TYPE_DESCRIPTOR_SET_LAYOUT,
                       kernel.name)))
      return false;

    const VkDescriptorSetLayout set = p.setLayout.get();
    auto info = typed<VkPipelineLayoutCreateInfo>(VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO);
    info.setLayoutCount = 1;
    info.pSetLayouts = &set;
    return ok(state.make(p.layout, info, state.vk().vkCreatePipelineLayout,
                         state.vk().vkDestroyPipelineLayout, VK_OBJECT_TYPE_PIPELINE_LAYOUT, kernel.name));
  }

  bool makePipeline() {
    DeviceState& state = device.state();
    auto moduleInfo = typed<VkShaderModuleCreateInfo>(VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO);
    moduleInfo.codeSize = kernel.spirv.size() * sizeof(uint32_t);
    moduleInfo.pCode = kernel.spirv.data();
    Handle<VkShaderModule> module;
    if (!ok(state.make(module, moduleInfo, state.vk().vkCreateShaderModule, state.vk().vkDestroyShaderModule,
                       VK_OBJECT_TYPE_SHADER_MODULE, kernel.name)))
      return false;

    auto width = typed<VkPipelineShaderStageRequiredSubgroupSizeCreateInfo>(
        VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_REQUIRED_SUBGROUP_SIZE_CREATE_INFO);
    width.requiredSubgroupSize = kernel.subgroupSize;
    auto info = typed<VkComputePipelineCreateInfo>(VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO);
    info.stage.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO;
    info.stage.stage = VK_SHADER_STAGE_COMPUTE_BIT;
    info.stage.module = module.get();
    info.stage.pName = "main";
    if (kernel.subgroupSize && state.probe.minSubgroup != state.probe.maxSubgroup) info.stage.pNext = &width;
    info.layout = made->state_->layout.get();
    if (state.statistics) info.flags = VK_PIPELINE_CREATE_CAPTURE_STATISTICS_BIT_KHR;
    VkPipeline raw;
    if (!ok(state.vk().vkCreateComputePipelines(state.raw(), state.cache.get(), 1, &info, nullptr, &raw)))
      return false;
    made->state_->pipeline = {state.raw(), raw, state.vk().vkDestroyPipeline};
    state.setName(VK_OBJECT_TYPE_PIPELINE, raw, kernel.name);
    if (state.statistics) made->statistics_ = {statisticsOf(state, raw), kernel.sharedBytes};
    return true;
  }
};

namespace {

constexpr uint32_t spirvMagic = 0x07230203;

/// Whether the code has a header and consists of whole instructions. Drivers and layers may crash on anything else.
bool wellFormed(const std::vector<uint32_t>& code) {
  constexpr size_t headerWords = 5;
  if (code.size() <= headerWords || code[0] != spirvMagic) return false;
  size_t at = headerWords;
  while (at < code.size() && code[at] >> 16) at += code[at] >> 16;
  return at == code.size();
}

/// The reason why a kernel cannot be given to the driver, or "".
std::string preflight(const Probe& probe, const KernelCode& kernel) {
  if (!wellFormed(kernel.spirv)) return "its code is not whole SPIR-V";
  const auto storage = std::ranges::count(kernel.bindings, BindingKind::storage);
  const auto all = static_cast<int64_t>(kernel.bindings.size());
  KernelNeeds needs;
  needs[LimitId::bindings] = storage;
  needs[LimitId::texelViews] = all - storage;
  needs[LimitId::resources] = all;
  addCode(needs, kernel.spirv, {});
  needs.subgroup = kernel.subgroupSize;
  const std::vector<Unmet> missing = unmet(needs, probe.info.limits);
  return missing.empty() ? "" : sentence(missing.front());
}

std::string contentKey(const KernelCode& kernel) {
  const XXH128_hash_t hash = XXH3_128bits(kernel.spirv.data(), kernel.spirv.size() * sizeof(uint32_t));
  std::string key = fmt::format("{:016x}{:016x} {} ", hash.high64, hash.low64, kernel.subgroupSize);
  for (BindingKind kind : kernel.bindings) key += char('a' + int(kind));
  return key;
}

Error refusals(const Device& device, const std::vector<std::string>& all, size_t kernels) {
  std::string text = fmt::format("{} of {} cannot be used on {}: ", all.size(), countText(kernels, "kernel"),
                                 device.info().name);
  for (size_t i = 0; i < all.size(); ++i) text += (i ? "; " : "") + all[i];
  return fail(std::move(text));
}

}  // namespace

Result<std::vector<std::shared_ptr<Pipeline>>>
createPipelines(Device& device, std::span<const KernelCode> kernels, const CompileTimes& took) {
  DeviceState& state = device.state();
  std::lock_guard lock(state.pipelinesMutex);
  std::vector<std::shared_ptr<Pipeline>> result(kernels.size());
  std::vector<std::string> refused(kernels.size());
  std::unordered_map<std::string, size_t> jobOf;  // by content
  std::vector<std::string> keys(kernels.size());
  std::vector<PipelineMaker> jobs;
  for (size_t i = 0; i < kernels.size(); ++i) {
    refused[i] = preflight(state.probe, kernels[i]);
    if (!refused[i].empty()) continue;
    keys[i] = contentKey(kernels[i]);
    if (auto known = state.pipelines.find(keys[i]); known != state.pipelines.end())
      result[i] = known->second.lock();
    if (!result[i] && jobOf.try_emplace(keys[i], jobs.size()).second)
      jobs.push_back({device, kernels[i], {}, {}, 0});
  }
  TG_CHECK(withinMemory(nullptr, "pipelines", [&]() -> Result<void> {
    onAllCores(jobs.size(), [&](size_t i) { jobs[i].make(); });
    return {};
  }));
  for (const PipelineMaker& job : jobs)
    if (took) took(job.kernel.name, job.seconds);
  std::vector<std::string> bad;
  for (size_t i = 0; i < kernels.size(); ++i) {
    if (refused[i].empty() && !result[i]) {
      const PipelineMaker& job = jobs[jobOf.at(keys[i])];
      result[i] = job.made;
      refused[i] = job.refusal;
    }
    if (result[i]) {
      state.pipelines[keys[i]] = result[i];
    } else {
      bad.push_back(fmt::format("'{}': {}", kernels[i].name, refused[i]));
    }
  }
  std::erase_if(state.pipelines, [](const auto& entry) { return entry.second.expired(); });
  if (!bad.empty()) return refusals(device, bad, kernels.size());
  return result;
}

}  // namespace tg::vulkan
