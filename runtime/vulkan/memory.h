// SPDX-License-Identifier: Apache-2.0
// Device memory, and transfers between it and the host.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "runtime/vulkan/device.h"

namespace tg::vulkan {

enum class MemoryKind : uint8_t {
  device,  ///< fastest for kernels; mapped too if memory is unified
  host,    ///< always mapped; kernels and copies can read it: rings, inputs, results
};

struct Allocation;

struct BufferOptions {
  std::string name;  ///< for errors and for graphics debuggers
  int64_t bytes = 0;
  MemoryKind kind = MemoryKind::device;
  /// If not null (kind host only), the buffer uses this memory of the caller's, which must live as long as the buffer.
  /// The device must support it (`DeviceInfo::takesHostMemory`), and address and size must be multiples of 64 KiB.
  std::byte* memory = nullptr;
};

/// Bytes on a device that kernels can bind as storage or texels. A new buffer holds zeros, unless it uses the caller's
/// memory. A recording refers to buffers without owning them: they must outlive it.
class Buffer {
 public:
  /// The error names the buffer, its size and the limit if it is larger than one allocation or the heap may be, or if
  /// memory has run out.
  static Result<std::unique_ptr<Buffer>> create(Device& device, const BufferOptions& options);
  /// Waits for all submissions so far, since they may use the buffer.
  ~Buffer();
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  const std::string& name() const;
  int64_t bytes() const;
  Device& device() const { return *device_; }
  /// The memory itself if it is mapped, else null. Later submissions see what is written here. Unlike `write` and
  /// `read`, it does not wait for earlier submissions.
  std::byte* mapped() const;

  /// Copies from or to the host after all submissions so far have finished.
  Result<void> write(int64_t offset, int64_t bytes, const void* data);
  Result<void> read(int64_t offset, int64_t bytes, void* data);

  /// For the other files of this folder.
  Allocation& allocation() const { return *allocation_; }

 private:
  Buffer() = default;
  std::shared_ptr<Device> device_;
  std::unique_ptr<Allocation> allocation_;
};

struct HostWrite {
  Buffer* buffer = nullptr;
  int64_t offset = 0, bytes = 0;
  const void* data = nullptr;
};
struct HostRead {
  Buffer* buffer = nullptr;
  int64_t offset = 0, bytes = 0;
  void* data = nullptr;
};

/// Does all writes, then all reads, after all submissions so far have finished. Mapped buffers are copied directly.
/// Others go through the staging buffer, with one submission for as many transfers as fit in it (64 MiB). If any range
/// lies outside its buffer, nothing is transferred.
Result<void> transfer(Device& device, std::span<const HostWrite> writes, std::span<const HostRead> reads);

}  // namespace tg::vulkan
