// SPDX-License-Identifier: Apache-2.0
// Device memory, and moving bytes between it and the host.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "runtime/vulkan/device.h"

namespace tg::vulkan {

enum class MemoryKind : uint8_t {
  device,  ///< fastest for kernels; mapped too where memory is unified
  host,    ///< always mapped, readable by kernels and copies: rings, inputs, results
};

struct Allocation;

struct BufferOptions {
  std::string name;  ///< for errors and for graphics debuggers
  int64_t bytes = 0;
  MemoryKind kind = MemoryKind::device;
  /// Not null, of kind host: the buffer is this memory of the caller's, which is there as long as it is. Of a device
  /// that takes it (`DeviceInfo::takesHostMemory`); both the address and the bytes are multiples of 64 KiB.
  std::byte* memory = nullptr;
};

/// Bytes on a device that kernels can bind as storage or texels. Holds zeros when new, but for the caller's memory. A recording
/// names buffers without owning them: they outlive it.
class Buffer {
 public:
  /// An error names the buffer, its bytes and the limit when it is larger than one allocation or the
  /// heap may be, or when memory has run out.
  static Result<std::unique_ptr<Buffer>> create(Device& device, const BufferOptions& options);
  /// Waits for everything submitted so far, since it may use the buffer.
  ~Buffer();
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  const std::string& name() const;
  int64_t bytes() const;
  Device& device() const { return *device_; }
  /// The memory itself where it is mapped, else null. What is written here is seen by submissions
  /// made later; it does not wait for earlier ones, unlike `write` and `read`.
  std::byte* mapped() const;

  /// Copies from or to the host after everything submitted so far has finished.
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

/// Does all writes, then all reads, after everything submitted so far has finished: plain copies for
/// mapped buffers, and for the others one submission for as many as fit the staging buffer (64 MiB).
/// Nothing is moved when any range lies outside its buffer.
Result<void> transfer(Device& device, std::span<const HostWrite> writes, std::span<const HostRead> reads);

}  // namespace tg::vulkan
