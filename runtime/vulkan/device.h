// SPDX-License-Identifier: Apache-2.0
// Vulkan devices: listing, choosing and opening them. Nothing here reads or writes the environment, and nothing links
// to the Vulkan loader: if it is missing, every call returns an error that says so.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ir/needs.h"
#include "ir/result.h"
#include "ir/target.h"

namespace tg::vulkan {

/// The properties of one of a driver's devices.
struct DeviceInfo {
  int index = 0;  ///< position in the driver's list
  std::string name;
  std::string type;       ///< "discrete" | "integrated" | "virtual" | "cpu" | "other"
  std::string driver;     ///< driver's name and version, as the driver spells them
  std::string api;        ///< Vulkan version, "1.3.230"
  std::string uuid;       ///< 8-4-4-4-12 hexadecimal digits
  std::string cacheKey;   ///< for names of cache files that are useless to another device or driver
  int64_t heapBytes = 0;  ///< the largest device-local heap
  /// Free bytes of that heap when the device was listed; all of it if the driver does not say.
  int64_t freeBytes = 0;
  int64_t maxAllocationBytes = 0;  ///< the largest single buffer
  bool unifiedMemory = false;      ///< the host can map device memory
  bool float16 = false;            ///< kernels may store f16 and compute in it
  bool int64 = false;              ///< kernels may compute in 64-bit integers
  bool timestamps = false;         ///< dispatches can be timed on the device
  bool statistics = false;         ///< the driver has statistics on compiled kernels (statistics.h)
  bool shares = false;             ///< another API can import memory and timelines (share.h)
  bool takesHostMemory = false;    ///< the program's own memory can become a buffer (`BufferOptions::memory`)
  std::string unusable;            ///< why the device cannot be opened; empty if it can
  Limits limits;                   ///< limits for kernels
  Target target;                   ///< the limits as a target, with the preferences of this kind of device
};

/// All devices, in the drivers' order. An error if there is no loader or no driver.
Result<std::vector<DeviceInfo>> listDevices();

struct Selection {
  int index = 0;    ///< into the given list
  std::string why;  ///< a phrase, such as "the first discrete device"
};

/// Chooses a device. `select` is "auto" (or empty), "gpu" (any type but cpu), "cpu", an index, a UUID, or a part of the
/// name in any case. "auto", and a part that matches several devices, prefer discrete > integrated > virtual > cpu.
/// "auto:K" is the K-th device of the best type, for the K-th process on a host; several processes may share a CPU. The
/// error lists the existing devices.
Result<Selection> selectDevice(std::span<const DeviceInfo> devices, std::string_view select);

struct DeviceOptions {
  std::string select = "auto";
  /// Enables the Khronos validation layer with synchronization validation; an error if the layer is not installed.
  bool validation = false;
  /// A CPU device does what a discrete GPU does: device memory is never mapped, so that every transfer goes through
  /// staging, and inputs are uploaded beside other work, on the same queue if the device has no other.
  bool stageTransfers = false;
  /// Ids of messages to ignore (such as "SYNC-HAZARD-WRITE-AFTER-READ"): known false positives.
  std::vector<std::string> ignoredMessages;
  /// Buffers of kind device, and the order of work, can be shared with another API. An error if the device cannot do
  /// that.
  bool shared = false;
  /// Keeps the driver's statistics on pipelines, if it has any. Compilation may take longer, and caches may not apply.
  bool statistics = false;
};

/// The messages of the validation layer. Reference-counted, so that it can be read after the device is closed.
class ValidationLog {
 public:
  explicit ValidationLog(std::vector<std::string> ignoredIds) : ignoredIds_(std::move(ignoredIds)) {}
  void add(std::string_view id, std::string_view text);
  std::vector<std::string> messages() const;
  void clear();

 private:
  mutable std::mutex mutex_;
  std::vector<std::string> ignoredIds_;
  std::vector<std::string> messages_;
};

struct DeviceState;

/// An open device with one compute queue. Buffers, pipelines and recordings keep it alive. Thread-safe.
class Device : public std::enable_shared_from_this<Device> {
 public:
  static Result<std::shared_ptr<Device>> open(const DeviceOptions& options);
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  const DeviceInfo& info() const;
  /// The reason for choosing this device, as a phrase.
  const std::string& why() const { return why_; }

  /// Warnings and errors of the validation layer so far; empty if validation is off.
  std::vector<std::string> validationMessages() const { return log_->messages(); }
  const std::shared_ptr<ValidationLog>& validationLog() const { return log_; }

  /// Free bytes of the largest heap. If the driver does not say, the heap's size less this device's buffers.
  int64_t freeBytes() const;

  /// Whether copies from the host can run beside other work (upload.h).
  bool uploadsBeside() const;
  /// Whether it was opened to be shared with another API.
  bool shared() const;
  /// Gives the device up: from now on nothing is submitted, and every wait, even one that is blocked, returns this
  /// error. Use it if work of another API will never end. The contents of the device's memory are then useless.
  void abandon(const Error& why);

  /// Blocks until everything submitted so far has finished.
  Result<void> waitIdle();
  /// Blocks until the submission with this number (`Recording::lastSubmission`) has finished.
  Result<void> waitFor(uint64_t submission);
  /// The number of the newest submission; 0 before the first.
  uint64_t submitted();
  /// The number of the newest finished submission; submissions finish in order.
  Result<uint64_t> completed();

  /// A file name for the pipeline cache that no other device or driver uses.
  std::string cacheName() const;
  /// Adds a saved pipeline cache. Returns false if the file is absent, damaged, from another driver, or larger than 256
  /// MiB (the next save then starts with an empty one). That only costs time.
  Result<bool> loadCache(const std::string& path);
  /// Writes the pipeline cache atomically, to a file beside `path` that is then renamed. Leaves a file with the same
  /// contents as it is.
  Result<void> saveCache(const std::string& path);

  /// For the other files of this folder.
  DeviceState& state() { return *state_; }

 private:
  Device() = default;
  std::shared_ptr<ValidationLog> log_;
  std::unique_ptr<DeviceState> state_;
  std::string why_;
};

/// The number of Vulkan objects that exist in this process; 0 once everything is closed.
int64_t liveHandles();

}  // namespace tg::vulkan
