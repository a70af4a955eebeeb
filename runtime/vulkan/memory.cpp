// SPDX-License-Identifier: Apache-2.0
#include "runtime/vulkan/memory.h"

#include <cstring>

#include <fmt/format.h>

#include "ir/divide.h"
#include "runtime/vulkan/device_state.h"

namespace tg::vulkan {

namespace {

/// Allocations are multiples of this size, so that a last vec4 texel or word may be accessed whole.
constexpr int64_t granule = 256;

/// The first memory type with all of `wanted` and none of `unwanted`, or -1.
int findType(const DeviceState& state, uint32_t allowed, VkMemoryPropertyFlags wanted,
             VkMemoryPropertyFlags unwanted) {
  const VkPhysicalDeviceMemoryProperties& memory = state.probe.memory;
  for (uint32_t i = 0; i < memory.memoryTypeCount; ++i) {
    const VkMemoryPropertyFlags flags = memory.memoryTypes[i].propertyFlags;
    if ((allowed >> i & 1) && (flags & wanted) == wanted && !(flags & unwanted)) return int(i);
  }
  return -1;
}

/// Chooses a memory type. Mapped memory is coherent, so nothing is ever flushed. Cached memory is many times faster if
/// the host reads results. AMD's uncached types (the last two flags) are slow for everything.
int chooseType(const DeviceState& state, uint32_t allowed, MemoryKind kind) {
  constexpr VkMemoryPropertyFlags local = VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT;
  constexpr VkMemoryPropertyFlags cached = VK_MEMORY_PROPERTY_HOST_CACHED_BIT;
  constexpr VkMemoryPropertyFlags mapped =
      VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
  constexpr VkMemoryPropertyFlags never =
      VK_MEMORY_PROPERTY_LAZILY_ALLOCATED_BIT | VK_MEMORY_PROPERTY_PROTECTED_BIT |
      VK_MEMORY_PROPERTY_DEVICE_COHERENT_BIT_AMD | VK_MEMORY_PROPERTY_DEVICE_UNCACHED_BIT_AMD;
  const bool mapLocal = state.probe.info.unifiedMemory && !state.stageTransfers;
  const VkMemoryPropertyFlags byPreference[2][3] = {
      {mapLocal ? local | mapped | cached : local, mapLocal ? local | mapped : local, local},
      {mapped | cached, mapped, mapped}};
  for (VkMemoryPropertyFlags wanted : byPreference[kind == MemoryKind::host]) {
    if (int type = findType(state, allowed, wanted, never); type >= 0) return type;
  }
  return -1;
}

Result<void> checkSize(const DeviceState& state, const std::string& name, int64_t bytes) {
  const DeviceInfo& info = state.probe.info;
  if (bytes < 0) return fail("buffer '{}' has a negative size ({} bytes)", name, bytes);
  if (bytes > info.heapBytes) {
    return fail("buffer '{}' needs {} bytes, more than the {} bytes of memory that {} has", name, bytes,
                info.heapBytes, info.name);
  }
  if (bytes > info.maxAllocationBytes) {
    return fail("buffer '{}' needs {} bytes, but {} limits one allocation to {} bytes", name, bytes,
                info.name, info.maxAllocationBytes);
  }
  return {};
}

/// How a buffer's memory is shared with others.
enum class Sharing : uint8_t {
  none,
  exported,  ///< another API can import it (share.h)
  callers,   ///< it already exists, as the caller's memory
};

constexpr VkExternalMemoryHandleTypeFlagBits handleOf(Sharing sharing) {
  return sharing == Sharing::callers ? VK_EXTERNAL_MEMORY_HANDLE_TYPE_HOST_ALLOCATION_BIT_EXT
                                     : VK_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD_BIT;
}

Result<void> createBuffer(DeviceState& state, Allocation& made, Sharing sharing) {
  auto info = typed<VkBufferCreateInfo>(VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO);
  info.size = VkDeviceSize(made.capacity);
  auto shares = typed<VkExternalMemoryBufferCreateInfo>(VK_STRUCTURE_TYPE_EXTERNAL_MEMORY_BUFFER_CREATE_INFO);
  shares.handleTypes = handleOf(sharing);
  if (sharing != Sharing::none) info.pNext = &shares;
  const uint32_t families[] = {state.work.family, state.uploads.family};
  if (state.uploads.raw && families[0] != families[1]) {
    info.sharingMode = VK_SHARING_MODE_CONCURRENT;
    info.queueFamilyIndexCount = static_cast<uint32_t>(std::size(families));
    info.pQueueFamilyIndices = families;
  }
  info.usage = VK_BUFFER_USAGE_STORAGE_BUFFER_BIT | VK_BUFFER_USAGE_UNIFORM_TEXEL_BUFFER_BIT |
               VK_BUFFER_USAGE_TRANSFER_SRC_BIT | VK_BUFFER_USAGE_TRANSFER_DST_BIT;
  VkResult result = state.make(made.buffer, info, state.vk().vkCreateBuffer, state.vk().vkDestroyBuffer,
                               VK_OBJECT_TYPE_BUFFER, made.name);
  if (result != VK_SUCCESS) return state.failure(result, "creating buffer '{}'", made.name);
  return {};
}

/// The memory types that can import the caller's memory.
Result<uint32_t> typesOf(DeviceState& state, const BufferOptions& options) {
  auto types = typed<VkMemoryHostPointerPropertiesEXT>(VK_STRUCTURE_TYPE_MEMORY_HOST_POINTER_PROPERTIES_EXT);
  VkResult result = state.vk().vkGetMemoryHostPointerPropertiesEXT(state.raw(), handleOf(Sharing::callers),
                                                                   options.memory, &types);
  if (result != VK_SUCCESS)
    return state.failure(result, "asking about the memory of buffer '{}'", options.name);
  return types.memoryTypeBits;
}

/// Memory that is shared is dedicated to one buffer, as other APIs require.
Result<void> bindMemory(DeviceState& state, Allocation& made, const BufferOptions& options, Sharing sharing) {
  const VolkDeviceTable& vk = state.vk();
  VkMemoryRequirements needs;
  vk.vkGetBufferMemoryRequirements(state.raw(), made.buffer.get(), &needs);
  uint32_t allowed = needs.memoryTypeBits;
  if (sharing == Sharing::callers) {
    TG_TRY(const uint32_t types, typesOf(state, options));
    allowed &= types;
  }
  const int type = chooseType(state, allowed, options.kind);
  if (type < 0) {
    return fail("{} has no memory of the kind buffer '{}' needs", state.probe.info.name, made.name);
  }
  auto info = typed<VkMemoryAllocateInfo>(VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO);
  info.allocationSize = sharing == Sharing::callers ? VkDeviceSize(made.capacity) : needs.size;
  info.memoryTypeIndex = uint32_t(type);
  auto dedicated = typed<VkMemoryDedicatedAllocateInfo>(VK_STRUCTURE_TYPE_MEMORY_DEDICATED_ALLOCATE_INFO);
  dedicated.buffer = made.buffer.get();
  auto exported = typed<VkExportMemoryAllocateInfo>(VK_STRUCTURE_TYPE_EXPORT_MEMORY_ALLOCATE_INFO);
  exported.pNext = &dedicated;
  exported.handleTypes = handleOf(sharing);
  auto callers =
      typed<VkImportMemoryHostPointerInfoEXT>(VK_STRUCTURE_TYPE_IMPORT_MEMORY_HOST_POINTER_INFO_EXT);
  callers.handleType = handleOf(sharing);
  callers.pHostPointer = options.memory;
  if (sharing == Sharing::exported) info.pNext = &exported;
  if (sharing == Sharing::callers) info.pNext = &callers;
  if (sharing == Sharing::exported) made.sharedBytes = int64_t(needs.size);
  const std::string doing = fmt::format("allocating buffer '{}' of {} bytes", made.name, made.bytes);
  VkResult result = state.make(made.memory, info, vk.vkAllocateMemory, vk.vkFreeMemory,
                               VK_OBJECT_TYPE_DEVICE_MEMORY, made.name);
  if (result != VK_SUCCESS) return state.failure(result, "{}", doing);
  result = vk.vkBindBufferMemory(state.raw(), made.buffer.get(), made.memory.get(), 0);
  if (result != VK_SUCCESS) return state.failure(result, "{}", doing);
  made.mapped = options.memory;
  if (made.mapped) return {};

  const VkMemoryPropertyFlags flags = state.probe.memory.memoryTypes[type].propertyFlags;
  const bool map =
      options.kind == MemoryKind::host || (state.probe.info.unifiedMemory && !state.stageTransfers);
  if (!map || !(flags & VK_MEMORY_PROPERTY_HOST_COHERENT_BIT)) return {};
  void* address = nullptr;
  result = vk.vkMapMemory(state.raw(), made.memory.get(), 0, VK_WHOLE_SIZE, 0, &address);
  if (result != VK_SUCCESS) return state.failure(result, "mapping buffer '{}'", made.name);
  made.mapped = static_cast<std::byte*>(address);
  return {};
}

}  // namespace

Result<Allocation> allocate(DeviceState& state, const BufferOptions& options) {
  TG_CHECK(checkSize(state, options.name, options.bytes));
  if (options.memory && !state.probe.info.takesHostMemory)
    return fail("{} takes no memory of the program's for buffer '{}': it lacks {}", state.probe.info.name,
                options.name, VK_EXT_EXTERNAL_MEMORY_HOST_EXTENSION_NAME);
  Allocation made;
  made.name = options.name;
  made.bytes = options.bytes;
  made.capacity = std::max(granule, alignTo(options.bytes, granule));
  const Sharing sharing = options.memory                                       ? Sharing::callers
                          : state.shared && options.kind == MemoryKind::device ? Sharing::exported
                                                                               : Sharing::none;
  TG_CHECK(createBuffer(state, made, sharing));
  TG_CHECK(bindMemory(state, made, options, sharing));
  state.allocatedBytes += made.capacity;
  return made;
}

Result<std::unique_ptr<Buffer>> Buffer::create(Device& device, const BufferOptions& options) {
  DeviceState& state = device.state();
  TG_TRY(Allocation made, allocate(state, options));
  std::unique_ptr<Buffer> buffer(new Buffer());
  buffer->device_ = device.shared_from_this();
  buffer->allocation_ = std::make_unique<Allocation>(std::move(made));
  const Allocation& a = buffer->allocation();
  if (options.memory) return buffer;
  if (a.mapped) {
    std::memset(a.mapped, 0, size_t(a.capacity));
    return buffer;
  }
  std::lock_guard lock(state.transferMutex);
  TG_CHECK(state.runOnce([&](VkCommandBuffer commands) {
    state.vk().vkCmdFillBuffer(commands, a.buffer.get(), 0, VK_WHOLE_SIZE, 0);
  }));
  return buffer;
}

Buffer::~Buffer() {
  DeviceState& state = device_->state();
  // A lost device completes nothing, and its objects may then be destroyed at once.
  if (auto waited = state.waitFor(state.newest()); !waited) state.lost = true;
  state.allocatedBytes -= allocation_->capacity;
}

const std::string& Buffer::name() const { return allocation_->name; }
int64_t Buffer::bytes() const { return allocation_->bytes; }
std::byte* Buffer::mapped() const { return allocation_->mapped; }

Result<void> Buffer::write(int64_t offset, int64_t bytes, const void* data) {
  const HostWrite one{this, offset, bytes, data};
  return transfer(*device_, {&one, 1}, {});
}

Result<void> Buffer::read(int64_t offset, int64_t bytes, void* data) {
  const HostRead one{this, offset, bytes, data};
  return transfer(*device_, {}, {&one, 1});
}

}  // namespace tg::vulkan
