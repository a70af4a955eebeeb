// SPDX-License-Identifier: Apache-2.0
// Measures where the time of a call goes: on the device for each command, and on the host around it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/train/plan_report.h"
#include "runtime/vulkan/recording.h"
#include "runtime/vulkan/statistics.h"

namespace tg {

struct ProfileOptions {
  int repetitions = 20;      ///< least number of calls of each of the two kinds
  double warmSeconds = 0.3;  ///< duration of the warm-up calls before: clocks rise, caches fill
};

/// One dispatch, fill or copy, with the median of its times.
struct ProfiledCommand {
  CommandReport report;
  double microseconds = 0;
  vulkan::KernelStatistics statistics = {};  ///< of a dispatch, if the device was opened for statistics
};

/// One phase of the host's work in a call, in microseconds from the call's start.
struct HostPhase {
  std::string name;
  double begin = 0, end = 0;
};

/// A call in which every command had timestamps.
struct ProfiledCall {
  double begin = 0, end = 0;    ///< host time in microseconds since the first such call began
  std::vector<HostPhase> host;  ///< in order, without overlap
  /// The times of each command, from the call's start. The device has a clock of its own, so its last command is taken
  /// to end when the host sees the call complete.
  std::vector<vulkan::DeviceTime> commands;
};

/// Times of one function, from two kinds of call. A plain call has two timestamps and gives the device's span and the
/// call's wall time. A call of the other kind has two timestamps for each command; these may keep neighbouring commands
/// from overlapping, so the sum of the commands can exceed the span.
struct Profile {
  std::string function;
  int repetitions = 0;  ///< calls of each kind
  int64_t parts = 1;    ///< of a call, run in sequence; `commands` has those of the first
  /// The number of recordings that a plain call submitted: its parts, and the update that a step runs after them.
  int64_t submissions = 0;
  std::vector<ProfiledCommand> commands;  ///< in order
  double wallMilliseconds = 0;            ///< of a plain call, median
  /// The device's time in a plain call: for each submission from its first command to its last, added up. Median over
  /// the calls.
  double deviceMilliseconds = 0;
  double hostMilliseconds = 0;  ///< the rest of a plain call's wall time, median
  std::vector<ProfiledCall> calls;

  double commandMilliseconds() const;
  /// The host's share of the wall time, 0 to 1.
  double hostShare() const { return wallMilliseconds > 0 ? hostMilliseconds / wallMilliseconds : 0; }
};

/// All commands of one kernel, or all fills, or all copies, added up over a call.
struct ProfiledKernel {
  std::string kernel;  ///< "fill" and "copy" for fills and copies
  std::string label;   ///< of the kernel's first command
  std::string source;  ///< of the kernel's first command: file:line:column or ""
  bool otherLabels = false;
  int64_t calls = 0;
  double microseconds = 0, share = 0;        ///< share of all commands, 0 to 1
  double bytes = 0, flops = 0;               ///< as counted by CommandReport
  vulkan::KernelStatistics statistics = {};  ///< those of its commands
  bool counted = true;  ///< false if only the bound ranges are known: then there are no flops

  double gigabytesPerSecond() const { return microseconds > 0 ? bytes / microseconds * 1e-3 : 0; }
  double gigaflopsPerSecond() const { return microseconds > 0 ? flops / microseconds * 1e-3 : 0; }
};

/// The kernels, the one with the longest total time first.
std::vector<ProfiledKernel> byKernel(const Profile& profile);

}  // namespace tg
