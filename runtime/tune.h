// SPDX-License-Identifier: Apache-2.0
// Schedules chosen by timing them: each kernel of a module computed in a handful of ways on the device at
// hand.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "ir/module.h"
#include "ir/result.h"
#include "runtime/data/array.h"
#include "runtime/vulkan/device.h"
#include "runtime/vulkan/statistics.h"

namespace tg {

/// A schedule and its times by the device's clock.
struct TimedSchedule {
  Attr schedule;
  double least = 0, median = 0;              ///< microseconds
  vulkan::KernelStatistics statistics = {};  ///< of its kernel, where the device was opened for them
};

/// A region that stands in a module, at several places perhaps.
struct TunedRegion {
  std::string key;                       ///< its name in a tuning file
  std::string label;                     ///< a result's name and the main op, for people
  std::string source;                    ///< file:line:column of the first, or ""
  int64_t count = 0;                     ///< in all functions
  std::vector<TimedSchedule> schedules;  ///< the chosen one first
  size_t best = 0;                       ///< of `schedules`; 0 unless another is clearly faster
};

struct TuneOptions {
  int rounds = 10;                                   ///< times each schedule is timed, at least
  double leastSeconds = 0.1;                         ///< for a region: short kernels are timed more often
  double warmSeconds = 0.3;                          ///< of runs of a region before, in which clocks rise
  std::string shaders;                               ///< spirv-emit's option cache: a folder
  uint64_t seed = 0;                                 ///< of the data
  std::function<void(const TunedRegion&)> onRegion;  ///< called when one is done; may be empty
};

/// Another schedule takes the chosen one's place where its shortest and its median time are less by this
/// part.
constexpr double kClearlyFaster = 0.03;
/// The index of the fastest of those that are clearly faster than the first, or 0.
size_t fastest(const std::vector<TimedSchedule>& schedules);

/// Data of a type for an operand of a region, by its binding: normal floats of any width, coins, or ids below what the
/// region reads by them.
Result<HostArray> randomData(const Op& fused, int binding, const Type& type, uint64_t seed);

/// Times schedules of a region, which stands in a module of stage fused, and sets their times. It runs alone, on
/// random data, by each in turn; by the first once more in front, as whatever comes first pays for the caches.
Result<void> timeSchedules(const Op& fused, std::vector<TimedSchedule>& schedules, const Target& target,
                           const std::shared_ptr<vulkan::Device>& device, const TuneOptions& options);

/// Times the schedules (codegen/schedule.h, scheduleCandidates) of the regions of a module of stage fused
/// made for the device's target, with its matrix units or without. Equal regions are timed once. Left out are
/// regions with one schedule only, and those whose operands no storage binding spans.
/// Errors: a device without timestamps, another stage or target, memory, the driver's refusals.
Result<std::vector<TunedRegion>> tune(const Module& fused, const std::shared_ptr<vulkan::Device>& device,
                                      const TuneOptions& options);

/// The file in a session's cache folder for what was measured on this device with this driver; "" in none.
std::string tuningFile(const std::string& cache, const vulkan::DeviceInfo& device);

/// Adds the schedules that proved faster to a table of passes/tuning.h. What it said of these regions before
/// goes; other entries stay.
void mergeTuning(AttrList& tuning, const std::vector<TunedRegion>& measured);

}  // namespace tg
