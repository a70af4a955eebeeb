// SPDX-License-Identifier: Apache-2.0
// Vulkan devices: listing them, choosing one, opening it. Nothing here reads or writes the
// environment, and nothing links the Vulkan loader: where it is missing, every call says so.
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

/// What a driver says about one of its devices.
struct DeviceInfo {
  int index = 0;  ///< position in the driver's list
  std::string name;
  std::string type;       ///< "discrete" | "integrated" | "virtual" | "cpu" | "other"
  std::string driver;     ///< driver's name and version, as the driver spells them
  std::string api;        ///< Vulkan version, "1.3.230"
  std::string uuid;       ///< 8-4-4-4-12 hexadecimal digits
  std::string cacheKey;   ///< for names of files that are of no use with another device or driver
  int64_t heapBytes = 0;  ///< the largest device-local heap
  int64_t freeBytes = 0;  ///< of it, when the device was listed; the whole where the driver does not say
  int64_t maxAllocationBytes = 0;  ///< the largest single buffer
  bool unifiedMemory = false;      ///< the host can address device memory without a copy
  bool float16 = false;            ///< kernels may compute in and store f16
  bool int64 = false;              ///< kernels may compute in 64-bit integers
  bool timestamps = false;         ///< dispatches can be timed on the device
  bool statistics = false;         ///< the driver tells of compiled kernels (runtime/vulkan/statistics.h)
  bool shares = false;             ///< another API can take memory and timelines (runtime/vulkan/share.h)
  bool takesHostMemory = false;    ///< a buffer may be memory that the program has (`BufferOptions::memory`)
  std::string unusable;            ///< why the device cannot be opened; empty when it can
  Limits limits;                   ///< what it gives kernels
  Target target;                   ///< the same as a target, with the preferences of its kind
};

/// All devices, in the drivers' order. An error when there is no loader or no driver.
Result<std::vector<DeviceInfo>> listDevices();

struct Selection {
  int index = 0;    ///< into the list given
  std::string why;  ///< a phrase, such as "the first discrete device"
};

/// Chooses a device. `select` is "auto" (or empty), "gpu" (any type but cpu), "cpu", an index, a UUID, or a
/// part of the name in any case; "auto" and a part that fits several prefer discrete > integrated > virtual >
/// cpu. "auto:K" is the K-th of those that are of the best type, for the K-th process of a host; CPUs are shared. The
/// error names what there is.
Result<Selection> selectDevice(std::span<const DeviceInfo> devices, std::string_view select);

struct DeviceOptions {
  std::string select = "auto";
  /// Runs under the Khronos validation layer with synchronization validation; an error where the
  /// layer is not installed.
  bool validation = false;
  /// Never maps device memory, so that every transfer is staged even where memory is unified.
  bool stageTransfers = false;
  /// Message ids (such as "SYNC-HAZARD-WRITE-AFTER-READ") that are not kept: known false positives.
  std::vector<std::string> ignoredMessages;
  /// Buffers of kind device, and the order of work, can be shared with another API; an error where the device cannot.
  bool shared = false;
  /// Pipelines keep what the driver tells of them, where it does. Compiling may take longer, and caches may not serve.
  bool statistics = false;
};

/// What the validation layer reported. Shared, so that it can be read after the device is closed.
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

/// An open device with one compute queue. Buffers, pipelines and recordings keep it alive. All
/// members may be called from several threads.
class Device : public std::enable_shared_from_this<Device> {
 public:
  static Result<std::shared_ptr<Device>> open(const DeviceOptions& options);
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  const DeviceInfo& info() const;
  /// Why this device was chosen, as a phrase.
  const std::string& why() const { return why_; }

  /// Warnings and errors of the validation layer so far; empty when validation is off.
  std::vector<std::string> validationMessages() const { return log_->messages(); }
  const std::shared_ptr<ValidationLog>& validationLog() const { return log_; }

  /// Bytes that are free now of the largest heap; what its own buffers leave where the driver does not say.
  int64_t freeBytes() const;

  /// It was opened to be shared with another API.
  bool shared() const;
  /// From now on nothing is submitted or waited for: every wait, also one that is blocked, gives this error. For work that
  /// another API will never end. What the device holds is of no use.
  void abandon(const Error& why);

  /// Blocks until everything submitted so far has finished.
  Result<void> waitIdle();
  /// Blocks until the submission with this number (`Recording::lastSubmission`) has finished.
  Result<void> waitFor(uint64_t submission);
  /// The number of the newest submission; 0 before the first.
  uint64_t submitted();
  /// The number of the newest finished submission; submissions finish in order.
  Result<uint64_t> completed();

  /// A file name for the pipeline cache, which no other device or driver uses.
  std::string cacheName() const;
  /// Adds a saved pipeline cache. False when the file is absent, damaged, of another driver or larger than
  /// 256 MiB (what is saved next starts afresh), which costs time and nothing else.
  Result<bool> loadCache(const std::string& path);
  /// Writes the pipeline cache beside `path` and renames it, so that readers see all or nothing. A file that
  /// holds the same already stays as it is.
  Result<void> saveCache(const std::string& path);

  /// For the other files of this folder.
  DeviceState& state() { return *state_; }

 private:
  Device() = default;
  std::shared_ptr<ValidationLog> log_;
  std::unique_ptr<DeviceState> state_;
  std::string why_;
};

/// Vulkan objects this process has created and not yet destroyed; 0 once everything is closed.
int64_t liveHandles();

}  // namespace tg::vulkan
