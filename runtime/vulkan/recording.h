// SPDX-License-Identifier: Apache-2.0
// A list of commands that is recorded once and submitted many times.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "runtime/vulkan/memory.h"
#include "runtime/vulkan/pipeline.h"

namespace tg::vulkan {

/// A part of a buffer bound to a kernel; `bytes` of -1 means up to the buffer's end. A part bound as texels need not be
/// a whole number of texels: the last one extends into the padding that every buffer has.
struct Binding {
  Buffer* buffer = nullptr;
  int64_t offset = 0;
  int64_t bytes = -1;
};

struct Dispatch {
  std::shared_ptr<Pipeline> pipeline;
  std::array<uint32_t, 3> grid{1, 1, 1};  ///< workgroups
  std::vector<Binding> bindings;          ///< one per binding of the pipeline
  std::string label;                      ///< for errors and graphics debuggers; "" means the kernel's name
};

/// All earlier commands are finished, and their writes visible, before any later command starts.
struct Barrier {};

/// Fills whole 32-bit words: offset and bytes must be multiples of 4.
struct Fill {
  Buffer* buffer = nullptr;
  int64_t offset = 0, bytes = 0;
  uint32_t value = 0;
};

/// The two ranges must not overlap.
struct Copy {
  Buffer* source = nullptr;
  int64_t sourceOffset = 0;
  Buffer* target = nullptr;
  int64_t targetOffset = 0;
  int64_t bytes = 0;
};

using Command = std::variant<Dispatch, Barrier, Fill, Copy>;

struct CommandCounts {
  int64_t dispatches = 0, fills = 0, copies = 0, barriers = 0;
  int64_t kernels() const { return dispatches + fills + copies; }
};
CommandCounts countOf(std::span<const Command> commands);

/// What a recording measures with the device's clock.
enum class Timestamps : uint8_t {
  none,
  ends,     ///< two: before the first command and after the last; no overhead
  commands  ///< two for every command except barriers
};

struct RecordingOptions {
  std::string name = "recording";
  Timestamps timestamps = Timestamps::none;
};

/// The start and end of some work on the device, in microseconds from the first timestamp.
struct DeviceTime {
  double begin = 0, end = 0;
  double microseconds() const { return end - begin; }
};

/// One command buffer. Each submission starts after all earlier submissions have finished. It sees the host's writes to
/// mapped memory, and makes its own writes visible to the host. Not thread-safe.
class Recording {
 public:
  /// The error names the dispatch and the limit or range that a command violates.
  static Result<std::unique_ptr<Recording>> create(Device& device, std::vector<Command> commands,
                                                   RecordingOptions options = {});
  /// Waits for the last submission.
  ~Recording();
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;

  /// Submits the commands again. First waits for this recording's own last submission; other recordings may still be
  /// running.
  Result<void> submit();
  /// Waits until the last submission has finished.
  Result<void> wait();
  /// The last submission's number, for `Device::waitFor`; 0 before the first.
  uint64_t lastSubmission() const { return lastSubmission_; }

  /// The device times of the last submission, for which it waits. With Timestamps::commands there is one for each
  /// dispatch, fill and copy, in order; with Timestamps::ends, one for all of them together. Commands without a barrier
  /// between them overlap, and each is then measured from the end of those before it.
  Result<std::vector<DeviceTime>> times();

 private:
  struct Impl;
  Recording() = default;
  std::unique_ptr<Impl> impl_;
  uint64_t lastSubmission_ = 0;
};

}  // namespace tg::vulkan
