// SPDX-License-Identifier: Apache-2.0
#include "runtime/vulkan/recording.h"

#include "runtime/vulkan/command_check.h"
#include "runtime/vulkan/descriptors.h"
#include "runtime/vulkan/device_state.h"

namespace tg::vulkan {

namespace {

constexpr VkPipelineStageFlags workStages =
    VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT | VK_PIPELINE_STAGE_TRANSFER_BIT;
constexpr VkAccessFlags workWrites = VK_ACCESS_SHADER_WRITE_BIT | VK_ACCESS_TRANSFER_WRITE_BIT;
constexpr VkAccessFlags workAccesses = workWrites | VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_TRANSFER_READ_BIT;

}  // namespace

struct Recording::Impl {
  std::shared_ptr<Device> owner;
  std::string name;
  std::vector<std::shared_ptr<Pipeline>> pipelines;  ///< kept alive
  Timestamps timestamps = Timestamps::none;
  Handle<VkQueryPool> queries;  ///< null without timestamps
  uint32_t queryCount = 0;
  Descriptors descriptors;
  Handle<VkCommandPool> pool;
  VkCommandBuffer commands = VK_NULL_HANDLE;

  DeviceState& state() { return owner->state(); }
  const VolkDeviceTable& vk() { return state().vk(); }

  Result<void> createQueries(int64_t work);
  Result<void> record(const std::vector<Command>& all);

  /// Writes the next timestamp, taken when all earlier work is done. A timestamp at the start of the pipeline would
  /// ignore barriers, and so charge a command for the time it waits.
  void stamp(Timestamps wanted, uint32_t& next) {
    if (timestamps == wanted && queries)
      vk().vkCmdWriteTimestamp(commands, VK_PIPELINE_STAGE_BOTTOM_OF_PIPE_BIT, queries.get(), next++);
  }
  void add(const Dispatch& dispatch, uint32_t number);
  void add(const Barrier&) {
    memoryBarrier(vk(), commands, workStages, workWrites, workStages, workAccesses);
  }
  void add(const Fill& fill) {
    vk().vkCmdFillBuffer(commands, fill.buffer->allocation().buffer.get(), VkDeviceSize(fill.offset),
                         VkDeviceSize((fill.bytes + 3) / 4 * 4), fill.value);
  }
  void add(const Copy& copy) { recordCopy(vk(), commands, copy); }
};

Result<void> Recording::Impl::createQueries(int64_t work) {
  if (timestamps == Timestamps::none) return {};
  if (!state().probe.info.timestamps) {
    return fail("{} cannot time dispatches: its queue has no timestamps", state().probe.info.name);
  }
  queryCount = timestamps == Timestamps::ends ? 2 : uint32_t(2 * work);
  if (!queryCount) return {};
  auto info = typed<VkQueryPoolCreateInfo>(VK_STRUCTURE_TYPE_QUERY_POOL_CREATE_INFO);
  info.queryType = VK_QUERY_TYPE_TIMESTAMP;
  info.queryCount = queryCount;
  VkResult result = state().make(queries, info, vk().vkCreateQueryPool, vk().vkDestroyQueryPool,
                                 VK_OBJECT_TYPE_QUERY_POOL, name);
  if (result != VK_SUCCESS) return state().failure(result, "creating the timestamps of '{}'", name);
  return {};
}

void Recording::Impl::add(const Dispatch& dispatch, uint32_t number) {
  const PipelineState& pipeline = dispatch.pipeline->state();
  const VkDescriptorSet set = descriptors.set(number);
  const bool labelled = state().instance->debugUtils();
  auto label = typed<VkDebugUtilsLabelEXT>(VK_STRUCTURE_TYPE_DEBUG_UTILS_LABEL_EXT);
  label.pLabelName = labelOf(dispatch).c_str();
  if (labelled) vkCmdBeginDebugUtilsLabelEXT(commands, &label);
  vk().vkCmdBindPipeline(commands, VK_PIPELINE_BIND_POINT_COMPUTE, pipeline.pipeline.get());
  vk().vkCmdBindDescriptorSets(commands, VK_PIPELINE_BIND_POINT_COMPUTE, pipeline.layout.get(), 0, 1, &set, 0,
                               nullptr);
  vk().vkCmdDispatch(commands, dispatch.grid[0], dispatch.grid[1], dispatch.grid[2]);
  if (labelled) vkCmdEndDebugUtilsLabelEXT(commands);
}

Result<void> Recording::Impl::record(const std::vector<Command>& all) {
  auto begin = typed<VkCommandBufferBeginInfo>(VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO);
  VkResult result = vk().vkBeginCommandBuffer(commands, &begin);
  if (result != VK_SUCCESS) return state().failure(result, "recording '{}'", name);
  memoryBarrier(vk(), commands, workStages | VK_PIPELINE_STAGE_HOST_BIT,
                workWrites | VK_ACCESS_HOST_WRITE_BIT, workStages, workAccesses);
  if (queries) vk().vkCmdResetQueryPool(commands, queries.get(), 0, queryCount);
  uint32_t number = 0, stamps = 0;
  stamp(Timestamps::ends, stamps);
  for (const Command& command : all) {
    const bool work = !std::holds_alternative<Barrier>(command);
    if (work) stamp(Timestamps::commands, stamps);
    std::visit(
        [&](const auto& c) {
          if constexpr (std::is_same_v<std::decay_t<decltype(c)>, Dispatch>) {
            pipelines.push_back(c.pipeline);
            add(c, number++);
          } else {
            add(c);
          }
        },
        command);
    if (work) stamp(Timestamps::commands, stamps);
  }
  stamp(Timestamps::ends, stamps);
  memoryBarrier(vk(), commands, workStages, workWrites, VK_PIPELINE_STAGE_HOST_BIT, VK_ACCESS_HOST_READ_BIT);
  result = vk().vkEndCommandBuffer(commands);
  if (result != VK_SUCCESS) return state().failure(result, "recording '{}'", name);
  return {};
}

CommandCounts countOf(std::span<const Command> commands) {
  CommandCounts counts;
  for (const Command& command : commands) {
    counts.dispatches += std::holds_alternative<Dispatch>(command);
    counts.fills += std::holds_alternative<Fill>(command);
    counts.copies += std::holds_alternative<Copy>(command);
    counts.barriers += std::holds_alternative<Barrier>(command);
  }
  return counts;
}

Result<std::unique_ptr<Recording>> Recording::create(Device& device, std::vector<Command> commands,
                                                     RecordingOptions options) {
  std::unique_ptr<Recording> recording(new Recording());
  for (const Command& command : commands) TG_CHECK(checkCommand(device, command));
  recording->impl_ = std::make_unique<Impl>();
  Impl& impl = *recording->impl_;
  impl.owner = device.shared_from_this();
  impl.name = std::move(options.name);
  impl.timestamps = options.timestamps;
  TG_CHECK(impl.createQueries(countOf(commands).kernels()));
  TG_CHECK(impl.descriptors.create(impl.state(), commands, impl.name));
  DeviceState& state = impl.state();
  VkResult result = makeCommands(state, state.work.family, 0, impl.name, impl.pool, impl.commands);
  if (result != VK_SUCCESS) return state.failure(result, "recording '{}'", impl.name);
  TG_CHECK(impl.record(commands));
  return recording;
}

Recording::~Recording() {
  // Once the device is lost, nothing runs on it any more, and its objects may be destroyed at once.
  if (impl_ && lastSubmission_) (void)impl_->state().waitFor(lastSubmission_);
}

// Not recorded for simultaneous use, because drivers would then copy the commands in every submission.
Result<void> Recording::submit() {
  if (lastSubmission_) TG_CHECK(wait());
  TG_TRY(lastSubmission_, impl_->state().submit(impl_->commands));
  return {};
}

Result<void> Recording::wait() { return impl_->state().waitFor(lastSubmission_); }

Result<std::vector<DeviceTime>> Recording::times() {
  if (impl_->timestamps == Timestamps::none) return fail("'{}' was recorded without timestamps", impl_->name);
  if (!lastSubmission_) return fail("'{}' was never submitted, so it has no times", impl_->name);
  TG_CHECK(wait());
  DeviceState& state = impl_->state();
  std::vector<uint64_t> ticks(impl_->queryCount);
  if (ticks.empty()) return std::vector<DeviceTime>();
  VkResult result = impl_->vk().vkGetQueryPoolResults(
      state.raw(), impl_->queries.get(), 0, uint32_t(ticks.size()), ticks.size() * sizeof(uint64_t),
      ticks.data(), sizeof(uint64_t), VK_QUERY_RESULT_64_BIT | VK_QUERY_RESULT_WAIT_BIT);
  if (result != VK_SUCCESS) return state.failure(result, "reading the times of '{}'", impl_->name);
  // The counter may have fewer than 64 bits and wrap between two readings.
  const uint32_t bits = state.probe.timestampBits;
  const uint64_t mask = bits >= 64 ? UINT64_MAX : (uint64_t(1) << bits) - 1;
  const double microseconds = double(state.probe.limits.timestampPeriod) / 1000.0;
  auto sinceFirst = [&](uint64_t tick) { return double((tick - ticks[0]) & mask) * microseconds; };
  std::vector<DeviceTime> times;
  for (size_t i = 0; i < ticks.size(); i += 2)
    times.push_back({sinceFirst(ticks[i]), sinceFirst(ticks[i + 1])});
  return times;
}

}  // namespace tg::vulkan
