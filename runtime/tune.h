// SPDX-License-Identifier: Apache-2.0
// Tuning: chooses schedules by timing them. Each kernel of a module is run with a handful of schedules on this device.
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

/// A schedule with the times that the device's clock measured for it.
struct TimedSchedule {
  Attr schedule;
  double least = 0, median = 0;              ///< microseconds
  vulkan::KernelStatistics statistics = {};  ///< of its kernel, if the device was opened for statistics
};

/// A region of a module; equal regions at several places count as one.
struct TunedRegion {
  std::string key;                       ///< its name in a tuning file
  std::string label;                     ///< the name of a result and the main op, for messages
  std::string source;                    ///< file:line:column of the first one, or ""
  int64_t count = 0;                     ///< how often it occurs in all functions
  std::vector<TimedSchedule> schedules;  ///< the default choice first
  size_t best = 0;                       ///< index into `schedules`; 0 unless another is clearly faster
};

struct TuneOptions {
  int rounds = 10;            ///< how often each schedule is timed, at least
  double leastSeconds = 0.1;  ///< for each region: short kernels are timed more often
  double warmSeconds = 0.3;   ///< duration of a warm-up of each region, in which clocks rise
  std::string shaders;        ///< spirv-emit's option cache: a folder
  uint64_t seed = 0;          ///< for the data
  std::function<void(const TunedRegion&)> onRegion;  ///< called after each region; may be empty
};

/// Another schedule replaces the default if both its shortest and its median time are less by this fraction.
constexpr double kClearlyFaster = 0.03;
/// The index of the fastest among the schedules that are clearly faster than the first, or 0.
size_t fastest(const std::vector<TimedSchedule>& schedules);

/// Random data of a type for an operand (a binding) of a region: normally distributed floats of any width, flags that
/// are 0 or 1, or ids that are in range for what the region reads with them.
Result<HostArray> randomData(const Op& fused, int binding, const Type& type, uint64_t seed);

/// Times schedules of a region from a module of stage fused, and sets their times. The region runs alone, on random
/// data, with each schedule in turn. The first schedule runs once more in front, untimed, as the first run fills the
/// caches.
Result<void> timeSchedules(const Op& fused, std::vector<TimedSchedule>& schedules, const Target& target,
                           const std::shared_ptr<vulkan::Device>& device, const TuneOptions& options);

/// An error if the module is not of stage fused, or made for another target than the device's, with matrix units or without.
Result<void> checkTunable(const Module& fused, const vulkan::DeviceInfo& device);

/// Times the schedules (scheduleCandidates in codegen/schedule.h) of the regions of a module of stage fused that was
/// made for the device's target, with matrix units or without. Equal regions are timed once. Regions with only one
/// schedule, and regions with an operand too large for a storage binding, are left out. Errors: a device without
/// timestamps, another stage or target, too little memory, errors of the driver.
Result<std::vector<TunedRegion>> tune(const Module& fused, const std::shared_ptr<vulkan::Device>& device,
                                      const TuneOptions& options);

/// The file in a session's cache folder for measurements on this device with this driver; "" if `cache` is "".
std::string tuningFile(const std::string& cache, const vulkan::DeviceInfo& device);

/// Adds the schedules that were faster to a table of passes/tuning.h. Replaces the table's entries for these regions
/// and keeps all others.
void mergeTuning(AttrList& tuning, const std::vector<TunedRegion>& measured);

}  // namespace tg
