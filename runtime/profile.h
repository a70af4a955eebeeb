// SPDX-License-Identifier: Apache-2.0
// Where the time of a call goes: on the device command by command, and on the host around it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/train/plan_report.h"
#include "runtime/vulkan/recording.h"
#include "runtime/vulkan/statistics.h"

namespace tg {

struct ProfileOptions {
  int repetitions = 20;      ///< of each of the two kinds of call, at least
  double warmSeconds = 0.3;  ///< calls before, until so much time has passed: clocks rise, caches fill
};

/// One dispatch, fill or copy and the median of its times.
struct ProfiledCommand {
  CommandReport report;
  double microseconds = 0;
  vulkan::KernelStatistics statistics = {};  ///< of a dispatch, where the device was opened for them
};

/// What the host did in a call, in microseconds from the call's start.
struct HostPhase {
  std::string name;
  double begin = 0, end = 0;
};

/// A call in which every command was timed.
struct ProfiledCall {
  double begin = 0, end = 0;    ///< microseconds of the host since the first such call began
  std::vector<HostPhase> host;  ///< one after the other
  /// Of each command, from the call's start. The device has a clock of its own: its last command is taken
  /// to end when the host hears so.
  std::vector<vulkan::DeviceTime> commands;
};

/// Times of one function. Two kinds of call were made: plain ones, whose recording has two timestamps, tell
/// the span of the device and the wall time of a call; in the others each command had two of its own, which
/// may keep neighbours from overlapping, so that the sum of the commands can be more than the span.
struct Profile {
  std::string function;
  int repetitions = 0;  ///< of each kind
  int64_t parts = 1;    ///< of a call, one after the other; the commands are those of the first
  /// Recordings that a plain call submitted: its parts, and what a step runs behind them.
  int64_t submissions = 0;
  std::vector<ProfiledCommand> commands;  ///< in order
  double wallMilliseconds = 0;            ///< of a plain call, median
  /// From the first command of each submission of a plain call to its last, added up; median of the calls.
  double deviceMilliseconds = 0;
  double hostMilliseconds = 0;  ///< what a plain call takes besides that, median
  std::vector<ProfiledCall> calls;

  double commandMilliseconds() const;
  /// Of the wall time.
  double hostShare() const { return wallMilliseconds > 0 ? hostMilliseconds / wallMilliseconds : 0; }
};

/// The commands of one kernel, or all fills, or all copies, added up over a call.
struct ProfiledKernel {
  std::string kernel;  ///< "fill" and "copy" for those
  std::string label;   ///< the first one's
  std::string source;  ///< the first one's, file:line:column or ""
  bool otherLabels = false;
  int64_t calls = 0;
  double microseconds = 0, share = 0;        ///< share of all commands, 0 to 1
  double bytes = 0, flops = 0;               ///< as CommandReport counts them
  vulkan::KernelStatistics statistics = {};  ///< as the commands'
  bool counted = true;                       ///< false where only the ranges bound are known: no flops

  double gigabytesPerSecond() const { return microseconds > 0 ? bytes / microseconds * 1e-3 : 0; }
  double gigaflopsPerSecond() const { return microseconds > 0 ? flops / microseconds * 1e-3 : 0; }
};

/// The one that takes most of the time first.
std::vector<ProfiledKernel> byKernel(const Profile& profile);

}  // namespace tg
