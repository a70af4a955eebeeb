// SPDX-License-Identifier: Apache-2.0
// Measured calls: the same commands with timestamps, and the host's clock around them.
#include <utility>

#include "runtime/executor_calls.h"

namespace tg {

void Executor::measure(vulkan::Timestamps timestamps) {
  timestamps_ = timestamps;
  times_.clear();
  for (auto& [key, function] : functions_) function->timed.reset();
}

// Accesses inputs and results at their places in the text, which may be the first lane.
Result<RunOutputs> Executor::runTimed(const std::string& key, Function& function, const InputViews& inputs,
                                      bool captures) {
  for (const Lane& lane : function.laneSet->lanes)
    if (const std::shared_ptr<Call> call = lane.call.lock()) TG_CHECK(call->fetch());
  if (!function.collectivePoints.empty())
    return fail("@{} has collectives between ranks; commands are timed on a single rank only", function.name);
  if (!function.timed) {
    TG_TRY(function.timed,
           vulkan::Recording::create(*device_, function.commands, {function.name, timestamps_}));
  }
  RunTimes times;
  times.key = key;
  function.lane = 0;
  times.begin = RunTimes::Clock::now();
  TG_CHECK(write(*device_, function.values.inputs, valuesOf(function.values.inputs, inputs), nullptr));
  times.written = RunTimes::Clock::now();
  TG_CHECK(function.timed->submit());
  times.submitted = RunTimes::Clock::now();
  TG_CHECK(function.timed->wait());
  times.finished = RunTimes::Clock::now();
  RunOutputs out;
  TG_TRY(out.results, read(*device_, function.values.results));
  TG_CHECK(checkLoops(function.watched.get(), out.results));
  if (captures) {
    TG_TRY(out.captures, read(*device_, function.values.captures));
  }
  times.read = RunTimes::Clock::now();
  times_.push_back(std::move(times));
  return out;
}

// Timestamps are read only here, so that no call's time includes reading them.
Result<std::vector<RunTimes>> Executor::takeTimes() {
  for (RunTimes& times : times_) {
    TG_TRY(Function * function, find(times.key));
    if (!function->timed) continue;
    TG_TRY(times.device, function->timed->times());
  }
  return std::exchange(times_, {});
}

Result<std::vector<CollectiveTimes>> Executor::collectiveTimes() const {
  std::vector<CollectiveTimes> out;
  for (const auto& [key, function] : functions_) {
    std::map<int64_t, CollectiveTimes> byId;
    for (const LaneRecording& lane : function->recordings)
      for (const auto& [id, collective] : lane.collectives) {
        TG_TRY(const CollectiveTimes its, collective->times());
        CollectiveTimes& all = byId[id];
        all.function = function->name;
        all.id = id;
        all.bytes = its.bytes;
        all.toHostBytes = its.toHostBytes;
        all.toDeviceBytes = its.toDeviceBytes;
        all.times += its.times;
        all.toHost += its.toHost;
        all.exchange += its.exchange;
        all.toDevice += its.toDevice;
        all.waited += its.waited;
      }
    for (auto& [id, times] : byId) out.push_back(std::move(times));
  }
  return out;
}

Result<std::vector<vulkan::KernelStatistics>> Executor::statistics(const std::string& function) const {
  TG_TRY(const Function* found, find(function));
  std::vector<vulkan::KernelStatistics> out;
  for (const vulkan::Command& command : found->commands) {
    if (std::holds_alternative<vulkan::Barrier>(command)) continue;
    const auto* dispatch = std::get_if<vulkan::Dispatch>(&command);
    out.push_back(dispatch ? dispatch->pipeline->statistics() : vulkan::KernelStatistics());
  }
  return out;
}

}  // namespace tg
